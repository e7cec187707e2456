"""Data-dependent sizes, where they meet others: sizes of nothing flow on, those that fit are computed with, and of
those that do not, one line names the node and the sizes (exit 4). A case is a row: its name, the model, its runs, each
the inputs and what the line says where the sizes do not fit, and the version where 18 is too old. To add one: a row."""
import os
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

import program


def f(*values):
    return np.array(values, np.float32)


def only(n, size=6):
    """n of the elements are not 0."""
    return f(*[k + 1.5 if k < n else 0 for k in range(size)][::-1])


def rows(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


FOUND = "a = Constant<value_ints = [0]>() n = NonZero(x) i = Squeeze(n, a) v = Gather(x, i)"
W = f(3, -1, 2)
CASES = [
    ("strings",
     """(int64[1] s, int64[1] e) => (string y) { t = Constant<value_strings = ["a", "b", "c"]>() y = Slice(t, s, e) }""",
     [(dict(s=np.array([s]), e=np.array([e])), "") for s, e in ((5, 9), (1, 3), (3, 3), (2, 1), (-1, 9))]),
    ("slices of nothing",
     "(float[4,3] x, bool[4] c) => (float y, float z, float w) { a = Constant<value_ints = [0]>() k = Compress<axis = 0>(x, c) y = Relu(k) z = ReduceSum<keepdims = 0>(k, a) w = Concat<axis = 0>(k, x) }",
     [(dict(x=rows(4, 3), c=np.array(c, bool)), "") for c in ([0, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1])]),
    ("one slice or none",
     "(float[1,2,3,1] x, bool[1] c) => (float y, float z) { y = Compress<axis = 0>(x, c) k = Compress<axis = 3>(x, c) z = Neg(k) }",
     [(dict(x=rows(1, 2, 3, 1), c=np.array([c])), "") for c in (False, True)]),
    ("elements of nothing, and a product of that",
     "(float[2,3] x, bool[6] c, float[1,5] m) => (float y, float z) { k = Compress(x, c) s = Constant<value_ints = [-1, 1]>() r = Reshape(k, s) y = MatMul(r, m) z = Exp(k) }",
     [(dict(x=rows(2, 3), c=np.array(c, bool), m=rows(1, 5)), "") for c in ([0] * 6, [0, 1, 1, 0, 0, 1])]),
    ("a tensor without elements",
     "(float[0,3] x, bool[2] c) => (float y, int64 n) { k = Compress<axis = 1>(x, c) y = Neg(k) n = NonZero(x) }", [
         (dict(x=rows(0, 3), c=np.array([1, 0], bool)), "")
     ]),
    ("positions of nothing",
     "(float[6] x) => (int64 n, float y, int64 s) { " + FOUND + " y = Softmax(v) s = Shape(v) }", [(dict(x=only(n)), "")
                                                                                                   for n in (0, 1, 4)]),
    ("distinct values of a few", "(int64[5] x) => (int64 y, int64 c) { u, p, q, c = Unique(x) y = Neg(u) }",
     [(dict(x=np.array(v)), "") for v in ([3, 3, 3, 3, 3], [5, 1, 2, 1, 4])]),
    ("no box is left",
     "(float[1,4,4] b, float[1,2,4] s, float[1] t) => (int64 k, float y) { m = Constant<value_ints = [3]>() o = Constant<value_floats = [0.5]>() k = NonMaxSuppression(b, s, m, o, t) g = Cast<to = 1>(k) y = Add(g, g) }",
     [(dict(b=np.tile(f(0, 0, 1, 1), (1, 4, 1)) + np.arange(4, dtype=np.float32)[None, :, None],
            s=np.abs(rows(1, 2, 4)), t=f(t)), "") for t in (9, 0.3, 0)]),
    ("slices that begin and end anywhere",
     "(float[7,5] x, int64[2] s, int64[2] e) => (float y, int64 n) { a = Constant<value_ints = [-1, 0]>() y = Slice(x, s, e, a) n = Shape(y) }",
     [(dict(x=rows(7, 5), s=np.array(s), e=np.array(e)), "")
      for s, e in (([0, 0], [5, 7]), ([1, 2], [3, 6]), ([2, 3], [4, 7]), ([-2, -9], [99, -1]), ([4, 7], [2, 9]),
                   ([9, 1], [9, 2]))]),
    ("ends alone are found",
     "(float[7,5] x, int64[1] e) => (float y) { s = Constant<value_ints = [1]>() y = Slice(x, s, e) }",
     [(dict(x=rows(7, 5), e=np.array([e])), "") for e in (4, 5, 1, 0, -1, -7, 2**62, -2**62)]),
    ("counts from anywhere",
     "(int64 s, int64 e, int32 p, int32 q) => (int64 y, int32 z) { d = Constant<value_int = 3>() y = Range(s, e, d) m = Constant<value = int32 {-2}>() z = Range(p, q, m) }",
     [(dict(s=np.array(s), e=np.array(e), p=np.array(e, np.int32), q=np.array(s, np.int32)), "")
      for s, e in ((0, 9), (1, 10), (-4, 6), (5, 5), (6, 5), (0, 1))]),
    ("a branch that a size chooses, the last step",
     """(float[6] x, float[3] w) => (float y) { FOUND t = Shape(v) three = Constant<value_ints = [3]>() e = Equal(t, three) c = Squeeze(e)
     y = If<then_branch = p () => (float p0) { s = Exp(w) k = ReduceSum(s, a) p0 = Add(w, k) }, else_branch = q () => (float q0) { q0 = Neg(w) }>(c) }"""
     .replace("FOUND", FOUND), [(dict(x=only(n), w=W), "") for n in (3, 2)]),
    ("a fixed size", "(float[6] x, float[3] w) => (float y) { " + FOUND + " [look] y = Add(v, w) }",
     [(dict(x=only(3), w=W), ""), (dict(x=only(1), w=W), ""),
      (dict(x=only(2), w=W), "sizes 2, which depends on data, and 3 do not broadcast"),
      (dict(x=only(0), w=W), "sizes 0, which depends on data, and 3 do not broadcast")]),
    *[(f"ones, as many as there are, and {what}",
       "(float[6] x, float[3] w) => (float y) { " + FOUND + f" s = Shape(v) {text} [look] y = Add(u, w) }}", [
           (dict(x=only(n), w=W), says)
           for n, says in ((3, ""), (1, ""), (2, "sizes 2, which depends on data, and 3 do not broadcast"),
                           (0, "sizes 0, which depends on data, and 3 do not broadcast"))
       ])
      for what, text in (("nothing else", "u = ConstantOfShape<value = float[1] {1}>(s)"),
                         ("a formula", "one = Constant<value_float = 1.0>() t = Expand(one, s) r = Neg(t) u = Exp(r)"))
      ],
    ("one at most", "(float[1] x, float[3] w) => (float y) { " + FOUND + " [look] y = Add(v, w) }",
     [(dict(x=f(2), w=W), ""), (dict(x=f(0), w=W), "sizes 0, which depends on data, and 3 do not broadcast")]),
    ("a fixed size in the middle",
     "(float[2,3] x, bool[5] c, float[4,5,3] t) => (float y) { k = Compress<axis = 1>(t, c) s = Constant<value_ints = [1]>() u = Unsqueeze(x, s) z = Constant<value_ints = [2, 2, 3]>() e = Expand(u, z)"
     " two = Constant<value_ints = [2, 1, 1]>() w = Tile(e, two) [look] y = Mul(k, w) }", [
         (dict(x=rows(2, 3), c=np.array(c, bool), t=rows(4, 5, 3)), says)
         for c, says in (([0, 1, 0, 1, 0], ""), ([0, 1, 0, 0, 0], ""),
                         ([1, 1, 1, 0, 0], "sizes 3, which depends on data, and 2 do not broadcast"))
     ]),
    ("two that depend on data", "(float[6] x, float[5] z) => (float y) { " + FOUND +
     " p = NonZero(z) q = Squeeze(p, a) w = Gather(z, q) [look] y = Sub(v, w) }", [
         (dict(x=only(n), z=only(m, 5)), says)
         for n, m, says in ((4, 4, ""), (1, 5, ""), (6, 1, ""), (0, 1, ""), (1, 0, ""), (0, 0, ""),
                            (3, 2, "do not broadcast"), (0, 2, "do not broadcast"))
     ]),
    ("a choice", "(float[6] x, bool[3] c, float[3] w) => (float y) { " + FOUND + " [look] y = Where(c, v, w) }",
     [(dict(x=only(n), c=np.array([1, 0, 1], bool), w=W), says)
      for n, says in ((3, ""), (1, ""), (5, "sizes 5, which depends on data, and 3 do not broadcast"))]),
    ("a product", "(float[6] x, float[3,4] m) => (float y) { " + FOUND + " [look] y = MatMul(v, m) }",
     [(dict(x=only(3), m=rows(3, 4)), ""), (dict(x=only(1), m=rows(3, 4)), "a data-dependent size is 1; wanted 3"),
      (dict(x=only(4), m=rows(3, 4)), "a data-dependent size is 4; wanted 3")]),
    ("joined to others",
     "(float[6] x, float[2,3] m) => (float y) { " + FOUND + " u = Unsqueeze(v, a) [look] y = Concat<axis = 0>(u, m) }",
     [(dict(x=only(3), m=rows(2, 3)), ""), (dict(x=only(2), m=rows(2, 3)), "a data-dependent size is 2; wanted 3")]),
    ("another shape", "(float[6] x) => (float y) { " + FOUND +
     " s = Constant<value_ints = [2, 2]>() [look] r = Reshape(v, s) y = Transpose(r) }", [
         (dict(x=only(4)), ""), (dict(x=only(5)), "a data-dependent size is 5; wanted 4")
     ]),
    ("pairs", "(float[6] x) => (float y) { " + FOUND +
     " s = Constant<value_ints = [-1, 2]>() [look] r = Reshape(v, s) y = Neg(r) }", [
         (dict(x=only(4)), ""), (dict(x=only(0)), ""), (dict(x=only(5)), "a data-dependent size is 5; wanted 4")
     ]),
    ("the only one", "(float[6] x) => (float y) { " + FOUND + " [look] s = Squeeze(v, a) y = Neg(s) }",
     [(dict(x=only(1)), ""), (dict(x=only(2)), "a data-dependent size is 2; wanted 1")]),
    ("whatever is of size 1 goes",
     "(float[6] x) => (float y, int64 r) { n = NonZero(x) i = Squeeze(n) v = Gather(x, i) y = Neg(v) s = Shape(y) r = Shape(s) }",
     [(dict(x=only(n)), "") for n in (0, 1, 2, 4)]),
    ("spread to a data-dependent size",
     "(float[6] x, float[3,1] w) => (float y) { " + FOUND + " t = Shape(v) [look] e = Expand(w, t) y = Neg(e) }", [
         (dict(x=only(n), w=rows(3, 1)), "") for n in (0, 1, 4)
     ]),
    ("spread, or of that size already",
     "(float[6] x, float[3] w) => (float y) { " + FOUND + " t = Shape(v) [look] e = Expand(w, t) y = Neg(e) }", [
         (dict(x=only(n), w=W), says)
         for n, says in ((3, ""), (1, ""), (2, "sizes 2, which depends on data, and 3 do not broadcast"))
     ]),
    ("the first of them",
     "(float[6] x) => (float y) { " + FOUND + " z = Constant<value_int = 0>() [look] g = Gather(v, z) y = Neg(g) }", [
         (dict(x=only(2)), ""), (dict(x=only(0)), "index 0; the axis has size 0")
     ]),
    ("split", "(float[6] x) => (float y, float z) { " + FOUND +
     " s = Constant<value_ints = [2, 1]>() [look] p, q = Split<axis = 0>(v, s) y = Neg(p) z = Neg(q) }", [
         (dict(x=only(3)), ""), (dict(x=only(4)), "a data-dependent size is 4; wanted 3")
     ]),
    ("placed", "(float[6] x, float[3] w) => (float y) { " + FOUND + " [look] y = ScatterElements(x, i, w) }",
     [(dict(x=only(3), w=W), ""), (dict(x=only(4), w=W), "a data-dependent size is 4; wanted 3")]),
    ("a length for each", "(float[6] x, float[4,6] m, int64[3] t) => (float y) { " + FOUND +
     " c = Gather<axis = 1>(m, i) [look] y = ReverseSequence(c, t) }", [
         (dict(x=only(3), m=rows(4, 6), t=np.array([4, 1, 3])), ""),
         (dict(x=only(2), m=rows(4, 6), t=np.array([4, 1, 3])), "a data-dependent size is 2; wanted 3")
     ]),
    ("a scale for each", "(float[6] x, uint8[2,6] m, float[3] s, uint8[3] z) => (float y) { " + FOUND +
     " c = Gather<axis = 1>(m, i) [look] y = DequantizeLinear(c, s, z) }", [
         (dict(x=only(n), m=np.arange(12, dtype=np.uint8).reshape(2, 6) * 20, s=f(0.5, 2, 1),
               z=np.array([0, 7, 128], np.uint8)), says)
         for n, says in ((3, ""), (4, "a data-dependent size is 4; wanted 3"))
     ], 21),
    ("scales for all that there are", "(float[6] x, float[2,6] m, float[6] s) => (uint8 y) { " + FOUND +
     " c = Gather<axis = 1>(m, i) t = Gather(s, i) y = QuantizeLinear(c, t) }", [
         (dict(x=only(n), m=rows(2, 6), s=f(0.5, 2, 1, 0.1, 0.3, 0.2)), "") for n in (0, 1, 4)
     ], 21),
    ("a scale for each block", "(float[6] x, float[4,6] m, float[2,3] s) => (uint8 y) { " + FOUND +
     " c = Gather<axis = 1>(m, i) [look] y = QuantizeLinear<axis = 0, block_size = 2>(c, s) }", [
         (dict(x=only(n), m=rows(4, 6), s=np.abs(rows(2, 3))), says)
         for n, says in ((3, ""), (1, "a data-dependent size is 1; wanted 3"))
     ], 21),
    ("where it would not fit, another branch",
     """(float[6] x, float[3] w) => (float y) { FOUND t = Shape(v) three = Constant<value_ints = [3]>() e = Equal(t, three) c = Squeeze(e)
     y = If<then_branch = p () => (float p0) { p0 = Add(v, w) }, else_branch = q () => (float q0) { q0 = Neg(w) }>(c) }"""
     .replace("FOUND", FOUND), [(dict(x=only(n), w=W), "") for n in (3, 2, 0)]),
    ("channels of a convolution",
     "(float[1,4,5,5] x, bool[4] c, float[6,3,3,3] w, float[6] b) => (float y) { k = Compress<axis = 1>(x, c) [look] v = Conv<pads = [1, 1, 1, 1]>(k, w, b) y = Relu(v) }",
     [(dict(x=rows(1, 4, 5, 5), c=np.array(c, bool), w=rows(6, 3, 3, 3), b=rows(6)), "")
      for c in ([1, 0, 1, 1], [0, 1, 1, 1])] +
     [(dict(x=rows(1, 4, 5, 5), c=np.array(c, bool), w=rows(6, 3, 3, 3), b=rows(6)), f"{sum(c)} channels")
      for c in ([1, 0, 1, 0], [1, 1, 1, 1])]),
    ("filters of a convolution, one after the other",
     "(float[1,3,5,5] x, bool[6] c, float[6,3,3,3] w) => (float y, int64 s) { k = Compress<axis = 0>(w, c)"
     " v = Conv(x, k) d = Compress<axis = 0>(w, c) u = Conv(x, d) y = Add(u, v) s = Shape(y) }", [
         (dict(x=rows(1, 3, 5, 5), c=np.array(c, bool), w=rows(6, 3, 3, 3)), "")
         for c in ([1, 0, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1])
     ]),
    ("a size requested after a value that is younger",
     "(float[1,4,5,5] x, bool[4] c, float[2,3,3,3] w, float[30] f) => (float y) { k = Compress<axis = 1>(x, c) u = Relu(k) s = ReduceSum<keepdims = 1>(f) l = Cast<to = 7>(s)"
     " z = Expand(s, l)" + "".join(f" t{i + 1} = {'Exp' if i % 2 else 'Neg'}({f't{i}' if i else 'f'})"
                                   for i in range(8)) +
     " q = Conv(u, w) h = ReduceSum<keepdims = 0>(t8) v = Mul(q, h) r = ReduceSum<keepdims = 0>(z) y = Add(v, r) }", [
         (dict(x=rows(1, 4, 5, 5), c=np.array(c, bool), w=rows(2, 3, 3, 3), f=np.full(30, n / 32, np.float32)), "")
         for c, n in (([1, 0, 1, 1], 3), ([0, 1, 1, 1], 7))
     ]),
    ("parameters of a normalisation",
     "(float[2,3,4] x, bool[5] c, float[5] s, float[5] b) => (float y) { p = Compress<axis = 0>(s, c) q = Compress<axis = 0>(b, c) [look] v = InstanceNormalization(x, p, q) y = Neg(v) }",
     [(dict(x=rows(2, 3, 4), c=np.array(c, bool), s=rows(5), b=rows(5)), "")
      for c in ([1, 0, 1, 1, 0], [0, 0, 1, 1, 1])] +
     [(dict(x=rows(2, 3, 4), c=np.array([1, 0, 1, 0, 0], bool), s=rows(5), b=rows(5)), "has 2 values")]),
    ("resized to a size that the most there may be divide",
     "(float[1,1,3,5] x, bool[5] c) => (float y) { k = Compress<axis = 3>(x, c) s = Constant<value_ints = [1, 1, 3, 10]>() e = Constant<value_floats: floats = []>()"
     " v = Resize<mode = \"linear\">(k, e, e, s) y = Neg(v) }", [(dict(x=rows(1, 1, 3, 5), c=np.array(c, bool)), "")
                                                                 for c in ([1, 0, 1, 1, 1], [1, 1, 1, 1, 1],
                                                                           [0, 1, 0, 0, 1])]),
    ("a diagonal",
     "(float[4,4] x, bool[4] c) => (float y) { k = Compress<axis = 0>(x, c) l = Compress<axis = 1>(k, c) v = Einsum<equation = \"ii->i\">(l) y = Neg(v) }",
     [(dict(x=rows(4, 4), c=np.array(c, bool)), "") for c in ([1, 0, 1, 1], [0, 1, 0, 0])]),
    ("a power, of broadcast values",
     "(float[6] x, float[3] w) => (float y) { " + FOUND + " p = Abs(v) [look] y = Pow(p, w) }", [
         (dict(x=only(3), w=W), ""), (dict(x=only(1), w=W), ""),
         (dict(x=only(2), w=W), "sizes 2, which depends on data, and 3 do not broadcast")
     ]),
    ("regions put where they were found, of which there may be none",
     "(float[1,16,9,9] x, bool[8] c, float[8,4] r, float[200,200] big, float[8,16,7,7] base) => (float y) { e = MatMul(big, big) f = MatMul(e, big) "
     "s = ReduceSum<keepdims = 0>(f) "
     "none = Constant<value_float = 0.0>() nothing = Mul(s, none) "
     "later = Add(r, nothing) k = Compress<axis = 0>(later, c) n = NonZero(c) first = Constant<value_ints = [0]>() at = Squeeze(n, first) zero = Sub(at, at) "
     "parts = RoiAlign<output_height = 7, output_width = 7, sampling_ratio = 2>(x, k, zero) ones = Constant<value_ints = [-1, 1, 1, 1]>() column = Reshape(at, ones) shape = Shape(parts) places = Expand(column, shape) "
     "y = ScatterElements<axis = 0>(base, places, parts) }", [
         (dict(x=rows(1, 16, 9, 9), c=np.arange(8) % step == 1, r=np.tile(np.array([[0, 1, 7, 5]], np.float32), (8, 1)),
               big=rows(200, 200), base=rows(8, 16, 7, 7)), "") for step in (1, 3, 1, 2)
     ]),
    ("a cache that may get no row, one by one and from a table",
     "(float[1,4,2] x, float[5,2] t, int64[1,3] i, bool[3] c) => (float y, float z) { k = Compress<axis = 1>(i, c) u = Gather(t, k) y = TensorScatter<axis = 1>(x, u) "
     "zero = Constant<value_ints = [0]>() three = Constant<value_ints = [3]>() first = Slice(t, zero, three, zero) r = Unsqueeze(first, zero) v = Compress<axis = 1>(r, c) z = TensorScatter<axis = 1>(x, v) }",
     [(dict(x=rows(1, 4, 2), t=rows(5, 2), i=np.array([[4, 3, 2]]), c=np.array(c, bool)), "")
      for c in ([1, 0, 1], [0, 0, 0], [0, 1, 0])], 24),
    ("heads of values, as many as of keys",
     "(float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v, bool[2] c) => (float y) { p = Compress<axis = 1>(v, c) y = ai.onnx.preview.FlexAttention(q, k, p) }",
     [(dict(q=rows(1, 2, 3, 4), k=rows(1, 2, 5, 4), v=rows(1, 2, 5, 4) + 1, c=np.array([1, 1], bool)), "")]),
    ("resized to one size, whatever it was",
     "(float[1,1,4,4] x, bool[4] c) => (float y) { k = Compress<axis = 2>(x, c) s = Constant<value_ints = [1, 1, 8, 8]>() y = Resize(k, , , s) }",
     [(dict(x=rows(1, 1, 4, 4), c=np.arange(4) < n), "") for n in (4, 2, 1)]),
    ("the largest of what may be nothing",
     "(float[3,4] x, bool[4] c) => (int64 y) { k = Compress<axis = 1>(x, c) [look] y = ArgMax<axis = 1>(k) }", [
         (dict(x=rows(3, 4), c=np.arange(4) < n), "" if n else "index 0; the axis has size 0") for n in (4, 1, 0)
     ]),
    ("the two values of a one hot",
     "(int64[3] x, float[2] v, bool[2] c) => (float y) { d = Constant<value_int = 4>() k = Compress<axis = 0>(v, c) y = OneHot(x, d, k) }",
     [(dict(x=np.array([0, 3, 1]), v=W[:2], c=np.array([1, 1], bool)), "")]),
    ("one step or none",
     "(float[1,2,2] x, bool[1] c, float[1,3,2] w, float[1,3,3] r) => (float y, float h) { k = Compress<axis = 0>(x, c) y, h = RNN<hidden_size = 3>(k, w, r) }",
     [(dict(x=rows(1, 2, 2), c=np.array([c]), w=rows(1, 3, 2), r=rows(1, 3, 3)), "") for c in [True]]),
    ("regions of the pictures found, of fixed samples",
     "(float[3,2,8,8] x, bool[3] c, float[2,4] r, int64[2] i) => (float y) { k = Compress<axis = 0>(x, c) y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 3>(k, r, i) }",
     [(dict(x=rows(3, 2, 8, 8), c=np.array(c, bool), r=np.array([[0, 1, 7, 5], [2, 0, 5, 7]], np.float32),
            i=np.array([0, 1])), "") for c in ([1, 0, 1], [1, 1, 1])]),
    ("distinct rows of those found",
     "(float[6,2] x, bool[6] c) => (float y, int64 i) { k = Compress<axis = 0>(x, c) u, f, i, n = Unique<axis = 0>(k) y = Neg(u) }",
     [(dict(x=np.repeat(rows(3, 2), 2, 0), c=np.array(c, bool)), "")
      for c in ([1, 1, 0, 1, 0, 1], [0, 0, 1, 1, 0, 0])]),
]
CASES += [
    ("a shape that an input says", "(float[6] x, int64[2] s) => (float y) { [look] r = Reshape(x, s) y = Neg(r) }",
     [(dict(x=only(6), s=np.array(s)), says) for s, says in (([2, 3], ""), ([-1, 2], ""), ([4, 2], "6 elements"), ([-1, 5], "6 elements"))]),
    ("a place that an input says", "(seq(float[2]) q, int64 k) => (float y) { [look] a = SequenceAt(q, k) y = Neg(a) }",
     [(dict(q=[W[:2], W[1:] * 2], k=np.array(k)), says) for k, says in ((1, ""), (-2, ""), (2, "index 2; the axis has size 2"), (-3, "index -3; the axis has size 2"))]),
    ("in the body of a loop", "(float[6] x, float[3] w) => (float y) { " + FOUND + " t = Constant<value = bool {1}>() m = Constant<value_int = 2>() s = Shape(v) one = Constant<value_float = 1.0>() r = Expand(one, s) "
     "y = Loop<body = b (int64 j, bool g, float u) => (bool g, float h) { [look] h = Add(u, w) }>(m, t, r) }", [(dict(x=only(n), w=W), says) for n, says in ((3, ""), (2, "sizes 2"), (4, "sizes 4"))]),
]
DEVICES = ["cpu", "reference"] + (["cuda"] if os.environ.get("CUDA_EMULATOR") and shutil.which("g++") else [])


def expected(model, inputs):
    return ReferenceEvaluator(model).run(None, inputs)


def same(folder, model, want):
    got = [np.load(folder / "out" / f"{o.name}.npy") for o in model.graph.output]
    return all(g.shape == w.shape and (g.tolist() == w.tolist() if g.dtype.kind ==
                                       "U" else g.dtype == w.dtype and np.allclose(g, w, rtol=1e-5, atol=1e-6))
               for g, w in zip(got, want))


def check(what, path, folder, model, inputs, says):
    """How many of the devices do something else than they should."""
    wrong, want = 0, None if says else expected(model, inputs)
    for device in DEVICES:
        shutil.rmtree(folder / "out", ignore_errors=True)
        code, _, line = program.run(path, folder, inputs, device, "--runs", "1", "-q")
        right = code == 4 and says in line and "\n" not in line and line.startswith(
            f"tgrun: {path}: node 'look'") if says else code == 0 and same(folder, model, want)
        if not right:
            print(f"{what} on {device}: exit {code} {line}; wanted {says or 'the result'}")
            wrong += 1
    return wrong


def main():
    wrong = count = 0
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        for k, (what, text, runs, *opset) in enumerate(program.todays(CASES)):
            model = onnx.parser.parse_model(
                f'<ir_version: 10, opset_import: ["" : {opset[0] if opset else 18}, "ai.onnx.preview" : 1]> g ' + text)
            path = folder / f"case{k}.onnx"
            path.write_bytes(model.SerializeToString())
            for j, (inputs, says) in enumerate(runs):
                wrong += check(f"{what}, run {j}", path, folder, model, inputs, says)
                count += len(DEVICES)
    print(f"{count - wrong} of {count} runs right")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
