"""Small models for the tests of the programs: good ones, and ones that are wrong in one way each."""
import os
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh


def save(folder, name, nodes, inputs, outputs, init=(), opset=17, **more):
    graph = h.make_graph(nodes, name, inputs, outputs, [nh.from_array(v, k) for k, v in dict(init).items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)] + more.get("domains", []),
                         functions=more.get("functions", []))
    model.ir_version = 8
    with open(os.path.join(folder, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString())


def value(name, shape, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def data_set(folder, model, k, inputs, outputs):
    path = os.path.join(folder, model + "_data", f"test_data_set_{k}")
    os.makedirs(path)
    for stem, arrays in (("input", inputs), ("output", outputs)):
        for i, a in enumerate(arrays):
            with open(os.path.join(path, f"{stem}_{i}.pb"), "wb") as f:
                f.write(nh.from_array(a).SerializeToString())


def layers(folder):
    """Four calls of a function of the model, relu(x w + b), each with weights of its own."""
    r, x, nodes, init = np.random.default_rng(1), "x", [], {}
    for k in range(4):
        init[f"w{k}"], init[f"b{k}"] = r.integers(-2, 3, (8, 8)).astype("f4"), r.integers(-2, 3, 8).astype("f4")
        nodes.append(h.make_node("Layer", [x, f"w{k}", f"b{k}"], [x := f"x{k}"], domain="local"))
    body = [
        h.make_node("MatMul", ["x", "w"], ["p"]),
        h.make_node("Add", ["p", "b"], ["q"]),
        h.make_node("Relu", ["q"], ["y"])
    ]
    layer = h.make_function("local", "Layer", ["x", "w", "b"], ["y"], body, [h.make_opsetid("", 17)])
    save(folder, "layers", nodes, [value("x", [2, 8])], [value(x, [2, 8])], init, domains=[h.make_opsetid("local", 1)],
         functions=[layer])
    y = first = np.array([[k % 5 - 2 for k in range(8)], [k % 3 - 1 for k in range(8)]], "f4")
    for k in range(4):
        y = np.maximum(y @ init[f"w{k}"] + init[f"b{k}"], 0)
    data_set(folder, "layers", 0, [first], [y])


def make(folder):
    two = [value("x", ["n", 3]), value("y", ["n", 3])]
    save(folder, "add", [h.make_node("Add", ["x", "y"], ["sum"], name="plus")], two, [value("sum", ["n", 3])])
    x = np.array([[1, 2, 3]], "f4")
    data_set(folder, "add", 0, [x, x], [x + x])
    data_set(folder, "add", 1, [np.concatenate([x, x]), np.ones((2, 3), "f4")], [np.concatenate([x, x]) + 1])
    save(folder, "sums", [h.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), h.make_node("Abs", ["x"], ["abs"]),
                          h.make_node("Neg", ["x"], ["neg"])], [value("x", ["n", 3])],
         [value("sum", []), value("abs", ["n", 3]), value("neg", ["n", 3])])
    data_set(folder, "sums", 0, [x], [x.sum(), x, -x])
    save(folder, "ints", [h.make_node("Mul", ["a", "b"], ["out/product:0"])],
         [value("a", [2], T.INT64), value("b", [2], T.INT64)], [value("out/product:0", [2], T.INT64)])
    save(folder, "words", [h.make_node("StringNormalizer", ["s"], ["t"], case_change_action="UPPER")],
         [value("s", ["n"], T.STRING)], [value("t", ["n"], T.STRING)])
    data_set(folder, "words", 0, [np.array(["aä", "b", "c\u20ac\U0001f600"], object)],
             [np.array(["AÄ", "B", "C\u20ac\U0001f600"], object)])
    save(folder, "unknown", [
        h.make_node("Frobnicate", ["x"], ["t"], name="frob", domain="com.acme"),
        h.make_node("Frobnicate", ["t"], ["u"], name="frob2", domain="com.acme"),
        h.make_node("Relu", ["u"], ["y"])
    ], [value("x", [3])], [value("y", [3])], domains=[h.make_opsetid("com.acme", 1)])
    save(folder, "parts", [h.make_node("SplitToSequence", ["x"], ["parts"])], [value("x", [3])],
         [h.make_tensor_sequence_value_info("parts", T.FLOAT, None)])
    optional = h.make_optional_type_proto(h.make_tensor_type_proto(T.FLOAT, [3]))
    save(folder, "maybe", [h.make_node("Identity", ["o"], ["y"])], [h.make_value_info("o", optional)],
         [h.make_value_info("y", optional)], opset=18)
    maps = h.make_sequence_type_proto(h.make_map_type_proto(T.STRING, h.make_tensor_type_proto(T.FLOAT, [])))
    save(folder, "scores",
         [h.make_node("ZipMap", ["x"], ["scores"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"])],
         [value("x", ["n", 3])], [h.make_value_info("scores", maps)], domains=[h.make_opsetid("ai.onnx.ml", 1)])
    lists = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, [3]))
    save(folder, "map_of_lists", [h.make_node("Identity", ["s"], ["y"])],
         [h.make_value_info("s", h.make_map_type_proto(T.INT64, lists))], [value("y", [3])])
    save(folder, "default", [h.make_node("Mul", ["x", "w"], ["y"])], [value("x", [2]), value("w", [2])],
         [value("y", [2])], {"w": np.array([2, 3], "f4")})
    save(folder, "future", [h.make_node("Relu", ["x"], ["y"])], [value("x", [3])], [value("y", [3])], opset=99)
    layers(folder)
    save(folder, "misshapen", [h.make_node("MatMul", ["x", "w"], ["y"], name="mm")], [value("x", [2, 3])],
         [value("y", [2, 2])], {"w": np.ones((4, 2), "f4")})
    turn = h.make_graph([h.make_node("Neg", ["s"], ["t"])], "turn",
                        [value("i", [], T.INT64), value("c", [], T.BOOL),
                         value("s", [3])], [value("c", [], T.BOOL), value("t", [3])])
    save(folder, "long", [h.make_node("Loop", ["n", "", "x"], ["y"], body=turn)], [value("x", [3])], [value("y", [3])],
         {"n": np.array(2**63 - 1)})
    with open(os.path.join(folder, "garbage.onnx"), "wb") as f:
        f.write(b"this is no model\n" * 7)
    open(os.path.join(folder, "empty.onnx"), "wb").close()
    np.save(os.path.join(folder, "x.npy"), x)
    np.save(os.path.join(folder, "ints.npy"), np.array([3, 4]))
    np.savez(os.path.join(folder, "xy.npz"), x=x, y=10 * x)
