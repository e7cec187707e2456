"""Operators as older opsets and onnxruntime's own domain mean them, which the standard's node tests do not reach:
one-node models, expected values by onnxruntime.

Skipped where onnxruntime is not installed. A case is a row: operator, opset, inputs, attributes. To add one: a row.
"""
import os
import shutil
import sys

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "differential"))
import cases
from random_cases import random_cases
from saturate import fitting

try:
    import onnxruntime as ort
except ImportError:
    ort = None

rng = np.random.default_rng(7)
MS = "com.microsoft"
ML = "ai.onnx.ml"


def f(*shape, scale=1.0, dtype=np.float32):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def cache(count, *shape):
    """Keys or values [batch, heads, rows, size], of which so many rows are in use: onnxruntime leaves zeros behind the
    present ones unless the memory is shared, in which case it leaves what is there, as is done here."""
    x = f(*shape)
    for b, n in enumerate(count):
        x[b, :, n:] = 0
    return x


def u(*shape):
    return rng.random(shape).astype(np.float32) + 0.5


def i(*values, dtype=np.int64):
    return np.array(values, dtype)


def ids(high, *shape, dtype=np.int64):
    return rng.integers(0, high, shape).astype(dtype)


def q(*shape, dtype=np.uint8):
    return (rng.integers(0, 256, shape) + np.iinfo(dtype).min).astype(dtype)


class Const:
    """An input that is an initializer."""
    def __init__(self, value):
        self.value = np.asarray(value)


def forest(trees, targets, kind, features=4, one_target=None, signed=False):
    """Random full trees of depth 2 as the attributes of a TreeEnsemble of kind class or target."""
    a = {
        f"nodes_{x}": []
        for x in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    w = {f"{kind}_{x}": [] for x in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for node in range(7):
            leaf = node > 2
            for name, value in (("treeids", tree), ("nodeids", node), ("featureids",
                                                                       0 if leaf else int(rng.integers(features))),
                                ("values", 0.0 if leaf else float(rng.standard_normal())),
                                ("modes", "LEAF" if leaf else "BRANCH_LEQ"),
                                ("truenodeids", 0 if leaf else 2 * node + 1), ("falsenodeids",
                                                                               0 if leaf else 2 * node + 2)):
                a[f"nodes_{name}"].append(value)
            for target in range(targets if leaf and one_target is None else int(leaf)):
                for name, value in (("treeids", tree), ("nodeids",
                                                        node), ("ids", target if one_target is None else one_target),
                                    ("weights", float(rng.random() - 0.5 * signed))):
                    w[f"{kind}_{name}"].append(value)
    return a | w


def vectors(classes, each=3, features=4, kernel="RBF", probable=False, positive=False):
    """A support vector machine of so many classes."""
    pairs, n = classes * (classes - 1) // 2, classes * each
    w = f(classes - 1, n)
    a = dict(vectors_per_class=[each] * classes, support_vectors=numbers(f(n, features)),
             coefficients=numbers(abs(w) if positive else w), rho=numbers(f(pairs)), kernel_type=kernel,
             kernel_params=[0.4, 0.3, 2.0], classlabels_ints=[7, 3, 9, 5][:classes])
    return a | (dict(prob_a=numbers(-u(pairs)), prob_b=numbers(f(pairs))) if probable else {})


def ensemble(members=(), aggregate=1, post=0, targets=2, dtype=np.float32):
    """Two trees of three nodes and four leaves each, as branches and leaves in tables of their own."""
    tensor = lambda v, t: helper.make_tensor("t", helper.np_dtype_to_tensor_dtype(np.dtype(t)), [len(v)], v)
    modes = [6 if members else 0, 1, 2, 3, 4, 5]
    a = dict(tree_roots=[0, 3], nodes_modes=tensor(modes, np.uint8), nodes_featureids=[0, 1, 2, 3, 0, 1],
             nodes_splits=tensor(f(6).astype(dtype), dtype), n_targets=targets, aggregate_function=aggregate,
             nodes_truenodeids=[1, 0, 2, 4, 4, 6], nodes_trueleafs=[0, 1, 1, 0, 1,
                                                                    1], nodes_falsenodeids=[2, 1, 3, 5, 5, 7],
             nodes_falseleafs=[0, 1, 1, 0, 1,
                               1], post_transform=post, nodes_missing_value_tracks_true=[1, 0, 1, 0, 1, 0],
             leaf_targetids=[k % targets for k in range(8)], leaf_weights=tensor(f(8).astype(dtype), dtype))
    return a | (dict(membership_values=tensor([*members, np.nan], dtype)) if members else {})


def numbers(a):
    return [float(v) for v in a.ravel()]


C = Const
CASES = [
    # opset 7 to 12: attributes that became inputs, meanings that changed
    *[(op, opset, [f(2, 3, 4)], dict(axis=axis)) for op in ("Softmax", "LogSoftmax", "Hardmax") for opset in (7, 11)
      for axis in (0, 1, 2)],
    ("Softmax", 11, [f(2, 3, 4)], {}),
    ("Clip", 7, [f(3, 4, scale=4)], dict(min=-1.0, max=2.0)),
    ("Clip", 7, [f(3, 4, scale=4)], dict(max=0.5)),
    ("Clip", 11, [f(3, 4, scale=4), None, C(np.float32(0.5))], {}),
    ("Clip", 10, [np.array([np.inf, -np.inf, 1e38, 0], np.float32)], {}),
    ("Acosh", 9, [np.array([-1e30, -3, 0.5, 1, 2, 1e30], np.float32)], {}),
    *[(op, 9, [np.array([88.8, -89.2, 89.2, 1e30, -1e30, 3, -3, 0.1], np.float32)], {}) for op in ("Cosh", "Sinh")],
    *[("Shrink", 9, [i(-3, -1, 0, 1, 3, dtype=t)], dict(bias=0.3, lambd=1.5)) for t in (np.int8, np.int64)],
    ("Squeeze", 7, [f(1, 3, 1, 2)], dict(axes=[0, 2])),
    ("Squeeze", 11, [f(1, 3, 1, 2)], {}),
    ("Squeeze", 11, [f(1, 3, 1, 2)], dict(axes=[-2])),
    ("Unsqueeze", 7, [f(3, 2)], dict(axes=[0, 3])),
    ("Unsqueeze", 11, [f(3, 2)], dict(axes=[-1, 0])),
    ("Slice", 9, [f(5, 6, 7)], dict(starts=[1, -3], ends=[4, 1000], axes=[0, 2])),
    ("Slice", 9, [f(5, 6, 7)], dict(starts=[0, 1], ends=[-1, -2])),
    ("Slice", 10, [f(5, 6, 7), i(4, 5), i(-100, 0), i(0, 2), i(-2, -3)], {}),
    ("Slice", 10, [np.zeros((2, 0), np.float32), i(0), i(1), i(1),
                   i(-2)], {}),
    ("QuantizeLinear", 21, [f(3, 4), u(1, 4)], dict(axis=0, block_size=5)),
    ("LRN", 7, [np.zeros((1, 0, 2, 2), np.float32)], dict(size=3)),
    ("CumSum", 14, [np.zeros((2, 0), np.float32), i(1)], dict(exclusive=1)),
    ("Pad", 7, [f(2, 3, 4, 5)], dict(pads=[0, 0, 1, 2, 0, 0, 3, 4], mode="constant", value=1.5)),
    ("Pad", 7, [f(2, 3, 4, 5)], dict(pads=[0, 0, 1, 2, 0, 0, 3, 4], mode="reflect")),
    ("Pad", 7, [f(2, 3, 4, 5)], dict(pads=[0, 1, 1, 2, 0, 0, 3, 4], mode="edge")),
    ("Pad", 11, [f(2, 3, 4, 5), i(0, 0, -1, 2, 0, 0, 3, -2)], {}),
    ("Split", 7, [f(6, 4)], dict(axis=0, split=[1, 2, 3]), 3),
    ("Split", 11, [f(6, 4)], dict(axis=-1), 2),
    ("ReduceSum", 7, [f(2, 3, 4)], dict(axes=[0, 2], keepdims=0)),
    ("ReduceMean", 11, [f(2, 3, 4)], dict(axes=[-1])),
    ("ReduceMax", 12, [ids(100, 3, 4, dtype=np.int8)], dict(axes=[1])),
    ("ReduceL2", 11, [f(2, 3, 4)], {}),
    ("ReduceLogSumExp", 11, [f(2, 3, 4, scale=20)], dict(axes=[1])),
    ("ReduceLogSum", 11, [i([1, 20, 3], [4, 5, 60], dtype=np.int32)], dict(axes=[0])),
    ("BatchNormalization", 7, [f(2, 3, 4, 5), u(3), f(3), f(3), u(3)], dict(epsilon=1e-3)),
    ("BatchNormalization", 9, [f(2, 3, 4, 5), C(u(3)), C(f(3)), C(f(3)),
                               C(u(3))], {}),
    ("BatchNormalization", 9, [f(4, 3), u(3), f(3), f(3), u(3)], {}),
    ("Dropout", 7, [f(3, 4)], dict(ratio=0.3)),
    ("Dropout", 10, [f(3, 4)], dict(ratio=0.3)),
    ("Dropout", 12, [f(3, 4), C(np.float32(0.5)), C(np.bool_(False))], {}),
    ("PRelu", 7, [f(2, 3, 4, 5), f(3, 1, 1)], {}),
    ("PRelu", 9, [f(2, 3), f(1)], {}),
    ("Upsample", 7, [f(1, 2, 3, 4)], dict(scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")),
    ("Upsample", 9, [f(1, 2, 3, 4), C(np.array([1, 1, 2, 2], np.float32))], dict(mode="nearest")),
    ("Upsample", 9, [f(1, 2, 3, 4), C(np.array([1, 1, 2, 2], np.float32))], dict(mode="linear")),
    # far from 0 a float position shows
    ("Resize", 13, [f(1, 1, 3, 640), None, None,
                    C(i(1, 1, 5, 1066))], dict(mode="linear", coordinate_transformation_mode="half_pixel")),
    ("Resize", 13, [f(1, 1, 3, 480), None,
                    C(np.array([1, 1, 2, 5 / 3],
                               np.float32))], dict(mode="linear", coordinate_transformation_mode="asymmetric")),
    ("Resize", 10, [f(1, 2, 6, 4), C(np.array([1, 1, 0.5, 2], np.float32))], dict(mode="nearest")),
    ("Resize", 10, [f(1, 2, 6, 4), C(np.array([1, 1, 2, 1.5], np.float32))], dict(mode="linear")),
    *[
        ("Resize", 19, [f(1, 3, 36, 45), None, None, C(i(1, 3, h, w))], dict(mode=m, **more))
        for m, more in (("linear", {}), ("cubic", {}), ("linear", {"antialias": 1}), ("cubic", {"antialias": 1}))
        # whole factors, whose idle taps go; axes that shrink come first
        for h, w in ((12, 15), (72, 90), (20, 70), (50, 15))
    ],
    *[
        ("Resize", 19, [rng.integers(0, 255, (1, 1, 1, 37)).astype(t), None,
                        C(np.array([1, 1, 1, s], np.float32))
                        ], dict(mode=m, antialias=1, coordinate_transformation_mode="asymmetric"))
        # none that lies halfway between two integers
        for t in (np.uint8, np.int32) for m in ("linear", "cubic") for s in (0.37, 1.7)
    ],
    ("MaxPool", 22, [f(1, 3, 5, 4)], dict(kernel_shape=[2, 2], strides=[3, 3], auto_pad="", ceil_mode=1)),
    ("Resize", 13, [f(1, 2, 5, 6, 70), None, None, C(i(1, 2, 10, 12, 35))], dict(mode="linear")),
    # more places than 16 bits count
    ("Resize", 13, [f(1, 1, 2, 70000), None, None,
                    C(i(1, 1, 4, 70100))], dict(mode="linear", coordinate_transformation_mode="asymmetric")),
    ("Gemm", 7, [f(3, 4), f(4, 5), f(5)], dict(alpha=0.5, beta=2.0)),
    ("Gemm", 11, [f(4, 3), f(5, 4)], dict(transA=1, transB=1)),
    ("Gemm", 9, [f(3, 4), f(4, 5), f(3, 1)], {}),
    ("Flatten", 9, [f(2, 3, 4)], dict(axis=0)),
    ("Flatten", 11, [f(2, 3, 4)], dict(axis=-1)),
    ("TopK", 7, [f(3, 8)], dict(k=3, axis=1), 2),
    ("TopK", 10, [f(3, 8), C(i(3))], dict(axis=0), 2),
    ("ArgMax", 7, [f(3, 8)], dict(axis=1, keepdims=0)),
    ("ArgMin", 12, [f(3, 8)], dict(axis=0, select_last_index=1)),
    ("Cast", 7, [f(3, 8, scale=10)], dict(to=TensorProto.INT32)),
    ("Mod", 10, [ids(50, 4, 5) - 25, ids(9, 5) + 1], {}),
    ("Mod", 10, [f(4, 5), f(5)], dict(fmod=1)),
    ("Div", 7, [ids(50, 4, 5) - 25, ids(9, 5) + 1], {}),
    ("Pow", 7, [u(3, 4), f(4)], {}),
    ("Pow", 12, [ids(9, 3, 4), ids(4, 4)], {}),
    ("Pow", 12, [f(3, 4), C(np.float32(2))], {}),
    ("Pow", 12, [u(3, 4), C(np.float32(0.5))], {}),
    ("LRN", 7, [f(1, 7, 3, 3)], dict(size=3, alpha=0.01)),
    ("InstanceNormalization", 7, [f(2, 3, 4, 5), u(3), f(3)], {}),
    ("MeanVarianceNormalization", 9, [f(2, 3, 4, 5)], {}),
    ("LpNormalization", 7, [f(2, 3, 4)], dict(axis=1, p=1)),
    ("LpPool", 11, [f(1, 2, 6, 6)], dict(kernel_shape=[2, 3], p=3, strides=[2, 1])),
    ("GlobalLpPool", 7, [f(1, 2, 6, 6)], dict(p=3)),
    *[("MaxRoiPool", 7, [
        f(2, 3, 9, 7),
        C(np.array([[0, 1, 1, 5, 6], [1, 0, 2, 3, 3], [1, 4, 4, 4, 4], [0, -3, 2, 20, 30]], np.float32))
    ], dict(pooled_shape=[3, 2], spatial_scale=s)) for s in (1.0, 0.5)],
    ("CumSum", 11, [f(3, 40), C(np.int32(1))], dict(exclusive=1, reverse=1)),
    ("CumSum", 11, [f(2, 301, 3), C(np.int32(1))], dict(exclusive=1, reverse=1)),
    ("CumSum", 11, [f(70, 5), C(np.int32(-2))], {}),
    ("CumSum", 14, [np.round(8 * f(411, 19)), C(np.int64(0))], dict(reverse=1)),
    ("CumSum", 14, [np.round(8 * f(2, 1000)), C(np.int64(1))], dict(exclusive=1)),
    ("TopK", 11, [f(5, 3000), C(i(400))], dict(axis=1), 2),
    ("TopK", 11, [f(300, 5, 3), C(i(100))], dict(axis=0, largest=0), 2),
    ("TopK", 11, [f(2, 300, 19), C(i(7))], dict(axis=1), 2),
    ("TopK", 11, [f(701, 60), C(i(3))], {}, 2),  # large enough for all threads
    ("Einsum", 12, [f(2, 3, 4), f(2, 4, 5)], dict(equation="bij,bjk->bik")),
    ("Einsum", 12, [f(3, 3)], dict(equation="ii->i")),
    ("Einsum", 12, [f(2, 3, 5), f(5, 4)], dict(equation="...ij,jk->...ik")),
    ("OneHot", 9, [ids(5, 3, 2), C(i(5)), C(np.array([2, 7], np.float32))], dict(axis=1)),
    ("ConstantOfShape", 9, [C(i(2, 3))], dict(value=helper.make_tensor("v", TensorProto.INT64, [1], [7]))),
    ("Scatter", 9, [f(3, 4), ids(3, 2, 4), f(2, 4)], dict(axis=0)),
    ("MaxPool", 8, [f(1, 2, 7, 6)], dict(kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]), 2),
    ("MaxPool", 8, [f(1, 2, 7, 6)], dict(kernel_shape=[3, 2], storage_order=1), 2),
    ("MaxPool", 10, [f(1, 2, 9, 8)], dict(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, dilations=[2, 1])),
    ("AveragePool", 7, [f(1, 2, 7, 6)], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    ("AveragePool", 7, [f(1, 2, 7, 6)], dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)),
    ("AveragePool", 10, [f(1, 2, 8, 8)], dict(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)),
    ("AveragePool", 11, [f(1, 2, 8, 8)], dict(kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER")),
    ("Conv", 7, [f(1, 4, 9, 8), C(f(6, 2, 3, 3)),
                 C(f(6))], dict(group=2, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2])),
    ("Conv", 11, [f(5, 6), f(4, 3), f(4)], dict(group=2)),
    ("Conv", 11, [f(1, 3, 11), C(f(4, 3, 4))], dict(auto_pad="SAME_UPPER", strides=[3])),
    ("Conv", 11, [f(1, 2, 5, 5, 5), C(f(3, 2, 3, 3, 3))], {}),
    ("Conv", 11, [f(1, 3, 4, 5), C(f(6, 3, 3, 5)), C(f(6))], dict(pads=[6, 12, 6, 12], dilations=[6, 6])),
    ("Conv", 11, [f(1, 3, 4, 5), C(f(6, 3, 3, 5)), C(f(6))], dict(pads=[7, 3, 9, 17], dilations=[5, 4], strides=[2,
                                                                                                                 3])),
    ("Conv", 11, [f(1, 20, 13, 12), C(f(17, 20, 3, 3)), C(f(17))], dict(pads=[10, 9, 10, 9], dilations=[10, 9])),
    ("ConvTranspose", 7, [f(1, 4, 5, 6), C(f(4, 3, 3, 3)),
                          C(f(3))], dict(strides=[2, 3], pads=[1, 1, 0, 1], output_padding=[1, 0])),
    ("ConvTranspose", 11, [f(1, 4, 5, 6), C(f(4, 3, 4, 3))], dict(strides=[2, 2], group=2, dilations=[2, 1])),
    ("ConvTranspose", 11, [f(1, 2, 5, 6), C(f(2, 3, 3, 3))], dict(strides=[2, 2], auto_pad="SAME_UPPER")),
    ("ConvTranspose", 11, [f(1, 2, 5, 6), C(f(2, 3, 3, 3))], dict(strides=[3, 2], output_shape=[15, 13])),
    ("ConvTranspose", 11, [f(1, 2, 7), C(f(2, 3, 2))], dict(strides=[3])),
    ("GridSample", 16, [f(2, 3, 5, 6), f(2, 4, 4, 2,
                                         scale=0.8)], dict(mode="bicubic", padding_mode="reflection", align_corners=1)),
    ("GridSample", 16, [f(2, 3, 5, 6), f(2, 4, 4, 2, scale=0.8)], dict(mode="bilinear", padding_mode="border")),
    ("GridSample", 16, [f(1, 32, 40, 40), f(1, 40, 40, 2, scale=0.8)], dict(mode="bicubic")),
    *[("GridSample", 20, [f(2, 3, 9, 11), f(2, 8, 7, 2)], dict(mode=m, padding_mode=p, align_corners=a))
      for m in ("nearest", "linear", "cubic") for p in ("zeros", "border", "reflection")
      for a in (0, 1) if (m, p) != ("cubic", "border")],
    ("GridSample", 20, [f(1, 2, 5, 6, 7), f(1, 4, 5, 6, 3, scale=0.8)], dict(mode="linear")),
    *[("RoiAlign", 16, [f(1, 6, 64, 64),
                        np.sort(f(5, 2, 2, scale=60), axis=1).reshape(5, 4),
                        ids(1, 5)], dict(output_height=n, output_width=n, mode=m)) for m in ("avg", "max")
      for n in (1, 9)],
    # channels together and left over, by all threads
    *[("RoiAlign", 16, [f(2, 37, 30, 30),
                        np.sort(f(7, 2, 2, scale=40), axis=1).reshape(7, 4),
                        ids(2, 7)], dict(output_height=3, output_width=2, mode=m)) for m in ("avg", "max")],
    ("Trilu", 14, [f(2, 4, 5), C(np.int64(-1))], dict(upper=0)),
    ("LayerNormalization", 17, [f(2, 3, 8), u(8), f(8)], dict(axis=-1), 3),
    ("LayerNormalization", 17, [f(2, 3, 8), u(3, 8), f(3, 8)], dict(axis=1)),
    *[(op, 7, [f(3, 4, dtype=np.float16)], {}) for op in ("Sigmoid", "Tanh", "Exp", "Softplus", "Elu")],
    ("Softmax", 13, [f(3, 40, dtype=np.float16)], {}),
    ("MatMul", 9, [f(3, 40, dtype=np.float16), f(40, 5, dtype=np.float16)], {}),
    ("ReduceMean", 11, [f(3, 40, dtype=np.float16)], dict(axes=[1])),
    *[(op, 13, [u(3, 4).astype(np.float64)], {}) for op in ("Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh")],
    *[(op, 13, [rng.uniform(-0.99, 0.99, (40, )).astype(np.float32)], {})
      for op in ("Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Tan", "Erf")],
    ("Atan", 13, [f(60, scale=50)], {}),
    ("Acosh", 13, [u(40) * 30 + 1], {}),
    # ai.onnx.ml
    *[("LinearClassifier", 1, [f(5, 4)],
       dict(coefficients=list(map(float, f(12))), intercepts=[0.1, -0.2, 0.3], classlabels_ints=[7, 3, 9],
            post_transform=p), 2, ML) for p in ("NONE", "LOGISTIC", "SOFTMAX")],
    *[("LinearClassifier", 1, [f(5, 4)],
       dict(coefficients=list(map(float, np.concatenate([-w, w]))), intercepts=[-0.1, 0.1], classlabels_ints=[0, 1],
            multi_class=0, post_transform=p), 2, ML) for p in ("NONE", "LOGISTIC", "SOFTMAX") for w in [f(4)]],
    ("LinearClassifier", 1, [f(5, 4)],
     dict(coefficients=list(map(float, f(12))), intercepts=[0.1, -0.2, 0.3], classlabels_strings=["a", "bc",
                                                                                                  "d"]), 2, ML),
    ("LinearRegressor", 1, [f(5, 4)], dict(coefficients=list(map(float, f(8))), intercepts=[0.5, -0.5],
                                           targets=2), 1, ML),
    ("TreeEnsembleRegressor", 1, [f(6, 4)], dict(n_targets=2, **forest(3, 2, "target")), 1, ML),
    ("TreeEnsembleRegressor", 1, [f(6, 4)],
     dict(n_targets=1, aggregate_function="AVERAGE", base_values=[0.5], **forest(3, 1, "target")), 1, ML),
    ("TreeEnsembleRegressor", 1, [f(6, 4)], dict(n_targets=1, aggregate_function="MAX", **forest(3, 1,
                                                                                                 "target")), 1, ML),
    ("TreeEnsembleClassifier", 1, [f(6, 4)], dict(classlabels_int64s=[4, 5, 6], **forest(3, 3, "class")), 2, ML),
    ("TreeEnsembleClassifier", 1, [f(6, 4)],
     dict(classlabels_int64s=[4, 5, 6], post_transform="SOFTMAX", **forest(3, 3, "class")), 2, ML),
    *[("TreeEnsembleClassifier", 1, [f(9, 4)],
       dict(classlabels_int64s=[0, 1], post_transform=p, **forest(
           n, 2, "class", one_target=target, signed=signed)), 2, ML) for p in ("NONE", "LOGISTIC", "SOFTMAX")
      for n in (1, 3) for target in (0, 1) for signed in (False, True)],
    *[("TreeEnsemble", 5, [f(7, 4)], ensemble(aggregate=k), 1, ML) for k in range(4)],
    ("TreeEnsemble", 5, [np.where(u(9, 4) > 0.8, f(9, 4), np.float32(np.nan))], ensemble(), 1, ML),
    ("TreeEnsemble", 5, [np.round(f(9, 4) * 2)], ensemble(members=(1.0, -2.0, 0.0)), 1, ML),
    ("TreeEnsemble", 5, [np.round(f(9, 4) * 50)], ensemble(members=tuple(map(float, range(100)))), 1, ML),
    ("TreeEnsemble", 5, [f(7, 4).astype(np.float64)], ensemble(dtype=np.float64), 1, ML),
    *[("SVMRegressor", 1, [f(5, 4)],
       dict(n_supports=3, support_vectors=numbers(f(3, 4)), coefficients=numbers(f(3)), rho=[0.3], kernel_type=k,
            kernel_params=[0.4, 0.3, 2.0], one_class=one), 1, ML) for k in ("LINEAR", "POLY", "RBF", "SIGMOID")
      for one in (0, 1)],
    ("SVMRegressor", 1, [f(5, 4)],
     dict(n_supports=0, coefficients=numbers(f(4)), rho=[0.3], kernel_type="LINEAR", kernel_params=[0.0, 0.0,
                                                                                                    0.0]), 1, ML),
    *[("SVMClassifier", 1, [f(6, 4)], vectors(n, kernel=k, probable=p), 2, ML) for n in (2, 3, 4)
      for k in ("LINEAR", "POLY", "RBF", "SIGMOID") for p in (False, True)],
    *[("SVMClassifier", 1, [f(6, 4)], vectors(n) | dict(post_transform=p), 2, ML)
      for n, p in ((2, "LOGISTIC"), (3, "LOGISTIC"), (3, "SOFTMAX"), (3, "SOFTMAX_ZERO"))],
    ("SVMClassifier", 1, [f(6, 4)], vectors(2, positive=True), 2, ML),
    ("SVMClassifier", 1, [f(6, 4)],
     {k: v
      for k, v in vectors(3).items() if k != "classlabels_ints"} | dict(classlabels_strings=["a", "b", "c"]), 2, ML),
    *[("SVMClassifier", 1, [f(6, 4)],
       dict(coefficients=numbers(f(n, 4)), rho=[0.2] * n, kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0],
            classlabels_ints=[7, 3, 9]), 2, ML) for n in (3, )],
    *[("Normalizer", 1, [f(3, 5)], dict(norm=n), 1, ML) for n in ("MAX", "L1", "L2")],
    ("Scaler", 1, [f(3, 4)], dict(offset=[0.5, 1.0, -1.0, 2.0], scale=[2.0, 1.0, 0.5, 3.0]), 1, ML),
    ("Scaler", 1, [ids(9, 3, 4)], dict(offset=[0.5], scale=[2.0]), 1, ML),
    ("Scaler", 1, [f(4)], dict(offset=[0.5, 1.0, -1.0, 2.0], scale=[2.0]), 1, ML),
    ("Scaler", 1, [f(2, 3, 4)], dict(offset=[0.5], scale=[2.0]), 1, ML),
    ("Normalizer", 1, [f(5)], dict(norm="L2"), 1, ML),
    ("MaxRoiPool", 16, [f(2, 3, 5, 5), np.array([[1, 0, 0, 3, 3], [0, 1, 1, 4, 2]],
                                                np.float32)], dict(pooled_shape=[2, 2])),
    ("Binarizer", 1, [f(3, 4)], dict(threshold=0.3), 1, ML),
    ("Imputer", 1, [np.where(f(3, 4) > 0, f(3, 4), np.float32(np.nan))],
     dict(imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan")), 1, ML),
    ("Imputer", 1, [ids(3, 4, 3)], dict(imputed_value_int64s=[7, 8, 9], replaced_value_int64=1), 1, ML),
    ("Imputer", 1, [f(3, 4)], dict(imputed_value_floats=[5.0], replaced_value_float=float("nan")), 1, ML),
    ("LinearRegressor", 1, [f(5, 4)], dict(coefficients=numbers(f(12) * 3), targets=3,
                                           post_transform="SOFTMAX_ZERO"), 1, ML),
    ("LinearRegressor", 1, [u(5, 4) - 0.5], dict(coefficients=[0.2, 0.3, 0.1, 0.3], targets=1,
                                                 post_transform="PROBIT"), 1, ML),
    ("FeatureVectorizer", 1, [f(3, 2), f(3, 3)], dict(inputdimensions=[2, 3]), 1, ML),
    ("OneHotEncoder", 1, [ids(6, 2, 3)], dict(cats_int64s=[0, 2, 4], zeros=1), 1, ML),
    ("LabelEncoder", 2, [ids(6, 2, 3)], dict(keys_int64s=[0, 2, 4], values_floats=[0.5, 1.5, 2.5],
                                             default_float=-3.0), 1, ML),
    ("LabelEncoder", 2, [ids(6, 2, 3)], dict(keys_int64s=[0, 2, 4], values_strings=["zero", "two", "four"]), 1, ML),
    ("LabelEncoder", 2, [np.array(["a", "b", "zz"],
                                  object)], dict(keys_strings=["a", "b"], values_int64s=[3, 4],
                                                 default_int64=9), 1, ML),
    ("ArrayFeatureExtractor", 1, [f(3, 5), i(4, 0, 2)], {}, 1, ML),
    ("CategoryMapper", 1, [np.array([["a"], ["q"]], object)], dict(cats_strings=["a", "b"], cats_int64s=[3, 4]), 1, ML),
    # experimental ones that left the standard
    ("Affine", 7, [f(3, 4)], dict(alpha=0.5, beta=2.0)),
    ("Affine", 7, [f(3, 4)], dict(beta=2.0)),
    ("ScaledTanh", 7, [f(3, 4)], dict(alpha=0.5, beta=2.0)),
    ("ParametricSoftplus", 7, [f(3, 4, scale=9)], dict(alpha=0.5, beta=2.0)),
    ("ImageScaler", 7, [f(2, 3, 4, 5)], dict(scale=0.5, bias=[1.0, 2.0, 3.0])),
    ("Crop", 7, [f(2, 3, 6, 7)], dict(border=[1, 2, 3, 1])),
    ("Crop", 7, [f(2, 3, 6, 7)], dict(border=[1, 2, 3, 1], scale=[2, 3])),
    # onnxruntime's own
    *[(op, 1, [
        q(3, 5),
        C(np.float32(0.1)),
        C(np.uint8(120)),
        q(5),
        C(np.float32(0.2)),
        C(np.uint8(131)),
        C(np.float32(s)),
        C(np.uint8(119))
    ], {}, 1, MS) for op, s in (("QLinearAdd", 0.3), ("QLinearMul", 1.9))],
    ("QLinearAdd", 1, [
        q(3, 5, dtype=np.int8),
        C(np.float32(0.1)),
        C(np.int8(-3)),
        q(3, 1, dtype=np.int8),
        C(np.float32(0.2)),
        C(np.int8(0)),
        C(np.float32(0.17)),
        C(np.int8(5))
    ], {}, 1, MS),
    *[(op, 1, [q(3, 50), C(np.float32(0.05)),
               C(np.uint8(120)), C(np.float32(0.02)),
               C(np.uint8(9))], a, 1, MS) for op, a in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", dict(alpha=0.3)))],
    *[("QLinearGlobalAveragePool",
       1, [q(2, 3, 4, 5), C(np.float32(0.05)),
           C(np.uint8(120)), C(np.float32(0.02)),
           C(np.uint8(99))], dict(channels_last=k), 1, MS) for k in (0, 1)],
    ("QLinearConcat", 1, [
        C(np.float32(0.07)),
        C(np.uint8(100)),
        q(2, 3),
        C(np.float32(0.05)),
        C(np.uint8(120)),
        q(2, 4),
        C(np.float32(0.11)),
        C(np.uint8(90))
    ], dict(axis=1), 1, MS),
    *[("QGemm", 1, [
        q(4, 6),
        C(np.float32(0.1)),
        C(np.uint8(120)),
        C(q(5, 6, dtype=np.int8)),
        C(u(5) * 0.1),
        C(q(5, dtype=np.int8)),
        C(ids(500, 5, dtype=np.int32)), *more
    ], dict(transB=1), 1, MS) for more in ([], [C(np.float32(3.0)), C(np.uint8(128))])],
    *[("MatMulIntegerToFloat",
       1, [q(4, 6),
           q(6, 5, dtype=t),
           C(np.float32(0.1)),
           C(u(5) * 0.1),
           C(np.uint8(120)),
           C(q(5, dtype=t)),
           C(f(5))], {}, 1, MS) for t in (np.uint8, np.int8)],
    ("DynamicQuantizeMatMul", 1, [f(4, 6), C(q(6, 5)), C(u(5) * 0.1),
                                  C(q(5)), C(f(5))], {}, 1, MS),
    *[("Inverse", 1, [f(*shape, n, n)], {}, 1, MS) for shape, n in (((), 1), ((), 2), ((2, 3), 3), ((), 7))],
    *[("FusedConv", 1, [f(1, 2, 5, 6), C(f(3, 2, 3, 3)), C(f(3)), *more], dict(activation=a) | p, 1, MS)
      for a, p, more in (("Relu", {}, []), ("LeakyRelu", dict(activation_params=[0.2]), []), ("Tanh", {}, []),
                         ("Sigmoid", {}, []), ("Clip", dict(activation_params=[-0.5, 1.5]), []),
                         ("HardSigmoid", dict(activation_params=[0.3, 0.4]), []), ("Relu", {}, [f(1, 3, 3, 4)]))],
    ("QuantizeLinear", 1, [f(3, 4), C(np.float32(0.02)), C(np.uint8(120))], {}, 1, MS),
    ("DequantizeLinear", 1, [q(3, 4), C(np.float32(0.02)), C(np.uint8(120))], {}, 1, MS),
    ("Gelu", 1, [f(3, 8)], {}, 1, MS),
    ("BiasGelu", 1, [f(3, 8), f(8)], {}, 1, MS),
    ("FastGelu", 1, [f(3, 8), f(8)], {}, 1, MS),
    ("QuickGelu", 1, [f(3, 8)], dict(alpha=1.3), 1, MS),
    ("FusedMatMul", 1, [f(2, 5, 3), f(2, 4, 5)], dict(alpha=0.5, transA=1, transB=1), 1, MS),
    ("SkipLayerNormalization", 1, [f(2, 3, 8), f(2, 3, 8), u(8), f(8), f(8)], dict(epsilon=1e-5), 1, MS),
    ("SkipSimplifiedLayerNormalization", 1, [f(2, 3, 8), f(2, 3, 8), u(8)], dict(epsilon=1e-5), 1, MS),
    ("SimplifiedLayerNormalization", 1, [f(2, 3, 8), u(8)], dict(epsilon=1e-5), 1),
    ("EmbedLayerNormalization", 1, [
        ids(9, 2, 4, dtype=np.int32),
        ids(2, 2, 4, dtype=np.int32),
        f(9, 8),
        f(6, 8),
        f(2, 8),
        u(8),
        f(8),
        np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    ], {}, 2, MS),
    ("EmbedLayerNormalization", 1, [
        ids(9, 2, 4, dtype=np.int32),
        ids(2, 2, 4, dtype=np.int32),
        f(9, 8),
        f(6, 8),
        f(2, 8),
        u(8),
        f(8),
        np.array([[1, 2, 3, 0], [1, 1, -1, 0]], np.int32)
    ], {}, 2, MS),
    ("Attention", 1, [f(2, 5, 8), f(8, 24, scale=0.4), f(24)], dict(num_heads=2), 1, MS),
    ("Attention", 1, [f(2, 5, 8), f(8, 24, scale=0.4), f(24)], dict(num_heads=2, unidirectional=1), 1, MS),
    ("Attention", 1, [f(2, 5, 8),
                      f(8, 24, scale=0.4),
                      f(24),
                      np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)], dict(num_heads=2), 1, MS),
    ("Attention", 1, [f(2, 5, 8), f(8, 24, scale=0.4), f(24),
                      i(5, 3, dtype=np.int32)], dict(num_heads=2), 1, MS),
    ("Attention", 1, [f(2, 3, 8), f(8, 24, scale=0.4), f(24), None,
                      f(2, 2, 2, 4, 4)], dict(num_heads=2, unidirectional=1), 2, MS),
    ("MultiHeadAttention", 1, [f(2, 5, 8), f(2, 6, 8), f(2, 6, 8)], dict(num_heads=2), 1, MS),
    ("MultiHeadAttention", 1, [f(2, 5, 8), f(2, 6, 8), f(2, 6, 8),
                               f(24), None, f(1, 2, 5, 6)], dict(num_heads=2, scale=0.3), 1, MS),
    ("MatMulNBits", 1, [f(2, 3, 40), C(ids(256, 6, 3, 8, dtype=np.uint8)),
                        C(u(18))], dict(K=40, N=6, bits=4, block_size=16), 1, MS),
    ("MatMulNBits", 1, [f(3, 64),
                        C(ids(256, 6, 2, 16, dtype=np.uint8)),
                        C(u(12)),
                        C(ids(256, 6, dtype=np.uint8))], dict(K=64, N=6, bits=4, block_size=32), 1, MS),
    # int8 by blocks
    *[("MatMulNBits", 1,
       [f(rows, 64),
        C(ids(256, 40, 64 // block, block // 2, dtype=np.uint8)),
        C(u(40 * 64 // block) / 16), zero], dict(K=64, N=40, bits=4, block_size=block, accuracy_level=4), 1, MS)
      for rows in (1, 2, 19) for block, zero in ((16, None), (32, None), (32, C(ids(256, 40, dtype=np.uint8))))],
    ("GroupQueryAttention", 1,
     [f(2, 5, 64), f(2, 5, 32),
      f(2, 5, 32), None, None,
      i(4, 4, dtype=np.int32),
      C(np.int32(5))], dict(num_heads=4, kv_num_heads=2), 3, MS),
    # groups in any order;
    *[
        ("MatMulNBits", 1,
         [f(2, 3, k),
          C(ids(256, 6, n, 8, dtype=np.uint8)),
          C(u(6 * n)), zero,
          C(ids(n, 16 * n, dtype=np.int32))], dict(K=k, N=6, bits=4, block_size=16), 1, MS)
        # with packed zero points onnxruntime disagrees with itself: test_meanings.py
        for k, n, zero in ((40, 3, None), (62, 4, C(u(6, 4))))
    ],
    *[("GroupQueryAttention", 1, [
        f(2, 5, 64), f(2, 5, 32),
        f(2, 5, 32), None, None,
        i(4, 4, dtype=np.int32),
        C(np.int32(5)), *more
    ], dict(num_heads=4, kv_num_heads=2, **how), 3, MS)
      for more, how in (([], dict(smooth_softmax=1)), ([None] * 4 + [f(4)], {}),
                        ([None] * 3 + [f(2, 4, 5, 5), f(4)], dict(softcap=2.0)))],
    *[("QLinearSoftmax",
       1, [q(3, 4, 5), C(np.float32(0.03)),
           C(np.uint8(3)), C(np.float32(1 / 256)),
           C(np.uint8(0))], dict(opset=v, axis=a), 1, MS) for v, a in ((13, -1), (13, 1), (11, 1))],
    ("QLinearAveragePool", 1,
     [q(1, 2, 5, 6), C(np.float32(0.1)),
      C(np.uint8(120)), C(np.float32(0.0713)),
      C(np.uint8(99))], dict(kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1], count_include_pad=1), 1, MS),
    ("QLinearWhere", 1, [
        ids(2, 3, 1).astype(bool),
        q(3, 5),
        C(np.float32(0.1)),
        C(np.uint8(120)),
        q(1, 5),
        C(np.float32(0.2)),
        C(np.uint8(131)),
        C(np.float32(0.1713)),
        C(np.uint8(119))
    ], {}, 1, MS),
    ("GroupQueryAttention", 1,
     [f(2, 5, 64), f(2, 5, 32),
      f(2, 5, 32), None, None,
      i(2, 0, dtype=np.int32),
      C(np.int32(5))], dict(num_heads=4, kv_num_heads=2), 3, MS),
    ("GroupQueryAttention", 1, [
        f(2, 1, 64),
        f(2, 1, 32),
        f(2, 1, 32),
        f(2, 2, 6, 16),
        f(2, 2, 6, 16),
        i(6, 6, dtype=np.int32),
        C(np.int32(7)),
        f(20, 8),
        f(20, 8)
    ], dict(num_heads=4, kv_num_heads=2, do_rotary=1), 3, MS),
    ("GroupQueryAttention", 1, [
        f(1, 4, 128), None, None,
        f(1, 2, 3, 16),
        f(1, 2, 3, 16),
        i(6, dtype=np.int32),
        C(np.int32(7)),
        f(20, 8),
        f(20, 8)
    ], dict(num_heads=4, kv_num_heads=2, do_rotary=1, rotary_interleaved=1, local_window_size=3), 3, MS),
    # ends, and behind them first positions
    *[("Attention", 1, [f(2, 5, 8), f(8, 24, scale=0.4),
                        f(24), i(*mask, dtype=np.int32)], dict(num_heads=2), 1, MS)
      for mask in ((5, 3, 1, 2), (4, 2, -1, 9))],
    *[("QAttention", 1, [
        q(2, 5, 8, dtype=t),
        C(q(8, 24, dtype=w)),
        C(f(24)),
        C(np.float32(0.02)),
        C(u(n) * 0.01), mask,
        C(t(131 if t == np.uint8 else 3)),
        C(q(n, dtype=w)), past
    ], dict(num_heads=2, unidirectional=one), nout, MS)
      for t, w, n, mask, past, one, nout in ((np.uint8, np.int8, 1, None, None, 0, 1),
                                             (np.uint8, np.int8, 24, i(5, 3, dtype=np.int32), None, 0, 1),
                                             (np.uint8, np.uint8, 24, None, f(2, 2, 2, 4, 4), 1, 2))],
    *[("QEmbedLayerNormalization", 1, [
        ids(9, 2, 4, dtype=np.int32), *([ids(2, 2, 4, dtype=np.int32)] if two else [None]),
        C(q(9, 8)),
        C(q(6, 8)),
        C(q(2, 8)) if two else None,
        C(q(8)),
        C(q(8)), mask,
        *[C(np.float32(v)) if two or k != 2 else None for k, v in enumerate((0.01, 0.02, 0.03, 0.011, 0.02))],
        *[C(np.uint8(v)) if two or k != 2 else None for k, v in enumerate((120, 130, 99, 1, 128))]
    ], {}, 2, MS) for two, mask in ((True, None), (False, np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)))],
    *[("DynamicQuantizeLSTM", 1, [
        f(5, 1, 6),
        C(q(d, 6, 16, dtype=t)),
        C(q(d, 4, 16, dtype=t)),
        C(f(d, 32)), None, *state, None,
        C(u(*n) * 0.01),
        C(np.full(n, z, t)),
        C(u(*n) * 0.01),
        C(np.full(n, z, t))
    ], dict(hidden_size=4, **how), 3, MS)
      for t, z, d, n, state, how in ((np.int8, 3, 1, (1, ), [None, None], {}),
                                     (np.uint8, 128, 1, (1, 16), [f(1, 1, 4), f(1, 1, 4)], dict(direction="reverse")),
                                     (np.int8, 0, 2, (2, 16), [None, None], dict(direction="bidirectional")))],
    *[("GatherBlockQuantized", 1, [C(data), idx, C(u(*n)), *zero], dict(block_size=16, **how), 1, MS)
      for data, idx, n, zero, how in ((ids(256, 7, 20, dtype=np.uint8), i([0, 6], [3, -1]), (7, 3), [], dict(bits=4)),
                                      (ids(256, 7, 40, dtype=np.uint8), i(5),
                                       (7, 3), [C(ids(256, 7, 3, dtype=np.uint8))], dict(bits=8)),
                                      (ids(256, 7, 20, dtype=np.uint8), i(2, 5, dtype=np.int32),
                                       (7, 3), [C(ids(256, 7, 2, dtype=np.uint8))], dict(bits=4)),
                                      (ids(16, 5, 40, 3).astype(ml_dtypes.uint4), i([1], [4]),
                                       (5, 3, 3), [C(ids(16, 5, 3, 3).astype(ml_dtypes.uint4))], {}),
                                      ((ids(16, 5, 40, 3) - 8).astype(ml_dtypes.int4), i(2, 0, 9),
                                       (5, 3, 3), [], dict(gather_axis=2)),
                                      ((ids(16, 40, 6) - 8).astype(ml_dtypes.int4), np.array(3),
                                       (3, 6), [], dict(gather_axis=-1, quantize_axis=0)))],
    *[
        ("GroupQueryAttention", 1, [
            f(2, 1, 64),
            f(2, 1, 32),
            f(2, 1, 32),
            cache(last, 2, 2, n, 16),
            cache(last, 2, 2, n, 16),
            i(*last, dtype=np.int32),
            C(np.int32(total)),
            f(20, 8),
            f(20, 8)
        ], dict(num_heads=4, kv_num_heads=2, do_rotary=1), 3, MS)
        # a buffer for more than there are, and a sample that has fewer
        for n, total, last in ((8, 5, (4, 4)), (8, 5, (4, 2)), (8, 8, (7, 7)), (6, 7, (6, 3)))
    ],
    # forms of the standard's
    *[("Trilu", 1, [f(2, 4, 5), *k], how, 1, MS) for k, how in (([C(np.int64(-1))], dict(upper=0)), ([], {}))],
    *[("Pad", 1, [f(2, 3), C(pads), *value], dict(mode=m), 1, MS)
      for pads, value, m in ((i(0, 2, 1, -1), [C(np.float32(7))], "constant"), (i([1, 0, 0, 2]), [], "edge"),
                             (i(1, 2, 0, 1), [], "reflect"))],
    *[("Range", 1, [C(np.array(v, t)) for v in values], {}, 1, MS)
      for t, values in ((np.float32, (1, 5, 0.75)), (np.int64, ([3], [9])), (np.int16, (9, -3, -4)))],
    *[("ExpandDims", 1, [f(2, 3), C(np.int32(k))], {}, 1, MS) for k in (0, 1, -1)],
    ("GatherND", 1, [f(3, 4, 5), ids(3, 2, 2, 2)], {}, 1, MS),
    ("Unique", 1, [np.array([2, 1, 1, 3, 4, 3], np.float32)], {}, 3, MS),
    ("TransposeMatMul", 1, [f(2, 5, 3), f(2, 4, 5)], dict(alpha=0.5, transA=1, transB=1), 1, MS),
    ("SampleOp", 1, [f(2, 3)], {}, 1, MS),
    *[("UnfoldTensor", 1, [f(2, 9, 3)], how, 1, MS)
      for how in (dict(dim=1, size=3, step=2), dict(size=2), dict(dim=0, size=1))],
    ("MatMulInteger16", 1, [ids(60000, 2, 3, 4).astype(np.int16),
                            ids(60000, 4, 5).astype(np.int16)], {}, 1, MS),
    *[("CDist", 1, [f(4, 6, dtype=t), f(5, 6, dtype=t)], dict(metric=m), 1, MS) for t in (np.float32, np.float64)
      for m in ("euclidean", "sqeuclidean")],
    *[("MurmurHash3", 1, [x], how, 1, MS)
      for x in (ids(2**31, 5, dtype=np.int32), ids(2**60, 5), f(5), f(5, dtype=np.float64),
                np.array(["", "a", "abc", "abcd", "hash of words"], object))
      for how in ({}, dict(seed=42, positive=0))],
    *[("NGramRepeatBlock", 1, [ids(3, 2, 9), f(2, 4)], dict(ngram_size=n), 1, MS) for n in (1, 2, 3)],
    ("GatedAdd", 1, [f(2, 3, 4), f(2, 3, 4), f(2, 3, 1)], {}, 1, MS),
    *[("GatedRMSNorm", 1, [f(2, 3, 8), f(n), f(2, 3, 8)], dict(activation=a), 1, MS)
      for n, a in ((8, "silu"), (4, "sigmoid"))],
    *[("ScaledSiLU", 1, [f(3, 4), *more], how, 1, MS)
      for more, how in (([], dict(alpha=0.5)), ([C(np.float32(1.7))], {}))],
    *[("GroupQueryAttention",
       1, [f(2, 5, 64), f(2, 5, 32),
           f(2, 5, 32), None, None,
           i(4, 4, dtype=np.int32),
           C(np.int32(5))], dict(num_heads=4, kv_num_heads=2, **how), n, MS)
      for how, n in ((dict(causal=0), 3), (dict(qk_output=1), 4), (dict(qk_output=2), 4))],
    *[("CausalConvWithState", 1, [f(2, 3, n), C(f(3, 1, 4)), C(f(3)), past], how, 2, MS)
      for n, past, how in ((6, None, dict(activation="silu")), (1, f(2, 3, 3), {}), (5, f(2, 3, 6), dict(dilation=2)))],
    *[("LinearAttention", 1, [f(2, 5, 16), f(2, 5, 16), f(2, 5, 12),
                              f(2, 2, 8, 6), *more], dict(q_num_heads=2, kv_num_heads=2, update_rule=rule), 2, MS)
      for rule, more in (("linear", []), ("gated", [-u(2, 5, 2)]), ("delta", [None, u(2, 5, 2) * 0.1]),
                         ("gated_delta", [-u(2, 5, 16), u(2, 5, 1) * 0.1]))],
    # nothing at the end of a window's way
    *[(op, 12, [f(1, 2, n, 4)], dict(kernel_shape=[n + 1, 2], **how))
      for op, n, how in (("MaxPool", 1, {}), ("AveragePool", 2, {}), ("LpPool", 1, {}),
                         ("MaxPool", 1, dict(strides=[2, 1], ceil_mode=1)))],
    ("QLinearMatMul", 10, [
        q(2, 4),
        C(np.float32(0.1)),
        C(np.array([120], np.uint8)),
        q(4, 3),
        C(np.array([0.2], np.float32)),
        C(np.uint8(131)),
        C(np.float32(0.3)),
        C(np.array([7], np.uint8))
    ], {}),
    *[("MoE", 1, [
        f(*n, 6),
        f(6, 4),
        C(f(4, 10 if a == "swiglu" else 5, 6)),
        C(f(4, 10 if a == "swiglu" else 5)),
        C(f(4, 6, 5)),
        C(f(4, 6))
    ], dict(k=k, activation_type=a, normalize_routing_weights=norm, **how), 1, MS)
      for n, a, k, norm, how in (((6, ), "relu", 2, 0, {}), ((2, 3), "gelu", 1, 0, {}), ((6, ), "silu", 3, 1, {}),
                                 ((6, ), "identity", 2, 1, {}),
                                 ((2, 3), "swiglu", 2, 1,
                                  dict(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.7)))
      ],
    *[("QMoE", 1, [
        f(3, 32),
        f(3, 4),
        C(ids(256, 4, 64, 32 * bits // 8, dtype=np.uint8)),
        C(u(4, 64, *blocks) * 0.02),
        C(f(4, 64)),
        C(ids(256, 4, 32, 32 * bits // 8, dtype=np.uint8)),
        C(u(4, 32, *blocks) * 0.02),
        C(f(4, 32))
    ], dict(k=2, activation_type="swiglu", normalize_routing_weights=1, swiglu_fusion=1, expert_weight_bits=bits, **
            how), 1, MS) for bits, blocks, how in ((4, (), {}), (8, (), {}), (4, (2, ), dict(block_size=16)))],
    *[("MatMulBnb4", 1, [f(2, 3, k), C(ids(256, 6 * k // 2, dtype=np.uint8)),
                         C(u((6 * k + 15) // 16))], dict(K=k, N=6, block_size=16, quant_type=t), 1, MS)
      for k in (40, 24) for t in (0, 1)],
    *[("FusedMatMul", 1, [f(*a), f(*b)], how, 1, MS)
      for a, b, how in (((3, 2, 5), (2, 5, 4), dict(transBatchA=1)), ((2, 3, 5), (5, 2, 4), dict(transBatchB=1)),
                        ((5, 2, 3, 4), (2, 3, 7, 4), dict(transBatchA=1, transB=1, alpha=0.5)),
                        ((5, 2, 3), (4, 2, 5), dict(transBatchA=1, transBatchB=1, transA=1, transB=1)))],
    *[("FusedGemm", 1, [f(3, 4), f(4, 5), *c], dict(activation=a, **more), 1, MS)
      for a, c, more in (("Relu", [f(5)], dict(alpha=0.5, beta=2.0)), ("LeakyRelu", [], dict(activation_alpha=0.2)),
                         ("Tanh", [f(3, 1)], {}), ("Sigmoid", [], {}), ("Elu", [], dict(activation_alpha=0.7)),
                         ("HardSigmoid", [], dict(activation_alpha=0.3, activation_beta=0.4)), ("Softplus", [], {}),
                         ("Softsign", [], {}), ("ThresholdedRelu", [], dict(activation_alpha=0.3)))],
    *[("NhwcMaxPool", 1, [q(1, 9, 8, 3, dtype=t)], dict(kernel_shape=[3, 2], strides=[2, 2], **how), 1, MS)
      for t, how in ((np.uint8, dict(pads=[1, 0, 1, 1])), (np.int8, dict(ceil_mode=1)),
                     (np.uint8, dict(auto_pad="SAME_UPPER")))],
    *[("QLinearAveragePool", 1, [
        q(2, 5, 6, 3), C(np.float32(0.1)),
        C(np.uint8(120)), C(np.float32(0.0713)),
        C(np.uint8(99))
    ], dict(kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1], channels_last=1, **how), 1, MS)
      for how in ({}, dict(count_include_pad=1))],
    *[("QLinearConv", 1, [
        q(2, *n),
        C(np.float32(0.1)),
        C(np.uint8(120)),
        C(q(6, 2, 3, 3, dtype=np.int8)),
        C(u(6) * 0.1),
        C(np.zeros(6, np.int8)),
        C(np.float32(4.1)),
        C(np.uint8(99)),
        C(ids(500, 6, dtype=np.int32))
    ], dict(group=2, pads=[1, 1, 1, 1], channels_last=k), 1, MS) for k, n in ((0, (4, 5, 6)), (1, (5, 6, 4)))],
    ("RotaryEmbedding", 1, [f(2, 3, 16), i(2), f(10, 4), f(10, 4)], dict(num_heads=2), 1, MS),
    ("RotaryEmbedding", 1, [f(2, 2, 3, 8), ids(10, 2, 3), f(10, 4), f(10, 4)], dict(interleaved=1), 1, MS),
    # few of a short row, and one more of each; behind all others, whose numbers are drawn in order
    ("TopK", 11, [f(9, 256, 5), C(i(32))], dict(axis=1), 2),
    ("TopK", 11, [f(9, 256, 5), C(i(33))], dict(axis=1), 2),
    ("TopK", 11, [f(9, 257), C(i(32))], dict(axis=1, largest=0), 2),
    ("TopK", 11, [f(40, 7), C(i(7))], dict(axis=1, largest=0), 2),
    ("TopK", 11, [f(3, 100, 31), C(i(17))], dict(axis=1), 2),
    ("TopK", 11, [f(4, 90), C(i(64))], dict(largest=0), 2),
    ("TopK", 11, [f(1024, 20), C(i(3))], dict(axis=0), 2),
]
CASES += random_cases(Const)


def build_model(case):
    op, opset, inputs, attrs, nout, domain = (*case, *(1, "")[len(case) - 4:])
    names, graph_in, inits = [], [], []
    for k, value in enumerate(inputs):
        names.append("" if value is None else f"x{k}")
        if value is None:
            continue
        if isinstance(value, Const):
            inits.append(numpy_helper.from_array(fitting(value.value, op), f"x{k}"))
        else:
            graph_in.append(
                helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    outs = [helper.make_empty_tensor_value_info(f"y{k}") for k in range(nout)]
    node = helper.make_node(op, names, [f"y{k}" for k in range(nout)], name="n", domain=domain, **attrs)
    imports = [helper.make_opsetid("", 17 if domain else opset if op != "SimplifiedLayerNormalization" else 17)
               ] + ([helper.make_opsetid(domain, opset)] if domain else [])
    model = helper.make_model(helper.make_graph([node], "g", graph_in, outs, inits), opset_imports=imports)
    model.ir_version = 8
    return model, {f"x{k}": fitting(v, op) for k, v in enumerate(inputs) if v is not None and not isinstance(v, Const)}


def write_case(folder, case):
    model, feed = build_model(case)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, feed)
    for k, value in enumerate(expected):
        model.graph.output[k].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(value.dtype)
    cases.write(folder, model, feed.values(), expected)


def main():
    top, unmade = cases.build / "onnx_ort_cases", 0
    if not ort:
        print("skipped: onnxruntime is not installed")
        return 0
    shutil.rmtree(top, ignore_errors=True)
    for number, case in enumerate(CASES):
        try:
            write_case(top / f"case_{number:03d}_{case[0]}_{case[1]}", case)
        except Exception as error:                  # an operator that this onnxruntime does not bring on the CPU
            unmade += 1
            print(f"not made: {case[0]} {case[1]}: {str(error).splitlines()[0][:150]}")
    print(f"{len(CASES) - unmade} cases made, {unmade} refused by onnxruntime", flush=True)
    return cases.run(top, "-a", "2e-6")


if __name__ == "__main__":
    sys.exit(main())
