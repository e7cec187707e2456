"""Free dimensions: one session runs a model at many sizes. The first has a program of its own, the second makes one in
which the sizes that changed are variables, and the others make nothing: `kernels_compiled` and `kernels_cached` stay.
Every result is compared with the standard's own evaluator. A case is a row: its name, the model, the sizes of its
symbols run by run (of an input, its value), and whether one program serves them all; to add one: a row."""
import json
import os
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import program

rng = np.random.default_rng(5)
SANITIZED = os.environ.get("SANITIZED")          # the same code many times slower: one program a case is enough
ATTENTION = """(float[n,s,8] x, float[8,24] w) => (float y) { p = MatMul(x, w) q, k, v = Split<axis = 2>(p) t = Transpose<perm = [0, 2, 1]>(k) a = MatMul(q, t) b = Softmax(a) c = MatMul(b, v)
 y = Add(c, x) }"""
HEADS = """(int64[n,s] i, float[50,12] e, float[40,12] p) => (float y) { g = Gather(e, i) d = Shape(i) one = Constant<value_ints = [1]>() two = Constant<value_ints = [2]>()
 zero = Constant<value_ints = [0]>() l = Slice(d, one, two) q = Slice(p, zero, l, zero) h = Add(g, q) m = Constant<value_ints = [0, 0, 3, 4]>() r = Reshape(h, m)
 t = Transpose<perm = [0, 2, 1, 3]>(r) y = ReduceMean<keepdims = 0, axes = [2]>(t) }"""
PYRAMID = """(float[1,3,h,w] x, float[8,3,3,3] f, float[8,8,3,3] g) => (float y) { a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, f) b = Relu(a)
 c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(b, g) s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() e = Constant<value_floats: floats = []>()
 u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(c, e, s) y = Add(u, b) }"""
CASES = [
    ("a batch", "(float[n,37] x, float[37,24] w, float[24] b) => (float y) { p = MatMul(x, w) q = Add(p, b) y = Relu(q) }", [{"n": k} for k in (3, 5, 1, 64, 17, 2)], True),
    ("attention over a free length", ATTENTION, [{"n": 1, "s": k} for k in (9, 5, 1, 33, 16, 50)], True),
    ("batch and length", ATTENTION, [{"n": n, "s": s} for n, s in ((1, 9), (2, 5), (3, 1), (1, 33), (4, 16))], True),
    ("positions from a table", HEADS, [{"n": 2, "s": k} for k in (7, 9, 40, 1, 13)], True),
    ("a table that is too short for the range", HEADS, [{"n": 1, "s": k} for k in (7, 40, 39)], True),
    ("a picture", "(float[1,3,h,w] x, float[8,3,3,3] f) => (float y) { a = Conv<pads = [1, 1, 1, 1]>(x, f) b = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a) y = GlobalAveragePool(b) }",
     [{"h": h, "w": w} for h, w in ((8, 8), (12, 15), (5, 31), (40, 2), (9, 9))], True),
    ("convolutions of convolutions, whose zeros lie elsewhere at each size", """(float[1,4,h,w] x, float[8,4,3,3] f, float[8,1,3,3] d, float[8,8,5,5] k, float[6,8,3,3] j) => (float y) { a = Conv<pads = [1, 1, 1, 1]>(x, f) b = Relu(a)
 c = Conv<pads = [1, 1, 1, 1], strides = [2, 2], group = 8>(b, d) e = Relu(c) l = Conv<pads = [2, 2, 2, 2], strides = [2, 2]>(e, k) m = Relu(l) y = Conv<pads = [2, 2, 2, 2], dilations = [2, 2]>(m, j) }""",
     [{"h": h, "w": w} for h, w in ((20, 20), (40, 57), (7, 30), (1, 1), (33, 6), (40, 56))], True),
    ("pads that follow from the size", """(float[1,4,h,w] x, float[8,4,3,3] f, float[8,8,5,4] k) => (float y, float z, float p, int64 i, float q) { a = Conv<auto_pad = "SAME_UPPER", strides = [2, 3]>(x, f) y = Relu(a)
 z = Conv<auto_pad = "SAME_LOWER", strides = [3, 2]>(y, k) p, i = MaxPool<kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0], ceil_mode = 1>(y)
 q = AveragePool<kernel_shape = [3, 3], strides = [2, 3], pads = [1, 1, 0, 1], ceil_mode = 1, count_include_pad = 1>(p) }""",
     [{"h": h, "w": w} for h, w in ((20, 20), (41, 57), (27, 30), (33, 36), (50, 56))], True),
    ("a picture of which first the height changes, then the width", "(float[1,3,h,w] x, float[8,3,3,3] f) => (float y) { a = Conv<pads = [1, 1, 1, 1]>(x, f) y = Relu(a) }",
     [{"h": h, "w": w} for h, w in ((8, 8), (12, 8), (12, 31), (40, 2), (9, 9))], True),
    ("sizes that values of inputs tell", """(float[n,40] x, int64[1] k, int64 m) => (float y, float z, float t, float s) { o = Constant<value_ints = [1]>() b = Constant<value_ints = [0]>() p = Slice(x, b, k, o) y = Relu(p)
 i = Constant<value_int = 0>() j = Constant<value_int = 1>() r = Range(i, m, j) f = Cast<to = 1>(r) z = Neg(f) v = Constant<value_floats = [1.0, 2.0]>() w = Tile(v, k) t = Neg(w)
 q = Concat<axis = 0>(k, k) e = ConstantOfShape(q) g = Trilu(e) h = ReduceSum<keepdims = 0>(x) s = Add(g, h) }""",
     [{"n": n, "k": [k], "m": m} for n, k, m in ((3, 7, 12), (4, 9, 30), (5, 40, 1), (1, 1, 200), (9, 13, 8))], True),
    ("a value that two inputs share", "(float[n,6] x, int64[2] k) => (float y) { q = Reshape(x, k) e = Exp(q) y = Transpose(e) }", [{"n": n, "k": [2 * n, 3]} for n in (4, 7, 1, 30)], False),
    ("iterations that a value tells", """(float[n,4] x, int64 k) => (float y, float z) { t = Constant<value = bool {1}>() y, z = Loop<body = b (int64 i, bool c, float[n,4] s0) => (bool d, float[n,4] s1, float[4] r) {
 d = Identity(c) h = Constant<value_float = 0.5>() p = Mul(s0, h) s1 = Add(p, x) a = Constant<value_ints = [0]>() r = ReduceSum<keepdims = 0>(s1, a) }>(k, t, x) }""",
     [{"n": n, "k": k} for n, k in ((3, 12), (4, 30), (5, 1), (1, 200), (9, 9))], True),
    ("a recurrence whose condition compares a counter and a length as floats", """(float[n,4] x, float[4,4] w) => (float h, float z) { d = Shape(x) b = Constant<value_ints = [0]>() o = Constant<value_ints = [1]>()
 k = Slice(d, b, o) l = Squeeze(k, b) m = Cast<to = 6>(l) f = Cast<to = 1>(m) v = Constant<value_float = 0.0>() go = Less(v, f) t = Constant<value = int32 {0}>() s = Constant<value = float[4] {0.0, 0.0, 0.0, 0.0}>()
 u, q, h, z = Loop<body = b (int64 i, bool c, int32 t0, int32 m0, float[4] h0) => (bool d1, int32 t1, int32 m1, float[4] h1, float[4] r) { one = Constant<value = int32 {1}>() t1 = Add(t0, one) m1 = Identity(m0)
 y = Gather(x, t0) p = MatMul(h0, w) a = Add(y, p) h1 = Tanh(a) r = Identity(h1) e = Cast<to = 1>(t1) g = Cast<to = 1>(m0) d1 = Less(e, g) }>(, go, t, m, s) }""",
     [{"n": k} for k in (12, 20, 9, 1, 31)], True),
    ("counters that go up by three and down by one", """(float[n,4] x) => (int64 u, int64 v, float z) { d = Shape(x) b = Constant<value_int = 0>() l = Gather(d, b) go = Constant<value = bool {1}>() w = Constant<value_int = 2>()
 m = Constant<value_floats = [0.0, 0.5, 1.0, 2.0]>() u, v, y, z = Loop<body = b (int64 i, bool c, int64 t0, int64 v0, float[4] s0) => (bool d1, int64 t1, int64 v1, float[4] s1, float[4] r) { a = Constant<value_int = 3>()
 e = Constant<value_int = 1>() f = Constant<value_int = -11>() t1 = Add(t0, a) v1 = Sub(v0, e) q = Greater(t1, l) p = Not(q) j = Less(f, v1) k = And(p, j) d1 = And(c, k) g = Cast<to = 1>(t0) s1 = Add(s0, g)
 r = Identity(s1) }>(, go, w, b, m) }""", [{"n": k} for k in (12, 20, 9, 40, 31, 7)], True),
    ("a state that is a counter only where it is positive", """(float[n,4] x) => (int64 u, float z) { d = Shape(x) b = Constant<value_int = 0>() l = Gather(d, b) go = Constant<value = bool {1}>() w = Constant<value_int = -6>()
 m = Constant<value_floats = [0.0, 0.5, 1.0, 2.0]>() u, y, z = Loop<body = b (int64 i, bool c, int64 t0, float[4] s0) => (bool d1, int64 t1, float[4] s1, float[4] r) { a = Constant<value_int = 1>() p = Abs(t0) t1 = Add(p, a)
 d1 = Less(t1, l) g = Cast<to = 1>(t0) s1 = Add(s0, g) r = Identity(s1) }>(, go, w, m) }""", [{"n": k} for k in (12, 20, 9, 40)], False),
    ("how often, by a shape", """(float[n,5] x, float[2] v) => (float y, float z) { d = Shape(x) b = Constant<value_ints = [0]>() o = Constant<value_ints = [1]>() k = Slice(d, b, o) w = Tile(v, k) y = Exp(w)
 i = Constant<value_ints = [0, 2, 1]>() u = Constant<value_floats = [0.0, 1.0]>() kk = Squeeze(k, b) h = OneHot(i, kk, u) z = Exp(h) }""", [{"n": k} for k in (4, 9, 3, 30)], True),
    ("halved, doubled, added: multiples of 4", PYRAMID, [{"h": h, "w": w} for h, w in ((16, 16), (20, 12), (8, 36), (4, 4))], True),
    ("a pool undone", """(float[n,2,h,w] x) => (float y, float z) { a, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) u = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(a, i) y = Neg(u)
 s = Shape(x) v = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(a, i, s) z = Neg(v) }""", [{"n": n, "h": h, "w": w} for n, h, w in ((1, 4, 6), (2, 8, 2), (3, 2, 20), (1, 12, 10))], True),
    ("spectra of a free length", """(float[n,t,1] x, float[2,t,2] z) => (float y, float h, float v) { a = DFT<axis = 1>(x) y = Neg(a) b = DFT<axis = 1, onesided = 1>(x) h = Neg(b) c = DFT<axis = 1, inverse = 1>(z) v = Neg(c) }""",
     [{"n": n, "t": t} for n, t in ((1, 12), (2, 7), (3, 1), (1, 31), (2, 50))], True),
    ("a linear resize", """(float[1,2,h] x) => (float y) { s = Constant<value_floats = [1.0, 1.0, 4.0]>() e = Constant<value_floats: floats = []>() y = Resize<mode = "linear">(x, e, s) }""",
     [{"h": h} for h in (5, 9, 2, 1, 30)], True),
    ("axes of size 1, of which nothing is said", "(float[1,n,6] x) => (float y) { q = Squeeze(x) y = Neg(q) }", [{"n": k} for k in (4, 8, 1, 6)], False),
    ("flattened for a known number of columns", "(float[n,6] x) => (float y) { s = Constant<value_ints = [-1, 12]>() r = Reshape(x, s) y = Neg(r) }", [{"n": k} for k in (4, 8, 2, 6)], True),
    ("a shape in the model: built in", "(float[n,6] x) => (float y) { s = Constant<value_ints = [2, 12]>() r = Reshape(x, s) y = Neg(r) }", [{"n": 4}], True),
    ("two sizes that are equal", "(float[n,4] x, float[m,4] z) => (float y) { y = Mul(x, z) }", [{"n": k, "m": k} for k in (3, 7, 2, 11)], True),
    ("two sizes, one of them 1 at times", "(float[n,4] x, float[m,4] z) => (float y) { y = Mul(x, z) }", [{"n": n, "m": m} for n, m in ((3, 3), (7, 7), (5, 1), (1, 6), (9, 9))], False),
    ("a recurrence over a free length", """(float[t,2,5] x, float[1,12,5] w, float[1,12,3] r) => (float y, float h, float c) { y, h, c = LSTM<hidden_size = 3>(x, w, r) }""",
     [{"t": k} for k in (12, 20, 9, 1, 31)], True),
    ("a scan over a free length", """(float[t,4] x) => (float y, float z) { o = Constant<value_floats = [0.0, 0.0, 0.0, 0.0]>()
 y, z = Scan<num_scan_inputs = 1, body = b (float[4] s0, float[4] r) => (float[4] s1, float[4] o1) { s1 = Add(s0, r) o1 = Identity(s1) }>(o, x) }""", [{"t": k} for k in (12, 20, 9, 1, 31)], True),
    ("counted from a shape", """(float[n,5] x) => (float y) { d = Shape(x) zero = Constant<value_int = 0>() one = Constant<value_int = 1>() k = Gather(d, zero) r = Range(zero, k, one)
 f = Cast<to = 1>(r) a = Constant<value_ints = [1]>() u = Unsqueeze(f, a) y = Mul(x, u) }""", [{"n": k} for k in (4, 9, 1, 30)], True),
    ("the last row, the first k", """(float[n,5] x) => (float y, float v, int64 i) { last = Constant<value_int = -1>() y = Gather(x, last) k = Constant<value_ints = [3]>() v, i = TopK<axis = 0>(x, k) }""",
     [{"n": k} for k in (4, 9, 3, 30)], True),
    ("running sums over a free length", """(float[n,5] x) => (float y, float z) { a = Constant<value_int = 0>() y = CumSum(x, a) z = CumSum<exclusive = 1, reverse = 1>(x, a) }""",
     [{"n": k} for k in (40, 9, 1, 61, 32)], True),
    ("what data say of a free size", "(float[n,5] x) => (float y, int64 z) { z = NonZero(x) f = Relu(x) y = ReduceSum<keepdims = 1>(f) }", [{"n": k} for k in (4, 9, 1, 30)], True),
]
# Loops that join something to a state each iteration: as many kernels for 300 iterations as for 20. ITERATIONS stands
# for the number.
GROWING = [
    ("a decoder over what it has said", """(float[1,4] x, float[4,4] w) => (float y, float l) { n = Constant<value_int = ITERATIONS>() t = Constant<value = bool {1}>()
 y, l = Loop<body = b (int64 i, bool c, float[k,4] s0, float[1,4] h0) => (bool d, float[m,4] s1, float[1,4] h1) { d = Identity(c) r = Transpose<perm = [1, 0]>(s0) p = MatMul(h0, r)
 q = Softmax(p) v = MatMul(q, s0) u = MatMul(v, w) h1 = Tanh(u) s1 = Concat<axis = 0>(s0, h1) }>(n, t, x, x) }"""),
    ("from nothing, two rows an iteration, rows stacked beside it", """(float[1,4] x) => (float y, float z) { n = Constant<value_int = ITERATIONS>() t = Constant<value = bool {1}>() s = Constant<value_ints = [0, 4]>()
 e = ConstantOfShape(s) y, z = Loop<body = b (int64 i, bool c, float[k,4] s0) => (bool d, float[m,4] s1, float[4] o) { d = Identity(c) f = Cast<to = 1>(i) g = Add(x, f)
 s1 = Concat<axis = 0>(g, s0, g) a = Constant<value_ints = [0]>() o = ReduceSum<keepdims = 0>(s1, a) }>(n, t, e) }"""),
    ("until the data end it", """(float[1,4] x) => (float y, float h) { n = Constant<value_int = ITERATIONS>() t = Constant<value = bool {1}>()
 o = Constant<value = float[1,1] {0.0}>()
 y, h = Loop<body = b (int64 i, bool c, float[1,k] s0, float[1,1] h0) => (bool d, float[1,m] s1, float[1,1] h1) { one = Constant<value_float = 1.0>() h1 = Add(h0, one) f = Constant<value_float = 13.0>()
 q = Less(h1, f) g = Squeeze(q) d = Identity(g) s1 = Concat<axis = 1>(s0, h1) }>(n, t, x, o) }"""),
    ("rows of a loop without a limit", """(float[1,4] x) => (float y, float z) { t = Constant<value = bool {1}>()
 y, z = Loop<body = b (int64 i, bool c, float[1,4] s0) => (bool d, float[1,4] s1, float[4] r) { one = Constant<value_float = 1.0>() s1 = Add(s0, one) top = ReduceMax<keepdims = 0>(s1)
 most = Constant<value_float = ITERATIONS.0>() d = Less(top, most) a = Constant<value_ints = [0]>() r = ReduceSum<keepdims = 0>(s1, a) }>(, t, x) }"""),
]
DEVICES = ["reference", "cpu"] + (["cuda"] if os.environ.get("CUDA_EMULATOR") and shutil.which("g++") else [])


def parsed(text):
    return onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 17]> g ' + text)


def shape_of(value, sizes):
    return [sizes[d.dim_param] if d.dim_param else d.dim_value for d in value.type.tensor_type.shape.dim]


def write_sets(folder, model, constants, runs):
    """The data sets of all runs, expectations included."""
    evaluator = ReferenceEvaluator(model)
    for k, sizes in enumerate(runs):
        at = folder / f"test_data_set_{k}"
        at.mkdir(parents=True)
        inputs = {}
        for v in model.graph.input:
            whole = v.type.tensor_type.elem_type == onnx.TensorProto.INT64
            inputs[v.name] = np.array(
                sizes[v.name]) if v.name in sizes else constants[v.name] if v.name in constants else rng.integers(
                    0, 50, shape_of(v, sizes)) if whole else rng.standard_normal(shape_of(v, sizes)).astype(np.float32)
        for stem, arrays in (("input", inputs.values()), ("output", evaluator.run(None, inputs))):
            for j, a in enumerate(arrays):
                (at / f"{stem}_{j}.pb").write_bytes(numpy_helper.from_array(np.asarray(a)).SerializeToString())


def built(model, folder, data, device, *more):
    """How many kernels the runs of these sets made, or what went wrong."""
    code, out, said = program.run(model, folder, {}, device, "--test-data", str(data), "--runs", "1", "--json", "-q",
                                  *more)
    if code:
        return f"exit {code}: {said}"
    report = json.loads(out)
    return report["kernels_compiled"] + report["kernels_cached"]


def check_growing(folder, name, text):
    wrong = 0
    for device in DEVICES:
        made = []
        for iterations in (20,) if SANITIZED else (20, 300):
            model, at = parsed(text.replace("ITERATIONS", str(iterations))), folder / f"{device}{iterations}"
            fixed = {
                v.name: 0.1 * rng.standard_normal([d.dim_value
                                                   for d in v.type.tensor_type.shape.dim]).astype(np.float32)
                for v in model.graph.input
            }
            write_sets(at, model, fixed, [{}])
            (at / "model.onnx").write_bytes(model.SerializeToString())
            made.append(built(at / "model.onnx", folder, at, device))
        if isinstance(made[0], str) or made[0] != made[-1]:
            print(f"{name} on {device}: 20 iterations {made[0]}, 300 iterations {made[-1]}")
            wrong += 1
    return wrong


def check(folder, name, text, runs, one):
    """Wrong devices of a case: with all runs in one session, and with a range from the start."""
    model = parsed(text)
    fixed = {
        v.name: rng.standard_normal([d.dim_value for d in v.type.tensor_type.shape.dim]).astype(np.float32)
        for v in model.graph.input
        if v.name not in runs[0] and not any(d.dim_param for d in v.type.tensor_type.shape.dim)
    }
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    write_sets(folder / "all", model, fixed, runs)
    (folder / "two").mkdir()
    for k in range(min(len(runs), 2)):
        shutil.copytree(folder / "all" / f"test_data_set_{k}", folder / "two" / f"test_data_set_{k}")
    wrong = 0
    for device in DEVICES:
        ranged = built(path, folder, folder / "all", device, "--dim", "*=1..64")
        two, all_ = [ranged] * 2 if SANITIZED else [
            built(path, folder, folder / data, device) for data in ("two", "all")
        ]
        if isinstance(all_, str) or isinstance(ranged, str) or (one and all_ != two):
            print(f"{name} on {device}: two sizes {two}, all {all_}, with a range {ranged}")
            wrong += 1
    return wrong


def main():
    wrong = 0
    cases, growing = program.todays(CASES), program.todays(GROWING)
    for name, text, runs, one in cases:
        with tempfile.TemporaryDirectory() as folder:
            wrong += check(pathlib.Path(folder), name, text, runs, one)
    for name, text in growing:
        with tempfile.TemporaryDirectory() as folder:
            wrong += check_growing(pathlib.Path(folder), name, text)
    total = (len(cases) + len(growing)) * len(DEVICES)
    print(f"{total - wrong} of {total} cases are right, on {', '.join(DEVICES)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
