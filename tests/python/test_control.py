"""Control flow and sequences that depend on data: conditions, trip counts, positions and sizes that are computed,
lengths and shapes that differ from branch to branch and from round to iteration. Each model runs on all of its inputs
in one session, twice over, so that what a program took for known is queried again; results are compared with
onnxruntime's, or, where that one cannot, with those of the standard's own evaluator. To add one: a row.
"""
import os
import sys

import ml_dtypes
import numpy as np
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

onnxruntime.set_default_logger_severity(4)
F32 = np.float32


def f(*shape): return np.arange(np.prod(shape), dtype=F32).reshape(shape) - 2


def big(*values): return np.resize(np.array(values, F32), 5000)       # too many to be baked in


# What depends on data: x holds 5,000 floats, k the largest of them as an integer.
BY_DATA = "top = ReduceMax<keepdims = 0>(x) k = Cast<to = 7>(top) zero = Constant<value_int = 0>() one = Constant<value_int = 1>() yes = Constant<value = bool {1}>()"
NUMBERS = [dict(x=big(k, 0)) for k in (3, 1, 0, 3)]
# A loop whose iterations only a run distinguishes: v, v1 are a number of x, g whether it is above 0.
def many(out, first, results, state, body, after, row=""):
    return f"""(float[5000] x, int64 n) => ({out}) <int64[1] z0 = {{0}}, float[1] z1 = {{7}}, float zero = {{0}}, int64 most = {{400}}, int64 few = {{30}}> {{ yes = Constant<value = bool {{1}}>() e = {first}
 {results} = Loop<body = b (int64 i, bool c, {state} s0) => (bool d, {state} s1{row}) {{ v = Gather(x, i) v1 = Unsqueeze(v, z0) g = Greater(v, zero) {body} }}>(n, yes, e) {after} }}"""


def local(graph, *functions):
    return f'<ir_version: 9, opset_import: ["" : 18, "local" : 1]> g {graph}' + "".join(
        f'<domain: "local", opset_import: ["" : 18, "local" : 1]> {text}' for text in functions)


MANY = [
    dict(x=np.random.default_rng(k).standard_normal(5000).astype(F32), n=np.array(n))
    for k, n in ((0, 300), (1, 300), (2, 5000))
]
CASES = [
    # ---- sequences in loops ----
    ("a sequence grows as often as data say", f"""(float[5000] x) => (seq(float[m]) s, int64 n) <int64[1] z0 = {{0}}> {{ {BY_DATA} e = SequenceEmpty<dtype = 1>()
 s = Loop<body = b (int64 i, bool c, seq(float[m]) s0) => (bool d, seq(float[m]) s1) {{ d = Identity(c) j = Unsqueeze(i, z0) r = Cast<to = 1>(j) s1 = SequenceInsert(s0, r) }}>(k, yes, e)
 n = SequenceLength(s) }}""", NUMBERS),
    ("elements of different lengths", f"""(float[5000] x, float[9] y) => (seq(float[m]) s, float[m] all) <int64[1] z0 = {{0}}, float[1] w = {{7.0}}> {{ {BY_DATA} e = SequenceConstruct(w)
 s = Loop<body = b (int64 i, bool c, seq(float[m]) s0) => (bool d, seq(float[m]) s1) {{ d = Identity(c) j = Unsqueeze(i, z0) p = Slice(y, z0, j) s1 = SequenceInsert(s0, p) }}>(k, , e)
 all = ConcatFromSequence<axis = 0>(s) }}""", [dict(r, y=f(9)) for r in NUMBERS]),
    ("until the data end it", """(float[5000] x) => (seq(float[m]) s, float h) <float most = {4.5}, float one = {1.0}, int64[1] z0 = {0}> { h0 = ReduceMax<keepdims = 0>(x) e = SequenceEmpty<dtype = 1>() yes = Constant<value = bool {1}>()
 s, h = Loop<body = b (int64 i, bool c, seq(float[m]) s0, float a0) => (bool d, seq(float[m]) s1, float a1) { a1 = Add(a0, one) d = Less(a1, most) v = Unsqueeze(a1, z0) s1 = SequenceInsert(s0, v) }>(, yes, e, h0) }""", NUMBERS),
    ("until a sequence is long enough", """(float[5000] x) => (seq(float[m]) s) { e = SequenceEmpty<dtype = 1>() yes = Constant<value = bool {1}>() five = Constant<value_int = 5>()
 s = Loop<body = b (int64 i, bool c, seq(float[m]) s0) => (bool d, seq(float[m]) s1) { s1 = SequenceInsert(s0, x) n = SequenceLength(s1) d = Less(n, five) }>(, yes, e) }""", [dict(x=big(1))]),
    ("rows and a sequence, 40 iterations", """(float[3] x) => (seq(float[3]) s, float[40,3] rows) { e = SequenceEmpty<dtype = 1>() n = Constant<value_int = 40>()
 s, rows = Loop<body = b (int64 i, bool c, seq(float[3]) s0) => (bool d, seq(float[3]) s1, float[3] row) { d = Identity(c) g = Cast<to = 1>(i) row = Mul(x, g) s1 = SequenceInsert(s0, row) }>(n, , e) }""", [dict(x=f(3)), dict(x=f(3) + 1)]),
    ("700 iterations", """(float[3] x) => (float[m] y) { e = SequenceEmpty<dtype = 1>() n = Constant<value_int = 700>()
 s = Loop<body = b (int64 i, bool c, seq(float[3]) s0) => (bool d, seq(float[3]) s1) { d = Identity(c) g = Cast<to = 1>(i) row = Mul(x, g) s1 = SequenceInsert(s0, row) }>(n, , e) y = ConcatFromSequence<axis = 0>(s) }""", [dict(x=f(3))]),
    ("strings as a state", f"""(float[5000] x, string[2] w) => (string[2] y) {{ {BY_DATA}
 y = Loop<body = b (int64 i, bool c, string[2] s0) => (bool d, string[2] s1) {{ d = Identity(c) ix = Constant<value_ints = [1, 0]>() s1 = Gather(s0, ix) }}>(k, , w) }}""", [dict(r, w=np.array(["a", "b"], object)) for r in NUMBERS]),
    ("a loop in a loop, both by data", f"""(float[5000] x) => (seq(float[m]) s) <int64[1] z0 = {{0}}> {{ {BY_DATA} e = SequenceEmpty<dtype = 1>()
 s = Loop<body = b (int64 i, bool c, seq(float[m]) s0) => (bool d, seq(float[m]) s1) {{ d = Identity(c) m = Add(i, one)
  s1 = Loop<body = bb (int64 j, bool cc, seq(float[m]) t0) => (bool dd, seq(float[m]) t1) {{ dd = Identity(cc) p = Mul(i, j) q = Unsqueeze(p, z0) r = Cast<to = 1>(q) t1 = SequenceInsert(t0, r) }}>(m, , s0) }}>(k, , e) }}""", NUMBERS),
    ("an iteration writes its place in what it carries", f"""(float[5000] x) => (float[600,2] y, int64 n) <int64[1] z0 = {{0}}, int64[1] all = {{600}}, int64[2] column = {{-1, 1}}> {{ {BY_DATA}
 sizes = Constant<value_ints = [600, 2]>() e = ConstantOfShape<value = float {{0.5}}>(sizes)
 y, n = Loop<body = b (int64 i, bool c, float[600,2] s0, int64 j0) => (bool d, float[600,2] s1, int64 j1) {{ j1 = Add(j0, one) b = Unsqueeze(j0, z0) ends = Unsqueeze(j1, z0) most = Min(ends, all)
  p = Slice(s0, b, most, z0) size = Shape(p) stop = Squeeze(most) r = Range(j0, stop, one) rows = Reshape(r, column) places = Expand(rows, size) v = Cast<to = 1>(j0) values = Expand(v, size)
  s1 = ScatterElements<axis = 0>(s0, places, values)
  g = Less(j1, k) h = If(g)<then_branch = t () => (bool t) {{ t = Constant<value = bool {{1}}>() }}, else_branch = u () => (bool u) {{ u = Constant<value = bool[1] {{0}}>() }}>
  d = Squeeze(h) }}>(, yes, e, zero) }}""", NUMBERS + [dict(x=big(30))]),
    # ---- positions and sizes ----
    ("an element's position", f"(float[5000] x, seq(float[2]) s) => (float[2] y) {{ {BY_DATA} y = SequenceAt(s, k) }}", [dict(r, s=[f(2) + j for j in range(4)]) for r in NUMBERS]),
    ("an element's position, elements differ", f"(float[5000] x, seq(float[m]) s) => (float[m] y) {{ {BY_DATA} y = SequenceAt(s, k) }}", [dict(r, s=[f(2 + j) + j for j in range(4)]) for r in NUMBERS]),
    ("counted from the end", f"(float[5000] x, seq(float[2]) s) => (float[2] y) {{ {BY_DATA} j = Neg(k) i = Sub(j, one) y = SequenceAt(s, i) }}", [dict(r, s=[f(2) + j for j in range(4)]) for r in NUMBERS]),
    ("the place of a new one, and of one that goes", f"(float[5000] x, seq(float[m]) s) => (seq(float[m]) a, seq(float[m]) b) {{ {BY_DATA} v = Constant<value_floats = [9.0]>() a = SequenceInsert(s, v, k) b = SequenceErase(s, k) }}",
     [dict(r, s=[f(2 + j) + j for j in range(4)]) for r in NUMBERS]),
    ("sizes of pieces", f"""(float[5000] x, float[7,2] y) => (seq(float[m,2]) s, int64 n) <int64[1] z0 = {{0}}> {{ {BY_DATA} p = Unsqueeze(k, z0) t = Constant<value_ints = [7]>() q = Sub(t, p)
 z = Concat<axis = 0>(p, q) s = SplitToSequence(y, z) n = SequenceLength(s) }}""",
     [dict(r, y=f(7, 2)) for r in NUMBERS]),
    ("one size for all pieces", f"(float[5000] x, float[7,2] y) => (seq(float[m,2]) s) {{ {BY_DATA} m = Add(k, one) s = SplitToSequence(y, m) }}", [dict(r, y=f(7, 2)) for r in NUMBERS]),
    ("positions in a long loop", """(seq(float[2]) s) => (float[2] y, float[12,2] rows) { n = SequenceLength(s) o = Constant<value_floats = [0.0, 0.0]>()
 y, rows = Loop<body = b (int64 i, bool c, float[2] a0) => (bool d, float[2] a1, float[2] r) { d = Identity(c) e = SequenceAt(s, i) a1 = Add(a0, e) r = Identity(a1) }>(n, , o) }""", [dict(s=[f(2) * j for j in range(12)])]),
    # ---- If ----
    ("lengths by branch", f"""(float[5000] x, float[3] y) => (seq(float[3]) s, int64 n) <float least = {{2.0}}> {{ {BY_DATA} p = Greater(top, least)
 s = If(p) <then_branch = t () => (seq(float[3]) u) {{ u = SequenceConstruct(y, y) }}, else_branch = e () => (seq(float[3]) v) {{ v = SequenceConstruct(y) }}> n = SequenceLength(s) }}""", [dict(r, y=f(3)) for r in NUMBERS]),
    ("shapes by branch", f"""(float[5000] x, float[6] y) => (float z, int64[k] shape) <float least = {{2.0}}, int64[2] two = {{2, 3}}, int64[2] three = {{3, 2}}> {{ {BY_DATA} p = Greater(top, least)
 z = If(p) <then_branch = t () => (float u) {{ u = Reshape(y, two) }}, else_branch = e () => (float v) {{ v = Reshape(y, three) }}> shape = Shape(z) }}""", [dict(r, y=f(6)) for r in NUMBERS]),
    ("ranks by branch", f"""(float[5000] x, float[6] y) => (float z) <float least = {{2.0}}, int64[2] two = {{2, 3}}> {{ {BY_DATA} p = Greater(top, least)
 z = If(p) <then_branch = t () => (float u) {{ u = Reshape(y, two) }}, else_branch = e () => (float v) {{ v = Identity(y) }}> }}""", [dict(r, y=f(6)) for r in NUMBERS]),
    ("a branch that does not fit where it is not taken", f"""(float[5000] x, float[n] y) => (float z) <float least = {{2.0}}, int64[2] two = {{2, 3}}> {{ {BY_DATA} p = Greater(top, least)
 z = If(p) <then_branch = t () => (float u) {{ u = Reshape(y, two) }}, else_branch = e () => (float v) {{ v = Identity(y) }}> }}""", [dict(x=big(3), y=f(6)), dict(x=big(1), y=f(5)), dict(x=big(3), y=f(6))]),
    ("an optional or none", f"""(float[5000] x, float[3] y) => (bool has) <float least = {{2.0}}> {{ {BY_DATA} p = Greater(top, least)
 o = If(p) <then_branch = t () => (optional(float[3]) u) {{ u = Optional(y) }}, else_branch = e () => (optional(float[3]) v) {{ v = Optional<type = float[3]>() }}> has = OptionalHasElement(o) }}""", [dict(r, y=f(3)) for r in NUMBERS]),
    ("in a long loop", f"""(float[5000] x, float[3] y) => (float[20,3] rows) {{ {BY_DATA} n = Constant<value_int = 20>()
 rows = Loop<body = b (int64 i, bool c) => (bool d, float[3] r) {{ d = Identity(c) p = Greater(i, k)
  r = If(p) <then_branch = t () => (float[3] u) {{ u = Neg(y) }}, else_branch = e () => (float[3] v) {{ v = Identity(y) }}> }}>(n, yes) }}""", [dict(r, y=f(3)) for r in NUMBERS]),
    # ---- tensors in loops ----
    ("shapes that grow unevenly", f"""(float[5000] x, float[9] y) => (float[m] z) <int64[1] z0 = {{0}}, float[1] w = {{7.0}}> {{ {BY_DATA}
 z = Loop<body = b (int64 i, bool c, float[m] s0) => (bool d, float[q] s1) {{ d = Identity(c) j = Unsqueeze(i, z0) p = Slice(y, z0, j) s1 = Concat<axis = 0>(s0, p) }}>(k, , w) }}""", [dict(r, y=f(9)) for r in NUMBERS]),
    ("rows until data end it", """(float[5000] x, float[2] y) => (float[k,2] rows, float h) <float most = {4.5}, float one = {1.0}> { h0 = ReduceMax<keepdims = 0>(x) yes = Constant<value = bool {1}>() n = Constant<value_int = 50>()
 h, rows = Loop<body = b (int64 i, bool c, float a0) => (bool d, float a1, float[2] r) { a1 = Add(a0, one) d = Less(a1, most) r = Mul(y, a1) }>(n, yes, h0) }""", [dict(r, y=f(2)) for r in NUMBERS]),
    ("rows without a limit", """(float[5000] x, float[2] y) => (float h, float[k,2] rows) <float most = {4.5}, float one = {1.0}> { h0 = ReduceMax<keepdims = 0>(x) yes = Constant<value = bool {1}>()
 h, rows = Loop<body = b (int64 i, bool c, float a0) => (bool d, float a1, float[2] r) { a1 = Add(a0, one) d = Less(a1, most) r = Mul(y, a1) }>(, yes, h0) }""", [dict(r, y=f(2)) for r in NUMBERS]),
    ("no iteration at all", f"""(float[5000] x, float[2] y) => (float[2] z, float[k,2] rows) {{ {BY_DATA} no = Not(yes)
 z, rows = Loop<body = b (int64 i, bool c, float[2] a0) => (bool d, float[2] a1, float[2] r) {{ d = Identity(c) a1 = Add(a0, y) r = Neg(a1) }}>(k, no, y) }}""", [dict(r, y=f(2)) for r in NUMBERS]),
    ("captured from two levels up", f"""(float[5000] x, float[2] y) => (float[2] z, float[k,12,2] rows) {{ {BY_DATA} n = Constant<value_int = 12>() w = Exp(y)
 z, rows = Loop<body = b (int64 i, bool c, float[2] a0) => (bool d, float[2] a1, float[12,2] r) {{ d = Identity(c) g = Cast<to = 1>(i) v = Mul(w, g)
  a1, r = Loop<body = bb (int64 j, bool cc, float[2] b0) => (bool dd, float[2] b1, float[2] q) {{ dd = Identity(cc) h = Cast<to = 1>(j) t = Mul(v, h) u = Add(t, w) b1 = Add(b0, u) q = Identity(b1) }}>(n, , a0) }}>(k, , y) }}""",
     [dict(r, y=f(2) / 8) for r in NUMBERS]),
    ("a scan in a scan, from behind", """(float[5,3,4] x, float[4] h) => (float[4] z, float[4,3,5] rows) {
 z, rows = Scan<num_scan_inputs = 1, scan_input_axes = [-3], scan_output_axes = [-1], scan_input_directions = [1], scan_output_directions = [1], body = b (float[4] a0, float[3,4] r) => (float[4] a1, float[4,3] q) {
  a1, q = Scan<num_scan_inputs = 1, scan_input_axes = [0], scan_output_axes = [-1], scan_output_directions = [1], body = bb (float[4] b0, float[4] s) => (float[4] b1, float[4] t) {
   u = Add(b0, s) b1 = Add(u, h) t = Neg(b1) }>(a0, r) }>(h, x) }""", [dict(x=f(5, 3, 4) / 9, h=f(4))]),
    ("a scan over what data chose", """(float[5000] x, float[2] h) => (float[2] z, float[k,2] rows) <int64[1] z0 = {0}, int64[1] z9 = {9}, float most = {2.5}, float[1,2] ones = {1.0, 1.0}> {
 n = Slice(x, z0, z9) p = Greater(n, most) i = NonZero(p) c = Transpose(i) v = Cast<to = 1>(c) w = Mul(v, ones)
 z, rows = Scan<num_scan_inputs = 1, body = b (float[2] a0, float[2] r) => (float[2] a1, float[2] q) { a1 = Add(a0, r) q = Mul(a1, r) }>(h, w) }""", [dict(x=big(*v), h=f(2)) for v in ((3, 0, 4), (0, 0, 0), (5, 6, 1))],
     {1: lambda feed: [feed["h"], np.zeros((0, 2), F32)]}),            # which neither peer can
    # ---- sizes ----
    ("a shape", f"(float[5000] x, float[12] y) => (float z) <int64[1] z0 = {{0}}, int64[1] rest = {{-1}}> {{ {BY_DATA} m = Max(k, one) p = Unsqueeze(m, z0) q = Concat<axis = 0>(p, rest) z = Reshape(y, q) }}",
     [dict(r, y=f(12)) for r in NUMBERS]),
    ("a range and a fill", f"(float[5000] x) => (int64[m] r, float[m] z) <int64[1] z0 = {{0}}> {{ {BY_DATA} r = Range(zero, k, one) p = Unsqueeze(k, z0) z = ConstantOfShape(p) }}", NUMBERS),
    ("only a data-dependent size", "(float[5000] x) => (int64[2] s) { i = NonZero(x) s = Shape(i) }", NUMBERS),
    ("a data-dependent size, as a position", """(float[5000] x, seq(float[m]) s) => (float[m] y) <int64[1] z0 = {0}, int64[1] z5 = {5}> { h = Slice(x, z0, z5) i = NonZero(h) n = Size(i) y = SequenceAt(s, n) }""",
     [dict(r, s=[f(2 + j) + j for j in range(6)]) for r in NUMBERS]),
    *[(f"{what} by data", f"(float[5000] x, float[4,6] y) => (float z) <int64[1] z0 = {{0}}, int64[2] z10 = {{1, 0}}, float half = {{0.5}}> {{ {BY_DATA} p = Unsqueeze(k, z0) {how} }}",
       [dict(r, y=f(4, 6) / 3) for r in NUMBERS]) for what, how in (
        ("where a slice ends", "z = Slice(y, z0, p, z0)"),
        ("where a slice begins", "q = Constant<value_ints = [4]>() z = Slice(y, p, q, z0)"),
        ("a slice's step", "m = Add(p, one) q = Constant<value_ints = [4]>() z = Slice(y, z0, q, z0, m)"),
        ("repeats", "q = Concat<axis = 0>(p, p) z = Tile(y, q)"),
        ("a shape to expand to", "m = Max(p, one) q = Concat<axis = 0>(m, z10) r = Max(q, one) z = Expand(half, r)"),
        ("an edge", "q = Concat<axis = 0>(p, z10, p) z = Pad(y, q, half)"),
        ("k best", "w, i = TopK<axis = 1>(y, p) z = ReduceSum<keepdims = 0>(w)"),
        ("parts", "q = Constant<value_ints = [6]>() r = Sub(q, p) s = Concat<axis = 0>(p, r) a, b = Split<axis = 1>(y, s) z = Concat<axis = 1>(b, a)"),
        ("a depth", "m = Add(k, one) i = Constant<value_ints = [0, 1, 2]>() o = Constant<value_floats = [0.0, 1.0]>() z = OneHot(i, m, o)"),
        ("an axis to sum over", "q = Min(p, one) z = ReduceSum<keepdims = 0>(y, q)"),
        ("an axis to add", "q = Min(p, one) z = Unsqueeze(y, q)"),
        ("an axis to run along", "q = Min(k, one) z = CumSum(y, q)"),
        ("a diagonal", "z = Trilu(y, k)"),
        ("a size to resize to", "e = Constant<value_floats: floats = []>() o = Constant<value_ints = [4]>() m = Max(p, one) q = Concat<axis = 0>(o, m) z = Resize<mode = \"nearest\">(y, e, e, q)"),
        ("a scale", "e = Constant<value_floats: floats = []>() o = Constant<value_floats = [1.0]>() n = Cast<to = 1>(p) m = Max(n, o) q = Concat<axis = 0>(o, m) z = Resize<mode = \"nearest\">(y, e, q)"),
        ("a window", "m = Add(k, one) z = HannWindow(m)"),
        ("a range of floats", "n = Cast<to = 1>(k) o = Constant<value_float = 0.0>() z = Range(o, n, half)"),
        ("how much is kept", "m = Max(p, one) q = Concat<axis = 0>(m, m) z = CenterCropPad(y, q)"))],
    ("optional sequences by data", f"""(float[5000] x, float[3] y) => (bool has, int64 n) <float least = {{2.0}}> {{ {BY_DATA} p = Greater(top, least)
 o = If(p) <then_branch = t () => (optional(seq(float[3])) u) {{ a = SequenceConstruct(y, y) u = Optional(a) }}, else_branch = e () => (optional(seq(float[3])) v) {{ v = Optional<type = seq(float[3])>() }}> has = OptionalHasElement(o)
 n = If(has) <then_branch = tt () => (int64 uu) {{ s = OptionalGetElement(o) uu = SequenceLength(s) }}, else_branch = ee () => (int64 vv) {{ vv = Identity(zero) }}> }}""", [dict(r, y=f(3)) for r in NUMBERS]),
    ("a map over pieces", f"""(float[5000] x, float[7,2] y) => (seq(float[m,2]) s) {{ {BY_DATA} m = Add(k, one) p = SplitToSequence(y, m) g = Cast<to = 1>(m)
 s = SequenceMap<body = b (float[n,2] e) => (float[n,2] r) {{ h = Mul(e, g) r = Neg(h) }}>(p) }}""", [dict(r, y=f(7, 2)) for r in NUMBERS]),
    ("branches in a loop, some of other lengths", f"""(float[5000] x, float[3] y) => (seq(float[3]) s) {{ {BY_DATA} e = SequenceEmpty<dtype = 1>() n = Constant<value_int = 5>()
 s = Loop<body = b (int64 i, bool c, seq(float[3]) s0) => (bool d, seq(float[3]) s1) {{ d = Identity(c) p = Less(i, k)
  s1 = If(p) <then_branch = t () => (seq(float[3]) u) {{ u = SequenceInsert(s0, y) }}, else_branch = e () => (seq(float[3]) v) {{ v = Identity(s0) }}> }}>(n, yes, e) }}""", [dict(r, y=f(3)) for r in NUMBERS]),
    ("both a count and a condition, with rows", f"""(float[5000] x, float[2] y) => (seq(float[2]) s, float[k,2] rows) {{ {BY_DATA} e = SequenceEmpty<dtype = 1>() two = Constant<value_int = 2>()
 s, rows = Loop<body = b (int64 i, bool c, seq(float[2]) s0) => (bool d, seq(float[2]) s1, float[2] r) {{ d = Less(i, two) g = Cast<to = 1>(i) r = Mul(y, g) s1 = SequenceInsert(s0, r) }}>(k, yes, e) }}""",
     [dict(r, y=f(2)) for r in [dict(x=big(k, 0)) for k in (1, 2, 7)]]),
    ("words that a run chooses", f"(float[5000] x, string[4] w) => (string[m] z) <int64[1] z0 = {{0}}> {{ {BY_DATA} p = Unsqueeze(k, z0) c = Gather(w, p) z = StringNormalizer<case_change_action = \"UPPER\">(c) }}",
     [dict(r, w=np.array(["a", "bc", "d", "ef"], object)) for r in NUMBERS]),
    ("what words say", f"(float[5000] x, string[4] w, float[6] y) => (float[m] z) <int64[1] z0 = {{0}}> {{ {BY_DATA} p = Unsqueeze(k, z0) c = Gather(w, p) n = Cast<to = 7>(c) z = Slice(y, z0, n) }}",
     [dict(r, y=f(6), w=np.array(["1", "4", "2", "3"], object)) for r in NUMBERS]),
    ("positions while a size varies", f"(float[n] x, seq(float[m]) s) => (float[m] y, float[n] z) {{ {BY_DATA} y = SequenceAt(s, k) z = Neg(x) }}",
     [dict(x=np.resize(np.array([k, 0], F32), n), s=[f(2 + j) + j for j in range(4)]) for k, n in ((3, 5000), (1, 6000), (1, 7000), (2, 5000), (3, 8000))]),
    ("a shape by data while a size varies", f"""(float[n,6] x, float[500] u) => (float[a,b] z) <int64[1] rest = {{-1}}, int64[1] z0 = {{0}}> {{ top = ReduceMax<keepdims = 0>(u) k = Cast<to = 7>(top) p = Unsqueeze(k, z0)
 q = Concat<axis = 0>(rest, p) z = Reshape(x, q) }}""", [dict(x=f(n, 6), u=np.full(500, k, F32)) for k, n in ((3, 5), (2, 5), (3, 7), (3, 9), (6, 11))]),
    # ---- no iterations ----
    ("a scan over nothing", """(float[t,3] x, float[3] h) => (float[3] last, float[t,3] rows) { last, rows = Scan<num_scan_inputs = 1, body = b (float[3] s0, float[3] r) => (float[3] s1, float[3] o) {
 s1 = Add(s0, r) o = Mul(s1, r) }>(h, x) }""", [dict(x=f(t, 3), h=f(3)) for t in (3, 0, 12, 0)], dict.fromkeys((1, 3), lambda feed: [feed["h"], feed["x"]])),
    ("no steps of a cell", "(float[t,2,5] x, float[1,3,5] w, float[1,3,3] r, float[1,2,3] h) => (float[t,1,2,3] y, float[1,2,3] z) { y, z = RNN<hidden_size = 3>(x, w, r, , , h) }",
     [dict(x=f(t, 2, 5) / 40, w=f(1, 3, 5) / 40, r=f(1, 3, 3) / 40, h=f(1, 2, 3)) for t in (3, 0, 12, 0)],
     dict.fromkeys((1, 3), lambda feed: [np.zeros((0, 1, 2, 3), F32), feed["h"]])),
    ("a list that most iterations leave alone", many("seq(float[1]) s, float[m] y", "SequenceEmpty<dtype = 1>()", "s", "seq(float[1])", "d = Identity(c) s1 = If(g) <then_branch = t () => (seq(float[1]) a) { a = SequenceInsert(s0, v1) }, "
     "else_branch = f () => (seq(float[1]) a) { a = Identity(s0) }>", "y = ConcatFromSequence<axis = 0>(s)"), MANY),
    ("a list that iterations read", many("seq(float[1]) s", "SequenceConstruct(z1)", "s", "seq(float[1])", "l = SequenceLength(s0) d = Less(l, few) s1 = If(g) <then_branch = t () => (seq(float[1]) a) { a = SequenceInsert(s0, v1) }, "
     "else_branch = f () => (seq(float[1]) a) { a = Identity(s0) }>", ""), MANY),
    ("what some iterations make longer, and rows", many("float[m] y, float[k] rows", "ConstantOfShape(z0)", "y, rows", "float[m]",
     "l = Size(s0) d = Less(l, most) r = Exp(v) s1 = If(g) <then_branch = t () => (float[q] a) { a = Concat<axis = 0>(s0, v1) }, "
     "else_branch = f () => (float[q] a) { a = Identity(s0) }>", "", ", float r"), MANY),
    ("what is of another size in some iterations", many("float y", "Constant<value_float = 0.0>()", "y", "float", "d = Identity(c) p = If(g) <then_branch = t () => (float[q] a) { a = Identity(v1) }, "
     "else_branch = f () => (float[q] a) { a = Concat<axis = 0>(v1, v1) }> w = ReduceSum<keepdims = 0>(p) s1 = Add(s0, w)", ""), MANY),
    ("words that some iterations append", """(string[5000] x, int64 n) => (seq(string) s) { e = SequenceEmpty<dtype = 8>() w = Constant<value_string = "w3">()
 s = Loop<body = b (int64 i, bool c, seq(string) s0) => (bool d, seq(string) s1) { d = Identity(c) v = Gather(x, i) g = Equal(v, w)
  s1 = If(g) <then_branch = t () => (seq(string) a) { a = SequenceInsert(s0, v) }, else_branch = f () => (seq(string) a) { a = Identity(s0) }> }>(n, , e) }""",
     [dict(x=np.array([f"w{(j * k) % 7}" for j in range(5000)], object), n=np.array(n)) for k, n in ((1, 40), (2, 5000))], {}, 19),
    # ---- lengths that vary, of elements that a program keeps otherwise than its caller ----
    *[(f"{kind} of lengths that vary", f"({kind}[n] x) => (float[n] y) {{ y = Cast<to = 1>(x) }}", [dict(x=(np.arange(n) % 4).astype(dtype)) for n in (3, 5, 7, 90000)], {}, 21)
      for kind, dtype in (("float8e4m3fn", ml_dtypes.float8_e4m3fn), ("uint4", ml_dtypes.uint4))],
    ("words of lengths that vary", "(string[n] x, int64[m] i) => (string[m] y) { y = Gather(x, i) }", [dict(x=np.array([f"w{k}" for k in range(n)], object), i=np.array([n - 1, 0] * n)) for n in (3, 5, 7, 900)]),
    # ---- sequences that iterations read: one program serves all lengths ----
    *[(f"a list that iterations read, {what}", many("seq(float[1]) s", "SequenceConstruct(z1)", "s", "seq(float[1])", f"d = Identity(c) m1 = Constant<value_int = -1>() o0 = Constant<value_int = 0>() {how} s1 = If(g) <then_branch = t () => "
       "(seq(float[1]) a) { a = SequenceInsert(s0, w) }, else_branch = f () => (seq(float[1]) a) { a = Identity(s0) }>", ""), MANY if what == "all of it" else MANY[:2]) for what, how in (
        ("its length", "l = SequenceLength(s0) h = Cast<to = 1>(l) w = Add(v1, h)"),
        ("the last one", "e0 = SequenceAt(s0, m1) w = Sub(v1, e0)"),
        ("one by data", "l = SequenceLength(s0) j = Mod(i, l) e0 = SequenceAt(s0, j) w = Sub(v1, e0)"),
        ("all of it", "q = ConcatFromSequence<axis = 0>(s0) q1 = ReduceMax<keepdims = 0>(q) q2 = ConcatFromSequence<axis = -1, new_axis = 1>(s0) q3 = ReduceMin<keepdims = 1>(q2) q4 = Squeeze(q3, z0) q5 = Add(v1, q1) w = Add(q5, q4)"))],
    *[(f"a queue, {what}", many("seq(float[1]) s", "SequenceConstruct(z1)", "s", "seq(float[1])", f"""d = Identity(c) one = Constant<value_int = 1>() m2 = Constant<value_int = -2>() r = SequenceInsert(s0, v1) x1 = Neg(v1) {how}""", ""),
       MANY[:2]) for what, how in (
        ("in front", "o0 = Constant<value_int = 0>() r1 = SequenceInsert(r, x1, o0) s1 = SequenceErase(r1)"),
        ("from behind", "r1 = SequenceInsert(r, x1, m2) r2 = SequenceErase(r1, m2) s1 = SequenceInsert(r2, x1, one)"),
        ("by data", "l = SequenceLength(r) j = Mod(i, l) r1 = SequenceInsert(r, x1, j) g1 = Cast<to = 7>(g) s1 = SequenceErase(r1, g1)"))],
    ("a list that is joined and cut again", many("seq(float[1]) s", "SequenceConstruct(z1)", "s", "seq(float[1])", "d = Identity(c) p = If(g) <then_branch = t () => (float[q] a) { a = Identity(v1) }, else_branch = f () => "
     "(float[q] a) { a = Concat<axis = 0>(v1, v1) }> q = ConcatFromSequence<axis = 0>(s0) r = Concat<axis = 0>(q, p) s1 = SplitToSequence<axis = 0>(r)", ""), MANY[:2]),
    ("a list that is mapped", many("seq(float[1]) s", "SequenceConstruct(z1)", "s", "seq(float[1])", "d = Identity(c) h = Constant<value_float = 0.9>() "
     "r = SequenceMap<body = e (float[1] a) => (float[1] b) { m = Mul(a, h) b = Add(m, v) }>(s0) "
     "s1 = If(g) <then_branch = t () => (seq(float[1]) a) { a = SequenceInsert(r, v1) }, else_branch = f () => (seq(float[1]) a) { a = Identity(r) }>", ""), MANY[:2]),
    *[(f"pieces of a length that varies, keepdims {keep}", f"(float[2,n,3] x) => (float[m,k] y, int64 l) {{ s = SplitToSequence<axis = 1, keepdims = {keep}>(x) t = SequenceMap<body = e (float[a,b] p) => (float[a,b] q) {{ q = Neg(p) }}>(s) "
       "y = ConcatFromSequence<axis = -1>(t) l = SequenceLength(t) }", [dict(x=f(2, n, 3)) for n in (4, 5, 7, 30)]) for keep in (0, 1)],
    ("a list of pairs and one of words, looked at", """(float[60,2] x, string[60] w) => (seq(float[2]) s, seq(string[1]) t, float[m] y) <int64[1] z0 = {0}, float zero = {0}, int64 n = {60}, float[2] first = {3, 4}, string[1] word = {"w"}> {
 s0 = SequenceConstruct(first) t0 = SequenceConstruct(word) yes = Constant<value = bool {1}>() u0 = SequenceEmpty<dtype = 1>()
 s, t, u = Loop<body = b (int64 i, bool c, seq(float[2]) a0, seq(string[1]) b0, seq(float[m]) u0) => (bool d, seq(float[2]) a1, seq(string[1]) b1, seq(float[m]) u1) { d = Identity(c) v = Gather(x, i) p = Gather(w, i) p1 = Unsqueeze(p, z0)
  m1 = Constant<value_int = -1>() e = SequenceAt(a0, m1) e1 = Add(e, v) k = ReduceSum<keepdims = 0>(v) g = Greater(k, zero) l = SequenceLength(b0) l2 = SequenceLength(u0) h = Add(l, l2) h1 = Cast<to = 1>(h) f = Unsqueeze(h1, z0)
  a1 = If(g) <then_branch = ta () => (seq(float[2]) ra) { ra = SequenceInsert(a0, e1) }, else_branch = ea () => (seq(float[2]) ra) { ra = Identity(a0) }>
  b1 = If(g) <then_branch = tb () => (seq(string[1]) rb) { rb = Identity(b0) }, else_branch = eb () => (seq(string[1]) rb) { rb = SequenceInsert(b0, p1) }>
  u1 = If(g) <then_branch = tc () => (seq(float[m]) rc) { rc = SequenceInsert(u0, f) }, else_branch = ec () => (seq(float[m]) rc) { rc = SequenceInsert(u0, v) }> }>(n, yes, s0, t0, u0) y = ConcatFromSequence<axis = 0>(u) }""",
     [dict(x=np.random.default_rng(k).standard_normal((60, 2)).astype(F32), w=np.array([f"w{j}" for j in range(60)], object)) for k in range(2)]),
    # ---- iterations of other values ----
    ("complex numbers that some iterations append, and rows", """(complex64[40] z, float[40] x) => (complex64[m] y, complex64[40,1] rows) <int64[1] z0 = {0}, float zero = {0}, int64 n = {40}> {
 e = Slice(z, z0, z0) yes = Constant<value = bool {1}>()
 y, rows = Loop<body = b (int64 i, bool c, complex64[k] s0) => (bool d, complex64[l] s1, complex64[1] r1) { d = Identity(c) r = Gather(z, i) v = Gather(x, i) g = Greater(v, zero) r1 = Unsqueeze(r, z0)
  s1 = If(g) <then_branch = t () => (complex64[q] a) { a = Concat<axis = 0>(s0, r1) }, else_branch = f () => (complex64[q] a) { a = Identity(s0) }> }>(n, yes, e) }""",
     [dict(z=(f(40) + 1j * f(40)[::-1]).astype(np.complex64), x=np.random.default_rng(k).standard_normal(40).astype(F32)) for k in range(3)]),
    *[(f"rows of {bits} bits", f"""(float[5000] x) => ({kind}[300,3] rows) <int64[1] z0 = {{0}}, float zero = {{0}}, int64 n = {{300}}, float[3] w = {{0, 1, -1}}> {{ yes = Constant<value = bool {{1}}>()
 rows = Loop<body = b (int64 i, bool c) => (bool d, {kind}[3] r) {{ d = Identity(c) v = Gather(x, i) g = Greater(v, zero) v1 = Unsqueeze(v, z0)
  p = If(g) <then_branch = t () => (float[q] a) {{ a = Identity(v1) }}, else_branch = f () => (float[q] a) {{ a = Concat<axis = 0>(v1, v1) }}> m = ReduceSum<keepdims = 1>(p) u = Mul(m, w) r = Cast<to = {to}>(u) }}>(n, yes) }}""",
       [dict(x=MANY[0]["x"])], {}, 25) for kind, bits, to in (("int4", 4, 22), ("int2", 2, 26))],
    ("a map that iterations read", """<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 1]> g (float[300] x, map(int64, float) m) => (float y) <int64[1] z0 = {0}, float zero = {0}, int64 n = {300}> { o = Constant<value_float = 0.0>()
 y = Loop<body = b (int64 i, bool c, float s0) => (bool d, float s1) { d = Identity(c) v = Gather(x, i) g = Greater(v, zero) h = ai.onnx.ml.CastMap<cast_to = "TO_FLOAT">(m) v1 = Unsqueeze(v, z0)
  p = If(g) <then_branch = t () => (float[q] a) { a = Identity(v1) }, else_branch = f () => (float[q] a) { a = Concat<axis = 0>(v1, v1) }>
  w = ReduceSum<keepdims = 0>(p) k = ReduceMax<keepdims = 0>(h) r = Mul(w, k) s1 = Add(s0, r) }>(n, , o) }""",
     [dict(x=MANY[k]["x"][:300], m={4: 2.0, 0: k + 3.0, 7: 1.0}) for k in range(2)], {k: lambda feed: [np.where(feed["x"] > 0, feed["x"], 2 * feed["x"]).sum(dtype=np.float64).astype(F32) * F32(feed["m"][0])] for k in range(2)}),
    ("a scan whose iterations only a run distinguishes", """(float[3,40] x, float[2] h) => (float[2] z, float[2,40] rows) <int64[1] z0 = {0}, float zero = {0}> {
 z, rows = Scan<num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1], scan_input_directions = [1], scan_output_directions = [1], body = b (float[2] a0, float[3] r) => (float[2] a1, float[2] q) {
  v = ReduceSum<keepdims = 1>(r) g0 = Greater(v, zero) g = Squeeze(g0)
  p = If(g) <then_branch = t () => (float[q] a) { a = Identity(v) }, else_branch = f () => (float[q] a) { a = Concat<axis = 0>(v, v) }> w = ReduceSum<keepdims = 1>(p) a1 = Add(a0, w) q = Mul(a1, h) }>(h, x) }""",
     [dict(x=np.random.default_rng(k).standard_normal((3, 40)).astype(F32), h=f(2) + 1) for k in range(3)]),
    ("a scan of words, by data", """(string[2,30] x, string[2] h) => (string[2] z, string[30,2] rows) <string[1] w = {"w3"}> {
 z, rows = Scan<num_scan_inputs = 1, scan_input_axes = [1], body = b (string[2] a0, string[2] r) => (string[2] a1, string[2] q) { e0 = Equal(r, w) e = Cast<to = 7>(e0) n = ReduceMax<keepdims = 0>(e) g = Cast<to = 9>(n)
  p = If(g) <then_branch = t () => (string[q] a) { a = Identity(r) }, else_branch = f () => (string[q] a) { a = Concat<axis = 0>(a0, r) }> i = Constant<value_ints = [1, 0]>() a1 = Gather(p, i) q = Identity(a0) }>(h, x) }""",
     [dict(x=np.array([f"w{(j * k) % 7}" for j in range(60)], object).reshape(2, 30), h=np.array(["a", "b"], object)) for k in (1, 2)], {}, 19),
    ("four bits that choose", """(uint4[3] x, float[3] y) => (float[m] z) { s = Constant<value_float = 9.0>() f = Cast<to = 1>(x) top = ReduceMax<keepdims = 0>(f) g = Greater(top, s)
 z = If(g) <then_branch = t () => (float[m] a) { a = Neg(y) }, else_branch = f () => (float[m] a) { a = Concat<axis = 0>(y, f) }> }""",
     [dict(x=np.array([k, 2, 3], ml_dtypes.uint4), y=f(3)) for k in (12, 1)], {}, 21),
    ("an optional sequence in iterations", f"""(float[5000] x, float[3] w) => (int64 n) {{ {BY_DATA} o = Optional<type = seq(float[3])>() m = Constant<value_int = 30>()
 q = Loop<body = b (int64 i, bool c, optional(seq(float[3])) s0) => (bool d, optional(seq(float[3])) s1) {{ d = Identity(c) h = OptionalHasElement(s0)
  e = If(h) <then_branch = t () => (seq(float[3]) a) {{ a = OptionalGetElement(s0) }}, else_branch = f () => (seq(float[3]) a) {{ a = SequenceEmpty() }}> g = Less(i, k)
  r = If(g) <then_branch = t () => (seq(float[3]) a) {{ a = SequenceInsert(e, w) }}, else_branch = f () => (seq(float[3]) a) {{ a = Identity(e) }}> s1 = Optional(r) }}>(m, yes, o)
 s = OptionalGetElement(q) n = SequenceLength(s) }}""", [dict(r, w=f(3)) for r in NUMBERS]),
    # ---- functions; graphs that a call passes on see the names of where they are written, not those of the function
    # (which is what the peers do) ----
    ("a function's sequence", local("(float[3] x) => (float[6] y) { s = SequenceConstruct(x, x) y = local.join(s) }", "join (s) => (y) { y = ConcatFromSequence<axis = 0>(s) }"), [dict(x=f(3)), dict(x=f(3) + 1)]),
    ("branches that a call passes on", local("""(float[5000] x, float[5] w) => (float[5] y) { s = Add(w, w) top = ReduceMax<keepdims = 0>(x)
 y = local.choose<yes = t () => (float[5] u) { u = Mul(s, w) }, no = e () => (float[5] v) { v = Neg(s) }>(top) }""",
     "choose <yes, no>(c) => (y) { z = Constant<value_float = 2.0>() s = Greater(c, z) y = If(s) <then_branch : graph = @yes, else_branch : graph = @no> }"), [dict(r, w=f(5)) for r in NUMBERS],
     {k: lambda feed: [2 * feed["w"] ** 2 if feed["x"].max() > 2 else -2 * feed["w"]] for k in range(4)}),
    ("a body that two calls pass on", local("""(float[2] x, float[2] w) => (float[2] y, float[12,2] rows) { a = Neg(w) n = Constant<value_int = 12>()
 y, rows = local.outer<g = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] r) { d = Identity(c) t = Add(s, a) r = Mul(t, w) }>(n, x) }""",
     "outer <g>(a, w) => (y, r) { y, r = local.inner<g : graph = @g>(a, w) }", "inner <g>(w, a) => (y, r) { y, r = Loop<body : graph = @g>(w, , a) }"), [dict(x=f(2), w=f(2) + 5)],
     {0: lambda feed: [feed["x"] - 12 * feed["w"], np.stack([(feed["x"] - k * feed["w"]) * feed["w"] for k in range(1, 13)])]}),
    ("a map that a call passes on", local("""(seq(float[2]) s, float[2] w) => (seq(float[2]) y) { y = local.each<g = b (float[2] e) => (float[2] r) { r = Mul(e, w) }>(s) }""",
     "each <g>(w) => (y) { y = SequenceMap<body : graph = @g>(w) }"), [dict(s=[f(2), f(2) + 1], w=f(2) + 3)], {0: lambda feed: [[e * feed["w"] for e in feed["s"]]]}),
    ("branches that a call passes on to iterations", local("""(float[5000] x, int64 n, float[3] w) => (float y) { v = ReduceSum(w)
 y = local.all<yes = t () => (float[k] u) { u = Identity(v) }, no = e () => (float[k] u) { u = Concat<axis = 0>(v, w) }>(x, n) }""",
     """all <yes, no>(x, n) => (y) { zero = Constant<value_float = 0.0>() e = Constant<value_float = 0.0>()
 y = Loop<body = b (int64 i, bool c, float s0) => (bool d, float s1) { d = Identity(c) v = Gather(x, i) g = Greater(v, zero) p = If(g) <then_branch : graph = @yes, else_branch : graph = @no>
  w = ReduceSum<keepdims = 0>(p) z = Mul(v, w) s1 = Add(s0, z) }>(n, , e) }"""), [dict(r, w=f(3) + 1) for r in MANY],
     {k: lambda feed: [np.where((v := feed["x"][:feed["n"]].astype(np.float64)) > 0, v, 2 * v).sum(dtype=np.float64).astype(F32) * feed["w"].sum()] for k in range(3)}),
]


def same(got, want):
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(same(g, w) for g, w in zip(got, want))
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype.kind == "V":                                          # a type that numpy lacks
        got, want = got.astype(F32), want.astype(F32)
    if got.dtype == object:
        return got.tolist() == want.tolist()
    return got.shape == want.shape and got.dtype == want.dtype and bool(np.allclose(got, want, 1e-5, 1e-6))


def without_shapes(graph):
    """The text form has no tensor of unknown rank."""
    for port in graph.output:
        if port.type.HasField("tensor_type") and not port.type.tensor_type.shape.dim:
            port.type.tensor_type.ClearField("shape")
    for attribute in (a for node in graph.node for a in node.attribute if a.HasField("g")):
        without_shapes(attribute.g)


def peer(model):
    """Types of onnxruntime's own differ from version to version; a scan of nothing fails."""
    def run(feed):
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(),
                                                providers=["CPUExecutionProvider"]).run(None, feed)
        except Exception:
            return ReferenceEvaluator(model).run(None, feed)
    return run


def wrong(device, name, graph, runs, known={}, opset=18):
    """What is wrong, or ''."""
    model = onnx.parser.parse_model(
        graph if graph.startswith("<") else f'<ir_version: 9, opset_import: ["" : {opset}]> g {graph}')
    without_shapes(model.graph)
    expected = peer(model)
    try:
        session = tgrun.InferenceSession(model.SerializeToString(), device=device)
    except tgrun.Error as e:
        return str(e)
    for k, feed in enumerate(runs * 2):
        want = known.get(k % len(runs), expected)(feed)
        try:
            got = session.run(None, feed)
        except tgrun.Error as e:
            return f"run {k}: {e}"
        if not same(got, want):
            return f"run {k}: {got}; wanted {want}"
    return ""


def programs_of(graph, runs):
    """How many programs a session makes for these runs, which numpy agrees with."""
    session = tgrun.InferenceSession(
        onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {graph}').SerializeToString())
    for feed, want in runs:
        assert same(session.run(None, feed)[0], want), feed
    return session.get_stats()["programs"]


x = f(40, 3)
SLIDING = [(dict(x=x, s=np.array([s]), e=np.array([min(s + 4, 40)])), x[s:s + 4]) for s in range(37)]
COUNTED = [(dict(s=np.array(s), e=np.array(s + 17)), np.arange(s, s + 17, 5)) for s in range(-20, 20)]
slices = programs_of("(float[40,3] x, int64[1] s, int64[1] e) => (float y) { y = Slice(x, s, e) }", SLIDING)
counts = programs_of("(int64 s, int64 e) => (int64 y) { d = Constant<value_int = 5>() y = Range(s, e, d) }", COUNTED)
assert slices <= 3 and counts <= 3, f"{slices} programs for slices of one size, {counts} for counts"

chosen = [c for c in CASES if len(sys.argv) < 2 or sys.argv[1] in c[0]]
failed = 0
for device in ("reference", "cpu"):
    for case in chosen:
        said = wrong(device, *case)
        if said:
            print(f"{case[0]} on {device}: {said}")
            failed += 1
print(f"{2 * len(chosen) - failed} of {2 * len(chosen)} models right")
sys.exit(failed > 0)
