"""Files that are wrong in one way each: bytes (A), structure (B), shapes and types (C), attributes (D), operators
beyond the usual (E), loops without an end (F). Each must end within seconds, by no signal, with the exit code of its
class and one line that names the file and what is wrong; those that look odd and are right must run. A case is a row:
name, file, exit codes, what the line says. To add one: a row."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx import AttributeProto, TensorProto, helper as h, numpy_helper as nh

F, I64 = TensorProto.FLOAT, TensorProto.INT64
BAD, UNSUPPORTED, LIMIT = (3,), (3, 5), (3, 6)


def port(name, shape=(2, 3), dtype=F):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=None, init=(), opset=17, edit=None, domains=(), functions=()):
    """Nodes between x [2,3] and y. edit: changes the ModelProto at the end."""
    graph = h.make_graph(nodes, "g", [port("x")] if inputs is None else inputs,
                         [port("y", None)] if outputs is None else outputs,
                         [nh.from_array(v, k) for k, v in dict(init).items()])
    known = [
        h.make_opsetid(*d)
        for d in (("ai.onnx.ml", 5), ("ai.onnx.preview", 1), ("ai.onnx.preview.training", 1), ("com.microsoft", 1))
        if any(n.domain == d[0] for n in nodes)
    ]
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), *known, *domains], ir_version=9,
                     functions=functions)
    if edit:
        edit(m)
    return m.SerializeToString()


def node(op, inputs="x", outputs="y", name="bad", **attrs):
    return h.make_node(op, inputs.split(","), outputs.split(",") if outputs else [], name=name, **attrs)


def one(op, inputs="x", init=(), opset=17, ports=None, outputs="y", **attrs):
    return model([node(op, inputs, outputs, **attrs)], ports, init=init, opset=opset,
                 outputs=[port(o, None) for o in outputs.split(",") if o])


def tensor(edit, dtype=F, dims=(2, 3), **fields):
    """y = x + w, w a tensor of these fields."""
    def change(m):
        t = m.graph.initializer.add(name="w", data_type=dtype, dims=dims, **fields)
        if edit:
            edit(t)
    return model([node("Add", "x,w")], edit=change)


def attr(op, edit, inputs="x", init=(), opset=17, **attrs):
    """The node's attributes changed by hand."""
    return model([node(op, inputs, **attrs)], init=init, opset=opset, edit=lambda m: edit(m.graph.node[0]))


def added(**fields):
    return lambda n: n.attribute.add(**fields)


def varint(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def nested(depth):
    """Heads of messages, innermost first, so that a million of them are not copied again and again."""
    heads, size = [], 0
    for tag in b"\x32\x2a\x0a" * depth:                       # AttributeProto.g, NodeProto.attribute, GraphProto.node
        heads.append(bytes([tag]) + varint(size))
        size += len(heads[-1])
    return b"\x08\x09\x3a" + varint(size) + b"".join(reversed(heads))


GOOD = model([node("Relu")])
i = lambda *v: np.array(v, np.int64)
f = lambda *shape: np.ones(shape, np.float32)
CONV = dict(inputs="x,w", ports=[port("x", (1, 2, 5, 5))], init={"w": f(4, 2, 3, 3)})
POOL = dict(ports=[port("x", (1, 2, 5, 5))])
CYCLE = [
    h.make_node("Add", ["x", "b"], ["a"], name="first"),
    h.make_node("Relu", ["a"], ["b"], name="second"),
    h.make_node("Relu", ["b"], ["y"])
]
LOOP_BODY = h.make_graph([h.make_node("Identity", ["c"], ["d"])], "body",
                         [port("t", (), I64), port("c", (), TensorProto.BOOL)], [port("d", (), TensorProto.BOOL)])
THEN = h.make_graph([h.make_node("Relu", ["x"], ["t"])], "then", [], [port("t", None)])
OUTER = h.make_graph([h.make_node("Relu", ["nowhere"], ["t"])], "then", [], [port("t", None)])
TRUE = {"p": np.array(True)}


def function(name, nodes, inputs=("a",), outputs=("b",)):
    return h.make_function("f", name, list(inputs), list(outputs), nodes,
                           [h.make_opsetid("", 17), h.make_opsetid("f", 1)])


def calls(*functions):
    return model([h.make_node("f0", ["x"], ["y"], domain="f", name="call")], domains=[h.make_opsetid("f", 1)],
                 functions=list(functions))


DOUBLING = calls(
    *[
        function(
            f"f{k}",
            [h.make_node(f"f{k + 1}", ["a"], ["m"], domain="f"),
             h.make_node(f"f{k + 1}", ["m"], ["b"], domain="f")]) for k in range(40)
    ], function("f40", [h.make_node("Relu", ["a"], ["b"])]))

A = [
    ("zero bytes", b"", BAD, "empty"),
    ("a web page", b"<!DOCTYPE html><html><body>404</body></html>", BAD, ""),
    ("a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", BAD, "LFS"),
    ("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + bytes(50), BAD, ""),
    ("zip", b"PK\x03\x04" + bytes(60), BAD, ""),
    ("noise", bytes(np.random.default_rng(1).integers(0, 256, 1000, dtype=np.uint8)), BAD, ""),
    *[(f"cut at {k}", GOOD[:k], BAD, "") for k in range(1, len(GOOD) - 1, 7)],
    *[(f"length {n:#x}", b"\x08\x09\x3a" + varint(n) + b"abc", BAD, "") for n in (4, 2**31 - 1, 2**32 + 5, 2**64 - 1)],
    ("a varint of 11 bytes", b"\x08" + b"\xff" * 10 + b"\x01", BAD, ""),
    ("a varint without end", b"\x08\xff\xff", BAD, ""),
    ("field 0", b"\x00\x01" + GOOD, BAD, ""),
    ("wire type 6", b"\x0e" + GOOD, BAD, "wire type"),
    ("wire type 7", b"\x0f" + GOOD, BAD, "wire type"),
    ("an end of no group", b"\x0c" + GOOD, BAD, "group"),
    ("a million groups", b"\x0b" * 1000000, BAD, "group"),
    ("graph as a number", b"\x08\x09\x38\x01", BAD, ""),
    ("3000 graphs in each other", nested(3000), LIMIT, ""),
    ("100000 graphs in each other", nested(100000), LIMIT, ""),
    ("four million attributes", b"\x08\x09\x3a" + varint(8000008) + b"\x0a" + varint(8000003) [:4] + b"\x2a\x00" * 4000001, LIMIT, ""),
    ("250000 graphs", b"\x08\x09" + b"\x3a\x02\x12\x00" * 250000, LIMIT, ""),
    ("trailing bytes", GOOD + b"\xff", BAD, ""),
    ("a zero byte in a name", model([node("Relu", "x,", "y")]).replace(b"bad", b"b\0d"), BAD, ""),
    ("needless bytes and unknown fields", GOOD + b"\xf8\x7f\x81\x00" + b"\xa0\x06\x01", (0,), ""),
]
B = [
    ("no graph", b"\x08\x09\x42\x04\x0a\x00\x10\x11", BAD, "graph"),
    ("no outputs", model([node("Relu")], outputs=[]), BAD, "output"),
    ("an output without a name", model([node("Relu")], outputs=[port("", None)]), BAD, ""),
    ("an undefined tensor", model([node("Relu", "nowhere")]), BAD, "nowhere"),
    ("a place before a sequence", model([node("SequenceConstruct", "x", "s"), node("SequenceInsert", "s,x,at", "t"), node("SequenceAt", "t,zero", "y")],
                                         init={"at": np.array(-2), "zero": np.array(0)}), BAD, "position -2"),
    ("a loop of one node", model([node("Add", "x,y")]), BAD, "cycle"),
    ("a cycle", model(CYCLE), BAD, ""),
    ("made twice", model([node("Relu"), node("Abs")]), BAD, "'y'"),
    ("made twice by one node", model([node("Split", "x", "y,y", axis=0)], outputs=[port("y", None)]), BAD, "'y'"),
    ("an input made again", model([node("Relu", "x", "x"), node("Relu")]), BAD, "'x'"),
    ("an initializer twice", model([node("Add", "x,w")], edit=lambda m: m.graph.initializer.extend([nh.from_array(f(2, 3), "w")] * 2)), BAD, "'w'"),
    ("an input twice", model([node("Relu")], inputs=[port("x"), port("x")]), BAD, "'x'"),
    ("an unknown operator", model([node("Frobnicate")]), (5,), "Frobnicate"),
    ("a wrong case", model([node("relu")]), (5,), "relu"),
    ("an unknown domain", model([node("Relu", domain="com.acme")], domains=[h.make_opsetid("com.acme", 1)]), (5,), "com.acme"),
    ("a domain that is not imported", model([node("Relu", domain="com.acme")]), UNSUPPORTED, "com.acme"),
    ("no opset", model([node("Relu")], edit=lambda m: m.ClearField("opset_import")), BAD, "opset"),
    *[(f"opset {v}", model([node("Relu")], opset=v), UNSUPPORTED, "") for v in (0, -1, 9999)],
    ("too few inputs", model([node("Add", "x")]), BAD, "node 'bad' (Add)"),
    ("too many inputs", model([node("Relu", "x,x,x")]), BAD, "node 'bad' (Relu)"),
    ("too many outputs", model([node("Relu", "x", "y,z")]), BAD, "node 'bad' (Relu)"),
    ("an empty name for a required input", model([node("Add", "x,")]), BAD, "node 'bad' (Add)"),
    ("If without branches", model([node("If", "p")], init=TRUE), BAD, "node 'bad' (If)"),
    ("If with a branch", model([node("If", "p", then_branch=THEN)], init=TRUE), BAD, "else_branch"),
    ("a Loop whose body has too few outputs", model([node("Loop", "n,p,x", "y", body=LOOP_BODY)], init=TRUE | {"n": np.array(3)}), BAD, "node 'bad' (Loop)"),
    ("an outer name that is not there", model([node("If", "p", then_branch=OUTER, else_branch=THEN)], init=TRUE), BAD, "nowhere"),
    ("a function of itself", calls(function("f0", [h.make_node("f0", ["a"], ["b"], domain="f")])), LIMIT, ""),
    ("functions of each other", calls(function("f0", [h.make_node("f1", ["a"], ["b"], domain="f")]), function("f1", [h.make_node("f0", ["a"], ["b"], domain="f")])), LIMIT, ""),
    ("functions that double", DOUBLING, LIMIT, ""),
    ("an input without type", model([node("Relu")], edit=lambda m: m.graph.input[0].ClearField("type")), BAD, "x: input has no type"),
    ("an input of type 777", model([node("Relu")], edit=lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 777)), UNSUPPORTED, "x: element type 777"),
    ("an output of another type", model([node("Relu")], outputs=[port("y", (2, 3), I64)]), BAD, "'y'"),
    ("mixed types", model([node("Add", "x,w")], init={"w": i(1)}), BAD, "node 'bad' (Add)"),
    ("a type that it does not take", model([node("Sin", "w")], init={"w": i(1)}), BAD, "node 'bad' (Sin): w: is of type i64, which input 0"),
    ("two types for one", model([node("Concat", "x,w", axis=0)], init={"w": i(1)}), BAD, "node 'bad' (Concat): w: is of type i64; input 0 is of type f32"),
    ("a tensor for a sequence", model([node("SequenceLength")]), BAD, "node 'bad' (SequenceLength): x: is of type f32"),
    ("a type of a later version", model([node("Add", "w,w")], init={"w": np.array([1], np.uint8)}, opset=13), BAD, "node 'bad' (Add): w: is of type u8"),
    ("an input of a later version", model([node("Clip", "x,w")], init={"w": np.float32(0)}, opset=7), BAD, "node 'bad' (Clip): 2 inputs; at most 1"),
    ("an attribute of an older version", one("Clip", min=0.0), BAD, "node 'bad' (Clip): min"),
    ("no attribute that it needs", one("Concat", "x,x"), BAD, "node 'bad' (Concat): axis: is missing"),
    ("20000 nodes in a row", model([h.make_node("Relu", ["x" if not k else f"t{k}"], ["y" if k == 19999 else f"t{k + 1}"]) for k in range(20000)]), (0,), ""),
    ("2^40 paths", model([h.make_node("Add", ["x" if not k else f"t{k}"] * 2, ["y" if k == 39 else f"t{k + 1}"]) for k in range(40)]), (0,), ""),
    ("hostile names", model([node("Relu", "x", "a\n*/\"); %s \x1b[31m", name="\n\"}*/"), node("Frob", "a\n*/\"); %s \x1b[31m", "y", name="\x1b[31m" + "n" * 1000000)]), (5,), "Frob"),
    ("dead nodes, unused initializers, a passthrough", model([node("Relu"), node("Relu", "w", "dead", name="d")], outputs=[port("y", None), port("x"), port("w", (1,))], init={"w": f(1), "unused": f(3)}), (0,), ""),
    ("sizes of 0", model([node("Relu")], inputs=[port("x", (0, 3))]), (0,), ""),
]
C = [
    *[(f"dims {d}", tensor(None, dims=d, raw_data=b"\0" * 24), LIMIT, "w") for d in ((2**32, 2**32), (2**62, 4, 1), (2**16, 2**16), (2**61, 1), (-1, 3), (-2, -3), (-2**63, 1))],
    ("raw data too short", tensor(None, raw_data=b"\0" * 20), BAD, "'w'"),
    ("raw data too long", tensor(None, raw_data=b"\0" * 28), BAD, "'w'"),
    ("ragged raw data", tensor(None, raw_data=b"\0" * 23), BAD, "'w'"),
    ("no data", tensor(None), BAD, "'w'"),
    ("too few numbers", tensor(None, float_data=[1.0] * 5), BAD, "'w'"),
    ("numbers in another field", tensor(None, int64_data=[1] * 6), BAD, "'w'"),
    *[(f"data type {t}", tensor(None, dtype=t, raw_data=b"\0" * 24), UNSUPPORTED, "'w'") for t in (0, 999, -1)],
    ("raw strings", tensor(None, dtype=TensorProto.STRING, raw_data=b"\0" * 24), BAD, "'w'"),
    ("rank 65", tensor(None, dims=[1] * 65, raw_data=b"\0" * 4), (0, 3, 5, 6), ""),
    ("rank 100000", tensor(None, dims=[1] * 100000, raw_data=b"\0" * 4), (0, 3, 5, 6), ""),
    ("shapes that do not broadcast", one("Add", "x,w", {"w": f(4)}), BAD, "node 'bad' (Add)"),
    ("MatMul of 3 and 4", one("MatMul", "x,w", {"w": f(4, 2)}), BAD, "node 'bad' (MatMul)"),
    ("Gemm of rank 1", one("Gemm", "x,w", {"w": f(3)}), BAD, "node 'bad' (Gemm)"),
    ("Concat of ranks 2 and 1", one("Concat", "x,w", {"w": f(3)}, axis=0), BAD, "node 'bad' (Concat)"),
    ("Concat of sizes 3 and 4", one("Concat", "x,w", {"w": f(2, 4)}, axis=0), BAD, "node 'bad' (Concat)"),
    *[(f"{op} on axis {a}", one(op, axis=a), BAD, f"node 'bad' ({op})") for op in ("Softmax", "Flatten", "ArgMax") for a in (99, -99, -2**63)],
    ("axes twice", one("ReduceSum", "x,a", {"a": i(0, 0)}), BAD, "node 'bad' (ReduceSum)"),
    ("axes 7", one("ReduceSum", "x,a", {"a": i(7)}), BAD, "node 'bad' (ReduceSum)"),
    *[(f"perm {p}", one("Transpose", perm=p), BAD, "perm") for p in ([0, 0], [0, 2], [0], [0, -3])],
    ("perm of 100000", one("Transpose", perm=list(range(100000))), BAD, "perm"),
    *[(f"Reshape to {s}", one("Reshape", "x,s", {"s": i(*s)}), LIMIT, "node 'bad' (Reshape)") for s in ((4, 2), (-1, -1), (-7, 1), (2**32, 2**32), (-1, 5), (2**62, 4))],
    ("Reshape of nothing to 0 and -1", one("Reshape", "z,s", {"s": i(0, -1), "z": f(0, 3)}), (0, 3), ""),
    ("Slice by step 0", one("Slice", "x,a,b,c,d", {"a": i(0), "b": i(2), "c": i(0), "d": i(0)}), BAD, "node 'bad' (Slice)"),
    ("Slice of two lengths", one("Slice", "x,a,b", {"a": i(0), "b": i(1, 2)}), BAD, "node 'bad' (Slice)"),
    ("Slice from end to end", one("Slice", "x,a,b", {"a": i(-2**63, 0), "b": i(2**63 - 1, 2**63 - 1)}), (0,), ""),
    ("Pad of 2^62", one("Pad", "x,p", {"p": i(0, 0, 2**62, 0)}), LIMIT, ""),
    ("Pad beyond", one("Pad", "x,p", {"p": i(0, 0, -9, 0)}), BAD, "node 'bad' (Pad)"),
    ("Tile of 2^40", one("Tile", "x,r", {"r": i(2**40, 1)}), (6, 3), ""),
    ("Tile of -1", one("Tile", "x,r", {"r": i(-1, 1)}), BAD, "node 'bad' (Tile)"),
    ("no elements, and a size whose double no number holds", model([node("ConstantOfShape", "s", "c"), node("Concat", "c,c", axis=1, name="join")], init={"s": i(0, 2**62)}), (6,), "node 'bad' (ConstantOfShape): c: sizes of "),
    ("Expand to TiB", one("Expand", "x,s", {"s": i(2**40, 2, 3)}), (6, 3), ""),
    ("ConstantOfShape of TiB", one("ConstantOfShape", "s", {"s": i(2**41)}), (6, 3), ""),
    ("ConstantOfShape of -1", one("ConstantOfShape", "s", {"s": i(-1)}), BAD, "node 'bad' (ConstantOfShape)"),
    ("Conv of rank 2", one("Conv", "x,w", {"w": f(4, 2, 3, 3)}), BAD, "node 'bad' (Conv)"),
    ("Conv of other channels", one("Conv", "x,w", {"w": f(4, 3, 3, 3)}, ports=[port("x", (1, 2, 5, 5))]), BAD, "node 'bad' (Conv)"),
    ("a kernel larger than the picture", one("Conv", "x,w", {"w": f(4, 2, 9, 9)}, ports=[port("x", (1, 2, 5, 5))]), BAD, "node 'bad' (Conv)"),
    *[(f"Conv, {k} {v}", one("Conv", **CONV, **{k: v}), LIMIT, "node 'bad' (Conv)") for k, v in (("group", 0), ("group", -1), ("group", 2**40), ("strides", [0, 1]), ("strides", [-1, 1]),
        ("strides", [1]), ("dilations", [0, 1]), ("dilations", [2**62, 1]), ("pads", [1, 1, 1]), ("pads", [2**62, 0, 0, 0]), ("pads", [-9, 0, 0, 0]), ("kernel_shape", [2, 2]), ("auto_pad", "SOMEHOW"))],
    ("Conv, a stride of 2^62", one("Conv", **CONV, strides=[2**62, 1]), (0, 3, 6), ""),
    *[(f"{op} with a window of {k}", one(op, **POOL, kernel_shape=k), LIMIT, f"node 'bad' ({op})") for op in ("MaxPool", "AveragePool") for k in ([0, 0], [-1, 1], [2], [2**62, 1], [9, 9])],
    *[(f"Split into {s}", one("Split", "x,s", {"s": i(*s)}, outputs="y,z", axis=1), BAD, "node 'bad' (Split)") for s in ((1, 1), (-1, 4), (2**62, 2**62), (3,))],
    *[(f"TopK of {k}", one("TopK", "x,k", {"k": i(k)}, outputs="y,z"), BAD, "node 'bad' (TopK)") for k in (4, -1, 2**62)],
    ("DepthToSpace of block 0", one("DepthToSpace", **POOL, blocksize=0), BAD, "node 'bad' (DepthToSpace)"),
    ("DepthToSpace of block 3", one("DepthToSpace", **POOL, blocksize=3), BAD, "node 'bad' (DepthToSpace)"),
    ("Range by 0", one("Range", "a,b,c", {"a": np.array(0), "b": np.array(5), "c": np.array(0)}), BAD, "node 'bad' (Range)"),
    ("Range of 2^62", one("Range", "a,b,c", {"a": np.array(0), "b": np.array(2**62), "c": np.array(1)}), LIMIT, ""),
    *[(f"Resize by {s}", one("Resize", "x,,s", {"s": np.array([1, s], np.float32)}), LIMIT, "node 'bad' (Resize)") for s in (0.0, -1.0, float("nan"), float("inf"), 1e30)],
    ("Gather beyond", one("Gather", "x,k", {"k": i(2)}), BAD, "node 'bad' (Gather)"),
    *[(f"Einsum {e}", one("Einsum", equation=e), BAD, "node 'bad' (Einsum)") for e in ("ij,jk->ik", "i->i", "ij->ik", "i1->i", "ij->ii", "", "ij->i->j")],
    ("LSTM of other sizes", one("LSTM", "x,w,r", {"w": f(1, 12, 7), "r": f(1, 12, 3)}, ports=[port("x", (4, 1, 5))], hidden_size=3, outputs="y"), BAD, "node 'bad' (LSTM)"),
    ("BatchNormalization of other sizes", one("BatchNormalization", "x,a,a,a,a", {"a": f(7)}, ports=[port("x", (1, 2, 5, 5))]), BAD, "node 'bad' (BatchNormalization)"),
    ("Div by 0", one("Div", "a,b", {"a": i(5), "b": i(0)}), BAD, "node 'bad' (Div)"),
    ("Mod by 0", one("Mod", "a,b", {"a": i(5), "b": i(0)}), BAD, "node 'bad' (Mod)"),
    ("BitShift UP", one("BitShift", "a,a", {"a": np.array([1], np.uint8)}, direction="UP"), BAD, "direction: is 'UP'"),
    ("INT_MIN by -1", model([node("Div", "a,b")], init={"a": i(-2**63), "b": i(-1)}, outputs=[port("y", None, I64)]), (0,), ""),
    ("bools of 2 and 255", model([node("Not", "w")], outputs=[port("y", None, TensorProto.BOOL)], edit=lambda m: m.graph.initializer.add(name="w", data_type=9, dims=[2], raw_data=b"\x02\xff")), (0, 3), ""),
    ("an int8 of 300", model([node("Neg", "w")], outputs=[port("y", None, TensorProto.INT8)], edit=lambda m: m.graph.initializer.add(name="w", data_type=3, dims=[1], int32_data=[300])), (0, 3), ""),
]
D = [
    ("an axis that is a float", attr("Softmax", added(name="axis", type=AttributeProto.FLOAT, f=1.0)), BAD, "axis"),
    ("perm of floats", attr("Transpose", added(name="perm", type=AttributeProto.FLOATS, floats=[1, 0])), BAD, "perm"),
    ("no Cast to", one("Cast"), BAD, "node 'bad' (Cast)"),
    ("Cast to 999", one("Cast", to=999), UNSUPPORTED, "node 'bad' (Cast)"),
    ("Cast to 0", one("Cast", to=0), UNSUPPORTED, "node 'bad' (Cast)"),
    ("an attribute twice", attr("Softmax", lambda n: n.attribute.extend([h.make_attribute("axis", 0), h.make_attribute("axis", 1)])), BAD, "axis"),
    ("an attribute without a name", attr("Relu", added(type=AttributeProto.INT, i=1)), BAD, "node 'bad'"),
    ("an attribute of type 999", model([node("Softmax", axis=1)]).replace(b"\x18\x01\xa0\x01\x02", b"\x18\x01\xa0\x01\x63"), BAD, ""),
    ("an attribute that lies", attr("Softmax", added(name="axis", type=AttributeProto.INTS, i=1)), BAD, "axis"),
    ("a Constant of nothing", model([node("Constant", "", "y")], edit=lambda m: m.graph.node[0].ClearField("input")), BAD, "node 'bad' (Constant)"),
    ("a Constant of two values", model([h.make_node("Constant", [], ["y"], name="bad", value_int=1, value_float=2.0)]), BAD, "node 'bad' (Constant)"),
    ("a Constant whose tensor is short", model([h.make_node("Constant", [], ["y"], name="bad", value=TensorProto(data_type=1, dims=[3], raw_data=b"\0" * 8))]), BAD, ""),
    ("a reference outside a function", attr("Softmax", added(name="axis", type=AttributeProto.INT, ref_attr_name="a")), BAD, ""),
    ("a direction that is none", one("LSTM", "x,w,r", {"w": f(1, 12, 5), "r": f(1, 12, 3)}, ports=[port("x", (4, 1, 5))], hidden_size=3, direction="sideways"), BAD, "direction"),
    ("a mode that is none", one("Pad", "x,p", {"p": i(0, 0, 1, 1)}, mode="somehow"), BAD, "mode"),
    ("a mode with a zero byte", one("Pad", "x,p", {"p": i(0, 0, 1, 1)}, mode=b"constant\0x"), BAD, ""),
    ("pads of 2^63-1", one("Conv", **CONV, pads=[2**63 - 1] * 4), LIMIT, "node 'bad' (Conv)"),
    ("a window of 2^63-1", one("MaxPool", **POOL, kernel_shape=[2**63 - 1] * 2), LIMIT, "node 'bad' (MaxPool)"),
    ("an unknown attribute", one("Relu", alphabet=3), BAD, "alphabet"),
]


# ---- operators of other domains, and those that are made of others ----

ML, TRAINING, PREVIEW, MS = "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview", "com.microsoft"


def uint8(*v):
    return h.make_tensor("t", TensorProto.UINT8, [len(v)], v)


def floats(*v):
    return h.make_tensor("t", F, [len(v)], v)


TREE = dict(domain=ML, tree_roots=[0], nodes_modes=uint8(0, 0), nodes_featureids=[0, 1], nodes_splits=floats(0, 0),
            nodes_truenodeids=[1, 0], nodes_trueleafs=[0, 1], nodes_falsenodeids=[0, 1], nodes_falseleafs=[1, 1],
            leaf_targetids=[0, 0], leaf_weights=floats(1, 2))
OLD_TREE = dict(domain=ML, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3,
                nodes_values=[0.0] * 3, nodes_modes=["BRANCH_LEQ", "LEAF",
                                                     "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
                target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0])
SVM = dict(domain=ML, vectors_per_class=[1, 1], support_vectors=[1.0] * 6, coefficients=[1.0, 2.0], rho=[0.5],
           classlabels_ints=[0, 1], outputs="y,z")
LINEAR = dict(inputs="x,x,x,,w,b", ports=[port("x", (1, 4, 6))], init={"w": f(1, 4, 2), "b": f(1, 4, 2)}, outputs="y,z",
              opset=27)
GRADIENT = [node("Mul", "x,x", "p"), node("ReduceSum", "p", "y", name="sum")]
E = [
    *[(f"TreeEnsemble, {k} {v}", one("TreeEnsemble", **TREE | {k: v}), LIMIT, f"node 'bad' (TreeEnsemble): {k}")
      for k, v in (("tree_roots", [2]), ("tree_roots", [-1]), ("nodes_featureids", [0, 9]), ("nodes_featureids", [0]),
                   ("nodes_truenodeids", [1, 2]), ("nodes_truenodeids", [0, 0]), ("nodes_modes", uint8(0, 7)),
                   ("nodes_modes", floats(0, 0)), ("leaf_weights", uint8(1, 2)), ("nodes_splits", uint8(0, 0)),
                   ("nodes_splits", floats(0)), ("leaf_targetids", [0, 1]), ("leaf_targetids", [0]), ("n_targets", 0),
                   ("n_targets", 2**40), ("aggregate_function", 4), ("post_transform", -1),
                   ("nodes_missing_value_tracks_true", [1]))],
    ("TreeEnsemble, a leaf or not: 2", one("TreeEnsemble", **TREE | dict(nodes_falseleafs=[1, 2])), BAD,
     "nodes_falsenodeids: leads to a leaf or not"),
    ("TreeEnsemble without roots", one("TreeEnsemble", **{k: v
                                                          for k, v in TREE.items()
                                                          if k != "tree_roots"}), BAD, "tree_roots"),
    ("TreeEnsemble of strings",
     one("TreeEnsemble",
         **TREE | dict(leaf_weights=h.make_tensor("t", TensorProto.STRING, [2], [b"a", b"b"]))), BAD, "leaf_weights"),
    *[(f"SVMClassifier, {k} {v}", one("SVMClassifier", **SVM | {k: v}), LIMIT, f"node 'bad' (SVMClassifier): {k}")
      for k, v in (("vectors_per_class", [1]), ("vectors_per_class", [-1, 3]), ("vectors_per_class", [2**62, 2**62]),
                   ("support_vectors", [1.0] * 5), ("coefficients", [1.0]), ("rho", [1.0, 2.0]),
                   ("kernel_type", "CUBIC"), ("kernel_params", [1.0]), ("prob_a", [1.0, 2.0]),
                   ("post_transform", "SOMEHOW"))],
    ("SVMRegressor of other features",
     one("SVMRegressor", domain=ML, n_supports=2, support_vectors=[1.0] * 5, coefficients=[1.0, 2.0],
         rho=[0.5]), BAD, "support_vectors"),
    ("SVMRegressor of -1 vectors",
     one("SVMRegressor", domain=ML, n_supports=-1, support_vectors=[1.0] * 6, coefficients=[1.0, 2.0],
         rho=[0.5]), BAD, "support_vectors"),
    ("Imputer without values", one("Imputer", domain=ML), BAD, "imputed_value_floats"),
    ("Imputer of other features", one("Imputer", domain=ML, imputed_value_floats=[1.0,
                                                                                  2.0]), BAD, "imputed_value_floats"),
    ("LabelEncoder whose default is a number",
     one("LabelEncoder", domain=ML, keys_floats=[1.0], values_strings=["a"],
         default_tensor=floats(1)), BAD, "default_tensor"),
    ("Adam of three inputs and a gradient too few", one("Adam", "r,t,x,x,x", {"r": f(), "t": i()},
                                                        domain=TRAINING), BAD, "node 'bad' (Adam)"),
    ("Adagrad of other shapes",
     one("Adagrad", "r,t,x,w,x", {"r": f(), "t": np.array(0), "w": f(3, 2)}, outputs="y,z",
         domain=TRAINING), BAD, "w: its type or shape"),
    ("Adagrad at many rates", one("Adagrad", "r,t,x,x,x", {"r": f(2), "t": np.array(0)}, outputs="y,z",
                                  domain=TRAINING), BAD, "r: wanted a scalar"),
    ("Momentum of no mode",
     one("Momentum", "r,t,x,x,x", {"r": f(), "t": np.array(0)}, outputs="y,z", domain=TRAINING, mode="fast", alpha=0.9,
         beta=0.1, norm_coefficient=0.0), BAD, "mode"),
    ("Gradient of a tensor that is not there",
     model([*GRADIENT, node("Gradient", "x", "d", domain=TRAINING, xs=["x"], y="q")],
           outputs=[port("d", None)]), BAD, "'q'"),
    ("Gradient of two inputs by one name",
     model([*GRADIENT, node("Gradient", "x,x", "d", domain=TRAINING, xs=["x"], y="y")],
           outputs=[port("d", None)]), BAD, "xs"),
    ("Gradient by one name twice",
     model([*GRADIENT, node("Gradient", "x,x", "d,e", domain=TRAINING, xs=["x", "x"], y="y")],
           outputs=[port("d", None)]), BAD, "'x' twice"),
    ("Gradient by another shape",
     model([*GRADIENT,
            node("MatMul", "x,v", "m"),
            node("Gradient", "w", "d", domain=TRAINING, xs=["x"], y="m")], outputs=[port("d", None)],
           init={"w": f(2, 7), "v": f(3, 2)}), BAD, "node 'bad' (MatMul)"),
    ("Gradient without y",
     model([*GRADIENT, node("Gradient", "x", "d", domain=TRAINING, xs=["x"])], outputs=[port("d", None)]), BAD, "y: "),
    ("Gradient of integers",
     model([node("ArgMax", "x", "k", axis=1, name="a"),
            node("Gradient", "x", "d", domain=TRAINING, xs=["x"], y="k")], outputs=[port("d", None)]), BAD, "y: 'k'"),
    ("Gradient through a sort",
     model([node("TopK", "x,k", "t,u", name="top"),
            node("Gradient", "x", "d", domain=TRAINING, xs=["x"], y="t")], outputs=[port("d", None)],
           init={"k": i(2)}), (5, ), "node 'bad' (Gradient)"),
    *[(f"LinearAttention, {k} {v}", one(
        "LinearAttention", **LINEAR,
        **dict(q_num_heads=2, kv_num_heads=2) | {k: v}), BAD, "node 'bad' (LinearAttention)")
      for k, v in (("q_num_heads", 3), ("q_num_heads", 0), ("kv_num_heads", 4), ("kv_num_heads", -1),
                   ("update_rule", "linear"), ("update_rule", "somehow"))],
    ("LinearAttention of a past of another shape",
     one("LinearAttention", **LINEAR | dict(inputs="x,x,x,p,w,b", init=LINEAR["init"] | {"p": f(1, 2, 3, 4)}),
         q_num_heads=2, kv_num_heads=2), BAD, "past_state"),
    ("FlexAttention of rank 2", one("FlexAttention", "x,x,x", domain=PREVIEW), BAD, "node 'bad' (FlexAttention)"),
    ("FlexAttention of 3 heads on 2",
     one("FlexAttention", "x,w,w", {"w": f(1, 2, 4, 4)}, ports=[port("x", (1, 3, 4, 4))],
         domain=PREVIEW), BAD, "node 'bad' (FlexAttention)"),
    ("FlexAttention in integers",
     one("FlexAttention", "x,x,x", ports=[port("x", (1, 2, 4, 4))], domain=PREVIEW,
         softmax_precision=7), BAD, "softmax_precision"),
    *[(f"MaxRoiPool to {s}", one("MaxRoiPool", "x,r", {"r": f(1, 5)}, ports=[port("x", (1, 2, 5, 5))],
                                 pooled_shape=s), BAD, "pooled_shape") for s in ([2], [0, 2], [2**40, 2])],
    ("MaxRoiPool of regions of four numbers",
     one("MaxRoiPool", "x,r", {"r": f(1, 4)}, ports=[port("x", (1, 2, 5, 5))],
         pooled_shape=[2, 2]), BAD, "node 'bad' (MaxRoiPool)"),
    ("QGemm of rank 1",
     one("QGemm", "b,s,z,b,s,z", {"b": np.zeros(4, np.uint8), "s": f(), "z": np.array(0, np.uint8)},
         domain=MS), BAD, "node 'bad' (QGemm)"),
    ("QLinearConcat of a part without a scale",
     one("QLinearConcat", "s,z,b,s,z,b", {"b": np.zeros(4, np.uint8), "s": f(), "z": np.array(0, np.uint8)}, domain=MS,
         axis=0), BAD, "node 'bad' (QLinearConcat)"),
    ("QLinearAdd of floats", one("QLinearAdd", "x,s,,x,s,,s", {"s": f()},
                                 domain=MS), UNSUPPORTED, "node 'bad' (QLinearAdd)"),
    ("QLinearGlobalAveragePool of rank 2",
     one("QLinearGlobalAveragePool", "b,s,z,s,z",
         {"b": np.zeros((2, 2), np.uint8), "s": f(), "z": np.array(0, np.uint8)}, domain=MS), BAD, "b: has rank 2"),
    ("FusedConv of an unknown activation", one("FusedConv", **CONV, domain=MS,
                                               activation="Snake"), (5, ), "activation"),
    ("Inverse of 2 by 3", one("Inverse", domain=MS), BAD, "node 'bad' (Inverse)"),
    ("ImageScaler of other channels", one("ImageScaler", **POOL, bias=[1.0]), BAD, "bias"),
    *[(f"Crop by {b}", one("Crop", **POOL, border=b), BAD, "border")
      for b in ([1, 1], [-1, 0, 0, 0], [3, 0, 3, 0], [0, 0, 2**63 - 1, 0])],
    ("Crop to 9 by 9", one("Crop", **POOL, border=[0, 0, 0, 0], scale=[9, 9]), BAD, "border"),
    ("ImageDecoder of floats", one("ImageDecoder", opset=20), BAD, "node 'bad' (ImageDecoder): x: is of type f32"),
    ("ImageDecoder of a table", one("ImageDecoder", "b", {"b": np.zeros((2, 2), np.uint8)},
                                    opset=20), BAD, "is not a list of bytes"),
    ("ImageDecoder to CMYK", one("ImageDecoder", "b", {"b": np.zeros(9, np.uint8)}, opset=20,
                                 pixel_format="CMYK"), BAD, "pixel_format"),
    ("Dropout of seed -1", one("Dropout", "x,r,t", {"r": np.array(0.5, np.float32), "t": np.array(True)},
                               seed=-1), BAD, "seed"),
    ("Scan 8 of a list",
     one("Scan", ",v", {"v": f(3)}, opset=8, num_scan_inputs=1,
         body=h.make_graph([h.make_node("Identity", ["c"], ["d"])], "b", [port("c", ())],
                           [port("d", ())])), BAD, "the same batch axis"),
    ("GatherElements of more than there is", one("GatherElements", "x,k", {"k": np.zeros((3, 3), np.int64)},
                                                 axis=1), BAD, "indices of size 3 on axis 0 of size 2"),
    ("GatherND of other batches", one("GatherND", "x,k", {"k": np.zeros((3, 1), np.int64)},
                                      batch_dims=1), BAD, "batch axis 0"),
    *[(f"{op} of more labels", one(op, "x,k", {"k": np.zeros(4, np.int64)}), BAD, "k: has size 4 on axis 0; wanted 2")
      for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")],
    ("TensorScatter of more batches", one("TensorScatter", "x,u", {"u": f(3, 1)}, opset=24,
                                          axis=1), BAD, "u: has size 3 on axis 0; wanted 2"),
    ("TensorScatter of more rows", one("TensorScatter", "x,u", {"u": f(2, 4)}, opset=24,
                                       axis=1), BAD, "4 rows for a cache of 3"),
    ("ConvInteger of nothing",
     model([node("ConvInteger", "z,w,a,b", pads=[1] * 4)], [port("z", (1, 1, 0, 3), TensorProto.UINT8)],
           [port("y", None, TensorProto.INT32)],
           {"w": np.ones(
               (2, 1, 2, 2), np.uint8), "a": np.array(1, np.uint8), "b": np.array([1, 2], np.uint8)}), (0, ), ""),
    ("SplitToSequence of nothing",
     model([node("SplitToSequence", "z,k", "s", axis=1),
            node("SequenceAt", "s,p", name="at")], [port("z", (0, 6))], init={"k": np.array(5), "p":
                                                                              np.array(1)}), (0, ), ""),
    ("TfIdfVectorizer of 2^62 skips",
     one("TfIdfVectorizer", "k", {"k": i(1, 2, 3)}, mode="TF", min_gram_length=2, max_gram_length=2,
         max_skip_count=2**62, ngram_counts=[0, 0], ngram_indexes=[0], pool_int64s=[1, 2]), (0, ), ""),
    ("ArgMax of nothing", one("ArgMax", "z", {"z": f(0, 3)}, axis=0), BAD, "has no elements along axis 0"),
    ("an index into nothing", one("GridSample", "p,k", {"k": f(1, 2, 2, 2)},
                                  ports=[port("p", (1, 1, 0, 3))]), BAD, "an axis of size 0"),
    *[(f"DequantizeLinear to type {t}",
       one("DequantizeLinear", "q,s", {"q": np.array([1], np.uint8), "s": np.float32(1)}, opset=23,
           output_dtype=t), BAD, "output_dtype") for t in (6, 99, 2**32 + 1)],
    ("LSTM of a peephole of rank 1",
     one("LSTM", "x,w,r,,,,,p", {"w": f(1, 12, 5), "r": f(1, 12, 3), "p": f(9)}, ports=[port("x", (4, 1, 5))],
         hidden_size=3), BAD, "p: has rank 1; wanted 2"),
    ("MaxPool of windows of padding", one("MaxPool", **POOL, kernel_shape=[2, 2], pads=[2, 0, 0, 0]), BAD, "pads"),
    ("GlobalMaxPool of nothing", one("GlobalMaxPool", ports=[port("x",
                                                                  (1, 2, 0, 5))]), BAD, "has no elements along axis 2"),
    ("DeformConv of other offsets",
     one("DeformConv", "x,w,o", {"w": f(4, 2, 3, 3), "o": f(1, 18, 3, 4)}, ports=[port("x", (1, 2, 5, 5))],
         opset=19), BAD, "o: has size 4 on axis 3; wanted 3"),
    ("keepdims 2", one("ReduceMax", keepdims=2), BAD, "keepdims: is 2; wanted 0 or 1"),
    ("a shape that is a table", one("Reshape", "x,s", {"s": i([3, 2])}), BAD, "s: has rank 2; wanted a list"),
    ("Attention of two batches on one",
     one("Attention", "x,k,k", {"k": f(1, 2, 4, 4)}, ports=[port("x", (3, 2, 4, 4))],
         opset=23), BAD, "do not fit each other"),
    ("MeanVarianceNormalization on many axes", one("MeanVarianceNormalization",
                                                   axes=[1] * 70), BAD, "axes: 70 axes of a tensor of rank 2"),
    ("Compress by more than there is", one("Compress", "x,k", {"k": np.ones(3, bool)},
                                           axis=0), BAD, "k: has size 3; there are 2 slices"),
    ("LinearClassifier of three classes and two labels",
     one("LinearClassifier", domain=ML, coefficients=[1.0] * 9, classlabels_ints=[0, 1],
         outputs="y,z"), BAD, "coefficients"),
    ("FeatureVectorizer of other sizes", one("FeatureVectorizer", domain=ML,
                                             inputdimensions=[4]), BAD, "inputdimensions"),
    *[(f"a pattern of {what}",
       model([node("RegexFullMatch", "s", pattern=p)], init={"s": np.array(["a"], object)},
             outputs=[port("y", None, TensorProto.BOOL)], opset=20), LIMIT, "pattern")
      for what, p in (("many brackets", "(" * 5000 + "a" + ")" * 5000), ("many copies", "((a{1,255}){1,255}){1,255}"))],
    ("com.microsoft: a type that it does not take", one("QuickGelu", "w", {"w": i(1)},
                                                        domain=MS), BAD, "w: is of type i64"),
    *[(f"com.microsoft: {what}", one(op, inputs, weights, ports=[port("x", shape)], domain=MS, **how), codes, says)
      for what, op, inputs, weights, shape, codes, says, how in (
          ("QAttention of other weights", "QAttention", "q,w,b,s,s",
           {"q": np.ones((1, 2, 4), np.uint8), "w": np.ones((5, 12), np.int8), "b": f(12), "s": f()},
           (1, ), BAD, "w: has size 5 on axis 0; wanted 4", dict(num_heads=2)),
          ("DynamicQuantizeLSTM of a scale too few", "DynamicQuantizeLSTM", "x,w,w,,,,,,s,z,s,z",
           {"w": np.ones((1, 4, 16), np.int8), "s": f(1, 15), "z": np.zeros((1, 15), np.int8)},
           (3, 1, 4), BAD, "s: has size 15 on axis 1; wanted 16", {}),
          ("GatherBlockQuantized along the axis of blocks", "GatherBlockQuantized", "b,i,s",
           {"b": np.ones((4, 8), np.uint8), "i": i(1), "s": f(4, 1)},
           (1, ), UNSUPPORTED, "quantize_axis: is 1, as", dict(gather_axis=1, block_size=16)),
          ("GatherBlockQuantized by blocks of 3", "GatherBlockQuantized", "b,i,s",
           {"b": np.ones((4, 8), np.uint8), "i": i(1), "s": f(4, 1)},
           (1, ), BAD, "block_size: is 3", dict(block_size=3)),
          ("MatMulBnb4 of a byte too few", "MatMulBnb4", "x,b,s", {"b": np.ones(31, np.uint8), "s": f(4)},
           (2, 16), BAD, "b: has 31 bytes; wanted 32", dict(K=16, N=4, block_size=16, quant_type=1)),
          ("MoE of more experts than there are", "MoE", "x,r,w,,v", {"r": f(2, 3), "w": f(3, 5, 4), "v": f(3, 4, 5)},
           (2, 4), BAD, "k: is 4 of 3 experts", dict(k=4)), ("UnfoldTensor beyond the end", "UnfoldTensor", "x", {},
                                                             (2, 4), BAD, "size: is 5", dict(size=5)),
          ("GroupNorm of groups that do not divide", "GroupNorm", "x,s,s", {"s": f(4)},
           (1, 2, 2, 4), BAD, "groups: 3 groups of 4 channels", dict(groups=3, activation=0)))],
    ("com.microsoft: an attribute that we do not know", one("QuickGelu", domain=MS, beta=1.0), UNSUPPORTED, "beta"),
    ("com.microsoft: inputs that are missing",
     one("GroupQueryAttention", "x,x,x", domain=MS, num_heads=1, kv_num_heads=1), BAD, "3 inputs; at least 7"),
    ("GRU in layout 5",
     one("GRU", "x,w,r", {"w": f(1, 9, 5), "r": f(1, 9, 3)}, ports=[port("x", (4, 1, 5))], hidden_size=3,
         layout=5), BAD, "layout: is 5; wanted 0 or 1"),
    ("MaxUnpool by windows of 2^63-1",
     one("MaxUnpool", "x,k", {"k": np.zeros((1, 2, 5, 5), np.int64)}, ports=[port("x", (1, 2, 5, 5))],
         kernel_shape=[2, 2**63 - 1]), BAD, "kernel_shape"),
    ("ConvTranspose of nothing",
     one("ConvTranspose", "x,w", {"w": f(1, 2, 3, 3)}, ports=[port("x", (1, 1, 0, 3))], strides=[3, 2],
         pads=[1, 2, 1, 2]), BAD, "node 'bad' (ConvTranspose)"),
    ("Resize to nothing", one("Resize", "x,,,s", {"s": i(0, 3)}, mode="linear"), BAD, "sizes"),
    ("Upsample 1 of rank 2", one("Upsample", opset=1, height_scale=2.0, width_scale=2.0), BAD, "node 'bad' (Upsample)"),
    ("Upsample 1 by less than 1",
     one("Upsample", ports=[port("x", (1, 2, 3, 3))], opset=1, height_scale=2.0,
         width_scale=0.5), BAD, "scales: 0.5 is not a scale"),
    ("Upsample 9 by less than 1", one("Upsample", "x,s", {"s": f(2) * 0 + 0.5},
                                      opset=9), BAD, "scales: 0.5 is not a scale"),
    *[(f"{op} of a bias of {n}", one(op, "x,b", {"b": f(*n)}, domain=MS), BAD, "b: has ")
      for op in ("BiasGelu", "FastGelu") for n in ((1, ), (2, ), (2, 3))],
    *[(f"{op} of {what}",
       one(op, "x,s,w" + (",w" if op[4] == "L" else "") + ",b", dict(s=f(*s), w=f(*w), b=f(*b)),
           ports=[port("x", (2, 3, 4))], domain=MS), BAD, f"{at}: has ")
      for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
      for what, s, w, b, at in (("one row", (2, 1, 4), (4, ), (4, ), "s"), ("a row", (4, ), (4, ), (4, ), "s"),
                                ("one column", (2, 3, 1), (4, ),
                                 (4, ), "s"), ("more batches", (5, 3, 4), (4, ),
                                               (4, ), "s"), ("one scale", (2, 3, 4), (1, ),
                                                             (4, ), "w"), ("one bias", (2, 3, 4), (4, ), (1, ), "b"))],
    *[(f"Attention, a mask {list(n)}",
       one("Attention", "x,x,x,m", {"m": f(*n)}, ports=[port("x", (2, 2, 4, 4))], opset=23), BAD, "m: has ")
      for n in ((3, 1, 4, 4), (2, 3, 4, 4), (2, 1, 5, 4), (2, 1, 4, 5), (1, 2, 2, 4, 4), (3, 4))],
    *[(f"Attention, a mask {list(n)} that fits",
       one("Attention", "x,x,x,m", {"m": f(*n)}, ports=[port("x", (2, 2, 4, 4))], opset=23), (0, ), "")
      for n in ((2, 1, 1, 4), (4, 1), (1, ), (2, 4, 1))],
    ("Attention 23, a mask that is shorter",
     one("Attention", "x,x,x,m", {"m": f(4, 2)}, ports=[port("x", (2, 2, 4, 4))],
         opset=23), BAD, "m: has size 2 on axis 1; wanted 4"),
    *[(f"Attention, a past {list(n)}",
       one("Attention", "x,x,x,,p,q", {"p": f(*n), "q": f(2, 2, 3, 4)}, ports=[port("x", (2, 2, 4, 4))],
           opset=23), BAD, "node 'bad' (Attention): ")
      for n in ((2, 2, 3), (1, 2, 3, 4), (2, 1, 3, 4), (2, 2, 3, 5), (2, 2, 1, 4))],
    ("Attention of a past and a number of keys",
     one("Attention", "x,x,x,,p,p,n", {"p": f(2, 2, 3, 4), "n": i(1, 1)}, ports=[port("x", (2, 2, 4, 4))],
         opset=24), BAD, "n: cannot be given together"),
    *[(f"com.microsoft: Attention of {what}",
       one("Attention", f"x,w,b,{m},{p},{e}",
           {"w": f(*w), "b": f(*b), "m": np.ones(ms, np.int32), "p": f(*ps), "e": f(*es)}, ports=[port("x", (2, 5, 8))],
           domain=MS, num_heads=2, **more), UNSUPPORTED, "node 'bad' (Attention): ")
      for what, w, b, m, ms, p, ps, e, es, more in (("a past of rank 4", (8, 24), (24, ), "", (1, ), "p",
                                                     (2, 2, 2, 4), "", (1, ), {}),
                                                    ("another batch's past", (8, 24), (24, ), "", (1, ), "p",
                                                     (2, 1, 2, 3, 4), "", (1, ), {}), ("one bias", (8, 24), (1, ), "",
                                                                                       (1, ), "", (1, ), "", (1, ), {}),
                                                    ("surplus columns", (8, 25), (25, ), "", (1, ), "", (1, ), "",
                                                     (1, ), {}), ("two sizes", (8, 24), (24, ), "", (1, ), "",
                                                                  (1, ), "", (1, ), dict(qkv_hidden_sizes=[8, 8])),
                                                    ("sizes that leave columns", (8, 24), (24, ), "", (1, ), "",
                                                     (1, ), "", (1, ), dict(qkv_hidden_sizes=[8, 8, 6])),
                                                    ("three lengths of two", (8, 24), (24, ), "m", (3, ), "", (1, ), "",
                                                     (1, ), {}), ("one mask", (8, 24), (24, ), "m", (1, 5), "",
                                                                  (1, ), "", (1, ), {}), ("one column", (8, 24),
                                                                                          (24, ), "m", (2, 1), "",
                                                                                          (1, ), "", (1, ), {}),
                                                    ("other rows", (8, 24), (24, ), "m", (2, 4, 5), "", (1, ), "",
                                                     (1, ), {}), ("more heads' bias", (8, 24), (24, ), "", (1, ), "",
                                                                  (1, ), "e", (2, 3, 5, 5), {}))],
    *[(f"com.microsoft: MultiHeadAttention of {what}",
       one("MultiHeadAttention", f"x,k,v,{b},{m},,{p}",
           {"k": f(*k), "v": f(*v), "b": f(*bs), "m": np.ones(ms, np.int32), "p": f(2, 2, 3, 4)},
           ports=[port("x", (2, 5, 8))], domain=MS, num_heads=2), BAD, "node 'bad' (MultiHeadAttention): ")
      for what, k, v, b, bs, m, ms, p in (("one batch of keys", (1, 6, 8), (1, 6, 8), "", (1, ), "",
                                           (1, ), ""), ("fewer values", (2, 6, 8), (2, 5, 8), "", (1, ), "", (1, ), ""),
                                          ("longer keys", (2, 6, 10), (2, 6, 8), "", (1, ), "",
                                           (1, ), ""), ("a bias for two", (2, 6, 8), (2, 6, 8), "b", (16, ), "",
                                                        (1, ), ""), ("a bias that is too long", (2, 6, 8),
                                                                     (2, 6, 8), "b", (25, ), "", (1, ), ""),
                                          ("a bias of rank 2", (2, 6, 8), (2, 6, 8), "b", (1, 24), "",
                                           (1, ), ""), ("a mask of rows", (2, 6, 8), (2, 6, 8), "", (1, ), "m",
                                                        (2, 5), ""), ("a past without values", (2, 6, 8), (2, 6, 8), "",
                                                                      (1, ), "", (1, ), "p"))],
    *[(f"com.microsoft: GroupQueryAttention of {what}",
       one("GroupQueryAttention", f"x,k,v,{p},{q},s,t",
           {"k": f(*k), "v": f(*v), "p": f(*ps), "q": f(*qs), "s": np.array(s, np.int32), "t": np.array(t, np.int32)},
           ports=[port("x", (2, 5, 16))
                  ], domain=MS, num_heads=2, kv_num_heads=1), UNSUPPORTED, "node 'bad' (GroupQueryAttention): ")
      for what, k, v, p, ps, q, qs, s, t in (("a past of rank 3", (2, 5, 8), (2, 5, 8), "p", (2, 1, 3), "q",
                                              (2, 1, 3, 8), (7, 7), 8), ("another past", (2, 5, 8), (2, 5, 8), "p",
                                                                         (2, 1, 3, 8), "q", (2, 1, 4, 8), (7, 7), 8),
                                             ("other rows", (2, 6, 8), (2, 6, 8), "", (1, ), "", (1, ),
                                              (4, 4), 5), ("one batch", (1, 5, 8), (1, 5, 8), "", (1, ), "", (1, ),
                                                           (4, 4), 5), ("three lengths", (2, 5, 8), (2, 5, 8), "",
                                                                        (1, ), "", (1, ), (4, 4, 4), 5),
                                             ("two totals", (2, 5, 8), (2, 5, 8), "", (1, ), "", (1, ), (4, 4),
                                              (5, 5)), ("another total", (2, 5, 8), (2, 5, 8), "p", (2, 1, 9, 8), "q",
                                                        (2, 1, 9, 8), (7, 7), 12))],
    *[(f"com.microsoft: EmbedLayerNormalization of {what}",
       one(
           "EmbedLayerNormalization", "k,s,w,p,g,a,b,m", {
               "k": np.zeros((2, 3), np.int32), "s": np.zeros(ss, np.int32), "w": f(9, 8), "p": f(6, ps), "g": f(2, 8),
               "a": f(*a), "b": f(8), "m": np.ones(ms, np.int32)
           }, domain=MS), BAD, f"{at}: has ")
      for what, ss, ps, a, ms, at in (("one row of segments", (1, 3), 8, (8, ),
                                       (2, 3), "s"), ("one column of positions", (2, 3), 1, (8, ), (2, 3), "p"),
                                      ("one scale", (2, 3), 8, (1, ), (2, 3), "a"), ("other masks", (2, 3), 8, (8, ),
                                                                                     (3, 3), "m"))],
    *[(f"Attention, {k} {v}", one("Attention", "x,x,x", ports=[port("x", (2, 2, 4, 4))], opset=23, **{k: v}), BAD, k)
      for k, v in (("softcap", -1.0), ("softcap", float("nan")), ("q_num_heads", 0))],
    *[(f"{op} with stash_type {t}",
       one(op, "x,w" + ",b" * (op[0] == "G"), {"w": f(4), "b": f(4)}, ports=[port("x", (2, 4))], opset=23, stash_type=t,
           **more), BAD, "stash_type: is no float type")
      for op, more in (("GroupNormalization", dict(num_groups=2)), ("RMSNormalization", {}), ("LayerNormalization", {}))
      for t in (7, 999)],
    *[(f"QLinearMatMul whose {at} has no zero point for each scale",
       one("QLinearMatMul", "q,s,z,q,s,z,s,z".replace("s", "t", 1) if at == "a" else "q,s,z,q,s,z,s,v",
           {"q": np.ones(
               (3, 3), np.uint8), "s": f(), "t": f(3), "z": np.array(1, np.uint8), "v": np.ones(3, np.uint8)}), BAD,
       "has rank") for at in "ay"],
    ("Resize by a policy that is none", one("Resize", "x,,s", {"s": f(2)}, opset=18,
                                            keep_aspect_ratio_policy="bend"), BAD, "keep_aspect_ratio_policy"),
    ("Resize by scales and sizes", one("Resize", "x,,s,t",
                                       {"s": f(2), "t": i(2, 3)}), BAD, "t: cannot be given together"),
    ("TfIdfVectorizer in mode T",
     one("TfIdfVectorizer", "k", {"k": i(1, 2, 3)}, mode="T", min_gram_length=1, max_gram_length=1, max_skip_count=0,
         ngram_counts=[0], ngram_indexes=[0], pool_int64s=[1]), BAD, "mode"),
    ("ScatterND into nothing",
     model([node("ScatterND", "z,k,u")], [port("z", (0, 3)), port("k", (1, 1), I64)],
           init={"u": f(1, 3)}), BAD, "k: indices on an axis of size 0"),
    ("Scaler of two features", one("Scaler", domain=ML, offset=[1.0, 2.0],
                                   scale=[1.0]), BAD, "offset: has 2 values for 3 features"),
    *[(f"SimplifiedLayerNormalization of integers at {at}", one(
        "SimplifiedLayerNormalization", at, {"k": i(1, 2, 3)}), BAD, "k: is of type i64") for at in ("x,k", "k,k")],
    ("Affine of integers", one("Affine", "k", {"k": i(1)}, opset=7), BAD, "k: is of type i64"),
    # 1 and 0 where they are not given, as in onnxruntime
    ("Affine of beta alone", one("Affine", opset=7, beta=2.0), (0, ), ""),
    *[(f"{op} without {a}", one(op, opset=7, **{b: 2.0}), BAD, f"{a}: is missing")
      for op in ("ScaledTanh", "ParametricSoftplus") for a, b in (("alpha", "beta"), ("beta", "alpha"))],
    ("Crop of bytes", one("Crop", "k", {"k": np.ones((1, 1, 4, 4), np.uint8)}, opset=7,
                          border=[1, 1, 1, 1]), BAD, "k: is of type u8"),
    ("FusedConv of more pictures to be added",
     one("FusedConv", **CONV | dict(inputs="x,w,,z", init=CONV["init"] | {"z": f(2, 4, 3, 3)}),
         domain=MS), BAD, "z: has size 2 on axis 0; wanted 1"),
    ("FusedConv of an activation without a name", one("FusedConv", **CONV, domain=MS,
                                                      activation=""), (5, ), "activation"),
    *[(f"RNN clipped to {v}",
       one("RNN", "x,w,r", {"w": f(1, 3, 5), "r": f(1, 3, 3)}, ports=[port("x", (4, 1, 5))], hidden_size=3,
           clip=v), BAD, "clip") for v in (0.0, -1.0, float("nan"))],
    *[(f"TreeEnsembleRegressor, {k} {v}", one("TreeEnsembleRegressor", **OLD_TREE | {k: v}), BAD, k)
      for k, v in (("nodes_nodeids", [0, 1, 1]), ("nodes_missing_value_tracks_true", [1]),
                   ("nodes_values_as_tensor", h.make_tensor("t", TensorProto.DOUBLE, [3], [0.0] * 3)),
                   ("base_values", [1.0, 2.0]), ("target_nodeids", [1, 3]), ("target_treeids", [0] * 3),
                   ("nodes_truenodeids", [0, 0, 0]))],
    # what no tree reaches, weighs or needs does no harm: nothing is said of it
    *[(f"TreeEnsembleRegressor, {what}", one("TreeEnsembleRegressor", **OLD_TREE | more), (0, ), "") for what, more in (
        ("a circle that no tree reaches",
         dict(nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0] * 5, nodes_values=[0.0] *
              5, nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "BRANCH_LEQ"
                              ], nodes_truenodeids=[1, 0, 0, 4, 3], nodes_falsenodeids=[2, 0, 0, 4, 3])),
        ("a weight of a branch", dict(target_nodeids=[0, 2])))],
    *[(f"TreeEnsembleClassifier of {what}",
       model([
           node("TreeEnsembleClassifier", "x", "y,z", classlabels_int64s=[5, 6, 7], class_treeids=[0, 0],
                class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[1.0, 2.0], **
                {k: v
                 for k, v in OLD_TREE.items() if not k.startswith("target")}, **more)
       ], outputs=[port("y", None, I64), port("z", None)]), codes, says)
      for what, more, codes, says in (("a label that no leaf has", {}, (0, ), ""),
                                      ("one base for three classes", dict(base_values=[1.0]), BAD, "base_values"))],
    *[(f"TreeEnsemble of {what}",
       one("TreeEnsemble", **
           TREE | dict(nodes_modes=uint8(6, 6), membership_values=floats(*v))), BAD, "membership_values")
      for what, v in (("a set too few", (1, 2)), ("a set too many", (1, float("nan"), 2, float("nan"), 3)))],
    *[(f"TreeEnsemble of two sets, {what}",
       one("TreeEnsemble", **TREE | dict(nodes_modes=uint8(6, 6), membership_values=floats(*v))), (0, ), "")
      for what, v in (("the last without an end", (1, float("nan"), 2)), ("each with its end",
                                                                          (1, float("nan"), 2, float("nan"))))],
    *[(f"EyeLike of type {t}", one("EyeLike", dtype=t), UNSUPPORTED, "dtype") for t in (0, 2**32 + 1)],
    ("ConvInteger of two zero points for a filter",
     one("ConvInteger", "k,w,,b",
         {"k": np.ones((1, 1, 3, 3), np.uint8), "w": np.ones(
             (1, 1, 2, 2), np.uint8), "b": np.array([1, 2], np.uint8)}), BAD, "b: has size 2 on axis 0; wanted 1"),
    *[(f"QLinearConv, {n} values at {at}",
       one(
           "QLinearConv",
           ",".join("q,s,z,w,s,z,s,z,b".split(",")[:at] + ["o"] + "q,s,z,w,s,z,s,z,b".split(",")[at + 1:]), {
               "q": np.ones((1, 1, 3, 3), np.uint8), "w": np.ones(
                   (4, 1, 2, 2), np.uint8), "s": f(), "z": np.array(0, np.uint8), "b": np.ones(4, np.int32), "o":
               np.ones(n, {4: np.float32, 5: np.uint8, 8: np.int32}[at])
           }), BAD, "o: has size") for n, at in ((3, 4), (3, 5), (1, 8))],
    *[(f"MatMulInteger, {n} zero points at {at}",
       one("MatMulInteger", "q,w," + (",o" if at else "o"),
           {"q": np.ones((1, 3), np.uint8), "w": np.ones(
               (3, 1), np.uint8), "o": np.ones(n, np.uint8)}), BAD, "o: has size") for n, at in ((2, 0), (2, 1))],
    *[(f"{op} of a longer {at}",
       one(op, "x," + ("w,b" if op[0] == "L" else "w"), {"w": f(4), "b": f(2, 4)} if at == "scale" else
           {"w": f(1), "b": f(3, 2, 1)}, ports=[port("x",
                                                     (2, 1))], opset=23), BAD, f"{'w' if at == 'scale' else 'b'}: has ")
      for op, at in (("LayerNormalization", "scale"), ("LayerNormalization", "bias"), ("RMSNormalization", "scale"),
                     ("SimplifiedLayerNormalization", "scale"))],
    ("StringSplit into -7 parts",
     one("StringSplit", "s", {"s": np.array(["a b"], object)}, opset=20, outputs="y,z", maxsplit=-7), BAD, "maxsplit"),
    ("com.microsoft: GroupQueryAttention of values without keys",
     one("GroupQueryAttention", "x,,v,,,s,t",
         {"v": f(2, 5, 4), "s": np.array([4, 4], np.int32), "t": np.array(5, np.int32)}, ports=[port("x", (2, 5, 16))],
         domain=MS, num_heads=2, kv_num_heads=1), BAD, "key: is missing"),
    ("com.microsoft: QLinearGlobalAveragePool of nothing",
     one("QLinearGlobalAveragePool", "b,s,z,s,z",
         {"b": np.zeros(
             (1, 2, 0, 3), np.uint8), "s": f(), "z": np.array(0, np.uint8)}, domain=MS), BAD, "b: has no elements"),
    ("com.microsoft: QGemm to a scale without a zero point",
     one("QGemm", "q,s,z,q,s,z,,s", {"q": np.ones((1, 1), np.uint8), "s": f(), "z": np.array(0, np.uint8)},
         domain=MS), (5, ), "y_scale"),
    *[(f"com.microsoft: {op} of a longer {what}",
       one(op, names,
           {"q": np.ones((1, 1), np.uint8), "s": f(), "v": f(5), "z": np.array(0, np.uint8), "o": np.ones(5, np.uint8)},
           domain=MS, ports=[port("x", (1, 1))]), BAD, says)
      for op, what, names, says in (("MatMulIntegerToFloat", "scale", "q,q,s,v", "v: has size 5"),
                                    ("MatMulIntegerToFloat", "zero point", "q,q,s,s,z,o", "o: has size 5"),
                                    ("MatMulIntegerToFloat", "bias", "q,q,s,s,,,v", "v: has size 5"),
                                    ("DynamicQuantizeMatMul", "scale", "x,q,v", "v: has size 5"),
                                    ("DynamicQuantizeMatMul", "zero point", "x,q,s,o", "o: has size 5"),
                                    ("QGemm", "zero point", "q,s,z,q,s,o", "o: has size 5"),
                                    ("QGemm", "scale", "q,s,z,q,v,z", "v: has size 5"))],
    ("com.microsoft: QGemm of a longer bias",
     one("QGemm", "q,s,z,q,s,z,b",
         {"q": np.ones((1, 1), np.uint8), "s": f(), "z": np.array(0, np.uint8), "b": np.ones(
             (3, 1), np.int32)}, domain=MS), BAD, "b: has size 3"),
    ("Scaler of rank 3 and four features",
     one("Scaler", ports=[port("x", (2, 3, 4))], domain=ML, offset=[1.0] * 4, scale=[1.0]), BAD, "x: has rank 3"),
    *[(f"CausalConvWithState, {what}",
       one("CausalConvWithState", f"x,w,,{p}", {"w": f(3, 1, 3), "p": f(*n)}, ports=[port("x", (2, 3, 6))], opset=27,
           outputs="y,z", activation=word), BAD, says)
      for what, p, n, word, says in (("a longer past", "p", (2, 3, 4), "none", "p: has size 4"),
                                     ("one batch of past", "p",
                                      (1, 3, 2), "none", "p: has size 1"), ("no word", "", (1, ), "", "activation"))],
    ("SVMClassifier of 2^63 vectors", one("SVMClassifier",
                                          **SVM | dict(vectors_per_class=[3, 2**63 - 1])), BAD, "vectors_per_class"),
    ("Imputer of rank 3 and four features",
     one("Imputer", ports=[port("x", (2, 3, 4))], domain=ML,
         imputed_value_floats=[1.0] * 4), BAD, "imputed_value_floats"),
    ("RegexFullMatch of no pattern", one("RegexFullMatch", "s", {"s": np.array(["a"], object)},
                                         opset=20), BAD, "pattern: is missing"),
    *[(f"com.microsoft: GroupQueryAttention in a window of {n}",
       one("GroupQueryAttention", "x,,,,,s,t", {"s": np.array([4, 4], np.int32), "t": np.array(5, np.int32)}, ports=[
           port("x", (2, 5, 16))
       ], domain=MS, num_heads=2, kv_num_heads=1, local_window_size=n), BAD, "local_window_size") for n in (-2, 0)],
    ("com.microsoft: EmbedLayerNormalization of segments without a table",
     one("EmbedLayerNormalization", "k,k,w,w,,a,a", {"k": np.zeros((2, 3), np.int32), "w": f(9, 8), "a": f(8)},
         domain=MS), BAD, "segment_ids"),
    ("QuantizeLinear to powers of two", one("QuantizeLinear", "x,s", {"s": f()}, opset=25,
                                            output_dtype=24), (5, ), "output_dtype"),
    ("Imputer of two lists", one("Imputer", domain=ML, imputed_value_floats=[1.0],
                                 imputed_value_int64s=[1]), BAD, "imputed_value_floats"),
    ("OneHotEncoder of a category twice", one("OneHotEncoder", domain=ML,
                                              cats_int64s=[0, 2, 0]), BAD, "cats_int64s: entry 2 is there twice"),
    ("QLinearConcat without a zero point",
     one("QLinearConcat", "s,z,b,s,", {"b": np.zeros(4, np.uint8), "s": f(), "z": np.array(0, np.uint8)}, domain=MS,
         axis=0), BAD, "input 4 is missing"),
    ("SVMClassifier of prob_b alone", one("SVMClassifier", **SVM | dict(prob_b=[1.0])), BAD, "prob_a"),
    ("Upsample 1 by nothing", one("Upsample", ports=[port("x", (1, 2, 3, 3))], opset=1), BAD, "node 'bad' (Upsample)"),
]


def endless(body, state, results="float y", trip="", before=""):
    """A Loop without an end, or of as many iterations as a number holds; state: its only one."""
    return onnx.parser.parse_model(f'''<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => ({results}) {{
        yes = Constant<value = bool {{1}}>() many = Constant<value = int64 {{{2**63 - 1}}}>() {before}
        {", ".join(r.split()[-1] for r in results.split(", "))} = Loop<body = b {body}>({trip}, yes, {state}) }}''').SerializeToString()


LIST, TRIPS = dict(state="list", results="seq(float) y",
                   before="list = SequenceConstruct(x, x)"), (("without an end", ""), ("of 2^63 - 1 iterations",
                                                                                       "many"))
F_LOOPS = [row for what, trip in TRIPS for row in (
    (f"a list that grows, {what}", endless("(int64 i, bool c, seq(float) s) => (bool d, seq(float) t) { d = Identity(c) t = SequenceInsert(s, x) }", **LIST, trip=trip), (6,), "node 'y' (Loop): "),
    (f"a list that stays as long, {what}", endless("(int64 i, bool c, seq(float) s) => (bool d, seq(float) t) { d = Identity(c) r = SequenceErase(s) t = SequenceInsert(r, x) }", **LIST, trip=trip), (6,), "node 'y' (Loop): "),
    (f"a list that stays, without a node, {what}", endless("(int64 i, bool c, seq(float) s) => (bool c, seq(float) s) { }", **LIST, trip=trip), (6,), "node 'y' (Loop): "),
    (f"a body that is a loop, {what}", endless("(int64 i, bool c, seq(float) s) => (bool c, seq(float) t) { three = Constant<value = int64 {3}>() "
        "t = Loop<body = e (int64 j, bool k, seq(float) u) => (bool k, seq(float) v) { v = SequenceInsert(u, x) }>(three, c, s) }", **LIST, trip=trip), (6,), "node 'y' (Loop): "),
    (f"a tensor that grows, {what}", endless("(int64 i, bool c, float s) => (bool c, float t) { t = Concat<axis = 0>(s, x) }", "x", trip=trip), (5, 6), "node 'y' (Loop): "),
    (f"a tensor that doubles, {what}", endless("(int64 i, bool c, float s) => (bool c, float t) { t = Concat<axis = 0>(s, s) }", "x", trip=trip), (5, 6), "(Concat): t: "),
    (f"a row for each iteration, {what}", endless("(int64 i, bool c, float s) => (bool c, float t, float r) { t = Neg(s) r = Identity(t) }", "x", "float y, float z", trip=trip), (5, 6), "node 'y' (Loop): "))]


def main():
    wrong, ran = 0, 0
    device = sys.argv[1] if len(sys.argv) > 1 else "reference"
    with tempfile.TemporaryDirectory() as root:
        path = pathlib.Path(root) / "m.onnx"
        for group, rows in zip("ABCDEF", (A, B, C, D, E, [] if os.environ.get("SANITIZED") else F_LOOPS)):
            for name, data, codes, says in rows:
                path.write_bytes(data)
                try:
                    p = subprocess.run([
                        os.environ["TGRUN_PROGRAM"],
                        str(path), "--runs", "1", "-q", "--no-cache", "--device", device, "--max-memory",
                        str(1 << 30)
                    ], capture_output=True, timeout=60)
                    code, said = p.returncode, p.stderr.decode(errors="backslashreplace").strip()
                except subprocess.TimeoutExpired:
                    code, said = "no end", ""
                named = code == 0 or (says in said and "\n" not in said and said.startswith(f"tgrun: {path}: ") and
                                      len(said) < 1200)
                ran += 1
                if code not in codes or not named:
                    wrong += 1
                    print(
                        f"{group}: {name}: exit {code} (wanted {' or '.join(map(str, codes))}{', ' + says if says else ''}): {said[:300]}"
                    )
    print(f"{ran - wrong} of {ran} wrong files end as they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
