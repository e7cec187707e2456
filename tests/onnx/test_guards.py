"""What data get wrong at run time: an index out of range, a division of integers by zero. Every device gives exit 4 and
one line that names file, node and value; the same models with good data are right. A case is a row: operator, inputs,
attributes, position of the input that is broken, its broken values, what the line says."""
import os
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx import helper
from onnx.reference import ReferenceEvaluator

import program

rng = np.random.default_rng(3)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i(*values, dtype=np.int64):
    return np.array(values, dtype)


SIZE5 = "; the axis has size 5"
CASES = [
    ("Gather", [f(5, 3), i(0, -5, 4)], dict(axis=0), 1, i(0, 5, 4), "index 5" + SIZE5),
    ("Gather", [f(5, 3), i(0, -5, 4)], dict(axis=0), 1, i(0, -6, 4), "index -6" + SIZE5),
    ("Gather", [f(7, 5), i([2, 1], [0, 3], dtype=np.int32)], dict(axis=1), 1, i([2, 1], [2**31 - 1, 3], dtype=np.int32), f"index {2**31 - 1}" + SIZE5),
    ("Gather", [f(5, 40), i(1, 2)], dict(axis=0), 1, i(-2**63, 2), "the axis has size 5"),
    ("Gather", [f(5, 40), i(1, 2)], dict(axis=0), 1, i(1, 2**63 - 1), f"index {2**63 - 1}" + SIZE5),
    ("Gather", [f(1, 3), i(0, -1)], dict(axis=0), 1, i(0, 1), "index 1; the axis has size 1"),
    ("Gather", [f(3, 1), i(0, -1, 0)], dict(axis=1), 1, i(0, -2, 0), "index -2; the axis has size 1"),
    ("GatherElements", [f(5, 4), i([0, 1, 2, -5])], dict(axis=0), 1, i([0, 1, 2, 9]), "index 9" + SIZE5),
    ("GatherElements", [f(4, 5), i([0, 1, 2], [3, 4, -5], [0, 0, 0], [1, 2, 3])], dict(axis=1), 1, i([0, 1, 2], [3, 4, -6], [0, 0, 0], [1, 2, 3]), "index -6" + SIZE5),
    ("GatherElements", [f(1, 4), i([0, -1, 0, 0])], dict(axis=0), 1, i([0, 0, 0, 7]), "index 7; the axis has size 1"),
    ("GatherND", [f(4, 5, 3), i([0, 1], [3, -5])], {}, 1, i([0, 1], [3, 5]), "index 5" + SIZE5),
    ("GatherND", [f(4, 5, 3), i([0, 1], [3, -5])], {}, 1, i([4, 1], [3, 4]), "index 4; the axis has size 4"),
    ("GatherND", [f(2, 5, 3), i([1], [-5])], dict(batch_dims=1), 1, i([1], [-6]), "index -6" + SIZE5),
    ("GatherND", [f(1, 5), i([0, 1], [0, -5])], {}, 1, i([1, 1], [0, 4]), "index 1; the axis has size 1"),
    ("ScatterND", [f(5, 3), i([1], [-5]), f(2, 3)], {}, 1, i([1], [5]), "index 5" + SIZE5),
    ("ScatterND", [f(5, 3), np.arange(40).reshape(40, 1) % 5, f(40, 3)], dict(reduction="max"), 1, np.arange(40).reshape(40, 1) % 6, "index 5" + SIZE5),
    ("ScatterND", [f(1, 3), i([0], [-1]), f(2, 3)], {}, 1, i([0], [3]), "index 3; the axis has size 1"),
    ("ScatterElements", [f(5, 3), i([0, 1, -5]), f(1, 3)], dict(axis=0), 1, i([0, 1, 5]), "5" + SIZE5),
    ("RotaryEmbedding", [f(2, 2, 3, 4), f(5, 2), f(5, 2), i([0, 4, 2], [1, 3, 0])], {}, 3, i([0, 4, 2], [1, 5, 0]), "index 5" + SIZE5),
    ("RotaryEmbedding", [f(2, 3, 8), f(5, 2), f(5, 2), i([0, 4, 2], [1, 3, 0])], dict(num_heads=2), 3, i([0, 4, 2], [1, 3, -6]), "index -6" + SIZE5),
    ("ai.onnx.ml.ArrayFeatureExtractor", [f(3, 5), i([0, 4, 2])], {}, 1, i([0, 5, 2]), "index 5" + SIZE5),
    ("ai.onnx.ml.OneHotEncoder", [np.array([2, 0, 4], np.float32)], dict(cats_int64s=[0, 2, 4], zeros=0), 0, np.array([2, 1, 4], np.float32), "index 3; the axis has size 3"),
    ("ReverseSequence", [f(4, 3), i(4, 0, 2)], {}, 1, i(4, 5, 2), "index 5; the axis has size 5"),
    ("RoiAlign", [f(2, 1, 5, 5), np.array([[0, 0, 3, 3], [1, 1, 4, 4]], np.float32), i(0, 1)], dict(output_height=2, output_width=2, sampling_ratio=2), 2, i(0, 2), "index 2; the axis has size 2"),
    # none that counts from the end
    *[("ReverseSequence", [f(4, 3), i(4, 0, 2)], {}, 1, i(4, low, 2), f"index {low}" + SIZE5) for low in (-1, -2**63)],
    ("TensorScatter", [f(2, 5, 3), f(2, 2, 3), i(0, 3)], dict(axis=1), 2, i(0, 4), "index 4; the axis has size 4"),
    ("MaxUnpool", [f(1, 1, 1), i(0).reshape(1, 1, 1)], dict(kernel_shape=[1]), 1, i(1).reshape(1, 1, 1), "index 1; the axis has size 1"),
    ("MaxUnpool", [f(1, 1, 2, 2), i(0, 2, 8, 10).reshape(1, 1, 2, 2)], dict(kernel_shape=[2, 2], strides=[2, 2]), 1, i(0, 2, 8, 16).reshape(1, 1, 2, 2), "index 16; the axis has size 16"),
    ("NegativeLogLikelihoodLoss", [f(3, 5), i(0, 4, 2)], dict(reduction="none"), 1, i(0, 5, 2), "index 5" + SIZE5),
    ("NegativeLogLikelihoodLoss", [f(3, 5, 2), i([0, 4], [2, 1], [1, 7]), f(5)], dict(ignore_index=7), 1, i([0, 4], [2, 9], [1, 7]), "index 9" + SIZE5),
    ("SoftmaxCrossEntropyLoss", [f(3, 5), i(0, 4, 2), f(5)], dict(reduction="sum"), 1, i(0, 4, 5), "index 5" + SIZE5),
    ("Div", [i(7, -7, 9), i(2, -2, 3)], {}, 1, i(2, 0, 3), "division of integers by zero"),
    ("Div", [i(7, -7, 9, dtype=np.int32), i(2, dtype=np.int32)], {}, 1, i(0, dtype=np.int32), "division of integers by zero"),
    ("Div", [np.arange(64, dtype=np.uint8), np.arange(1, 65, dtype=np.uint8)], {}, 1, np.arange(64, dtype=np.uint8), "division of integers by zero"),
    ("Mod", [i(7, -7, 9), i(2, -2, 3)], {}, 1, i(2, -2, 0), "division of integers by zero"),
    ("Mod", [i(7, -7, 9), i(2, -2, 3)], dict(fmod=1), 1, i(0, -2, 3), "division of integers by zero"),
    *[("Attention", [f(2, 2, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 4), None, None, None, i(0, 5)], {}, 6, i(0, n), f"index {n}; the axis has size 6") for n in (6, -1)],
    ("RoiAlign", [f(1, 1, 5, 5), np.array([[0, 0, 3, 3], [1, 1, 4, 4]], np.float32), i(0, 0)], dict(output_height=2, output_width=2, sampling_ratio=2), 2, i(0, 1), "in2: index 1; the axis has size 1"),
    *[("RNN", [f(4, 2, 3), f(1, 5, 3), f(1, 5, 5), f(1, 10), i(4, 4, dtype=np.int32)], dict(hidden_size=5), 4, i(n, 3, dtype=np.int32), f"in4: index {n}; the axis has size 5") for n in (5, -1)],
    # those for which test_against_ort.py knows the values
    *[("MaxRoiPool", [f(2, 1, 5, 5), np.array([[0, 0, 0, 3, 3], [1, 1, 1, 4, 4]], np.float32)], dict(pooled_shape=[2, 2]), 1, np.array([[0, 0, 0, 3, 3], [n, 1, 1, 4, 4]], np.float32), f"index {at}; the axis has size 2")
      for n, at in ((2, 2), (-1, -1), (0.5, -1), (np.nan, -1), (np.inf, 2**63 - 1))],
    ("com.microsoft.EmbedLayerNormalization", [i([0, 4], [1, 3], dtype=np.int32), i([0, 0], [0, 0], dtype=np.int32), f(5, 8), f(6, 8), f(2, 8), f(8), f(8)], {}, 0, i([0, -1], [1, 3], dtype=np.int32), "index -1" + SIZE5),
    ("com.microsoft.RotaryEmbedding", [f(2, 2, 3, 4), i([0, 4, 2], [1, 3, 0]), f(5, 2), f(5, 2)], {}, 1, i([0, -1, 2], [1, 3, 0]), "index -1" + SIZE5),
    *[("com.microsoft.GroupQueryAttention", [f(2, 3, 16), f(2, 3, 8), f(2, 3, 8), None, None, i(1, 2, dtype=np.int32), i(3, dtype=np.int32)], dict(num_heads=2, kv_num_heads=1), 5, i(1, n, dtype=np.int32),
       f"in5: index {n}; the axis has size 3") for n in (3, -1)],
    *[("com.microsoft.GroupQueryAttention", [f(2, 1, 16), f(2, 1, 8), f(2, 1, 8), f(2, 1, 4, 8), f(2, 1, 4, 8), i(0, 4, dtype=np.int32), i(5, dtype=np.int32)], dict(num_heads=2, kv_num_heads=1), 5,
       i(0, n, dtype=np.int32), f"in5: index {n}; the axis has size 5") for n in (5, -1)],
    ("com.microsoft.GroupQueryAttention", [f(1, 2, 16), f(1, 2, 8), f(1, 2, 8), f(1, 1, 4, 8), f(1, 1, 4, 8), i(5, dtype=np.int32), i(6, dtype=np.int32)], dict(num_heads=2, kv_num_heads=1), 5, i(0, dtype=np.int32),
     "in5: index -1; the axis has size 5"),
    ("com.microsoft.GroupQueryAttention", [f(1, 1, 16), f(1, 1, 8), f(1, 1, 8), f(1, 1, 4, 8), f(1, 1, 4, 8), i(4, dtype=np.int32), i(5, dtype=np.int32)], dict(num_heads=2, kv_num_heads=1), 6, i(7, dtype=np.int32), "7"),
    ("com.microsoft.GroupQueryAttention", [f(2, 1, 16), f(2, 1, 8), f(2, 1, 8), f(2, 1, 4, 8), f(2, 1, 4, 8), i(0, 4, dtype=np.int32), i(5, dtype=np.int32), f(9, 4), f(9, 4), i([8], [0])],
     dict(num_heads=2, kv_num_heads=1, do_rotary=1), 9, i([9], [0]), "index 9; the axis has size 9"),
    *[("com.microsoft.Attention", [f(2, 5, 8), f(8, 24), f(24), i(0, 5, dtype=np.int32)], dict(num_heads=2), 3, i(0, n, dtype=np.int32), f"in3: index {n}; the axis has size 6") for n in (6, -1)],
]
# Whole models: text, good inputs, the name of the broken one, its values, what the line says (the node stands in it).
# Padding, gates and unused lanes raise no alarm.
MODELS = [
    ("pad of a computed index",
     "(float[9,7] x, int64[6] i) => (float y) { two = Constant<value_int = 2>() three = Constant<value_int = 3>() j = Div(i, two) k = Add(j, three) [look] g = Gather(x, k)"
     " p = Constant<value_ints = [4, 5, 3, 2]>() y = Pad(g, p) }", dict(x=f(9, 7), i=i(0, 2, 4, 6, 8, 10)), "i",
     i(0, 2, 4, 6,
       8, 12), "index 9; the axis has size 9"),
    ("convolution of gathered rows",
     "(float[1,3,9,11] x, int64[13] i, float[5,3,3,3] w) => (float y) { five = Constant<value_int = 5>() k = Sub(i, five) [look] g = Gather<axis = 2>(x, k)"
     " c = Conv<pads = [1, 1, 1, 1]>(g, w) y = Relu(c) }",
     dict(x=f(1, 3, 9, 11), i=np.arange(13) % 9 + 5, w=f(5, 3, 3,
                                                         3)), "i", np.arange(13) % 9 - 5, "the axis has size 9"),
    ("embedding and norm",
     "(float[100,96] x, int64[2,63] i, float[96] w) => (float y) { [look] g = Gather(x, i) y = LayerNormalization(g, w) }",
     dict(x=f(100, 96), i=rng.integers(-100, 100, (2, 63)), w=f(96)), "i", np.full(
         (2, 63), 100), "index 100; the axis has size 100"),
    ("a sum over what is gathered",
     "(float[50,33] x, int64[37] i) => (float y) { [look] g = Gather(x, i) a = Constant<value_ints = [0]>() y = ReduceSum<keepdims = 0>(g, a) }",
     dict(x=f(50, 33), i=rng.integers(-50, 50, 37)), "i", np.full(37, -51), "index -51; the axis has size 50"),
    ("a region without an end",
     "(float[1,2,5,5] x, float[2,4] r) => (float y) { k = Constant<value_ints = [0, 0]>() [look] a = RoiAlign<output_height = 2, output_width = 3>(x, r, k) y = Abs(a) }",
     dict(x=f(1, 2, 5, 5), r=np.array([[0, 0, 3, 3], [1, 1, 4, 4]],
                                      np.float32)), "r", np.array([[0, 0, 3, 3], [1, 1, 1e30, 4]],
                                                                  np.float32), "region 1 is too large"),
    ("two readers",
     "(float[8,5] x, int64[3] i) => (float y, float z) { [look] g = Gather(x, i) y = Exp(g) a = Constant<value_ints = [0]>() z = ReduceMax(g, a) }",
     dict(x=f(8, 5), i=i(7, -8, 0)), "i", i(7, 8, 0), "index 8; the axis has size 8"),
    ("an axis whose size depends on data",
     "(float[12] x, int64[2] i) => (float y) { n = NonZero(x) a = Constant<value_ints = [0]>() m = Squeeze(n, a) v = Gather(x, m) [look] y = Gather(v, i) }",
     dict(x=i(0, 3, 0, 4, 5, 0, 0, 0, 0, 6, 0, 0).astype(np.float32),
          i=i(3, -4)), "i", i(4, -4), "index 4; the axis has size 4"),
    ("a scan",
     "(float[4,6] x, int64[4,2] i) => (float y) { zero = Constant<value_floats = [0.0, 0.0]>() s, y = Scan<num_scan_inputs = 2, body = b (float[2] s0, float[6] r, int64[2] k) =>"
     " (float[2] s1, float[2] o) { [look] g = Gather(r, k) s1 = Add(s0, g) o = Identity(s1) }>(zero, x, i) }",
     dict(x=f(4, 6), i=i([0, 1], [2, 3], [4, 5], [-1, -6])), "i", i([0, 1], [2, 3], [4, 6],
                                                                    [-1, -6]), "index 6; the axis has size 6"),
    ("a loop",
     "(float[6] x, int64[5] i, int64 n) => (float y) { one = Constant<value = bool {1}>() zero = Constant<value_float = 0.0>() y = Loop<body = b (int64 t, bool c, float s0) =>"
     " (bool d, float s1) { d = Identity(c) k = Gather(i, t) [look] g = Gather(x, k) s1 = Add(s0, g) }>(n, one, zero) }",
     dict(x=f(6), i=i(0, 1, 5, -6, 2), n=i(4).reshape(())), "i", i(0, 1, 6, -6, 2), "index 6; the axis has size 6"),
    ("places in a join that are known",
     "(float[4,6,16] x, float[4,1,16] w, int64[2] i) => (float y, float z) { a = Constant<value = int64[1,7,1] {0, 6, 6, 5, 6, 6, 6}>() s = Constant<value_ints = [4, 7, 16]>()"
     " k = Expand(a, s) j = Concat<axis = 1>(x, w) y = GatherElements<axis = 1>(j, k) [look] z = Gather(x, i) }",
     dict(x=f(4, 6, 16), w=f(4, 1, 16), i=i(0, 3)), "i", i(0, 4), "index 4; the axis has size 4"),
    ("a divisor behind a mask",
     "(int32[3,35] x, int32[35] d) => (int32 y) { p = Constant<value_ints = [1, 2, 3, 4]>() [look] q = Div(x, d) y = Pad(q, p) }",
     dict(x=np.arange(-50, 55, dtype=np.int32).reshape(3, 35),
          d=np.arange(1, 36, dtype=np.int32)), "d", np.arange(35, dtype=np.int32), "division of integers by zero"),
]
DEVICES = ["cpu", "reference"] + (["cuda"] if os.environ.get("CUDA_EMULATOR") and shutil.which("g++") else [])


def value(name, a):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)


def make(path, op, arrays, attrs, consts=()):
    """The node with a cheap one behind it, so that it is fused."""
    inputs = [value(name, a) for name, a in arrays.items() if name not in consts]
    names = [name if (name := f"in{k}") in arrays else "" for k in range(1 + max(int(n[2:]) for n in arrays))]
    init = [onnx.numpy_helper.from_array(a, name) for name, a in arrays.items() if name in consts]
    domain, _, name = op.rpartition(".")
    nodes = [
        helper.make_node(name, names, ["mid"], name="look", domain=domain, **attrs),
        helper.make_node("Abs", ["mid"], ["y"], name="after")
    ]
    opsets = [helper.make_opsetid(*d) for d in (("", 24), ("ai.onnx.ml", 3), ("com.microsoft", 1))]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], init),
                              opset_imports=opsets, ir_version=11)
    path.write_bytes(model.SerializeToString())
    return model


def tgrun(model, folder, arrays, device):
    code, _, said = program.run(model, folder, arrays, device, "--runs", "1", "-q")
    return code, said


def parsed(path, text):
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g ' + text)
    path.write_bytes(model.SerializeToString())
    return model


def check(what, path, folder, model, good, bad, says):
    """How many of the devices do something else than they should."""
    wrong = 0
    want = ReferenceEvaluator(model).run(
        None,
        good) if model.graph.node[0].domain != "com.microsoft" and model.graph.node[0].op_type != "MaxRoiPool" else []
    for device in DEVICES:
        code, line = tgrun(path, folder, good, device)
        same = code == 0 and all(
            np.allclose(np.load(folder / "out" / f"{o.name}.npy"), w, rtol=1e-4, atol=1e-4)
            for o, w in zip(model.graph.output, want))
        failed, message = tgrun(path, folder, bad, device)
        right = failed == 4 and says in message and "\n" not in message and message.startswith(
            f"tgrun: {path}: node 'look'")
        if not same or not right:
            print(
                f"{what} on {device}: {'good' if same else f'wrong: {code} {line}'}; with bad data: {failed} {message}")
            wrong += 1
    return wrong


def main():
    wrong = 0
    cases, models = program.todays(CASES), program.todays(MODELS)
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        for k, (op, arrays, attrs, at, broken, says) in enumerate(cases):
            path, good = folder / f"case{k}.onnx", {f"in{j}": a for j, a in enumerate(arrays) if a is not None}
            bad = good | {f"in{at}": broken}
            wrong += check(f"{k} ({op})", path, folder, make(path, op, good, attrs), good, bad, says)
            make(path, op, bad, attrs, [f"in{at}"])
            code, line = tgrun(path, folder, {n: a for n, a in bad.items() if n != f"in{at}"}, "cpu")
            if code not in (3, 5) or "node 'look'" not in line or "\n" in line:
                print(f"{k} ({op}) known at import: {code} {line}")
                wrong += 1
        for k, (what, text, good, name, broken, says) in enumerate(models):
            path = folder / f"model{k}.onnx"
            wrong += check(what, path, folder, parsed(path, text), good, good | {name: broken}, says)
    total = (len(cases) + len(models)) * len(DEVICES) + len(cases)
    print(f"{total - wrong} of {total} cases are right, on {', '.join(DEVICES)} and known at import")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
