"""Operators where nobody else can judge: versions that onnxruntime no longer takes, what it has otherwise than the
standard's text, and random ones, which are looked at as a whole. What a case expects is written here in numpy. A case
is a row: operator, domain, opset, inputs, attributes, expected outputs. To add one: a row."""
import json
import math
import pathlib
import shutil
import sys
import tempfile

import ml_dtypes
import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import cases
import program

rng = np.random.default_rng(11)
ML, MS = "ai.onnx.ml", "com.microsoft"


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model(op, domain, opset, inputs, attrs, types):
    names = ["" if v is None else f"x{k}" for k, v in enumerate(inputs)]
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names, inputs) if v is not None
    ]
    node = helper.make_node(op, names, [f"y{k}" for k in range(len(types))], name="n", domain=domain)
    node.attribute.extend(
        helper.make_attribute(k, v, attr_type=AttributeProto.INTS if v == [] else None) for k, v in attrs.items())
    opsets = [helper.make_opsetid("", 17 if domain else opset)
              ] + ([helper.make_opsetid(domain, opset)] if domain else [])
    m = helper.make_model(
        helper.make_graph([node], "g", ports,
                          [helper.make_tensor_value_info(f"y{k}", t, None) for k, t in enumerate(types)]),
        opset_imports=opsets)
    m.ir_version = 8
    return m


def pairs(z):
    return np.stack([z.real, z.imag], -1).astype(np.float32)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def flat_softmax(x, axis):
    return softmax(x.reshape(math.prod(x.shape[:axis]), -1)).reshape(x.shape)


def batch_norm(x, scale, bias, mean, var, momentum, epsilon=1e-5):
    """In training: y, the running statistics, those of the batch: of channels, or of each element of a sample."""
    axes, per = ((0, 2, 3), lambda v: v.reshape(1, -1, 1, 1)) if scale.ndim == 1 else (0, lambda v: v)
    m, v = x.mean(axis=axes), x.var(axis=axes)
    y = per(scale) * (x - per(m)) / np.sqrt(per(v) + epsilon) + per(bias)
    return [y, mean * momentum + m * (1 - momentum), var * momentum + v * (1 - momentum), m, v]


def cubic(x):
    """The last axis twice as long: every element, and between two the mean of four by Keys' kernel of a = -0.5."""
    wide = np.pad(x, ((0, 0),) * 3 + ((1, 2),), mode="edge")
    between = (-wide[..., :-3] + 9 * wide[..., 1:-2] + 9 * wide[..., 2:-1] - wide[..., 3:]) / 16
    return np.stack([x, between], -1).reshape(*x.shape[:-1], -1)


def recurrence(x, w, r, b):
    h, rows = np.zeros((x.shape[1], r.shape[2]), np.float32), []
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T + b[0, :3] + b[0, 3:])
        rows.append(h)
    return [np.stack(rows)[:, None], h[None]]


def tensor(v, dtype):
    return helper.make_tensor("t", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [len(v)], v)


x, y, z = f(2, 3, 4), f(3, 4), f(2, 3, 4, 5)
one = f(3)
w, r, b, steps = f(1, 3, 5), f(1, 3, 3), f(1, 6), f(4, 2, 5)
stats = [z, f(3), f(3), f(3), abs(f(3))]
own_stats = [z, *f(3, 3, 4, 5), abs(f(3, 4, 5))]
rows, vectors, weights = f(6, 4), f(4, 4), f(1, 4)
decision = weights @ (rows @ vectors.T).T + 0.3
SVM = dict(vectors_per_class=[2, 2], support_vectors=[float(v) for v in vectors.ravel()],
           coefficients=[float(v) for v in weights.ravel()], rho=[0.3], classlabels_ints=[7, 3], kernel_type="LINEAR")
# one tree: x0 <= 0 ? leaf 0 (target 0: 2) : leaf 1 (target 1: -1)
TREE = dict(tree_roots=[0], nodes_modes=tensor([0], np.uint8), nodes_featureids=[0],
            nodes_splits=tensor([0.0], np.float32), nodes_truenodeids=[0], nodes_trueleafs=[1], nodes_falsenodeids=[1],
            nodes_falseleafs=[1], leaf_targetids=[0, 1], leaf_weights=tensor([2.0, -1.0], np.float32), n_targets=2)
tree = np.where(rows[:, :1] <= 0, np.array([[2, 0]], np.float32), np.array([[0, -1]], np.float32))
# the same of one list of nodes, whose leaves weigh both classes
OLD_TREE = dict(nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3,
                nodes_values_as_tensor=tensor([0.0] * 3, np.float32), nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
                nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0] * 4,
                class_nodeids=[1, 1, 2, 2], class_ids=[0, 1, 0, 1], class_weights=[0.2, 0.3, 0.9, 0.6])
# and a second tree of one leaf, whose node stands among those of the first
MIXED_TREES = OLD_TREE | dict(
    nodes_treeids=[0, 1, 0, 0], nodes_nodeids=[0, 0, 1, 2], nodes_featureids=[0] * 4, nodes_values_as_tensor=tensor(
        [0.0] * 4, np.float32), nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0, 0],
    nodes_falsenodeids=[2, 0, 0, 0], class_treeids=[0, 0, 0, 0, 1, 1], class_nodeids=[1, 1, 2, 2, 0, 0],
    class_ids=[0, 1] * 3, class_weights=[0.2, 0.3, 0.9, 0.6, 0.5, 0.1])
old_tree = np.where(rows[:, :1] <= 0, np.array([[0.2, 0.3]]), np.array([[0.9, 0.6]]))
COMPARE = dict(BRANCH_LEQ=np.less_equal, BRANCH_LT=np.less, BRANCH_GTE=np.greater_equal, BRANCH_GT=np.greater,
               BRANCH_EQ=np.equal, BRANCH_NEQ=np.not_equal)
tenths = np.array([[0.1], [0.7], [0.5], [np.inf]], np.float32)


def stump(mode, split, yes, no, dtype=np.float64):
    """Trees of one split each, all of feature 0 and the same split; yes, no: their leaves."""
    n = len(yes)
    return dict(nodes_treeids=[k for k in range(n) for _ in range(3)], nodes_nodeids=[0, 1, 2] * n,
                nodes_featureids=[0] * 3 * n, nodes_modes=[mode, "LEAF", "LEAF"] * n, nodes_truenodeids=[1, 0, 0] * n,
                nodes_falsenodeids=[2, 0, 0] * n, nodes_values_as_tensor=tensor([split, 0, 0] * n, dtype),
                target_treeids=[k for k in range(n) for _ in range(2)], target_nodeids=[1, 2] * n,
                target_ids=[0] * 2 * n, target_weights_as_tensor=tensor([v for pair in zip(yes, no) for v in pair],
                                                                        np.float64))


SMALL = np.exp2(np.array([-149, -128, -127, -127, -126, -126, 127, 127], np.float64)).astype(np.float32) * np.array(
    [1, 1, 1, 1.25, 1, 1.25, 1.25, 1.75], np.float32)
POWERS = np.array([0.5, 4, 2], ml_dtypes.float8_e8m0fnu)
EIGHTHS = np.array([[1.5, -2, 0.25], [0.5, 1, 4]], ml_dtypes.float8_e4m3fn)
heads = f(1, 2, 3, 4)
nothing = np.zeros((1, 1, 3, 1), np.float32)

spin = (f(2, 3) + 1j * f(2, 3)).astype(np.complex64)
words = np.array([[[["a", "c"], ["d", ""]]]], object)
phases = np.array([1, 1j, 1, -1, 1j, 1 + 1j], np.complex64)
eighths = np.array([0.5, -2, 16], ml_dtypes.float8_e4m3fn)
folded = np.concatenate([phases[:3], [0]]) + np.concatenate([[0], phases[3:]])
one8 = np.array(1, ml_dtypes.float8_e4m3fn)

REDUCTIONS = {
    "L1": lambda v, **k: abs(v).sum(**k), "L2": lambda v, **k: np.sqrt(
        (v * v).sum(**k)), "LogSum": lambda v, **k: np.log(abs(v).sum(**k)), "Sum": np.sum, "Mean": np.mean,
    "LogSumExp": lambda v, **k: np.log(np.exp(v).sum(**k)), "SumSquare": lambda v, **k: (v * v).sum(**k), "Prod":
    np.prod, "Max": np.max, "Min": np.min
}
columns, packed, packed_zeros, groups = f(2, 31), rng.integers(0, 256, (3, 2, 8)).astype(np.uint8), rng.integers(
    0, 256, (3, 1)).astype(np.uint8), rng.integers(0, 2, 31).astype(np.int32)
scales = abs(f(3, 2)) + 0.5


quads, filters, shifts = f(2, 3, 4, 5), f(6, 5, 1, 1), f(6)
waves = f(3, 1, 5, 2), f(4, 5, 2)
codes = rng.choice([0.5, -1, 2, 3, -4, 6], (3, 20)).astype(np.float32)


three = f(2, 3, 2, 3, 4)         # queries, keys and values of two heads, packed
q3, k3, v3 = (three[:, :, :, k].transpose(0, 2, 1, 3) for k in range(3))
scores3 = q3 @ k3.transpose(0, 1, 3, 2) / 2
whole, signs = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8), rng.integers(-128, 128, (3, 4)).astype(np.int8)
table = f(8, 2)


def flat_heads(x):
    return x.transpose(0, 2, 1, 3).reshape(len(x), x.shape[2], -1)


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def fast_gelu(x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def group_norm(x, gamma, beta, groups, silu):
    """Channels last."""
    g = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    y = ((g - g.mean(
        (1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    return y / (1 + np.exp(-y)) if silu else y


def t5_bias(table, rows, cols, most, both):
    """The bucket of each distance, by the paper's words, one by one."""
    buckets, out = len(table) // (2 if both else 1), np.zeros((1, table.shape[1], rows, cols), np.float32)
    for i in range(rows):
        for j in range(cols):
            near, exact = abs(j - i) if both else max(i - j, 0), buckets // 2
            at = near if near < exact else min(
                buckets - 1, exact + int(math.log(near / exact) / math.log(most / exact) * (buckets - exact)))
            out[0, :, i, j] = table[at + (buckets if both and j > i else 0)]
    return out


def rms(x, scale, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def nibbles(a):
    """Rows of 4-bit numbers, the lower one first."""
    return np.stack([a & 15, a >> 4], -1).reshape(len(a), -1).astype(np.float32)


quarters = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
deep = np.arange(16, dtype=np.float32).reshape(1, 8, 1, 2)
doubled = helper.make_graph(
    [helper.make_node("Identity", ["c"], ["d"]),
     helper.make_node("Add", ["s", "s"], ["t"], broadcast=0)], "b", [
         helper.make_tensor_value_info(n, t, s)
         for n, t, s in (("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [3]))
     ], [
         helper.make_tensor_value_info("d", TensorProto.BOOL, []),
         helper.make_tensor_value_info("t", TensorProto.FLOAT, [3])
     ])

# far from 0 compared with how they differ: half precision keeps little of that, single precision not all of the mean
far = (f(2, 6, 8) + np.float32(1000)).astype(np.float32)
farther = (f(2, 6, 8) + np.float32(3e6)).astype(np.float32)
towards = np.concatenate([np.full((1, 2, 3, 1), 40, np.float32), f(1, 2, 3, 3)], -1)


def of_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def normal(x, axis=-1):
    x = x.astype(np.float64)
    d = x - x.mean(axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis, keepdims=True) + 1e-5)


STAGED = [      # operator, channels, attributes, what it computes of x in double precision
    ("LayerNormalization", 8, {}, normal),
    ("GroupNormalization", 6, dict(num_groups=3), lambda x: normal(x.reshape(2, 3, 16)).reshape(x.shape)),
    ("RMSNormalization", 8, {}, lambda x: rms(x.astype(np.float64), 1, 1e-5))
]


def scores_in(dtype):
    """Attention of `towards` whose scores and probabilities are of that type."""
    scores = (towards @ towards.transpose(0, 1, 3, 2) / 2).astype(dtype).astype(np.float64)
    return softmax(scores).astype(dtype).astype(np.float64) @ towards


CASES = [
    # the first stage in the type of stash_type
    *[(op, "", 23, [x, np.ones(n, np.float32)] + [np.zeros(n, np.float32)] * (op[0] != "R"),
       dict(stash_type=of_type(t), **more), [formula(x.astype(t))]) for op, n, more, formula in STAGED
      for x, t in ((far, np.float16), (far, ml_dtypes.bfloat16), (farther, np.float64))],
    *[("Attention", "", 23, [towards] * 3, dict(softmax_precision=of_type(t)), [scores_in(t)])
      for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)],
    # a mask for one key: repeated, and from version 24 on followed by nothing
    ("Attention", "", 23, [heads, heads, heads,
                           nothing], {}, [softmax(heads @ heads.transpose(0, 1, 3, 2) / 2) @ heads]),
    ("Attention", "", 24, [heads, heads, heads, nothing], {}, [np.repeat(heads[:, :, :1], 3, 2)]),
    # a window without end is none
    *[("Attention", "", 27, [heads, heads, heads], {side: 2**63 - 1
                                                    }, [softmax(heads @ heads.transpose(0, 1, 3, 2) / 2) @ heads])
      for side in ("left_window_size", "right_window_size")],
    # parameters of activations that have none, and too many of them, are not used
    *[("RNN", "", 14, [steps, w, r, b], dict(hidden_size=3, activation_alpha=[0.5, 0.7], activation_beta=[0.3], **
                                             more), recurrence(steps, w, r, b))
      for more in ({}, dict(activations=["Tanh"]))],
    # opset 1 to 6
    *[(f"Reduce{name}", "", opset, [np.abs(x) if name == "LogSum" else x], dict(
        axes=[0, 2], keepdims=k), [reduce(x, axis=(0, 2), keepdims=bool(k))]) for name, reduce in REDUCTIONS.items()
      for opset, k in ((1, 1), (11, 0), (13, 1)) if (name, opset) != ("Sum", 13)],
    *[("PRelu", "", opset, [z, s], {}, [np.where(z < 0, z * s[:, None, None], z)]) for opset in (1, 6)
      for s in (one, one[:1])],
    ("BatchNormalization", "", 1, stats, dict(consumed_inputs=[0, 0, 0, 1, 1], momentum=0.7), batch_norm(*stats, 0.7)),
    ("Clip", "", 1, [x], dict(max=0.5, consumed_inputs=[0]), [np.minimum(x, 0.5)]),
    ("Dropout", "", 1, [x], dict(is_test=1, consumed_inputs=[0]), [x]),
    ("DepthToSpace", "", 1, [deep], dict(blocksize=2),
     [deep.reshape(1, 2, 2, 2, 1, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 2, 4)]),
    ("Loop", "", 1, [np.array(3), np.array(True), one], dict(body=doubled), [8 * one]),
    *[("MaxRoiPool", "", opset, [quarters, np.array([[0, 0, 0, 3, 3]], np.float32)
                                 ], dict(pooled_shape=[2, 2]), [np.array([[[[5, 7], [13, 15]]]], np.float32)])
      for opset in (1, 22)],
    ("Add", "", 6, [x, one], dict(broadcast=1, axis=1), [x + one[:, None]]),
    ("Mul", "", 1, [x, y], dict(broadcast=1), [x * y]),
    ("Cast", "", 1, [x * 9], dict(to="INT32"), [(x * 9).astype(np.int32)]),
    ("Concat", "", 1, [x, x], {}, [np.concatenate([x, x], 1)]),
    ("Clip", "", 6, [x], dict(min=-0.5), [np.maximum(x, -0.5)]),
    ("Gemm", "", 6, [f(2, 3) * 0 + 1, y, y[0]], dict(broadcast=1), [np.ones((2, 3), np.float32) @ y + y[0]]),
    ("Pad", "", 1, [y], dict(paddings=[0, 1, 2, 0], value=1.5), [np.pad(y, ((0, 2), (1, 0)), constant_values=1.5)]),
    ("Pad", "", 2, [y], dict(pads=[0, 1, 2, 0]), [np.pad(y, ((0, 2), (1, 0)))]),
    ("Reshape", "", 1, [x], dict(shape=[0, -1]), [x.reshape(2, 12)]),
    ("Slice", "", 1, [x], dict(starts=[1, -2], ends=[3, 100], axes=[1, 2]), [x[:, 1:3, -2:]]),
    ("Softmax", "", 1, [x], dict(axis=1), [flat_softmax(x, 1)]),
    ("Split", "", 1, [x], dict(axis=2, split=[1, 3]), [x[..., :1], x[..., 1:]]),
    ("Squeeze", "", 1, [x[:1]], dict(axes=[0]), [x[0]]),
    # no axis named: all of size 1
    *[("Squeeze", "", opset, [x[:1, :, :1]], dict(axes=[]), [x[0, :, 0]]) for opset in (1, 11)],
    ("Squeeze", "", 13, [x[:1], np.zeros(0, np.int64)], {}, [x[:1]]),
    ("Tile", "", 1, [y, np.array(2, np.float32), np.array(1, np.float32)], {}, [np.tile(y, (1, 2))]),
    ("TopK", "", 1, [y], dict(k=2), [-np.sort(-y)[:, :2], np.argsort(-y)[:, :2]]),
    ("Upsample", "", 1, [z], dict(height_scale=2.0, width_scale=3.0), [z.repeat(2, 2).repeat(3, 3)]),
    ("Upsample", "", 7, [z], dict(scales=[1.0, 1.0, 2.0, 3.0]), [z.repeat(2, 2).repeat(3, 3)]),
    ("LpPool", "", 1, [z], dict(kernel_shape=[4, 5], p=3.0), [(abs(z)**3).sum(axis=(2, 3), keepdims=True)**(1 / 3)]),
    *[("GlobalLpPool", "", opset, [z], dict(p=p), [(abs(z)**3).sum(axis=(2, 3), keepdims=True)**(1 / 3)])
      for opset, p in ((1, 3.0), (2, 3), (22, 3))],
    ("RNN", "", 1, [steps, w, r, b], dict(hidden_size=3, output_sequence=1), recurrence(steps, w, r, b)),
    ("Dropout", "", 6, [x], dict(is_test=1), [x]),
    ("BatchNormalization", "", 6, stats, dict(momentum=0.7), batch_norm(*stats, 0.7)),
    *[("BatchNormalization", "", opset, own_stats, dict(momentum=0.7, spatial=0), batch_norm(*own_stats, 0.7))
      for opset in (6, 8)],
    ("BatchNormalization", "", 9, stats, dict(momentum=0.7), batch_norm(*stats, 0.7)),
    ("BatchNormalization", "", 14, stats, dict(momentum=0.7, training_mode=1), batch_norm(*stats, 0.7)[:3]),
    ("Resize", "", 13, [z.astype(np.float64),
                        np.zeros(0, np.float32),
                        np.array([1, 1, 1, 2], np.float32)],
     dict(mode="cubic", coordinate_transformation_mode="asymmetric",
          cubic_coeff_a=-0.5), [cubic(z.astype(np.float64))]),
    *[
        ("Resize", "", 19,
         [np.array([[0, 255, 251, 10, 0, 128]], dtype),
          np.zeros(0, np.float32),
          np.array([1, 1.7], np.float32)], dict(mode="cubic"), [np.array([want], dtype)]) for dtype, want in (
              # rounded and kept in range
              (np.uint8, [0, 94, 249, 255, 221, 69, 0, 0, 63, 135]),
              (np.int32, [-25, 94, 249, 298, 221, 69, -27, -8, 63, 135]))
    ],
    # places count in the shape of windows, and along an axis that is to be smaller in what is requested
    *[("MaxUnpool", "", 22, [quarters[:, :, :2, :2] + 1,
                             np.array(at).reshape(1, 1, 2, 2),
                             np.array([1, 1, *size])], dict(kernel_shape=[3, 3], strides=[2, 2]), [
                                 np.pad((quarters[:, :, :2, :2] + 1).repeat(2, 2).repeat(2, 3) * (np.indices(
                                     (4, 4)) % 2).prod(0), ((0, 0), (0, 0), (0, size[0] - 4), (0, size[1] - 4)))
                             ]) for at, size in (([5, 7, 13, 15], (4, 4)), ([6, 8, 16, 18], (4, 5)),
                                                 ([6, 8, 16, 18], (4, 7)), ([6, 8, 16, 18], (6, 6)))],
    # splits and weights are the doubles that they are: 0.1 of single precision is more than 0.1
    *[("TreeEnsembleRegressor", ML, 3, [tenths], stump(
        mode, split, [1], [2]), [np.where(compare(tenths.astype(np.float64), split), 1, 2).astype(np.float32)])
      for mode, compare in COMPARE.items() for split in (0.1, 0.7, 0.5, 1e300, -1e-300)],
    *[("TreeEnsembleRegressor", ML, 3, [np.array([[2**24 + 1], [2**24]], t)],
       stump("BRANCH_LEQ", 2.0**24, [1], [2], np.float32), [np.array([[2], [1]], np.float32)])
      for t in (np.int32, np.int64)],
    ("TreeEnsembleRegressor", ML, 3, [tenths], stump("BRANCH_LEQ", 0.6, [1e8 + 1, -1e8],
                                                     [2e8 + 3, -2e8]), [np.array([[1], [3], [1], [3]], np.float32)]),
    # of others
    ("Cast", "", 13, [np.array([2**64 - 2, 7], np.uint64)], dict(to=TensorProto.STRING),
     [np.array(["18446744073709551614", "7"], object)]),
    *[(op, MS, 1, [waves[0], waves[1]], {}, [pairs((waves[0] @ [1, 1j]) * turn(waves[1] @ [1, 1j]))])
      for op, turn in (("ComplexMul", np.asarray), ("ComplexMulConj", np.conj))],
    ("MatMulNBits", "com.microsoft", 1, [columns, packed, scales, packed_zeros,
                                         groups], dict(K=31, N=3, bits=4, block_size=16),
     [columns @ ((nibbles(packed)[:, :31] - nibbles(packed_zeros)[:, groups]) * scales[:, groups]).T]),
    *[("NhwcFusedConv", "com.microsoft", 1, [quads, filters, shifts, *more], dict(activation="Relu"),
       [np.maximum(quads @ filters[:, :, 0, 0].T + shifts + sum(more), 0)]) for more in ([], [f(2, 3, 4, 6)])],
    *[("GatherBlockQuantized", "com.microsoft", 1,
       [codes.astype(t), np.array([2, -1, 9]), abs(codes[:, ::16]) + 1], dict(block_size=16),
       [codes[[2, -1, 0]] * np.repeat(abs(codes[:, ::16]) + 1, 16, 1)[[2, -1, 0], :20] * [[1], [1], [0]]])
      for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn)],
    ("GatherBlockQuantized", "com.microsoft", 1,
     [codes.astype(ml_dtypes.float8_e4m3fn),
      np.array(1), np.array([[0.5]], np.float32)], dict(block_size=0), [codes[1] * np.float32(0.5)]),
    # nothing to do
    ("Conv", "", 11, [z[..., :2].copy(), f(6, 3, 3, 3)], dict(pads=[1, 0, 0, 0]), [np.zeros((2, 6, 3, 0), np.float32)]),
    ("Conv", "", 11, [z[:, :, :0].copy(), f(6, 3, 1, 1)], {}, [np.zeros((2, 6, 0, 5), np.float32)]),
    ("CausalConvWithState", "", 27, [x[..., :0].copy(), f(3, 1, 3)], {}, [x[..., :0],
                                                                          np.zeros((2, 3, 2), np.float32)]),
    ("LinearAttention", "", 27, [x[:, :0], x[:, :0], x[:, :0], scores3[:1, :, :2, :2].repeat(2, 0)],
     dict(q_num_heads=2, kv_num_heads=2, update_rule="linear"), [x[:, :0], scores3[:1, :, :2, :2].repeat(2, 0)]),
    ("MaxUnpool", "", 11, [z[:, :, :0], np.zeros((2, 3, 0, 5), np.int64),
                           np.array([2, 3, 2, 10])], dict(kernel_shape=[2, 2],
                                                          strides=[2, 2]), [np.zeros((2, 3, 2, 10), np.float32)]),
    # packed queries, keys and values; scores
    ("MultiHeadAttention", MS, 1, [three, None,
                                   None], dict(num_heads=2), [flat_heads(softmax(scores3) @ v3), k3, v3, scores3]),
    ("MultiHeadAttention", MS, 1, [flat_heads(q3), np.ascontiguousarray(three[:, :, :, 1:])], dict(num_heads=2),
     [flat_heads(softmax(scores3) @ v3)]),
    ("GroupQueryAttention", MS, 1, [
        flat_heads(q3),
        flat_heads(k3),
        flat_heads(v3), None, None,
        np.array([2, 2], np.int32),
        np.array(3, np.int32), *[None] * 7, x[0, 0], y[0]
    ], dict(num_heads=2, kv_num_heads=2, causal=0, qk_norm_epsilon=1e-5),
     [flat_heads(softmax(rms(q3, x[0, 0], 1e-5) @ rms(k3, y[0], 1e-5).transpose(0, 1, 3, 2) / 2) @ v3)]),
    # what graphics cards alone run of onnxruntime
    ("BiasAdd", MS, 1, [x, y[0], x * 2], {}, [x * 3 + y[0]]),
    ("BiasSplitGelu", MS, 1, [x, y[0]], {}, [(x + y[0])[..., :2] * gelu((x + y[0])[..., 2:])]),
    ("GemmFastGelu", MS, 1, [x, y.T, one], {}, [fast_gelu(x @ y.T + one)]),
    ("BiasSoftmax", MS, 1, [x, y[:1]], dict(axis=2, is_inner_broadcast=0), [softmax(x + y[:1])]),
    ("BiasSoftmax", MS, 1, [x, y], dict(axis=1, is_inner_broadcast=0), [flat_softmax(x + y, 1)]),
    ("BiasDropout", MS, 1, [x, y[0], x], {}, [x + y[0] + x, np.ones_like(x, bool)]),
    *[("GroupNorm", MS,
       1, [z if last else z.transpose(0, 3, 1, 2).copy(),
           np.arange(5, dtype=np.float32),
           np.ones(5, np.float32)], dict(groups=n, activation=act, channels_last=last),
       [v if last else v.transpose(0, 3, 1, 2) for v in [group_norm(z, np.arange(5), 1, n, act)]])
      for n, act, last in ((1, 0, 1), (5, 1, 1), (5, 0, 0))],
    *[("SkipGroupNorm", MS, 1, [z, np.arange(5, dtype=np.float32),
                                np.ones(5, np.float32), skip, *bias], dict(
                                    groups=1, activation=1), [group_norm(s, np.arange(5), 1, 1, 1), s])
      for skip, bias in ((z * 2, []), (z[:, 0, 0].copy(), [x[0, 0, :1].repeat(5)]))
      for s in [z + (skip if skip.ndim == 4 else skip[:, None, None]) + sum(bias)]],
    ("NhwcConv", MS, 1, [quads, filters, shifts], {}, [quads @ filters[:, :, 0, 0].T + shifts]),
    *[("RelativePositionBias", MS, 1, [table, np.array(40), np.array(40)], dict(
        max_distance=20, is_bidirectional=both), [t5_bias(table, 40, 40, 20, both)]) for both in (0, 1)],
    ("GatedRelativePositionBias", MS, 1,
     [x, y[0], scores3[:1], y[:2].T[:2].copy(), y[0, :2],
      nothing[:, :, :2].transpose(0, 2, 1, 3) + 0.5], dict(num_heads=2),
     [(gate[..., :1] * (gate[..., 1:] * 0.5 - 1) + 2) * scores3[:1]
      for gate in [1 / (1 + np.exp(-((x + y[0]).reshape(2, 3, 2, 2).transpose(0, 2, 1, 3) @ y[:2].T[:2] + y[0, :2])))]
      ]),
    ("MulInteger", MS, 1, [whole, np.uint8(7), whole[:1]], {}, [(whole.astype(np.int32) - 7) * whole[:1]]),
    *[("ReduceSumInteger", MS, 1, [v], dict(axes=[0], keepdims=k), [v.sum(0, keepdims=bool(k), dtype=t)])
      for v, t in ((whole, np.uint32), (signs, np.int32)) for k in (0, 1)],
    ("QLinearReduceMean", MS, 1, [whole, np.float32(0.5),
                                  np.uint8(100), np.float32(0.25),
                                  np.uint8(90)], dict(axes=[2], keepdims=1),
     [np.clip(np.round((whole.astype(np.float64) - 100).mean(2, keepdims=True) * 2) + 90, 0, 255).astype(np.uint8)]),
    *[("IsAllFinite", MS, 1, [x, None, np.array(v, np.float32)], how, [np.array(want)])
      for v, how, want in (([1, 2], {}, True), ([1, np.inf], {}, False), ([1, np.nan], {}, False),
                           ([np.inf], dict(isnan_only=1), True), ([np.nan], dict(isinf_only=1), True))],
    ("Tokenizer", "com.microsoft", 1, [np.array(["one two", "three"], object)],
     dict(mark=0, mincharnum=1, pad_value="-", separators=[" "]), [np.array([["one", "two"], ["three", "-"]], object)]),
    *[("Tokenizer", "com.microsoft", 1, [np.array(words, object)
                                         ], dict(mark=1, mincharnum=1, pad_value="-", tokenexp="[a-z]+"), [want])
      for words, want in ((["A", "4"], np.zeros((2, 0), object)),
                          (["A", "b"], np.array([["\x02", "\x03", "-"], ["\x02", "b", "\x03"]], object)))],
    ("MaxPool", "", 12, [np.zeros((1, 2, 1, 1), np.uint8)], dict(kernel_shape=[1, 3], pads=[0, 2, 0, 1]),
     [np.zeros((1, 2, 1, 2), np.uint8), np.array([0, 0, 1, 1]).reshape(1, 2, 1, 2)]),
    ("AveragePool", "", 12, [np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)],
     dict(kernel_shape=[2, 3], pads=[1, 1, 0, 1]), [np.array([[[[0.5, 1, 1.5], [2, 2.5, 3]]]], np.float32)]),
    # whole numbers are weighed as numbers, and cut
    *[("GridSample", "", 20, [np.array([[[[a, b]]]], t),
                              np.array([[[[0.3, 0]]]], np.float32)], dict(align_corners=1), [np.array([[[[want]]]], t)])
      for t, a, b, want in ((np.uint8, 10, 40, 29), (np.int8, -10, -40, -29), (np.int32, 10, 40, 29),
                            (np.int64, -10, 2**40, 714682531836))],
    *[
        ("GridSample", "", 20, [np.array([[[[8, 4]]]], np.float32),
                                np.array([[[[at, 0]]]], np.float32)], dict(
                                    mode="cubic", padding_mode="border"), [np.array([[[[want]]]], np.float32)])
        # inside of the border's pixel the kernel reaches beyond it, outside it is that pixel
        for at, want in ((1, 3.625), (1.25, 4), (-1, 8.375), (0, 6))
    ],
    *[("Cast", "", 24, [SMALL], dict(to=TensorProto.FLOAT8E8M0, saturate=saturate, round_mode=mode),
       [np.exp2(np.array(want, np.float64) - 127).astype(ml_dtypes.float8_e8m0fnu)])
      for saturate, mode, want in ((1, "up", [0, 0, 0, 1, 1, 2, 254, 254]),
                                   (1, "nearest", [0, 0, 0, 0, 1, 1, 254, 254]),
                                   (1, "down", [0, 0, 0, 0, 1, 1, 254, 254]),
                                   (0, "nearest", [np.nan, np.nan, 0, 0, 1, 1, np.nan, np.nan]))],
    # a double is rounded once: what single precision would make half of a unit is more, or less
    *[("Cast", "", 24, [np.array([v, -v])
                        ], dict(to=to), [np.array([want, -want]).astype(helper.tensor_dtype_to_np_dtype(to))])
      for more in (2.0**-40, -(2.0**-40))
      for to, v, up, down in ((TensorProto.FLOAT16, 1 + 2**-11 + more, 1 + 2**-10, 1),
                              (TensorProto.FLOAT16, 65520 + 16 * more, np.inf, 65504),
                              (TensorProto.BFLOAT16, 1 + 2**-8 + more, 1 + 2**-7, 1),
                              (TensorProto.FLOAT8E4M3FN, 1 + 2**-4 + more, 1.125, 1),
                              (TensorProto.FLOAT8E5M2, 1 + 2**-3 + more, 1.25, 1),
                              (TensorProto.FLOAT4E2M1, 1.25 + more, 1.5, 1)) for want in [up if more > 0 else down]],
    *[("Cast", "", 24, [np.array([np.nan, np.inf, -np.inf, 1e300, -0.0, 1e-320])], dict(to=to),
       [np.array([np.nan, np.inf, -np.inf, np.inf, -0.0, 0]).astype(helper.tensor_dtype_to_np_dtype(to))])
      for to in (TensorProto.FLOAT16, TensorProto.BFLOAT16)],
    # types that are moved, or seldom computed with
    ("NonZero", "", 13, [np.array([["", "a"], [" ", ""]], object)], {}, [np.array([[0, 1], [1, 0]])]),
    ("NonZero", "", 13, [np.array([0, 1j, 1, 0], np.complex64)], {}, [np.array([[1, 2]])]),
    *[("Unique", "", 11, [np.array([["b", "ä", "b"], ["a", "", "a"]], object)], dict(axis=1, sorted=k), [
        np.array([["b", "ä"], ["a", ""]], object),
        np.array([0, 1]),
        np.array([0, 1, 0]),
        np.array([2, 1])
    ]) for k in (0, 1)],
    ("Unique", "", 11, [np.array(["b", "a", "", "b", "B"], object)], {},
     [np.array(["", "B", "a", "b"], object),
      np.array([2, 4, 1, 0]),
      np.array([3, 2, 0, 3, 1]),
      np.array([1, 1, 1, 2])]),
    ("Unique", "", 11, [np.array([1 + 2j, -1j, 1 - 2j, 1 + 2j, 0])], {},
     [np.array([-1j, 0, 1 - 2j, 1 + 2j]),
      np.array([1, 4, 2, 0]),
      np.array([3, 0, 2, 3, 1]),
      np.array([1, 1, 1, 2])]),
    ("Pad", "", 21, [np.array(["a", "b"], object), np.array([1, 1])], {}, [np.array(["", "a", "b", ""], object)]),
    ("Pad", "", 21, [np.array([1.5, -2], ml_dtypes.float8_e4m3fn),
                     np.array([2, 0])], dict(mode="reflect"), [np.array([1.5, -2, 1.5, -2], ml_dtypes.float8_e4m3fn)]),
    ("Pad", "", 25, [np.array([3, 1], ml_dtypes.uint2),
                     np.array([1, 0]),
                     np.array(2, ml_dtypes.uint2)], {}, [np.array([2, 3, 1], ml_dtypes.uint2)]),
    ("CenterCropPad", "", 18, [np.array([1j, 2], np.complex128), np.array([4])], {}, [np.array([0, 1j, 2, 0])]),
    ("Trilu", "", 14, [np.array([["a", "b"], ["c", "d"]], object)], {}, [np.array([["a", "b"], ["", "d"]], object)]),
    ("OneHot", "", 11, [np.array([1, 0]), np.array([2]),
                        np.array(["off", "on"], object)], {}, [np.array([["off", "on"], ["on", "off"]], object)]),
    ("OneHot", "", 11, [np.array([1]), np.array([2]), np.array([1, 2j],
                                                               np.complex64)], {}, [np.array([[1, 2j]], np.complex64)]),
    ("Scatter", "", 9, [np.array(["a", "b"], object),
                        np.array([1]), np.array(["c"], object)], {}, [np.array(["a", "c"], object)]),
    ("TensorScatter", "", 24, [np.array([[["a"], ["b"]]], object),
                               np.array([[["c"]]], object),
                               np.array([1])], {}, [np.array([[["a"], ["c"]]], object)]),
    ("Resize", "", 19, [np.array([[0, 2 + 4j]], np.complex64),
                        np.zeros(0, np.float32),
                        np.array([1, 2], np.float32)], dict(mode="linear"),
     [np.array([[0, 0.5 + 1j, 1.5 + 3j, 2 + 4j]], np.complex64)]),
    ("ConstantOfShape", "", 21, [np.array([2])], dict(value=numpy_helper.from_array(np.array([-3], ml_dtypes.int4))),
     [np.array([-3, -3], ml_dtypes.int4)]),
    ("ConstantOfShape", "", 20, [np.array([1, 2])],
     dict(value=numpy_helper.from_array(np.array([1 + 2j], np.complex64))), [np.array([[1 + 2j] * 2], np.complex64)]),
    *[(op, "", 22, [np.array(["a", ""], object)], dict(dtype=TensorProto.FLOAT) | same, [np.array([2, 2], np.float32)])
      for op, same in (("RandomNormalLike", dict(mean=2.0, scale=0.0)),
                       ("RandomUniformLike", dict(low=2.0, high=2.0)))],
    ("Size", "", 21, [np.array([1.5, 2], ml_dtypes.float8_e5m2)], {}, [np.array(2)]),
    ("Shape", "", 21, [np.array([1.5, 2], ml_dtypes.float8_e5m2)], {}, [np.array([2])]),
    ("IsNaN", "", 20, [np.array([1.5, np.nan], ml_dtypes.float8_e4m3fnuz)], {}, [np.array([False, True])]),
    ("IsInf", "", 20, [np.array([1.5, np.inf, -np.inf, np.nan], ml_dtypes.float8_e5m2)], dict(detect_negative=0),
     [np.array([False, True, False, False])]),
    ("Dropout", "", 22, [np.array([1.5, -2], ml_dtypes.float8_e5m2),
                         np.array(0.5, ml_dtypes.float8_e5m2)], {}, [np.array([1.5, -2], ml_dtypes.float8_e5m2)]),
    ("Dropout", "", 22,
     [np.array([1.5, -2], ml_dtypes.float8_e5m2),
      np.array(0, ml_dtypes.float8_e5m2),
      np.array(True)], {}, [np.array([1.5, -2], ml_dtypes.float8_e5m2),
                            np.array([True, True])]),
    ("Dropout", "", 22,
     [np.array([1.5, -np.inf], ml_dtypes.float8_e5m2),
      np.array(0.5, ml_dtypes.float8_e5m2),
      np.array(False)], {}, [np.array([1.5, -np.inf], ml_dtypes.float8_e5m2)]),
    ("BitCast", "", 26, [np.array([1.5 - 2j, 0], np.complex64)], dict(to=TensorProto.UINT64),
     [np.array([1.5 - 2j, 0], np.complex64).view(np.uint64)]),
    ("BitCast", "", 26, [np.array([1.5, -2.25e10])], dict(to=TensorProto.COMPLEX64),
     [np.array([1.5, -2.25e10]).view(np.complex64)]),
    ("BitCast", "", 26, [np.array([-1, -8, 7, 3], ml_dtypes.int4)], dict(to=TensorProto.UINT4),
     [np.array([15, 8, 7, 3], ml_dtypes.uint4)]),
    ("BitCast", "", 26, [np.array([15, 8, 7, 3], ml_dtypes.uint4)], dict(to=TensorProto.INT4),
     [np.array([-1, -8, 7, 3], ml_dtypes.int4)]),
    ("BitCast", "", 26, [np.array([15, 8, 7, 3], ml_dtypes.uint4)], dict(to=TensorProto.FLOAT4E2M1),
     [np.array([-6, -0.0, 6, 1.5], ml_dtypes.float4_e2m1fn)]),
    ("BitCast", "", 26, [np.array([-1, 56], np.int8)], dict(to=TensorProto.FLOAT8E4M3FN),
     [np.array([-1, 56], np.int8).view(ml_dtypes.float8_e4m3fn)]),
    # onnxruntime's quantiser writes it for float8 below opset 21, of a domain of its own
    *[("QLinearMatMul", domain, opset, [
        EIGHTHS,
        np.float32(0.5), EIGHTHS[0, 0] * 0,
        EIGHTHS.T.copy(),
        np.float32(2), EIGHTHS[0, 0] * 0,
        np.float32(0.25), EIGHTHS[0, 0] * 0
    ], {}, [(EIGHTHS.astype(np.float32) @ EIGHTHS.astype(np.float32).T * 4).astype(EIGHTHS.dtype)])
      for domain, opset in (("", 21), (MS, 1))],
    # of models of f16, whose quantisers write it so: scales are f16 then
    ("DynamicQuantizeLinear", "", 11, [np.array([-1, 0, 1, 2], np.float16)], {},
     [np.array([0, 85, 170, 255], np.uint8), np.float16(3 / 255), np.uint8(85)]),
    ("QLinearMatMul", "", 21, [
        np.array([[2, -1, 3]], np.int8),
        np.float32(0.5),
        np.int8(0),
        EIGHTHS.T.copy(),
        np.array([2, 1], np.float32), EIGHTHS[0, :2] * 0,
        np.float32(0.25),
        np.int8(0)
    ], {}, [np.round(np.array([[2, -1, 3]]) @ EIGHTHS.astype(np.float32).T * [4, 2]).astype(np.int8)]),
    ("DequantizeLinear", "", 25, [np.array([[3, -2, 7]], ml_dtypes.int4), POWERS],
     dict(axis=1, output_dtype=TensorProto.FLOAT), [np.array([[1.5, -8, 14]], np.float32)]),
    ("DequantizeLinear", "", 25, [np.array([[1.5, -6, 2, 0.5]], ml_dtypes.float4_e2m1fn), POWERS[None, :2]],
     dict(axis=1, block_size=2, output_dtype=TensorProto.FLOAT16), [np.array([[0.75, -3, 8, 2]], np.float16)]),
    ("QuantizeLinear", "", 25, [np.array([[1.3, -10, 5]], np.float32),
                                POWERS], dict(axis=1, output_dtype=TensorProto.INT8), [np.array([[3, -2, 2]],
                                                                                                np.int8)]),
    # what is moved: strings, of which "" fills, complex numbers, narrow types
    ("Pad", "", 13, [np.array([["a", "b"]], object), np.array([0, 1, 0,
                                                               2])], {}, [np.array([["", "a", "b", "", ""]], object)]),
    ("Pad", "", 13, [np.array([["a", "b"]], object),
                     np.array([0, 1, 0, 0]),
                     np.array("z", object)], {}, [np.array([["z", "a", "b"]], object)]),
    ("Pad", "", 13, [np.array(["a", "b", "c"], object),
                     np.array([2, 1])], dict(mode="reflect"), [np.array(["c", "b", "a", "b", "c", "b"], object)]),
    *[("Pad", "", 13, [spin, np.array([1, 0, 0, 1]), *fill
                       ], {}, [np.pad(spin, ((1, 0), (0, 1)), constant_values=fill[0] if fill else 0)])
      for fill in ([], [np.array(2 - 1j, np.complex64)])],
    ("Pad", "", 21, [eighths, np.array([1, 2])], {}, [np.pad(eighths, (1, 2))]),
    ("CenterCropPad", "", 18, [np.array([["a", "b", "c"]], object),
                               np.array([3, 1])], {}, [np.array([[""], ["b"], [""]], object)]),
    ("Trilu", "", 14, [np.array([["a", "b"], ["c", "d"]], object)], {}, [np.array([["a", "b"], ["", "d"]], object)]),
    ("Trilu", "", 14, [spin], dict(upper=0), [np.tril(spin)]),
    ("OneHot", "", 11, [np.array([1, 0]), np.array(2),
                        np.array(["off", "on"], object)], {}, [np.array([["off", "on"], ["on", "off"]], object)]),
    ("Resize", "", 19, [phases.reshape(2, 3),
                        np.zeros(0, np.float32),
                        np.array([1, 2], np.float32)], dict(mode="linear"),
     [
         phases.reshape(2, 3) @ np.array(
             [[1, 0.75, 0.25, 0, 0, 0], [0, 0.25, 0.75, 0.75, 0.25, 0], [0, 0, 0, 0.25, 0.75, 1]], np.float32)
     ]),
    ("Upsample", "", 9, [spin, np.array([2, 1], np.float32)], {}, [np.repeat(spin, 2, 0)]),
    ("Upsample", "", 7, [words], dict(scales=[1.0, 1.0, 2.0, 1.5]), [words.repeat(2, 2)[..., [0, 0, 1]]]),
    ("Resize", "", 19, [words, np.zeros(0, np.float32),
                        np.array([1, 1, 2, 1], np.float32)], {}, [words.repeat(2, 2)]),
    ("Resize", "", 19,
     [words, np.array([0, 0, 0, -0.5, 1, 1, 1, 1], np.float32),
      np.zeros(0, np.float32),
      np.array([1, 1, 2, 4])], dict(coordinate_transformation_mode="tf_crop_and_resize"),
     [np.array([[[["", "a", "a", "c"], ["", "d", "d", ""]]]], object)]),
    *[("GridSample", "", 20, [words, np.array([[[[1, -1], [-1, 1]], [[0.1, 1], [2, -1]]]], np.float32)],
       dict(mode="nearest", align_corners=1, padding_mode=pad), [np.array([[[["c", "d"], ["", beyond]]]], object)])
      for pad, beyond in (("border", "c"), ("zeros", ""), ("reflection", "a"))],
    *[("GridSample", "", 20, [
        np.arange(2.0**k, dtype=np.float32).reshape(1, 1, *[2] * k),
        np.zeros((1, *[1] * k, k), np.float32)
    ], dict(mode="linear", align_corners=1), [np.full((1, 1, *[1] * k), 2.0**k / 2 - 0.5, np.float32)])
      for k in (1, 4, 6, 9, 14)],
    ("GridSample", "", 20, [np.ones((1, 2, *[3] * 5), np.float32),
                            np.zeros((1, *[1] * 5, 5),
                                     np.float32)], dict(mode="cubic"), [np.ones((1, 2, *[1] * 5), np.float32)]),
    ("Col2Im", "", 18, [phases.reshape(1, 2, 3), np.array([1, 4]),
                        np.array([1, 2])], {}, [folded.astype(np.complex64).reshape(1, 1, 1, 4)]),
    ("Scatter", "", 9, [np.array(["a", "b", "c"], object),
                        np.array([2, 0]),
                        np.array(["x", "y"], object)], {}, [np.array(["y", "b", "x"], object)]),
    ("ScatterElements", "", 18, [spin[0], np.array([1, 1]), spin[1, :2]], dict(reduction="add"),
     [np.array([spin[0, 0], spin[0, 1] + spin[1, 0] + spin[1, 1], spin[0, 2]])]),
    ("NonZero", "", 13, [np.array([["a", ""], ["", "b"]], object)], {}, [np.array([[0, 1], [0, 1]])]),
    ("NonZero", "", 13, [np.array([0, 1j, 2, 0], np.complex64)], {}, [np.array([[1, 2]])]),
    *[("Unique", "", 11, [np.array(["b", "a", "", "b", "ab"], object)], dict(sorted=order),
       [np.array(v) if k else np.array(v, object) for k, v in enumerate(want)])
      for order, want in ((1, [["", "a", "ab", "b"], [2, 1, 4, 0], [3, 1, 0, 3, 2], [1, 1, 1, 2]]),
                          (0, [["b", "a", "", "ab"], [0, 1, 2, 4], [0, 1, 2, 0, 3], [2, 1, 1, 1]]))],
    ("Unique", "", 11, [np.array([["b", "a"], ["a", "z"], ["b", "a"]], object)], dict(axis=0),
     [np.array([["a", "z"], ["b", "a"]], object),
      np.array([1, 0]),
      np.array([1, 0, 1]),
      np.array([1, 2])]),
    ("Unique", "", 11, [phases], {}, list(np.unique(phases, True, True, True))),
    ("Unique", "", 11, [phases.reshape(3, 2)], dict(axis=1), list(np.unique(phases.reshape(3, 2), True, True, True,
                                                                            1))),
    *[(op, "", 20, [np.array([1, np.nan, np.inf, -np.inf], ml_dtypes.float8_e5m2)], {}, [np.array(want)])
      for op, want in (("IsNaN", [False, True, False, False]), ("IsInf", [False, False, True, True]))],
    ("Shape", "", 21, [eighths.reshape(1, 3)], {}, [np.array([1, 3])]),
    ("Dropout", "", 22, [eighths], {}, [eighths, np.ones(3, bool)]),
    ("QuantizeLinear", "", 25,
     [np.array([[1, -3, 6, 100], [1, -3, 7, 0.2]], np.float32),
      np.array([[2], [0.5]], ml_dtypes.float8_e8m0fnu)], dict(axis=1, block_size=4,
                                                              output_dtype=TensorProto.FLOAT4E2M1),
     [np.array([[0.5, -1.5, 3, 6], [2, -6, 6, 0.5]], ml_dtypes.float4_e2m1fn)]),
    ("DequantizeLinear", "", 25,
     [np.array([[0.5, -1.5], [2, 6]], ml_dtypes.float4_e2m1fn),
      np.array([[2], [0.5]], ml_dtypes.float8_e8m0fnu)
      ], dict(axis=1, block_size=2, output_dtype=TensorProto.FLOAT), [np.array([[1, -3], [1, 3]], np.float32)]),
    ("QLinearMatMul", "", 21, [
        eighths[None],
        np.array(0.5, np.float32), one8, eighths[:, None],
        np.array(2, np.float32), one8,
        np.array(8, np.float32), one8
    ], {}, [((eighths.astype(np.float32) - 1) @ (eighths.astype(np.float32) - 1) * 0.125 + 1).astype(
        ml_dtypes.float8_e4m3fn).reshape(1, 1)]),
    *[("BitCast", "", 26, [a], dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(to))), [a.view(to)])
      for a, to in ((eighths, np.uint8), (np.array([3, 200], np.uint8), ml_dtypes.float8_e5m2), (phases, np.uint64),
                    (np.array([1, -(2**62)], np.int64), np.complex64), (eighths, np.int8), (phases, np.complex64))],
    ("BitCast", "", 26, [np.array([-3, 7, -8],
                                  ml_dtypes.int4)], dict(to=TensorProto.UINT4), [np.array([13, 7, 8],
                                                                                          ml_dtypes.uint4)]),
    ("BitCast", "", 26, [np.array([13, 7, 8],
                                  ml_dtypes.uint4)], dict(to=TensorProto.INT4), [np.array([-3, 7, -8],
                                                                                          ml_dtypes.int4)]),
    ("BitCast", "", 26, [np.array([3, 9], ml_dtypes.uint4)], dict(to=TensorProto.FLOAT4E2M1),
     [np.array([1.5, -0.5], ml_dtypes.float4_e2m1fn)]),
    # ai.onnx.ml
    ("TreeEnsemble", ML, 5, [rows], TREE, [tree]),
    ("TreeEnsemble", ML, 5, [rows], TREE | dict(post_transform=1), [softmax(tree)]),
    ("TreeEnsemble", ML, 5, [rows], TREE | dict(post_transform=2), [1 / (1 + np.exp(-tree))]),
    ("LabelEncoder", ML, 1, [np.array([1, 0, 7,
                                       1])], dict(classes_strings=["no", "yes"],
                                                  default_string="-"), [np.array(["yes", "no", "-", "yes"], object)]),
    ("LabelEncoder", ML, 1, [np.array(["yes", "no", "?"], object)], dict(classes_strings=["no", "yes"],
                                                                         default_int64=-3), [np.array([1, 0, -3])]),
    ("TreeEnsembleRegressor", ML, 3, [rows], {k: v
                                              for k, v in OLD_TREE.items() if k[:5] == "nodes"}
     | dict(n_targets=1, target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
            target_weights_as_tensor=tensor([2.0, -1.0], np.float32), base_values_as_tensor=tensor([0.5], np.float32)),
     [np.where(rows[:, :1] <= 0, np.float32(2.5), np.float32(-0.5))]),
    ("TreeEnsembleClassifier", ML, 3, [rows], MIXED_TREES | dict(classlabels_int64s=[5, 3]),
     [np.where(old_tree[:, 1] > old_tree[:, 0] + 0.4, 3, 5), old_tree + [0.5, 0.1]]),
    ("TreeEnsembleClassifier", ML, 3, [rows], OLD_TREE | dict(classlabels_int64s=[5, 3]),
     [np.where(old_tree[:, 1] > old_tree[:, 0], 3, 5), old_tree]),
    ("TreeEnsembleClassifier", ML, 3, [rows], OLD_TREE | dict(classlabels_int64s=[5, 3], base_values=[1.0, 0.0]),
     [np.where(old_tree[:, 1] > old_tree[:, 0] + 1, 3, 5), old_tree + [1, 0]]),
    ("SVMClassifier", ML, 1, [rows], SVM | dict(post_transform="SOFTMAX"),
     [np.where(decision[0] > 0, 7, 3),
      softmax(np.stack([-decision[0], decision[0]], 1))]),
    ("SVMClassifier", ML, 1, [rows],
     dict(coefficients=[float(v) for v in vectors[:2].ravel()], rho=[0.2],
          classlabels_ints=[7, 3]), [np.where((rows @ vectors[:2].T).argmax(1), 3, 7), rows @ vectors[:2].T + 0.2]),
]


# Random ones: random() looks at what they draw. An operator, its inputs, attributes, and the versions, which all draw
# the same.
zeros = np.zeros((2, 5), np.float32)
DRAWS = [("RandomUniform", [], dict(shape=[2, 5]), (1, 22)), ("RandomNormal", [], dict(shape=[2, 5]), (1, 22)),
         ("RandomUniformLike", [zeros], {}, (1, 22)), ("RandomNormalLike", [zeros], {}, (1, 22)),
         ("Bernoulli", [zeros + 0.5], {}, (15, 22)),
         ("Multinomial", [zeros], dict(sample_size=5, dtype=TensorProto.INT32), (7, 22))]
DRAWN = [(op, version) for op, _, _, versions in DRAWS for version in versions]


def known():
    top = cases.build / "onnx_meanings"
    shutil.rmtree(top, ignore_errors=True)
    for number, (op, domain, opset, inputs, attrs, expected) in enumerate(CASES):
        expected = [
            v.astype(np.float32) if v.dtype == np.float64 and inputs[0].dtype != np.float64 else v for v in expected
        ]
        m = model(op, domain, opset, inputs, attrs, [helper.np_dtype_to_tensor_dtype(v.dtype) for v in expected])
        cases.write(top / f"case_{number:03d}_{op}_{opset}", m, [v for v in inputs if v is not None], expected)
    return cases.run(top, "-a", "2e-6")


def draws(op, opset, inputs, attrs, *more, device="cpu", dtype=TensorProto.FLOAT):
    """What a random node draws; all draws are one array."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        (root / "m.onnx").write_bytes(model(op, "", opset, inputs, attrs, [dtype]).SerializeToString())
        code, _, said = program.run(root / "m.onnx", root, {f"x{k}": v
                                                            for k, v in enumerate(inputs)}, device, "--runs", "1", "-q",
                                    *more)
        assert code == 0, said
        return np.load(root / "out" / "y0.npy")


def maps():
    """ZipMap: a map a row, from the attribute's labels to the row's numbers."""
    p = np.array([[0.25, 0.75], [1, 0]], np.float32)
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        m = model("ZipMap", ML, 1, [p], dict(classlabels_strings=["no", "yes"]), [TensorProto.FLOAT])
        m.graph.output[0].type.CopyFrom(
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))
        (root / "m.onnx").write_bytes(m.SerializeToString())
        code, _, said = program.run(root / "m.onnx", root, {"x0": p}, "cpu", "--runs", "1", "-q")
        got = json.loads((root / "out" / "y0.json").read_text()) if code == 0 else said
    print("ZipMap:", got)
    return got != {"name": "y0", "value": [[["no", 0.25], ["yes", 0.75]], [["no", 1], ["yes", 0]]]}


def doubles():
    """What single precision hides: defaults of attributes are numbers of single precision, as given ones are; Erf ends
    in 1; RoiAlign's places and sums."""
    x, ends, single, wrong = np.linspace(-3, 3, 7), np.array([-np.inf, -30, -6.5, 5.9, 7, 1e300,
                                                              np.nan]), lambda v: float(np.float32(v)), []
    picture, region = np.arange(16.0).reshape(1, 1, 4, 4) / 3, [np.array([[0.1, 0.2, 3.1, 3.2]]), np.array([0])]
    means = [("LeakyRelu", [x], {}, np.where(x < 0,
                                             single(0.01) * x, x)),
             ("HardSigmoid", [x], {}, np.clip(single(0.2) * x + 0.5, 0, 1)),
             ("Selu", [x], {}, single(1.0507010221481323) * np.where(x > 0, x,
                                                                     single(1.6732631921768188) * np.expm1(x))),
             ("Erf", [ends], {}, np.array([math.erf(v) for v in ends])),
             *[("RoiAlign", [picture, *region], dict(sampling_ratio=n, output_height=1,
                                                     output_width=1), np.array([[[[(1.1 + 4 * 1.2) / 3]]]]))
               for n in (0, 1)]]
    for op, inputs, attrs, want in means:
        wrong += [op] * (not np.allclose(draws(op, 22, inputs, attrs, dtype=TensorProto.DOUBLE), want,
                                         1e-15 if op == "Erf" else 1e-14, 0, equal_nan=True))
    print(f"doubles: {len(means) - len(wrong)} of {len(means)} right", *wrong)
    return bool(wrong)


def angles():
    """Sines of small numbers are made without what large ones want; a run that meets one is made again."""
    small = np.linspace(-1e5, 1e5, 4001).astype(np.float32)
    large = np.concatenate([small, np.float32([2**20, -1.5e9, 3e38, np.inf, -np.inf, np.nan, 0, -0.0])])
    means = [(op, x) for op in ("Sin", "Cos") for x in (small, large)]
    with np.errstate(invalid="ignore"):
        wrong = [f"{op} of {len(x)}" for op, x in means
                 if not np.allclose(draws(op, 22, [x], {}), getattr(np, op.lower())(x.astype(np.float64)), 1e-6, 2e-7,
                                    equal_nan=True)]
    print(f"angles: {len(means) - len(wrong)} of {len(means)} right", *wrong)
    return bool(wrong)


def grid_node(k, rng, feeds, nodes):
    """A ScatterND whose places are rows by columns, as exporters write an assignment to slices: shape, places that are
    a run, steps, counted from the end, repeated or one alone, axes in any order. Returns the name and what it is."""
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 5)))
    depth = int(rng.integers(1, len(shape) + 1))
    kinds = [lambda n: np.arange(n)[(b := rng.integers(0, n)):rng.integers(b, n) + 1], lambda n: np.arange(n)[::2],
             lambda n: rng.integers(-n, n, rng.integers(1, n + 1)), lambda n: rng.integers(-n, n, 1), np.arange]
    columns = [np.atleast_1d(kinds[rng.integers(len(kinds))](n)).astype(np.int64) for n in shape[:depth]]
    order = list(rng.permutation(depth))                    # grid axis of each column
    grid = [len(columns[order.index(a)]) for a in range(depth)]
    parts = []
    for axis, v in zip(order, columns):
        name = f"c{k}_{len(parts)}"
        values = numpy_helper.from_array(v.reshape([-1] + [1] * (depth - 1 - axis)))
        nodes += [helper.make_node("Constant", [], [name], value=values),
                  helper.make_node("Constant", [], [name + "s"], value_ints=grid),
                  helper.make_node("Expand", [name, name + "s"], [name + "e"]),
                  helper.make_node("Unsqueeze", [name + "e", "last"], [name + "u"])]
        parts.append(name + "u")
    x, updates = f(*shape), rng.standard_normal(grid + list(shape[depth:])).astype(np.float32)
    feeds |= {f"x{k}": x, f"u{k}": updates}
    nodes += [helper.make_node("Concat", parts, [f"i{k}"], axis=-1),
              helper.make_node("ScatterND", [f"x{k}", f"i{k}", f"u{k}"], [f"y{k}"])]
    want = x.copy()
    for at in np.ndindex(*grid):
        want[tuple(columns[c][at[order[c]]] for c in range(depth))] = updates[at]
    return want


def grids():
    """Assignments to slices: 60 of them, in one model."""
    rng, feeds, nodes = np.random.default_rng(7), {}, [helper.make_node("Constant", [], ["last"], value_ints=[-1])]
    wants = [grid_node(k, rng, feeds, nodes) for k in range(60)]
    port = lambda n, v: helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape)
    m = helper.make_model(helper.make_graph(nodes, "g", [port(n, v) for n, v in feeds.items()],
                                            [port(f"y{k}", v) for k, v in enumerate(wants)]),
                          opset_imports=[helper.make_opsetid("", 18)])
    m.ir_version = 8
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "m.onnx").write_bytes(m.SerializeToString())
    code, _, said = program.run(folder / "m.onnx", folder, feeds, "cpu")
    wrong = [k for k, v in enumerate(wants)
             if code or not np.array_equal(np.load(folder / "out" / f"y{k}.npy"), v)]
    shutil.rmtree(folder)
    print(f"assignments to slices: {len(wants) - len(wrong)} of {len(wants)} right", *wrong, said if code else "")
    return bool(wrong)


def near(value, want, spread, n):
    """A mean of n draws of that deviation, within five of its own."""
    return abs(value - want) < 5 * spread / math.sqrt(n)


def random():
    """Shape, type and distribution; the same bytes on both devices and in every run; another seed, other bytes."""
    n, wrong = 40000, []
    uniform, normal = dict(shape=[200, 200], low=-1.0, high=3.0), dict(shape=[200, 200], mean=2.0, scale=0.5)
    a, g = draws("RandomUniform", 1, [], uniform), draws("RandomNormal", 1, [], normal)
    p, train = np.full((200, 200), 0.3, np.float32), [np.ones((200, 200), np.float32), np.float32(0.25), np.bool_(True)]
    hits, few = draws("Bernoulli", 15, [p], {}), draws("Multinomial", 7,
                                                       [np.log(np.array([[0.1, 0.2, 0.7]], np.float32))],
                                                       dict(sample_size=n), dtype=TensorProto.INT32)
    dropped, old = draws("Dropout", 13, train, {}), draws("Dropout", 6, train[:1], dict(ratio=0.25))
    checks = {
        "uniform": near(a.mean(), 1, 4 / math.sqrt(12), n) and a.min() >= -1 and a.max() < 3 and near((a < 0).mean(), 0.25, 0.433, n),
        "normal": near(g.mean(), 2, 0.5, n) and abs(g.std() - 0.5) < 0.01 and near((g < 1.5).mean(), 0.1587, 0.365, n),
        "like another": near((like := draws("RandomNormalLike", 1, [p], dict(mean=2.0, scale=0.5))).mean(), 2, 0.5, n) and like.shape == p.shape,
        "neighbours": abs(np.corrcoef(a.ravel()[1:], a.ravel()[:-1])[0, 1]) < 0.03,
        "Bernoulli": near(hits.mean(), 0.3, 0.46, n) and set(np.unique(hits)) == {0, 1},
        "Multinomial": all(near((few == k).mean(), q, 0.5, n) for k, q in enumerate((0.1, 0.2, 0.7))),
        "Dropout": all(near((v != 0).mean(), 0.75, 0.433, n) and np.allclose(v[v != 0], 4 / 3) for v in (dropped, old)),
        "another run": np.array_equal(a, draws("RandomUniform", 1, [], uniform)),
        "the interpreter": np.array_equal(a, draws("RandomUniform", 1, [], uniform, device="reference")),
        "--seed": not np.array_equal(a, draws("RandomUniform", 1, [], uniform, "--seed", "1")),
        "a seed of its own": np.array_equal(draws("RandomUniform", 1, [], uniform | dict(seed=3.0)), draws("RandomUniform", 1, [], uniform | dict(seed=3.0), "--seed", "1")),
        "another seed of its own": not np.array_equal(draws("RandomUniform", 1, [], uniform | dict(seed=3.0)), draws("RandomUniform", 1, [], uniform | dict(seed=4.0))),
        "versions": all(np.array_equal(*(draws(op, version, inputs, attrs, dtype=attrs.get("dtype", TensorProto.FLOAT)) for version in versions)) for op, inputs, attrs, versions in DRAWS),
        "float16": draws("RandomNormal", 1, [], normal | dict(dtype=TensorProto.FLOAT16), dtype=TensorProto.FLOAT16).dtype == np.float16,
    }
    wrong = [name for name, right in checks.items() if not right]
    print(f"random operators: {len(checks) - len(wrong)} of {len(checks)} as they should be", *wrong)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(known() | maps() | doubles() | angles() | grids() | random())
