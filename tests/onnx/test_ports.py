"""Sequences, optionals and maps as inputs and outputs of models, which the standard's own tests have in their simplest
forms: ragged and empty sequences, absent optionals, sequences that a loop makes longer, branches in branches, and
values that do not fit. To add one: a row; names of sequences start with s, of optionals with o.
"""
import pathlib
import sys
import tempfile

import numpy as np
import onnx.parser

import program


def f(*shape): return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 2
def pairs(*shape): return (f(*shape) + 1j * f(*shape) ** 2).astype(np.complex64)


def complex_states(x, h):
    """The states of COMPLEX_SCAN, first to last: slices come from the end."""
    states = [h]
    for k in range(x.shape[1])[::-1]:
        states.append(np.array([states[-1][1], x[0, k]]))
    return states


WORDS = [np.array(["a", "bc"], object), np.array(["d"], object)]
SEQ = "seq(float[n, 3]) sx"
GROW = """(int64 iterations, seq(float[n]) sx, float[n] row) => (seq(float[n]) sy, int64 length) {
    sy = Loop(iterations, , sx) <body = b (int64 i, bool go, seq(float[n]) s) => (bool on, seq(float[n]) t) {
        on = Identity(go) k = Cast<to = 1>(i) more = Mul(row, k) t = SequenceInsert(s, more) }>
    length = SequenceLength(sy) }"""
NESTED = """(bool a, bool b, float[n] x) => (seq(float[n]) sy) {
    sy = If(a) <then_branch = t () => (seq(float[n]) u) {
                    u = If(b) <then_branch = tt () => (seq(float[n]) v) { v = SequenceConstruct(x, x, x) }, else_branch = te () => (seq(float[n]) w) { w = SequenceConstruct(x) }> },
                else_branch = e () => (seq(float[n]) z) { z = SequenceEmpty<dtype = 1>() }> }"""
BY_DATA = """(float[40] x) => (seq(float[40]) sy) <float least = {0}> {
    all = ReduceSum<keepdims = 0>(x) p = Greater(all, least) n = Neg(x)
    sy = If(p) <then_branch = t () => (seq(float[40]) u) { u = SequenceConstruct(x, n) }, else_branch = e () => (seq(float[40]) w) { w = SequenceConstruct(%s) }> }"""
GIVEN = """(optional(float[n]) ox, float[n] y) => (float[n] z, bool has, optional(float[n]) oy) {
    oy = Identity(ox) has = OptionalHasElement(ox)
    z = If(has) <then_branch = t () => (float[n] u) { e = OptionalGetElement(ox) u = Add(e, y) }, else_branch = e () => (float[n] w) { w = Identity(y) }> }"""
OPTIONAL_SEQ = "(optional(seq(float[n])) ox) => (bool has, optional(seq(float[n])) oy) { has = OptionalHasElement(ox) oy = Identity(ox) }"
SCAN = """(seq(float[n]) sx, float[4, 2] x, float[2] h) => (float[2] last, float[4, 2] rows) <int64 at = {1}> {
    last, rows = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] r) => (float[2] c, float[2] d) { e = SequenceAt(sx, at) s = Add(a, r) c = Add(s, e) d = Identity(c) }>(h, x) }"""
RAGGED = f"({SEQ}) => (float[m, 3] all, int64 length, float[k, 3] last, {SEQ.replace('sx', 'sy')}) <int64 end = {{-1}}> {{ all = ConcatFromSequence<axis = 0>(sx) length = SequenceLength(sx) last = SequenceAt(sx, end) sy = Identity(sx) }}"
TEXT = '(seq(string[n]) sx, string[n] w) => (seq(string[n]) sy, seq(string[n]) st, string[m] all) { sy = SequenceInsert(sx, w) st = SplitToSequence(w) all = ConcatFromSequence<axis = 0>(sy) }'
DICT = '(map(string, float) m) => (float[1, c] y) { y = ai.onnx.ml.DictVectorizer<string_vocabulary = ["b", "a", "none"]>(m) }'
DICT_INT = "(map(int64, int64) m) => (int64[1, c] y) { y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [7, -3]>(m) }"
DICT_TEXT = '(map(int64, string) m) => (string[1, c] y) { y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [7, 5, -3]>(m) }'
MAPS = '(seq(map(int64, float)) sx, int64 i) => (seq(map(int64, float)) sy, float[1, c] y, int64 n) { sy = Identity(sx) n = SequenceLength(sx) m = SequenceAt(sx, i) y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [7, -3]>(m) }'
CAST = '(map(int64, %s) m) => (%s[1, c] y) { y = ai.onnx.ml.CastMap<%s>(m) }'

PAIR = "one = Constant<value_ints = [1]>() two = Constant<value_ints = [2]>() three = Constant<value_ints = [3]>()"
COMPLEX_SCAN = """(complex64[2,T] x, complex64[2] h) => (complex64[2] last, complex64[2,T] rows, complex64[T,2] back) { last, rows, back = Scan<num_scan_inputs = 1, scan_input_axes = [-1],
    scan_input_directions = [1], scan_output_axes = [-1, 0], scan_output_directions = [0, 1], body = b (complex64[2] a, complex64[2] r) => (complex64[2] c, complex64[2] d, complex64[2] e) {
    %s p = Concat<axis = 0>(a, r) c = Slice(p, one, three) d = Identity(r) e = Identity(a) }>(h, x) }""" % PAIR
COMPLEX_LOOP = """(int64 n, complex64[2] x) => (complex64[2] y, complex64[k,2] rows) { y, rows = Loop(n, , x) <body = b (int64 i, bool go, complex64[2] s) => (bool on, complex64[2] t, complex64[2] r) {
    on = Identity(go) %s p = Concat<axis = 0>(s, s) t = Slice(p, one, three) r = Identity(s) }> }""" % PAIR
MANY = """(int64 n, float[1] x) => (int64 length, int64 last, float[m] y) <int64 end = {-1}> { e = SequenceEmpty<dtype = 7>() s, y = Loop(n, , e, x) <
    body = b (int64 i, bool go, seq(int64) q, float[p] s0) => (bool on, seq(int64) q1, float[r] s1) {
    on = Identity(go) q1 = SequenceInsert(q, i) k = Constant<value_int = 2000>() m = Mod(i, k) f = Cast<to = 9>(m)
    s1 = If(f) <then_branch = a () => (float[u] u) { u = Identity(s0) }, else_branch = c () => (float[v] v) { v = Concat<axis = 0>(s0, x) }> }> length = SequenceLength(s) last = SequenceAt(s, end) }"""
UNTIL = """(float[30] q, float stop, int64 most) => (int64 length, float last) { t = Constant<value = bool {1}>() e = SequenceEmpty<dtype = 7>() z = Constant<value_float = 0.0>() s, last = Loop(most, t, e, z) <
    body = b (int64 i, bool go, seq(int64) q0, float a0) => (bool on, seq(int64) q1, float a1) { seven = Constant<value_int = 7>() at = Mod(i, seven) v = Gather(q, at) a1 = Add(a0, v) on = Less(a1, stop)
    q1 = SequenceInsert(q0, i) }> length = SequenceLength(s) }"""
F32, DEVICES = np.float32, ("reference", "cpu", "cuda")
GOOD = [
    # what, graph, inputs, outputs by name
    ("ragged", RAGGED, dict(sx=[f(1, 3), f(4, 3), f(0, 3)]),
     dict(all=np.concatenate([f(1, 3), f(4, 3)]), length=3, last=f(0, 3), sy=[f(1, 3), f(4, 3),
                                                                              f(0, 3)])),
    ("another length", RAGGED, dict(sx=[f(2, 3)]), dict(all=f(2, 3), length=1, last=f(2, 3), sy=[f(2, 3)])),
    ("empty",
     f"({SEQ}) => (int64 length, {SEQ.replace('sx', 'sy')}) {{ length = SequenceLength(sx) sy = Identity(sx) }}",
     dict(sx=[]), dict(length=0, sy=[])),
    ("strings", TEXT, dict(sx=WORDS[:1], w=np.array(["d", "e"])),
     dict(sy=[WORDS[0], np.array(["d", "e"])], st=[["d"], ["e"]], all=["a", "bc", "d", "e"])),
    *[(f"{k} iterations", GROW, dict(iterations=np.array(k), sx=[f(2)] * (k % 2), row=f(2)),
       dict(sy=[f(2)] * (k % 2) + [f(2) * i for i in range(k)], length=k + k % 2)) for k in (0, 3, 40)],
    *[(f"branch {a}{b}", NESTED, dict(a=np.array(a), b=np.array(b),
                                      x=f(3)), dict(sy=[f(3)] * (0 if not a else 3 if b else 1))) for a in (False, True)
      for b in (False, True)],
    *[("branch by data", BY_DATA % "n, x", dict(x=s * np.ones(40, F32)), dict(sy=[np.ones(40, F32), -np.ones(40, F32)]))
      for s in (-1, 1)],
    *[("lengths by data", BY_DATA % "x", dict(x=s * np.ones(40, F32)),
       dict(sy=[s * np.ones(40, F32), -np.ones(40, F32)][:1 + (s > 0)])) for s in (-1, 1)],
    *[(f"maps with {what} keys", MAPS, dict(sx=m, i=np.array(i)), dict(sy=m, y=[[m[i].get(7, 0), m[i].get(
        -3, 0)]], n=2)) for i in (0, 1) for what, m in (("equal", [{7: F32(2), -3: F32(1)}, {7: F32(3), -3: F32(4)}]),
                                                        ("other", [{7: F32(2)}, {1: F32(3), -3: F32(4), 5: F32(6)}]))],
    ("present", GIVEN, dict(ox=(f(4), ), y=f(4)), dict(z=2 * f(4), has=True, oy=(f(4), ))),
    ("present, as an array", GIVEN, dict(ox=f(4), y=f(4)), dict(z=2 * f(4), has=True, oy=(f(4), ))),
    ("absent", GIVEN, dict(ox=(), y=f(4)), dict(z=f(4), has=False, oy=())),
    ("optional sequence", OPTIONAL_SEQ, dict(ox=([f(2), f(3)], )), dict(has=True, oy=([f(2), f(3)], ))),
    ("optional sequence that is empty", OPTIONAL_SEQ, dict(ox=([], )), dict(has=True, oy=([], ))),
    ("no optional sequence", OPTIONAL_SEQ, dict(ox=()), dict(has=False, oy=())),
    ("in Scan", SCAN, dict(sx=[f(3), f(2)], x=f(4, 2),
                           h=f(2)), dict(last=f(2) + f(4, 2).sum(0) + 4 * f(2),
                                         rows=f(2) + np.cumsum(f(4, 2) + f(2), 0))),
    *[(f"until data end it, at most {most} iterations", UNTIL,
       dict(q=np.ones(30, F32), stop=np.array(2000, F32), most=np.array(most)), dict(length=n, last=n))
      for most, n in ((5000, 2000), (1500, 1500), (5, 5), (0, 0))],
    ("thousands of iterations, one by one", MANY, dict(n=np.array(5000),
                                                       x=f(1)), dict(length=5000, last=4999, y=np.full(4, -2, F32))),
    *[(f"complex numbers, {t} iterations of a scan", COMPLEX_SCAN.replace("T", str(t)), dict(
        x=pairs(2, t), h=-pairs(2)),
       dict(last=complex_states(pairs(2, t), -pairs(2))[-1], rows=pairs(2, t)[:, ::-1], back=np.array(
           complex_states(pairs(2, t), -pairs(2))[:-1])[::-1])) for t in (3, 30)],
    *[(f"complex numbers, {n} iterations of a loop", COMPLEX_LOOP, dict(n=np.array(n), x=pairs(2)),
       dict(y=np.roll(pairs(2), n), rows=np.array([np.roll(pairs(2), k) for k in range(n)]).reshape(n, 2)))
      for n in (0, 3, 40)],
    ("a size by data that can only be 0",
     "(float[1, 1, 4] x, float[1, 1, 1] c) => (int64[1, 1] y) <int64[1] most = {0}, float[1] t = {0.7}, int64[2] a = {1, 0}> { z = NonMaxSuppression(x, c, most, t) y = ReduceSumSquare(z, a) }",
     dict(x=np.ones((1, 1, 4), F32), c=np.ones((1, 1, 1), F32)), dict(y=[[0]])),
    ("words", DICT, dict(m={"a": F32(1.5), "b": F32(2), "other": F32(9)}), dict(y=[[2, 1.5, 0]])),
    ("numbers", DICT_INT, dict(m={-3: 5, 7: 2**60}), dict(y=[[2**60, 5]])),
    ("numbers of words", DICT_TEXT, dict(m={-3: "x", 7: "y"}), dict(y=[["y", "", "x"]])),
    ("dense", CAST % ("float", "float", 'cast_to = "TO_FLOAT"'), dict(m={5: F32(1), -2: F32(2), 3: F32(3)}),
     dict(y=[[2, 3, 1]])),
    ("sparse", CAST % ("float", "int64", 'cast_to = "TO_INT64", map_form = "SPARSE", max_map = 4'),
     dict(m={3: F32(7.5), 1: F32(-2)}), dict(y=[[0, -2, 0, 7]])),
    ("words as numbers", CAST % ("string", "float", 'cast_to = "TO_FLOAT"'), dict(m={1: "2.5", 0: "1"}),
     dict(y=[[1, 2.5]])),
]
BAD = [
    # what, graph, inputs, exit code, said
    ("a tensor for a sequence", RAGGED, dict(sx=f(1, 3)), 4, "sx.npy: holds f32; seq is wanted"),
    ("an element's type", RAGGED, dict(sx=[f(1, 3).astype(np.int64)]), 4, "input 'sx'[0] is i64; f32 is wanted"),
    ("an element's rank", RAGGED, dict(sx=[f(1, 3), f(3)]), 4, "input 'sx'[1] has 1 dimensions; 2 are wanted"),
    ("an element's size", RAGGED, dict(sx=[f(1, 3), f(2, 4)]), 4, "input 'sx'[1]: axis 1 is 4; 3 is wanted"),
    ("an optional's type", GIVEN, dict(ox=(f(3).astype(np.float64),), y=f(3)), 4, "input 'ox'[0] is f64; f32 is wanted"),
    ("a sequence for an optional tensor", GIVEN, dict(ox=([f(3)],), y=f(3)), 4, "input 'ox'[0] is seq; f32 is wanted"),
    ("nothing given", RAGGED, {}, 4, "input 'sx' is seq, which only a file can give"),
    ("a map's keys", DICT, dict(m={1: F32(1)}), 4, "input 'm' is i64; string is wanted"),
    ("the end of an empty sequence", RAGGED, dict(sx=[]), 3, "node 'all' (ConcatFromSequence): sx: is empty"),
    ("an absent element", "(optional(float[n]) ox) => (float[n] y) { y = OptionalGetElement(ox) }", dict(ox=()), 4, "node 'y' (OptionalGetElement): ox: the optional is empty"),
    ("a sequence declared as a tensor", "(float[n] x) => (float[n] y) { y = SequenceConstruct(x) }", dict(x=f(2)), 3, "output 'y' is declared as a tensor; it is a sequence"),
    ("a tensor declared as a sequence", "(float[n] x) => (seq(float[n]) sy) { sy = Identity(x) }", dict(x=f(2)), 3, "output 'sy' is declared as a sequence; it is a tensor"),
    ("a map's place", CAST % ("float", "float", 'map_form = "SPARSE", max_map = 4'), dict(m={4: F32(1)}), 4, "index 4; the axis has size 4"),
    ("a map's keys in a sequence", MAPS, dict(sx=[{"a": F32(2)}], i=np.array(0)), 4, "input 'sx' is string; i64 is wanted"),
]


def same(got, want):
    if isinstance(want, (tuple, list)) and isinstance(got, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(same(g, w) for g, w in zip(got, want))
    if isinstance(want, (tuple, list)) and isinstance(got, np.ndarray):
        want = np.array(want)
    got, want = np.asarray(got), np.asarray(want)
    return got.shape == want.shape and bool(np.all(got == want))


def write(folder, graph):
    path = folder / "model.onnx"
    path.write_bytes(
        onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 1]> g {graph}').SerializeToString())
    return path


wrong = 0
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for device in DEVICES:
        for what, graph, inputs, want in GOOD:
            code, _, said = program.run(write(folder, graph), folder, inputs, device, "--runs", "2", "-q")
            got = {} if code else {k: program.load(folder / "out" / k) for k in want}
            if code or not all(same(got[k], want[k]) for k in want):
                print(f"{what} on {device}: {said if code else (got, want)}")
                wrong += 1
    for what, graph, inputs, status, say in BAD:
        code, _, said = program.run(write(folder, graph), folder, inputs, "reference", "--runs", "1", "-q")
        if code != status or say not in said or "\n" in said:
            print(f"{what}: exit {code}, '{said}'; wanted {status}, '{say}'")
            wrong += 1
total = len(DEVICES) * len(GOOD) + len(BAD)
print(f"{total - wrong} of {total} cases are right")
sys.exit(wrong > 0)
