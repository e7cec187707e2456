"""Operators of ai.onnx that move numbers and compute each by itself or along an axis."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from draw import Unfit, is_float
from table import operator, proto_type


# ---- element by element ----


@operator("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor",
          "Identity", "IsInf", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin",
          "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Mish", "HardSwish", "BitwiseNot", "Celu", "Elu",
          "Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Shrink", "Gelu", "Swish", each=True)
def unary(d, op):
    a = lambda: d.some(float(d.pick(0.1, 0.5, 1.0, 1.5, 2.0)))
    more = {
        "Celu": ("alpha", ), "Elu": ("alpha", ), "Selu": ("alpha", "gamma"), "LeakyRelu": ("alpha", ), "HardSigmoid":
        ("alpha", "beta"), "ThresholdedRelu": ("alpha", ), "Shrink": ("bias", "lambd"), "Swish": ("alpha", )
    }
    attributes = {name: a() for name in more.get(op, ())}
    if op == "Gelu":
        attributes["approximate"] = d.some(d.pick("none", "tanh"))
    if op == "IsInf":
        attributes |= {"detect_negative": d.some(d.int(0, 1)), "detect_positive": d.some(d.int(0, 1))}
    return d.step(op, [d.tensor(d.type(op))], **attributes)


@operator("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual",
          "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod", "BitShift", "PRelu", "StringConcat", each=True)
def binary(d, op):
    t = d.type(op)
    kinds = d.types(op, 1) if op == "Pow" and d.opset >= 12 else [t]
    x = d.tensor(t)
    shape = [1 if d.chance(0.25) else n for n in d.values[x].shape][d.int(0, d.values[x].ndim) if d.chance(0.4) else 0:]
    if op in ("Div", "Mod") and t.kind in "iu":                 # by 0, and the least by -1, are not defined
        y = d.add(np.array(d.rng.choice([1, 2, 3, 7] + [-2, -3] * (t.kind == "i"), shape)).astype(t))
    elif op == "BitShift":
        y = d.new(t, shape, 0, t.itemsize * 8 - 1)
    elif op == "Pow" and (t.kind in "iu" or t not in kinds or d.chance()):
        y = d.new(d.pick(*kinds), shape, 0, 3, calm=True)
    elif op == "PRelu":
        y = d.new(t, shape)
    else:
        y = d.broadcast(x)
    return d.step(op, [x, y], fmod=1 if op == "Mod" and (is_float(t) or d.chance()) else None,
                  direction=d.pick("LEFT", "RIGHT") if op == "BitShift" else None)


@operator("Max", "Min", "Mean", "Sum", each=True)
def variadic(d, op):
    x = d.tensor(d.type(op))
    return d.step(op, [x] + [d.broadcast(x) for _ in range(d.int(0, 3))])


@operator("Where", each=True)
def where(d, op):
    x = d.tensor(d.type(op, 1))
    return d.step(op, [d.broadcast(x, [np.dtype(bool)]), x, d.broadcast(x)])


@operator("Clip", each=True)
def clip(d, op):
    t = d.type(op)
    x = d.tensor(t)
    low, high = (0, 3) if d.chance(0.9) else (3, 1)
    if d.opset < 11:
        return d.step(op, [x], min=d.some(float(low)), max=d.some(float(high)))
    return d.step(op, [x, d.some(d.add(np.array(low).astype(t)), 0.7), d.some(d.add(np.array(high).astype(t)), 0.7)])


@operator("Cast", "CastLike", each=True)
def cast(d, op):
    to = d.pick(*[t for t in d.types(op, 0 if op == "Cast" else 1, output=op == "Cast")])
    x = d.tensor(d.type(op))
    if d.values[x].dtype == object:                             # text that is a number
        x = d.add(
            np.array([
                d.pick("1", "-2", "0.5", "3.25", "1e2", "NaN", "INF", "-INF") if is_float(to) else d.pick(
                    "0", "1", "7", "100") for _ in range(d.int(1, 5))
            ], object))
    saturate = d.some(d.int(0, 1)) if d.opset >= 19 else None
    way = d.some(d.pick("up", "down", "nearest")) if d.opset >= 24 and to.name == "float8_e8m0fnu" else None
    return d.step(op, [x], to=proto_type(to), saturate=saturate, round_mode=way) if op == "Cast" else d.step(
        op, [x, d.new(to, (2, ))], saturate=saturate, round_mode=way)


@operator("BitCast", each=True)
def bit_cast(d, op):
    x = d.tensor(d.type(op))
    return d.step(
        op, [x], to=proto_type(
            d.pick(*[
                t for t in d.types(op, 0)
                if bits_of(t) == bits_of(d.values[x].dtype) and (t != bool or d.values[x].dtype == bool)
            ])))


def bits_of(dtype):
    return 4 if "4" in dtype.name and dtype.itemsize == 1 and "8" not in dtype.name else 2 if dtype.name in (
        "int2", "uint2") else 8 * dtype.itemsize


@operator("Dropout")
def dropout(d, op):
    x = d.tensor(d.type(op))
    outputs = [True, d.chance() and d.opset >= 10]
    if d.opset < 12:
        return d.step(op, [x], outputs[:1 + outputs[1]], ratio=d.some(0.3))
    return d.step(
        op, [x, d.some(d.add(np.array(0.3).astype(d.pick(*d.types(op, 1))))),
             d.some(d.add(np.array(False)), 0.3)], outputs[:1 + outputs[1]], seed=d.some(7, 0.2))


# ---- of chance ----

def chances(d, op, types, **attributes):
    return dict(dtype=d.some(proto_type(d.pick(*types))), seed=d.some(3.0), **attributes)


@operator("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random(d, op):
    ends = dict(mean=d.some(2.0), scale=d.some(0.5)) if "Normal" in op else dict(low=d.some(-1.0), high=d.some(3.0))
    attributes = chances(d, op, d.types(op, 0, output=True), **ends)
    if not op.endswith("Like"):
        return d.step(op, [], shape=list(d.shape(1)), **attributes)
    x = d.tensor(d.type(op))
    return d.step(op, [x], **attributes if is_float(d.values[x].dtype) else attributes | dict(dtype=TensorProto.FLOAT))


@operator("Bernoulli")
def bernoulli(d, op):
    return d.step(op, [d.new(d.type(op), d.shape(), 0, 1)], **chances(d, op, d.types(op, 0, output=True)))


@operator("Multinomial")
def multinomial(d, op):
    return d.step(op, [d.new(d.type(op), (d.pick(1, 3), d.pick(1, 2, 4)), -3, 0)], sample_size=d.some(d.pick(1, 5)),
                  **chances(d, op, d.types(op, 0, output=True)))


# ---- along axes ----


@operator("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
          "ReduceProd", "ReduceSum", "ReduceSumSquare")
def reduce(d, op):
    t = d.type(op)
    # the mean of no integers is not defined
    x = d.tensor(t, (0, 5), fits=(lambda v: v.size) if op == "ReduceMean" and t.kind in "iu" else None)
    rank = d.values[x].ndim
    axes = d.rng.permutation(rank)[:d.int(0 if d.chance(0.2) else 1, rank)].tolist() if rank else []
    axes = [a - rank if d.opset >= 11 and d.chance(0.3) else a for a in axes]
    keep = d.some(d.int(0, 1))
    if d.opset >= (13 if op == "ReduceSum" else 18):
        return d.step(op, [x, d.some(d.index(axes), 0.8)], keepdims=keep, noop_with_empty_axes=d.some(d.int(0, 1), 0.3))
    return d.step(op, [x], axes=d.some(axes, 0.8) if axes else None, keepdims=keep)


@operator("ArgMax", "ArgMin")
def arg(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    return d.step(op, [x], axis=d.some(d.axis(d.values[x].ndim)), keepdims=d.some(d.int(0, 1)),
                  select_last_index=d.some(d.int(0, 1)) if d.opset >= 12 else None)


@operator("CumSum", "CumProd")
def cumulate(d, op):
    x = d.tensor(d.type(op), (1, 4), calm=True)
    return d.step(op, [x, d.index(d.axis(d.values[x].ndim), d.pick(np.int32, np.int64))], exclusive=d.some(d.int(0, 1)),
                  reverse=d.some(d.int(0, 1)))


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(d, op):
    x = d.tensor(d.type(op), (1, 4))
    return d.step(op, [x], axis=d.some(d.axis(d.values[x].ndim)) if d.opset >= 13 or d.values[x].ndim > 1 else 0)


@operator("LpNormalization")
def lp_normalization(d, op):
    x = d.tensor(d.type(op), (1, 4))
    return d.step(op, [x], axis=d.some(d.int(-1, d.values[x].ndim - 1)), p=d.some(d.int(1, 2)))


@operator("MeanVarianceNormalization")
def mean_variance(d, op):
    x = d.tensor(d.type(op), (4, 4), calm=True)
    return d.step(op, [x], axes=d.some([0, 2, 3]))


@operator("TopK")
def top_k(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size and distinct(v))
    axis = d.axis(d.values[x].ndim)
    k = d.int(1, d.values[x].shape[axis])
    axis = axis if axis != d.values[x].ndim - 1 else d.some(axis)
    if d.opset < 10:
        return d.step(op, [x], 2, axis=axis, k=k)
    order = dict(largest=d.some(d.int(0, 1)), sorted=d.some(1)) if d.opset >= 11 else {}
    return d.step(op, [x, d.index([k])], 2, axis=axis, **order)


def distinct(v):
    return v.dtype != object and not np.isnan(v.astype(np.float64)).any()


@operator("Unique")
def unique(d, op):
    x = d.tensor(d.type(op), (1, 3), fits=lambda v: v.size and (v.dtype == object or distinct(v)))
    return d.step(op, [x], d.int(1, 4), axis=d.some(d.axis(d.values[x].ndim)), sorted=d.some(d.int(0, 1)))


@operator("ReverseSequence")
def reverse_sequence(d, op):
    x = d.tensor(d.type(op), (2, 4), fits=lambda v: v.shape[0] and v.shape[1])
    time = d.int(0, 1)
    n = d.values[x].shape
    lengths = d.new(np.int64, (n[1 - time],), 1, n[time])
    return d.step(op, [x, lengths], batch_axis=d.some(1) if time == 0 else 0, time_axis=d.some(0) if time == 0 else 1)


# ---- shapes ----

@operator("Shape", "Size")
def shape(d, op):
    x = d.tensor(d.type(op))
    if op == "Size" or d.opset < 15:
        return d.step(op, [x])
    rank = d.values[x].ndim
    return d.step(op, [x], start=d.some(d.int(-rank - 1, rank + 1)), end=d.some(d.int(-rank - 1, rank + 1)))


@operator("Reshape")
def reshape(d, op):
    x = d.tensor(d.type(op))
    n = d.values[x].size
    to, rest = [], n
    for _ in range(d.int(0, 4)):
        k = d.pick(*[k for k in (1, 2, 3, 4, 5, 7) if rest and rest % k == 0] or [0])
        to.append(k)
        rest = rest // k if k else 0
    allow = d.some(1) if d.opset >= 14 and 0 in d.values[x].shape else None
    if n == 0:
        to = [2, 0, 3] if allow else list(d.values[x].shape)
    elif rest != 1 or d.chance(0.3):
        to.append(-1 if d.chance(0.7) else rest)
    for k in range(min(len(to), d.values[x].ndim)):
        if to[k] == d.values[x].shape[k] and d.chance(0.3) and not allow:
            to[k] = 0
    return d.step(op, [x, d.index(to)], allowzero=allow)


@operator("Flatten")
def flatten(d, op):
    x = d.tensor(d.type(op), (0 if d.opset >= 9 else 1, 4))
    rank = d.values[x].ndim
    return d.step(op, [x], axis=d.some(d.int(-rank if d.opset >= 11 else 0, rank)) if rank else 0)


@operator("Squeeze")
def squeeze(d, op):
    x = d.tensor(d.type(op), (0, 5), fits=lambda v: 1 in v.shape)
    ones = [k for k, n in enumerate(d.values[x].shape) if n == 1]
    axes = [
        k - d.values[x].ndim if d.opset >= 11 and d.chance(0.3) else k
        for k in sorted(d.rng.permutation(ones)[:d.int(1, len(ones))].tolist())
    ]
    if d.chance(0.2):
        return d.step(op, [x])
    return d.step(op, [x, d.index(axes)]) if d.opset >= 13 else d.step(op, [x], axes=axes)


@operator("Unsqueeze")
def unsqueeze(d, op):
    x = d.tensor(d.type(op), (0, 4))
    rank = d.values[x].ndim + d.int(1, 2)
    axes = d.rng.permutation(rank)[:rank - d.values[x].ndim].tolist()
    axes = [a - rank if d.opset >= 11 and d.chance(0.3) else a for a in axes]
    return d.step(op, [x, d.index(axes)]) if d.opset >= 13 else d.step(op, [x], axes=sorted(axes))


@operator("Transpose")
def transpose(d, op):
    x = d.tensor(d.type(op), (0, 5))
    return d.step(op, [x], perm=d.some(d.rng.permutation(d.values[x].ndim).tolist(), 0.8) if d.values[x].ndim else None)


@operator("Expand")
def expand(d, op):
    x = d.tensor(d.type(op), (0, 3))
    n = [d.pick(1, 2, 3) if k == 1 else d.pick(k, 1) for k in d.values[x].shape]
    to = [d.pick(1, 2, 3)] * d.chance(0.3) + (n if d.chance(0.7) else n[1:])
    return d.step(op, [x, d.index(to)])


@operator("Tile")
def tile(d, op):
    x = d.tensor(d.type(op), (1, 3))
    return d.step(op, [x, d.index([d.pick(0, 1, 1, 2, 3) for _ in d.values[x].shape])])


@operator("Concat")
def concat(d, op):
    x = d.tensor(d.type(op), (1, 4))
    v = d.values[x]
    axis = d.axis(v.ndim)
    n = [list(v.shape) for _ in range(d.int(0, 3))]
    for shape in n:
        shape[axis] = d.size()
    return d.step(op, [x] + [d.new(v.dtype, shape) for shape in n], axis=axis)


@operator("Split")
def split(d, op):
    x = d.tensor(d.type(op), (1, 4))
    axis = d.axis(d.values[x].ndim)
    n, parts = d.values[x].shape[axis], d.int(1, 4)
    ends = sorted(d.int(0, n) for _ in range(parts - 1))
    sizes = np.diff([0, *ends, n]).tolist()
    written = d.some(axis) if axis == 0 else axis
    if d.chance(0.7):
        return d.step(op, [x, d.index(sizes)], parts, axis=written) if d.opset >= 13 else d.step(
            op, [x], parts, axis=written, split=sizes)
    if d.opset >= 18:
        if not 0 < parts <= n or n - -(-n // parts) * (parts - 1) <= 0:
            raise Unfit
        return d.step(op, [x], parts, axis=written, num_outputs=parts)
    if n % parts:
        raise Unfit
    return d.step(op, [x], parts, axis=written)


@operator("Slice")
def slice_(d, op):
    x = d.tensor(d.type(op), (1, 4))
    rank = d.values[x].ndim
    axes = d.rng.permutation(rank)[:d.int(1, rank)].tolist()
    far = lambda: d.pick(-1000, 1000, 2**31 - 1, -2**31) if d.chance(0.2) else d.int(-6, 6)
    if d.opset < 10:
        axes.sort()
        return d.step(op, [x], axes=axes, starts=[far() for _ in axes], ends=[far() for _ in axes])
    kind = d.pick(np.int32, np.int64)
    axes = [a - rank if d.chance(0.3) else a for a in axes]
    steps = [d.pick(1, 1, 2, 3, -1, -2, -7) for _ in axes]
    named = d.chance(0.8)
    if not named:
        axes = list(range(len(axes)))
    return d.step(op, [
        x,
        d.index([far() for _ in axes], kind),
        d.index([far() for _ in axes], kind),
        d.index(axes, kind) if named else None,
        d.some(d.index(steps, kind))
    ])


@operator("Pad")
def pad(d, op):
    x = d.tensor(d.type(op), (1, 4))
    v, mode = d.values[x], d.pick("constant", "constant", "reflect", "edge", *["wrap"] * (d.opset >= 19))
    rank = v.ndim
    axes = d.rng.permutation(rank)[:d.int(1, rank)].tolist() if d.opset >= 18 and d.chance() else None
    sizes = v.shape if axes is None else [v.shape[a] for a in axes]
    most = [n - 1 if mode == "reflect" else n if mode == "wrap" else 3 if n or mode == "constant" else 0 for n in sizes]
    cut = d.chance(0.3)
    pads = [d.int(-min(1, n // 2) if cut else 0, max(0, min(3, m))) for n, m in zip(sizes, most)
            ] + [d.int(-min(1, n // 2) if cut else 0, max(0, min(3, m))) for n, m in zip(sizes, most)]
    if mode != "constant" and (cut or 0 in v.shape):
        raise Unfit
    written = mode if mode != "constant" else d.some(mode)
    if d.opset < 11:
        return d.step(op, [x], pads=pads, mode=written, value=d.some(1.5))
    fill = d.new(v.dtype, ()) if mode == "constant" and d.chance() else None
    return d.step(op, [
        x,
        d.index(pads), fill,
        d.index([a - rank if d.chance(0.3) else a for a in axes], d.pick(np.int32, np.int64)) if axes else None
    ], mode=written)


@operator("DepthToSpace", "SpaceToDepth")
def depth(d, op):
    t, b = d.type(op), d.pick(1, 2, 3)
    if op == "DepthToSpace":
        return d.step(op, [d.new(t, (d.size(), b * b * d.pick(1, 2), d.size(), d.size()))], blocksize=b,
                      mode=d.some(d.pick("DCR", "CRD")) if d.opset >= 11 else None)
    return d.step(op, [d.new(t, (d.size(), d.pick(1, 2, 3), b * d.pick(1, 2), b * d.pick(1, 3)))], blocksize=b,
                  mode=d.some(d.pick("DCR", "CRD")) if d.opset >= 28 else None)


@operator("CenterCropPad")
def center_crop_pad(d, op):
    x = d.tensor(d.type(op), (1, 4))
    rank = d.values[x].ndim
    axes = d.rng.permutation(rank)[:d.int(1, rank)].tolist()
    named = d.chance()
    return d.step(
        op,
        [x, d.index([d.pick(*SIZES_OF_CROP) for _ in (axes if named else range(rank))], d.pick(np.int32, np.int64))],
        axes=[a - rank if d.chance(0.3) else a for a in axes] if named else None)


SIZES_OF_CROP = (1, 2, 3, 4, 6, 9)


@operator("Trilu")
def trilu(d, op):
    x = d.tensor(d.type(op), (2, 4))
    return d.step(op, [x, d.some(d.index(d.int(-4, 4)))], upper=d.some(d.int(0, 1)))


@operator("EyeLike")
def eye_like(d, op):
    return d.step(op, [d.tensor(d.type(op), (2, 2))], dtype=d.some(proto_type(d.pick(*d.types(op, 0, output=True)))),
                  k=d.some(d.int(-3, 3)))


@operator("Compress")
def compress(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    axis = d.some(d.axis(d.values[x].ndim))
    n = d.values[x].size if axis is None else d.values[x].shape[axis]
    return d.step(op, [x, d.new(bool, (d.int(1, n),))], axis=axis)


@operator("NonZero")
def non_zero(d, op):
    return d.step(op, [d.tensor(d.type(op), (1, 4))])


@operator("OneHot")
def one_hot(d, op):
    n = d.pick(1, 2, 5)
    at = d.new(d.type(op, 0, among=lambda t: t.kind in "iuf"), d.shape(1, 3), 0, n -
               1) if d.chance() else d.new(np.int64, d.shape(1, 3), -n if d.opset >= 11 else 0, n)
    if is_float(d.values[at].dtype):
        d.values[at] = np.floor(d.values[at])
    depth = np.array(n if d.chance() else [n], d.type(op, 1, among=lambda t: t.kind in "iuf"))
    return d.step(op, [at, d.add(depth, d.chance(0.75)), d.new(d.type(op, 2), (2, ))],
                  axis=d.some(d.int(-1 - d.values[at].ndim if d.opset >= 11 else -1, d.values[at].ndim)))


@operator("Range")
def range_(d, op):
    t = d.type(op)
    start, delta = d.int(-3, 3), d.pick(1, 2, -1, 3, -2)
    limit = start + delta * d.int(-1, 5) + d.pick(0, 0, 1)
    return d.step(
        op,
        [d.index(v, t) for v in ([0.5 * v for v in (start, limit, delta)] if is_float(t) else (start, limit, delta))],
        stash_type=d.some(1, 0.2) if d.opset >= 27 else None)


@operator("ConstantOfShape")
def constant_of_shape(d, op):
    t = d.pick(*d.types(op, 0, output=True))
    return d.step(op, [d.index([d.size() for _ in range(d.int(0, 3))])],
                  value=d.some(numpy_helper.from_array(d.array(t, (1, )), "v"), 0.8))


@operator("Constant")
def constant(d, op):
    if d.opset >= 12 and d.chance():
        if d.chance(0.2):
            at, values = np.flatnonzero(d.rng.random(6) < 0.4), d.array(np.float32, 6)
            return d.step(
                op, [], sparse_value=helper.make_sparse_tensor(
                    numpy_helper.from_array(values[at], "v"),
                    numpy_helper.from_array(at if d.chance() else np.stack([at // 3, at % 3], 1), "i"), [2, 3]))
        return d.step(
            op, [],
            **d.pick(dict(value_float=1.5), dict(value_int=-3), dict(value_floats=[0.5, 2.0]),
                     dict(value_ints=[1, -2, 3]), dict(value_string="ab"), dict(value_strings=["a", ""])))
    return d.step(op, [], value=numpy_helper.from_array(d.array(d.pick(*d.types(op, 0, output=True)), d.shape(0, 3)),
                                                        "v"))


# ---- places ----

@operator("Gather")
def gather(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    axis = d.axis(d.values[x].ndim)
    n = d.values[x].shape[axis]
    return d.step(op, [x, d.new(d.pick(np.int32, np.int64), d.shape(0, 2), -n if d.opset >= 11 else 0, n - 1)],
                  axis=d.some(axis) if axis == 0 else axis)


@operator("GatherElements")
def gather_elements(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    v = d.values[x]
    axis = d.axis(v.ndim)
    n = [d.int(1, k) for k in v.shape]
    n[axis] = d.size()
    return d.step(op, [x, d.new(d.pick(np.int32, np.int64), n, -v.shape[axis], v.shape[axis] - 1)],
                  axis=d.some(axis) if axis == 0 else axis)


def places(d, v, depth, lead):
    """Indices into the first dimensions of v after `lead`-many batch dimensions."""
    return lambda *shape: np.stack([d.rng.integers(-v.shape[lead + k], v.shape[lead + k], shape)
                                    for k in range(depth)], -1).astype(np.int64)


@operator("GatherND")
def gather_nd(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    v = d.values[x]
    batch = d.int(0, v.ndim - 1) if d.opset >= 12 and d.chance() else 0
    at = places(d, v, d.int(1, v.ndim - batch), batch)
    return d.step(op, [x, d.add(at(*v.shape[:batch], *d.shape(0, 2)))],
                  batch_dims=d.some(batch) if batch == 0 and d.opset >= 12 else batch or None)


def reduction(d, op, t):
    since = {"add": 16, "mul": 16, "max": 18, "min": 18}
    if t == object or t == bool or t.kind == "c":
        return None
    return d.some(d.pick(*["none"] * (d.opset >= 16), *[k for k, v in since.items()
                                                        if d.opset >= v])) if d.opset >= 16 else None


@operator("ScatterElements", "Scatter")
def scatter_elements(d, op):
    x = d.tensor(d.type(op), (1, 3), fits=lambda v: v.size)
    v = d.values[x]
    axis = d.axis(v.ndim)
    how = reduction(d, op, v.dtype) if op != "Scatter" else None
    n = [d.int(1, k) for k in v.shape]
    at = d.rng.integers(0, v.shape[axis], n)
    if how in (None, "none"):                                   # which of equal places counts is not said
        at = np.argsort(d.rng.random(v.shape), axis)[tuple(map(slice, n))]
    at = np.where(d.rng.random(n) < 0.2, at - v.shape[axis], at) if d.opset >= 11 else at
    return d.step(op, [x, d.add(at.astype(d.pick(np.int32, np.int64))),
                       d.new(v.dtype, n, calm=how is not None)], axis=d.some(axis) if axis == 0 else axis,
                  reduction=how)


@operator("ScatterND")
def scatter_nd(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    v = d.values[x]
    deep, how = d.int(1, v.ndim), reduction(d, op, v.dtype)
    at = places(d, v, deep, 0)(d.int(0, 4))
    if how in (None, "none"):
        at = np.unique(at % np.array(v.shape[:deep]), axis=0)
    return d.step(op, [x, d.add(at), d.new(v.dtype, (len(at), *v.shape[deep:]), calm=how is not None)], reduction=how)


@operator("TensorScatter")
def tensor_scatter(d, op):
    t, b, n, h = d.type(op), d.pick(1, 2), d.pick(3, 5), d.pick(1, 4)
    k = d.int(1, n)
    shape, part = ((b, n, h), (b, k, h)) if d.chance() else ((b, 2, n, h), (b, 2, k, h))
    ring = d.chance()
    at = d.some(d.new(np.int64, (b,), 0, n - 1 if ring else n - k))
    return d.step(op, [d.new(t, shape), d.new(t, part), at], axis=d.some(-2),
                  mode="circular" if ring else d.some("linear"))
