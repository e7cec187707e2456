"""Small graphs for test_hostile.py, of what the standard's tests and those of test_against_ort.py have little:
branches, optionals, gradients. The last node is the one that is changed; its case has the operator's name and a number.
To add one: a row, the graph as onnx.parser takes it, and its inputs."""
import numpy as np
import onnx.parser

import hostile


def f(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


YES, X, W, WORDS = np.array(True), f(2, 3), f(3), np.array(["b", "", "a"], object)
HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]> g '
CASES = [
    # branches that see what is around them
    ("(bool c, float[2,3] x, float[3] w) => (float y, float z) { s = Abs(x) y, z = If<then_branch = t () => (float t0, float t1) { t0 = Add(s, w) t1 = Softmax<axis = 0>(x) }, "
     "else_branch = e () => (float e0, float e1) { e0 = Relu(x) e1 = ReduceSum(s) }>(c) }", dict(c=YES, x=X, w=W)),
    ("(float[2,3] x, float[3] w) => (float y) { s = ReduceSum<keepdims = 0>(x) zero = Constant<value_float = 0.0>() c = Less(s, zero) y = If<then_branch = t () => (float t0) { t0 = Mul(x, w) }, "
     "else_branch = e () => (float e0) { e0 = Transpose<perm = [1, 0]>(x) }>(c) }", dict(x=X, w=W)),
    ("(bool c, string[3] x, int64[2] k) => (string y) { y = If<then_branch = t () => (string t0) { t0 = Gather<axis = 0>(x, k) }, else_branch = e () => (string e0) { e0 = StringConcat(x, x) }>(c) }",
     dict(c=YES, x=WORDS, k=np.array([2, 0]))),
    ("(bool c, float[2,3] x, float[3] w) => (seq(float) y) { y = If<then_branch = t () => (seq(float) t0) { t0 = SequenceConstruct(x, w) }, else_branch = e () => (seq(float) e0) "
     "{ s = SequenceEmpty() e0 = SequenceInsert(s, w) }>(c) }", dict(c=YES, x=X, w=W)),
    ("(bool c, float[2,3] x, int64 n) => (float y) { y = If<then_branch = t () => (float t0) { one = Constant<value = bool {1}>() t0 = Loop<body = b (int64 i, bool g, float s) => (bool h, float r) "
     "{ five = Constant<value_int = 5>() h = Less(i, five) r = Add(s, x) }>(n, one, x) }, "
     "else_branch = e () => (float e0) { e0 = If<then_branch = p () => (float p0) { p0 = Neg(x) }, else_branch = q () => (float q0) { q0 = Exp(x) }>(c) }>(c) }",
     dict(c=YES, x=X, n=np.array(3))),
    ("(optional(float[2,3]) o, float[2,3] x) => (float y) { c = OptionalHasElement(o) y = If<then_branch = t () => (float t0) { t0 = OptionalGetElement(o) }, "
     "else_branch = e () => (float e0) { e0 = Neg(x) }>(c) }", dict(o=X, x=X)),
    # loops over branches and sequences
    ("(int64 n, bool c, float[2,3] x) => (float y, float z) { y, z = Loop<body = b (int64 i, bool g, float s) => (bool h, float r, float v) { h = Identity(g) two = Constant<value_int = 2>() o = Mod(i, two) "
     "d = Cast<to = 9>(o) r = If<then_branch = p () => (float p0) { p0 = Add(s, x) }, else_branch = q () => (float q0) { q0 = Mul(s, x) }>(d) v = ReduceSum<keepdims = 0>(r) }>(n, c, x) }",
     dict(n=np.array(5), c=YES, x=X)),
    ("(int64 n, bool c, seq(float[2,3]) q, float[2,3] x) => (seq(float) y) { y = Loop<body = b (int64 i, bool g, seq(float) s) => (bool h, seq(float) r) { h = Identity(g) a = SequenceAt(s, i) d = Add(a, x) "
     "r = SequenceInsert(s, d) }>(n, c, q) }", dict(n=np.array(3), c=YES, q=[X, X + 1], x=X)),
    # optionals
    ("(float[2,3] x) => (float y) { o = Optional(x) y = OptionalGetElement(o) }", dict(x=X)),
    ("(optional(seq(float[2,3])) o, int64 k) => (float y) { s = OptionalGetElement(o) y = SequenceAt(s, k) }",
     dict(o=[X, X + 1], k=np.array(-1))),
    ("(optional(float[2,3]) o) => (bool y) { y = OptionalHasElement(o) }", dict(o=X)),
    ("(seq(float[2,3]) s) => (optional(seq(float)) y) { y = Optional(s) }", dict(s=[X])),
    # gradients, and what is made of them
    ('(float[2,3] a, float[3] b) => (float da, float db) { c = Mul(a, b) y = ReduceSum<keepdims = 0>(c) da, db = ai.onnx.preview.training.Gradient<xs = ["a", "b"], y = "y">(a, b) }',
     dict(a=X, b=W)),
    ('(float[1,2,5,5] x, float[3,2,3,3] w) => (float d) { c = Conv<pads = [1, 1, 1, 1]>(x, w) r = Relu(c) y = ReduceMean<keepdims = 0>(r) '
     'd = ai.onnx.preview.training.Gradient<xs = ["w"], zs = ["x"], y = "y">(w, x) }',
     dict(x=f(1, 2, 5, 5), w=f(3, 2, 3, 3))),
    ('(float[3,4] w, int64[2] k) => (float d) { e = Gather<axis = 0>(w, k) p = Softmax(e) l = Log(p) y = ReduceSum<keepdims = 0>(l) d = ai.onnx.preview.training.Gradient<xs = ["w"], zs = ["k"], y = "y">(w, k) }',
     dict(w=f(3, 4), k=np.array([2, 0]))),
    ('(float r, int64 t, float[3] w, float[3] m) => (float v, float n) { q = Mul(w, w) y = ReduceSum<keepdims = 0>(q) g = ai.onnx.preview.training.Gradient<xs = ["w"], y = "y">(w) '
     'v, n = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.5, mode = "standard", norm_coefficient = 0.01>(r, t, w, g, m) }',
     dict(r=np.array(0.1, np.float32), t=np.array(1), w=W, m=W)),
    ('(float r, int64 t, float[2,3] w, float[3] x, float[2,3] dw, float[3] dx, float[2,3] hw, float[3] hx) => (float a, float b, float c, float d) '
     '{ a, b, c, d = ai.onnx.preview.training.Adagrad<decay_factor = 0.1, epsilon = 0.001, norm_coefficient = 0.01>(r, t, w, x, dw, dx, hw, hx) }',
     dict(r=np.array(0.1, np.float32), t=np.array(3), w=X, x=W, dw=X, dx=W, hw=X * X, hx=W * W)),
    ('(float r, int64 t, double[3] w, double[3] g, double[3] v, double[3] h) => (double a, double b, double c) { a, b, c = ai.onnx.preview.training.Adam<norm_coefficient_post = 0.5>(r, t, w, g, v, h) }',
     dict(r=np.array(0.1, np.float32), t=np.array(0), w=W.astype(np.float64), g=W.astype(np.float64),
          v=W.astype(np.float64), h=(W * W).astype(np.float64))),
]


def models():
    """(operator, model, inputs)."""
    for text, feed in CASES:
        model = onnx.parser.parse_model(HEAD + text)
        yield hostile.tried(model).op_type, model, feed
