"""What each operator may get: a function draws the node's inputs and attributes, valid by the standard in the graph's version. To add one: a function with @operator(names).

Attributes that have a default are left out as often as not. A function that finds nothing to do raises Unfit."""
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from draw import WORDS, Step, Unfit, is_float, is_plain

TABLE = {}                      # name: function(draw, name)
EACH = set()                    # each element of the result comes from one element of each input
ML = "ai.onnx.ml"


def operator(*names, each=False):
    def enter(function):
        for name in names:
            TABLE[name] = function
            if each:
                EACH.add(name)
        return function
    return enter


def proto_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


# ---- element by element ----

@operator("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Identity", "IsInf", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu",
          "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Mish", "HardSwish", "BitwiseNot", "Celu", "Elu", "Selu", "LeakyRelu", "HardSigmoid",
          "ThresholdedRelu", "Shrink", "Gelu", "Swish", each=True)
def unary(d, op):
    a = lambda: d.some(float(d.pick(0.1, 0.5, 1.0, 1.5, 2.0)))
    more = {"Celu": ("alpha",), "Elu": ("alpha",), "Selu": ("alpha", "gamma"), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "ThresholdedRelu": ("alpha",), "Shrink": ("bias", "lambd"),
            "Swish": ("alpha",)}
    attributes = {name: a() for name in more.get(op, ())}
    if op == "Gelu":
        attributes["approximate"] = d.some(d.pick("none", "tanh"))
    if op == "IsInf":
        attributes |= {"detect_negative": d.some(d.int(0, 1)), "detect_positive": d.some(d.int(0, 1))}
    return d.step(op, [d.tensor(d.type(op))], **attributes)


@operator("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod", "BitShift", "PRelu",
          "StringConcat", each=True)
def binary(d, op):
    t = d.type(op)
    x = d.tensor(t)
    shape = [1 if d.chance(0.25) else n for n in d.values[x].shape][d.int(0, d.values[x].ndim) if d.chance(0.4) else 0:]
    if op in ("Div", "Mod") and t.kind in "iu":                 # by 0, and the least by -1, are not defined
        y = d.add(np.array(d.rng.choice([1, 2, 3, 7] + [-2, -3] * (t.kind == "i"), shape)).astype(t))
    elif op == "BitShift":
        y = d.new(t, shape, 0, t.itemsize * 8 - 1)
    elif op == "Pow" and (t.kind in "iu" or d.chance()):
        kinds = d.types(op, 1) if d.opset >= 12 else [t]
        y = d.new(d.pick(*kinds), shape, 0, 3, calm=True)
    elif op == "PRelu":
        y = d.new(t, shape)
    else:
        y = d.broadcast(x)
    return d.step(op, [x, y], fmod=1 if op == "Mod" and (is_float(t) or d.chance()) else None, direction=d.pick("LEFT", "RIGHT") if op == "BitShift" else None)


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
        x = d.add(np.array([d.pick("1", "-2", "0.5", "3.25", "1e2", "NaN", "INF", "-INF") if is_float(to) else d.pick("0", "1", "7", "100") for _ in range(d.int(1, 5))], object))
    saturate = d.some(d.int(0, 1)) if d.opset >= 19 else None
    return d.step(op, [x], to=proto_type(to), saturate=saturate) if op == "Cast" else d.step(op, [x, d.new(to, (2,))], saturate=saturate)


@operator("BitCast", each=True)
def bit_cast(d, op):
    x = d.tensor(d.type(op, among=is_plain))
    same = [t for t in d.types(op, 0) if t.itemsize == d.values[x].dtype.itemsize and is_plain(t) and t != object and (t == bool) == (d.values[x].dtype == bool)]
    if d.values[x].dtype == bool or d.values[x].dtype == object or not same:
        raise Unfit
    return d.step(op, [x], to=proto_type(d.pick(*same)))


@operator("Dropout")
def dropout(d, op):
    x = d.tensor(d.type(op))
    outputs = [True, d.chance() and d.opset >= 10]
    if d.opset < 12:
        return d.step(op, [x], outputs[:1 + outputs[1]], ratio=d.some(0.3))
    return d.step(op, [x, d.some(d.add(np.array(0.3, d.pick(np.float32, np.float64))))], outputs[:1 + outputs[1]])


# ---- along axes ----

@operator("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
def reduce(d, op):
    t = d.type(op)
    x = d.tensor(t, (0, 5), fits=(lambda v: v.size) if op == "ReduceMean" and t.kind in "iu" else None)       # the mean of no integers is not defined
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
    return d.step(op, [x], axis=d.some(d.axis(d.values[x].ndim)), keepdims=d.some(d.int(0, 1)), select_last_index=d.some(d.int(0, 1)) if d.opset >= 12 else None)


@operator("CumSum", "CumProd")
def cumulate(d, op):
    x = d.tensor(d.type(op), (1, 4), calm=True)
    return d.step(op, [x, d.index(d.axis(d.values[x].ndim), d.pick(np.int32, np.int64))], exclusive=d.some(d.int(0, 1)), reverse=d.some(d.int(0, 1)))


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
    x = d.tensor(d.type(op), (2, 4))
    time = d.int(0, 1)
    n = d.values[x].shape
    if not n[time] or not n[1 - time]:
        raise Unfit
    return d.step(op, [x, d.new(np.int64, (n[1 - time],), 1, n[time])], batch_axis=1 - time, time_axis=time)


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
    axes = [k - d.values[x].ndim if d.opset >= 11 and d.chance(0.3) else k for k in sorted(d.rng.permutation(ones)[:d.int(1, len(ones))].tolist())]
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
    others = []
    for _ in range(d.int(0, 3)):
        n = list(v.shape)
        n[axis] = d.size()
        others.append(d.tensor([v.dtype], (v.ndim, v.ndim), fits=lambda w: np.delete(w.shape, axis).tolist() == np.delete(v.shape, axis).tolist(), reuse=1) if d.chance(0.0) else d.new(v.dtype, n))
    return d.step(op, [x] + others, axis=axis)


@operator("Split")
def split(d, op):
    x = d.tensor(d.type(op), (1, 4))
    axis = d.axis(d.values[x].ndim)
    n, parts = d.values[x].shape[axis], d.int(1, 4)
    ends = sorted(d.int(0, n) for _ in range(parts - 1))
    sizes = np.diff([0, *ends, n]).tolist()
    written = d.some(axis) if axis == 0 else axis
    if d.chance(0.7):
        return d.step(op, [x, d.index(sizes)], parts, axis=written) if d.opset >= 13 else d.step(op, [x], parts, axis=written, split=sizes)
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
    return d.step(op, [x, d.index([far() for _ in axes], kind), d.index([far() for _ in axes], kind), d.index(axes, kind) if named else None, d.some(d.index(steps, kind))])


@operator("Pad")
def pad(d, op):
    x = d.tensor(d.type(op), (1, 4))
    v, mode = d.values[x], d.pick("constant", "constant", "reflect", "edge", *["wrap"] * (d.opset >= 19))
    rank = v.ndim
    axes = d.rng.permutation(rank)[:d.int(1, rank)].tolist() if d.opset >= 18 and d.chance() else None
    sizes = v.shape if axes is None else [v.shape[a] for a in axes]
    most = [n - 1 if mode == "reflect" else n if mode == "wrap" else 3 if n or mode == "constant" else 0 for n in sizes]
    cut = d.chance(0.3)
    pads = [d.int(-min(1, n // 2) if cut else 0, max(0, min(3, m))) for n, m in zip(sizes, most)] + [d.int(-min(1, n // 2) if cut else 0, max(0, min(3, m))) for n, m in zip(sizes, most)]
    if mode != "constant" and (cut or 0 in v.shape):
        raise Unfit
    written = mode if mode != "constant" else d.some(mode)
    if d.opset < 11:
        return d.step(op, [x], pads=pads, mode=written, value=d.some(1.5))
    fill = d.new(v.dtype, ()) if mode == "constant" and d.chance() else None
    return d.step(op, [x, d.index(pads), fill, d.index([a - rank if d.chance(0.3) else a for a in axes], d.pick(np.int32, np.int64)) if axes else None], mode=written)


@operator("DepthToSpace", "SpaceToDepth")
def depth(d, op):
    t, b = d.type(op), d.pick(1, 2, 3)
    if op == "DepthToSpace":
        return d.step(op, [d.new(t, (d.size(), b * b * d.pick(1, 2), d.size(), d.size()))], blocksize=b, mode=d.some(d.pick("DCR", "CRD")) if d.opset >= 11 else None)
    return d.step(op, [d.new(t, (d.size(), d.pick(1, 2, 3), b * d.pick(1, 2), b * d.pick(1, 3)))], blocksize=b)


@operator("CenterCropPad")
def center_crop_pad(d, op):
    x = d.tensor(d.type(op), (1, 4))
    rank = d.values[x].ndim
    axes = d.rng.permutation(rank)[:d.int(1, rank)].tolist()
    named = d.chance()
    return d.step(op, [x, d.index([d.pick(*SIZES_OF_CROP) for _ in (axes if named else range(rank))], d.pick(np.int32, np.int64))], axes=[a - rank if d.chance(0.3) else a for a in axes] if named else None)


SIZES_OF_CROP = (1, 2, 3, 4, 6, 9)


@operator("Trilu")
def trilu(d, op):
    x = d.tensor(d.type(op), (2, 4))
    return d.step(op, [x, d.some(d.index(d.int(-4, 4)))], upper=d.some(d.int(0, 1)))


@operator("EyeLike")
def eye_like(d, op):
    return d.step(op, [d.tensor(d.type(op), (2, 2))], dtype=d.some(proto_type(d.pick(*d.types(op, 0, output=True)))), k=d.some(d.int(-3, 3)))


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
    at = d.new(d.type(op, 0, among=lambda t: t in (np.int32, np.int64, np.float32, np.uint8)), d.shape(1, 3), 0, n - 1) if d.chance() else d.new(np.int64, d.shape(1, 3), -n if d.opset >= 11 else 0, n)
    if is_float(d.values[at].dtype):
        d.values[at] = np.floor(d.values[at])
    return d.step(op, [at, d.index(n if d.chance() else [n]), d.new(d.type(op, 2, among=is_plain), (2,))], axis=d.some(d.int(-1, d.values[at].ndim)))


@operator("Range")
def range_(d, op):
    t = d.type(op)
    start, delta = d.int(-3, 3), d.pick(1, 2, -1, 3, -2)
    limit = start + delta * d.int(-1, 5) + d.pick(0, 0, 1)
    return d.step(op, [d.index(v, t) for v in ([0.5 * v for v in (start, limit, delta)] if is_float(t) else (start, limit, delta))])


@operator("ConstantOfShape")
def constant_of_shape(d, op):
    t = d.pick(*d.types(op, 0, output=True))
    return d.step(op, [d.index([d.size() for _ in range(d.int(0, 3))])], value=d.some(numpy_helper.from_array(d.array(t, (1,)), "v"), 0.8))


@operator("Constant")
def constant(d, op):
    if d.opset >= 12 and d.chance():
        return d.step(op, [], **d.pick(dict(value_float=1.5), dict(value_int=-3), dict(value_floats=[0.5, 2.0]), dict(value_ints=[1, -2, 3]), dict(value_string="ab"), dict(value_strings=["a", ""])))
    return d.step(op, [], value=numpy_helper.from_array(d.array(d.pick(*d.types(op, 0, output=True)), d.shape(0, 3)), "v"))


# ---- places ----

@operator("Gather")
def gather(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    axis = d.axis(d.values[x].ndim)
    n = d.values[x].shape[axis]
    return d.step(op, [x, d.new(d.pick(np.int32, np.int64), d.shape(0, 2), -n if d.opset >= 11 else 0, n - 1)], axis=d.some(axis) if axis == 0 else axis)


@operator("GatherElements")
def gather_elements(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    v = d.values[x]
    axis = d.axis(v.ndim)
    n = [d.int(1, k) for k in v.shape]
    n[axis] = d.size()
    return d.step(op, [x, d.new(d.pick(np.int32, np.int64), n, -v.shape[axis], v.shape[axis] - 1)], axis=d.some(axis) if axis == 0 else axis)


def places(d, v, depth, lead):
    """Indices into the first dimensions of v after `lead`-many batch dimensions."""
    return lambda *shape: np.stack([d.rng.integers(-v.shape[lead + k], v.shape[lead + k], shape) for k in range(depth)], -1).astype(np.int64)


@operator("GatherND")
def gather_nd(d, op):
    x = d.tensor(d.type(op), (1, 4), fits=lambda v: v.size)
    v = d.values[x]
    batch = d.int(0, v.ndim - 1) if d.opset >= 12 and d.chance() else 0
    at = places(d, v, d.int(1, v.ndim - batch), batch)
    return d.step(op, [x, d.add(at(*v.shape[:batch], *d.shape(0, 2)))], batch_dims=d.some(batch) if batch == 0 else batch)


def reduction(d, op, t):
    since = {"add": 16, "mul": 16, "max": 18, "min": 18}
    if t == object or t == bool or t.kind == "c":
        return None
    return d.some(d.pick(*["none"] * (d.opset >= 16), *[k for k, v in since.items() if d.opset >= v])) if d.opset >= 16 else None


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
    return d.step(op, [x, d.add(at.astype(d.pick(np.int32, np.int64))), d.new(v.dtype, n, calm=how is not None)], axis=d.some(axis) if axis == 0 else axis, reduction=how)


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
    return d.step(op, [d.new(t, shape), d.new(t, part), at], axis=d.some(-2), mode="circular" if ring else d.some("linear"))


# ---- products ----

@operator("MatMul", "MatMulInteger")
def matmul(d, op):
    t = d.type(op)
    x = d.tensor([t], (1, 4), calm=True)
    v = d.values[x]
    k, n = v.shape[-1], d.size()
    batch = [b if d.chance(0.7) else 1 for b in v.shape[:-2]]
    shape = (k,) if d.chance(0.15) else (*batch[d.int(0, len(batch)):], k, n)
    if op == "MatMul":
        return d.step(op, [x, d.new(t, shape, calm=True)])
    u = d.type(op, 1)
    return d.step(op, [x, d.new(u, shape), d.some(d.new(t, ())), d.some(d.new(u, ()))])


@operator("Gemm")
def gemm(d, op):
    t, a, b = d.type(op), d.int(0, 1), d.int(0, 1)
    x = d.tensor([t], (2, 2), calm=True)
    m, k = d.values[x].shape[::-1] if a else d.values[x].shape
    n = d.size()
    c = d.new(t, d.pick((m, n), (n,), (1, n), (m, 1), (), (1,)), calm=True)
    scale = lambda: d.some(d.pick(0.5, 2.0, -1.0)) if is_float(t) else None
    return d.step(op, [x, d.new(t, (n, k) if b else (k, n), calm=True), d.some(c) if d.opset >= 11 else c], transA=a or d.some(0), transB=b or d.some(0), alpha=scale(), beta=scale())


@operator("Einsum")
def einsum(d, op):
    t = d.type(op, among=is_float)
    sizes = dict(zip("ijkb", (d.pick(*SIZES_OF_CROP[:4]) for _ in range(4))))
    text = d.pick("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "i,j->ij", "ij,ij->", "bij,kj->bki", "ij,jk", "...ij->...ji", "bi,ib->b", "i,i", "ij,jk,ki->", "ii", "...i,...i->...", "bij->bj")
    terms = text.split("->")[0].split(",")
    return d.step(op, [d.new(t, [sizes[c] for c in term.replace("...", "b")], calm=True) for term in terms], equation=text)


@operator("Det")
def det(d, op):
    n = d.pick(1, 2, 3, 4)
    return d.step(op, [d.new(d.type(op), (*d.shape(0, 2), n, n), calm=True)])


# ---- windows over space ----

def spatial(d, dims, op, pooled=False):
    """Kernel, and attributes of a convolution or pool over `dims` dimensions; `least` inputs that give a result."""
    kernel = [d.pick(1, 2, 3) for _ in range(dims)]
    strides = d.some([d.pick(1, 2, 3) for _ in range(dims)])
    dilations = d.some([d.pick(1, 2) for _ in range(dims)], 0.3)
    attributes = dict(strides=strides, dilations=dilations)
    way = d.pick("none", "pads", "auto")
    span = [(k - 1) * (dilations or [1] * dims)[j] for j, k in enumerate(kernel)]
    if way == "pads":
        attributes["pads"] = [d.int(0, min(2, k - 1 if pooled else 2)) for k in kernel * 2]
    if way == "auto":
        attributes["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    size = [s + d.pick(1, 2, 3, 5) for s in span]
    return kernel, size, attributes


@operator("Conv", "ConvInteger")
def conv(d, op):
    t, dims, group = d.type(op), d.pick(1, 2, 2, 3), d.pick(1, 1, 2)
    kernel, size, attributes = spatial(d, dims, op)
    c, m = group * d.pick(1, 2, 3), group * d.pick(1, 2)
    x = d.new(t, (d.pick(1, 1, 2, 0) if d.chance(0.1) else 1, c, *size), calm=True)
    u = d.type(op, 1) if op == "ConvInteger" else t
    w = d.new(u, (m, c // group, *kernel), calm=True)
    more = [d.some(d.new(t, ())), d.some(d.new(u, ()))] if op == "ConvInteger" else [d.some(d.new(t, (m,), calm=True))]
    return d.step(op, [x, w] + more, group=group if group > 1 else d.some(1), kernel_shape=d.some(kernel), **attributes)


@operator("ConvTranspose")
def conv_transpose(d, op):
    t, dims, group = d.type(op), d.pick(1, 2, 2, 3), d.pick(1, 1, 2)
    kernel, size, attributes = spatial(d, dims, op)
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        attributes["auto_pad"] = "VALID"
    c, m = group * d.pick(1, 2), d.pick(1, 2)
    extra = d.some([d.int(0, s - 1) for s in attributes["strides"]], 0.3) if attributes["strides"] else None
    return d.step(op, [d.new(t, (1, c, *size), calm=True), d.new(t, (c, m, *kernel), calm=True), d.some(d.new(t, (group * m,), calm=True))], group=group if group > 1 else d.some(1),
                  kernel_shape=d.some(kernel), output_padding=extra, **attributes)


@operator("AveragePool", "MaxPool", "LpPool")
def pool(d, op):
    kernel, size, attributes = spatial(d, d.pick(1, 2, 2, 3), op, pooled=True)
    if d.opset < {"AveragePool": 19, "MaxPool": 10, "LpPool": 18}[op]:
        attributes["dilations"] = None
    if d.opset >= {"AveragePool": 10, "MaxPool": 10, "LpPool": 18}[op]:
        attributes["ceil_mode"] = d.some(d.int(0, 1))
    if op == "AveragePool":
        attributes["count_include_pad"] = d.some(d.int(0, 1))
    if op == "LpPool":
        attributes["p"] = d.some(d.int(1, 3))
    outputs = 1
    if op == "MaxPool" and d.opset >= 8 and d.chance(0.3):
        outputs, attributes["storage_order"] = 2, d.some(d.int(0, 1))
    t = d.type(op)
    x = d.new(t, (d.pick(1, 2), d.pick(1, 3), *size), calm=True)
    if outputs == 2:                                            # no two equal: which of them is not said
        d.values[x] = d.rng.permutation(d.values[x].size).astype(t).reshape(d.values[x].shape) if d.values[x].size < 120 else d.values[x]
    return d.step(op, [x], outputs, kernel_shape=kernel, **attributes)


@operator("MaxUnpool")
def max_unpool(d, op):
    t = np.dtype(np.float32)
    x = d.new(t, (1, d.pick(1, 2), 2 * d.pick(1, 2), 4), calm=True)
    down = d.step("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    up = d.node(op, down.outputs, kernel_shape=[2, 2], strides=[2, 2])
    return Step([down.nodes[0], up], list(up.output))


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d, op):
    return d.step(op, [d.tensor(d.type(op), (4, 4) if op == "GlobalMaxPool" and d.opset > 21 else (3, 5), calm=True, fits=lambda v: v.size)], p=d.some(d.int(1, 3)) if op == "GlobalLpPool" else None)


@operator("LRN")
def lrn(d, op):
    return d.step(op, [d.tensor(d.type(op), (3, 4), calm=True)], size=d.pick(1, 3, 5), alpha=d.some(0.1), beta=d.some(0.5), bias=d.some(2.0))


@operator("Col2Im")
def col2im(d, op):
    kernel, c = [d.pick(1, 2), d.pick(1, 3)], d.pick(1, 2)
    strides, dilations, pads = d.some([d.pick(1, 2), d.pick(1, 2)]), d.some([d.pick(1, 2)] * 2), d.some([d.int(0, 1) for _ in range(4)])
    size = [d.pick(5, 6), d.pick(7, 8)]
    blocks = 1
    for k in range(2):
        p = (pads[k] + pads[k + 2]) if pads else 0
        blocks *= (size[k] + p - (dilations or [1, 1])[k] * (kernel[k] - 1) - 1) // (strides or [1, 1])[k] + 1
    x = d.new(d.type(op, among=is_float), (d.pick(1, 2), c * kernel[0] * kernel[1], blocks), calm=True)
    return d.step(op, [x, d.index(size), d.index(kernel)], strides=strides, dilations=dilations, pads=pads)


@operator("DeformConv")
def deform_conv(d, op):
    t, c, m = d.type(op), d.pick(1, 2), d.pick(1, 2)
    kh, kw, h, w = d.pick(1, 2), d.pick(1, 3), d.pick(3, 4), d.pick(3, 5)
    offset = d.new(t, (1, 2 * kh * kw, h - kh + 1, w - kw + 1), calm=True)
    mask = d.some(d.new(t, (1, kh * kw, h - kh + 1, w - kw + 1), 0, 1))
    return d.step(op, [d.new(t, (1, c, h, w), calm=True), d.new(t, (m, c, kh, kw), calm=True), offset, d.some(d.new(t, (m,), calm=True)), mask], kernel_shape=[kh, kw], pads=[0, 0, 0, 0])


# ---- normalisations ----

@operator("BatchNormalization")
def batch_normalization(d, op):
    t = d.type(op)
    x = d.tensor([t], (2, 5), calm=True)
    c = (d.values[x].shape[1],)
    return d.step(op, [x, d.new(t, c, 0.5, 1.5), d.new(t, c, calm=True), d.new(t, c, calm=True), d.new(t, c, 0.5, 1.5)], epsilon=d.some(1e-2))


@operator("InstanceNormalization", "GroupNormalization")
def instance_normalization(d, op):
    t, groups = d.type(op), d.pick(1, 2, 3)
    c = groups * d.pick(1, 2) if op == "GroupNormalization" else d.pick(1, 2, 3)
    n = groups if op == "GroupNormalization" and d.opset < 21 else c
    x = d.new(t, (d.pick(1, 2), c, d.pick(3, 5), d.pick(2, 7)), calm=True)
    return d.step(op, [x, d.new(t, (n,), calm=True), d.new(t, (n,), calm=True)], epsilon=d.some(1e-2), num_groups=groups if op == "GroupNormalization" else None)


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(d, op):
    t = d.type(op)
    x = d.tensor([t], (1, 4), calm=True, fits=lambda v: v.size)
    v = d.values[x]
    axis = d.axis(v.ndim)
    scale = d.new(t, v.shape[axis:], calm=True)
    more = [d.some(d.new(t, v.shape[axis:], calm=True))] if op == "LayerNormalization" else []
    return d.step(op, [x, scale] + more, axis=axis if axis != -1 else d.some(-1), epsilon=d.some(1e-2))


# ---- quantised ----

def low(t):
    return t.itemsize == 1 or not is_plain(t)


@operator("QuantizeLinear")
def quantize(d, op):
    t, to = d.type(op), d.pick(*d.types(op, 0, output=True))
    x = d.tensor([t], (0, 4), calm=True)
    v = d.values[x]
    axis = d.axis(v.ndim) if v.ndim and d.opset >= 13 and d.chance() else None
    shape = () if axis is None else (v.shape[axis],)
    scale_type = t if is_float(t) and d.opset >= 19 else np.dtype(np.float32)
    zero = d.array(to, shape)
    zero = np.zeros(shape, to) if is_float(to) or to == np.int32 else zero
    given = d.chance(0.7) or to != np.uint8
    return d.step(op, [x, d.new(scale_type, shape, 0.05, 1.0), d.add(zero) if given else None], axis=axis, saturate=d.some(d.int(0, 1)) if is_float(to) else None)


@operator("DequantizeLinear")
def dequantize(d, op):
    t = d.type(op)
    x = d.tensor([t], (0, 4))
    v = d.values[x]
    axis = d.axis(v.ndim) if v.ndim and d.opset >= 13 and d.chance() else None
    shape = () if axis is None else (v.shape[axis],)
    scale_type = d.pick(*[k for k in d.types(op, 1) if is_float(k)]) if d.opset >= 19 else np.dtype(np.float32)
    zero = np.zeros(shape, t) if is_float(t) or t == np.int32 else d.array(t, shape)
    return d.step(op, [x, d.new(scale_type, shape, 0.05, 1.0), d.some(d.add(zero))], axis=axis)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(d, op):
    return d.step(op, [d.tensor(np.float32, calm=True, fits=lambda v: v.size)], 3)


@operator("QLinearMatMul")
def qlinear_matmul(d, op):
    t, u, y = (d.pick(np.uint8, np.int8) for _ in range(3))
    m, k, n, s = d.pick(1, 2, 5), d.pick(1, 3, 7), d.pick(1, 2, 4), lambda: d.new(np.float32, (), 0.05, 0.5)
    return d.step(op, [d.new(t, (m, k)), s(), d.new(t, ()), d.new(u, (k, n)), s(), d.new(u, ()), s(), d.new(y, ())])


@operator("QLinearConv")
def qlinear_conv(d, op):
    t = d.pick(np.uint8, np.int8)
    u = d.pick(np.uint8, np.int8) if t == np.uint8 else t
    kernel, size, attributes = spatial(d, 2, op)
    c, m, many = d.pick(1, 3), d.pick(1, 2), d.chance()
    s = lambda shape=(): d.new(np.float32, shape, 0.05, 0.5, constant=True)
    z = lambda kind, shape=(): d.add(d.array(kind, shape), True)
    zero = d.add(np.zeros(m, u), True) if many else z(u)
    inputs = [d.new(t, (1, c, *size)), s(), z(t), d.new(u, (m, c, *kernel), constant=True), s((m,) if many else ()), zero, s(), z(t)]
    return d.step(op, inputs + [d.some(d.add(d.array(np.int32, (m,), -100, 100), True))], kernel_shape=d.some(kernel), **attributes)


# ---- pictures ----

PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


@operator("Resize")
def resize(d, op):
    t, mode = d.type(op, among=is_float) if d.opset >= 11 else np.dtype(np.float32), d.pick("nearest", "linear", "cubic" if d.opset >= 11 else "linear")
    x = d.new(t, (1, d.pick(1, 2), d.pick(1, 3, 4, 8), d.pick(2, 4, 7)), calm=True)
    n = d.values[x].shape
    scales = [1, 1, d.pick(0.5, 1, 2, 4), d.pick(0.5, 1, 2)]    # exact: between two pixels a rounding falls to either side
    if mode != "nearest" and d.opset >= 11:
        scales[2:] = [d.pick(0.6, 1.5, 2, 2.3), d.pick(0.5, 1.7, 3)]
    if d.opset < 11:
        return d.step(op, [x, d.index(scales, np.float32)], mode=d.some(mode) if mode == "nearest" else mode)
    attributes = dict(mode=mode, coordinate_transformation_mode=d.some(d.pick(*PLACES, *["half_pixel_symmetric"] * (d.opset >= 19))), nearest_mode=d.some(d.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
    if mode == "cubic":
        attributes |= dict(exclude_outside=d.some(d.int(0, 1)), cubic_coeff_a=d.some(-0.5))
    if d.opset >= 18 and mode != "nearest":
        attributes["antialias"] = d.some(d.int(0, 1), 0.3)
    none = d.add(np.zeros(0, np.float32), True) if d.opset < 13 else None
    if d.chance():
        return d.step(op, [x, none, d.index(scales, np.float32)], **attributes)
    empty = d.add(np.zeros(0, np.float32), True) if d.opset < 13 else None
    return d.step(op, [x, none, empty, d.index([n[0], n[1], n[2] * d.pick(1, 2), n[3] * d.pick(1, 2)])], **attributes)


@operator("Upsample")
def upsample(d, op):
    x = d.new(np.float32, (1, d.pick(1, 2), d.pick(1, 3), d.pick(2, 5)), calm=True)
    scales, mode = [1.0, 1.0, d.pick(1.0, 2.0, 3.0), d.pick(1.0, 2.0)], d.some(d.pick("nearest", "linear"))
    return d.step(op, [x], scales=scales, mode=mode) if d.opset < 9 else d.step(op, [x, d.index(scales, np.float32)], mode=mode)


@operator("GridSample")
def grid_sample(d, op):
    t = d.type(op, among=is_float)
    n, deep = d.pick(1, 2), d.opset >= 20 and d.chance(0.3)
    space = [d.pick(1, 3, 4) for _ in range(2 + deep)]
    modes = ("linear", "nearest") + ("cubic",) * (not deep) if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    grid = d.new(d.type(op, 1, among=is_float) if d.opset >= 20 else np.dtype(np.float32), (n, *[d.pick(1, 2, 3) for _ in space], len(space)), -1.3, 1.3)
    return d.step(op, [d.new(t, (n, d.pick(1, 2), *space), calm=True), grid], mode=d.some(d.pick(*modes)), padding_mode=d.some(d.pick("zeros", "border", "reflection")), align_corners=d.some(d.int(0, 1)))


@operator("AffineGrid")
def affine_grid(d, op):
    t, n, dims = d.type(op, among=is_float), d.pick(1, 2), d.pick(2, 3)
    return d.step(op, [d.new(t, (n, dims, dims + 1), calm=True), d.index([n, 2, *[d.pick(1, 2, 4) for _ in range(dims)]])], align_corners=d.some(d.int(0, 1)))


@operator("RoiAlign")
def roi_align(d, op):
    t, regions = d.type(op, among=is_float), d.pick(1, 2, 3)
    boxes = np.sort(d.rng.random((regions, 2, 2)) * 12, axis=1).reshape(regions, 4).astype(t)
    where_ = d.some(d.pick("half_pixel", "output_half_pixel")) if d.opset >= 16 else None
    return d.step(op, [d.new(t, (2, 2, 7, 5), calm=True), d.add(boxes), d.new(np.int64, (regions,), 0, 1)], mode=d.some(d.pick("avg", "max")), output_height=d.some(d.pick(1, 2)),
                  output_width=d.some(d.pick(1, 3)), sampling_ratio=d.some(d.pick(0, 1, 2)), spatial_scale=d.some(d.pick(0.5, 1.0)), coordinate_transformation_mode=where_)


@operator("NonMaxSuppression")
def nms(d, op):
    b, n, c = d.pick(1, 2), d.pick(1, 4, 7), d.pick(1, 2)
    boxes = d.add((d.rng.random((b, n, 4)) * 4).astype(np.float32))
    scores = d.add((d.rng.permutation(b * c * n).reshape(b, c, n) / 64).astype(np.float32))
    more = [d.index([d.int(0, 4)]), d.index([d.pick(0.0, 0.3, 0.7)], np.float32), d.index([d.pick(0.1, 0.2)], np.float32)][:d.int(1, 3)]
    return d.step(op, [boxes, scores] + more, center_point_box=d.some(d.int(0, 1)))


# ---- recurrent ----

@operator("LSTM", "GRU", "RNN")
def recurrent(d, op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    t, direction = d.type(op, among=lambda k: k == np.float32 or d.chance(0.3)), d.pick("forward", "reverse", "bidirectional")
    dirs, steps, batch, size, hidden = 2 if direction == "bidirectional" else 1, d.pick(1, 2, 4), d.pick(1, 3), d.pick(1, 3), d.pick(1, 2, 4)
    f = lambda *shape: d.add((d.rng.standard_normal(shape) * 0.5).astype(t))
    inputs = [f(steps, batch, size), f(dirs, gates * hidden, size), f(dirs, gates * hidden, hidden), d.some(f(dirs, 2 * gates * hidden)), d.some(d.new(np.int32, (batch,), 1, steps), 0.3),
              d.some(f(dirs, batch, hidden))]
    if op == "LSTM":
        inputs += [d.some(f(dirs, batch, hidden)), d.some(f(dirs, 3 * hidden), 0.3)]
    outputs = [d.chance(0.8), True] + [d.chance()] * (op == "LSTM")
    while not outputs[-1]:
        outputs.pop()
    more = {"LSTM": dict(input_forget=d.some(d.int(0, 1), 0.2)), "GRU": dict(linear_before_reset=d.some(d.int(0, 1))), "RNN": {}}[op]
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    names = d.some([d.pick("Sigmoid", "Tanh", "Relu") if k % count or count == 1 else "Sigmoid" for k in range(count * dirs)], 0.3)
    return d.step(op, inputs, outputs, hidden_size=hidden, direction=d.some(direction) if direction == "forward" else direction, clip=d.some(0.7, 0.2), activations=names, **more)


@operator("Attention")
def attention(d, op):
    t, b, kv, group, q, k, h, v = d.type(op, among=is_float), d.pick(1, 2), d.pick(1, 2), d.pick(1, 2), d.pick(1, 3), d.pick(1, 2, 4), d.pick(1, 4), d.pick(1, 4)
    flat = d.chance()
    f = lambda heads, n, w: d.new(t, (b, n, heads * w) if flat else (b, heads, n, w), -1, 1)
    mask = d.pick(None, d.new(bool, (q, k)), d.new(t, (b, 1, q, k), -1, 1))
    if mask is not None and d.values[mask].dtype == bool:
        d.values[mask][..., 0] = True                           # no row that sees nothing
    past = [None, None]
    if d.chance(0.2) and mask is None:
        past = [d.new(t, (b, kv, 2, h), -1, 1), d.new(t, (b, kv, 2, v), -1, 1)]
    outputs = [True] + [past[0] is not None] * 2
    heads = dict(q_num_heads=kv * group, kv_num_heads=kv) if flat else {}
    return d.step(op, [f(kv * group, q, h), f(kv, k, h), f(kv, k, v), mask, *past], outputs if past[0] else 1, is_causal=d.some(d.int(0, 1)), scale=d.some(0.7), softcap=d.some(2.0, 0.2), **heads)


@operator("RotaryEmbedding")
def rotary(d, op):
    t, b, heads, n, size = d.type(op), d.pick(1, 2), d.pick(1, 2), d.pick(1, 3), d.pick(2, 4, 8)
    flat, rotated = d.chance(), d.pick(0, size)
    x = d.new(t, (b, n, heads * size) if flat else (b, heads, n, size), calm=True)
    half = size // 2
    if d.chance():
        return d.step(op, [x, d.new(t, (5, half), -1, 1), d.new(t, (5, half), -1, 1), d.new(np.int64, (b, n), 0, 4)], interleaved=d.some(d.int(0, 1)), num_heads=heads if flat else None,
                      rotary_embedding_dim=d.some(rotated))
    return d.step(op, [x, d.new(t, (b, n, half), -1, 1), d.new(t, (b, n, half), -1, 1)], interleaved=d.some(d.int(0, 1)), num_heads=heads if flat else None)


# ---- losses and signals ----

@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d, op):
    t, n, c, more = d.type(op), d.pick(1, 3), d.pick(2, 5), d.shape(0, 2)
    if 0 in more:
        raise Unfit
    ignore = d.some(d.int(0, c - 1), 0.3)
    x = d.new(t, (n, c, *more), -2, 2)
    outputs = 2 if op[0] == "S" and d.chance(0.3) else 1
    return d.step(op, [x, d.new(d.pick(np.int32, np.int64), (n, *more), 0, c - 1), d.some(d.new(t, (c,), 0.1, 1.0))], outputs, ignore_index=ignore, reduction=d.some(d.pick("none", "sum", "mean")))


@operator("DFT")
def dft(d, op):
    t, n = d.type(op, among=is_float), d.pick(1, 2, 5, 8)
    axis = d.pick(1, 2)
    shape = [1, 3, 4, d.pick(1, 2)]
    shape[axis] = n
    inverse = d.some(d.int(0, 1)) if shape[-1] == 2 else None
    onesided = d.some(1) if shape[-1] == 1 else None
    length = d.some(d.index(d.pick(3, 5, 8)), 0.3)
    x = d.new(t, shape, calm=True)
    if d.opset >= 20:
        return d.step(op, [x, length, d.index(axis)], inverse=inverse, onesided=onesided)
    return d.step(op, [x, length], axis=axis, inverse=inverse, onesided=onesided)


@operator("STFT")
def stft(d, op):
    t, length = d.type(op, among=is_float), d.pick(4, 5)
    window = d.some(d.new(t, (length,), 0, 1), 0.7)
    return d.step(op, [d.new(t, (d.pick(1, 2), d.pick(9, 16), 1), calm=True), d.index(d.pick(1, 3)), window, d.index(length) if window is None or d.chance() else None], onesided=d.some(d.int(0, 1)))


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def window(d, op):
    return d.step(op, [d.index(d.pick(1, 2, 5, 8), d.pick(np.int32, np.int64))], periodic=d.some(d.int(0, 1)), output_datatype=d.some(d.pick(TensorProto.FLOAT, TensorProto.DOUBLE)))


@operator("MelWeightMatrix")
def mel(d, op):
    return d.step(op, [d.index(d.pick(2, 8)), d.index(d.pick(16, 32)), d.index(8192), d.index(0.0, np.float32), d.index(4096.0, np.float32)])


# ---- control flow, sequences ----

def body(nodes, inputs, outputs, initializers=()):
    port = lambda p: helper.make_tensor_value_info(p[0], proto_type(p[1]), p[2])
    return helper.make_graph(nodes, "body", [port(p) for p in inputs], [port(p) for p in outputs], list(initializers))


def arithmetic(d, t):
    return d.pick("Add", "Mul", "Sub", *["Max", "Min"] * (d.opset >= 12)) if t.kind in "fiu" else "Or"


@operator("If")
def if_(d, op):
    x = d.tensor([np.float32, np.float64, np.int32, np.int64])
    y = d.broadcast(x)
    t = d.values[x].dtype
    arms = [body([d.node(arithmetic(d, t), [x, y] if d.chance() else [y, x])], [], []) for _ in range(2)]
    for arm in arms:
        arm.output.append(helper.make_tensor_value_info(arm.node[0].output[0], proto_type(t), None))
    return d.step(op, [d.tensor(bool, shape=())], then_branch=arms[0], else_branch=arms[1])


@operator("Loop")
def loop(d, op):
    x = d.tensor([np.float32, np.float64, np.int64], (0, 3), calm=True)
    v = d.values[x]
    kind = arithmetic(d, v.dtype)
    step = d.array(v.dtype, (), calm=True)
    nodes = [helper.make_node(kind, ["state", "step"], ["next"], name="b0"), helper.make_node("Less", ["turn", "last"], ["again"], name="b1"), helper.make_node("Neg", ["state"], ["seen"], name="b2")]
    inner = body(nodes, [("turn", np.int64, ()), ("go", bool, ()), ("state", v.dtype, v.shape)], [("again", bool, ()), ("next", v.dtype, v.shape), ("seen", v.dtype, v.shape)],
                 [numpy_helper.from_array(step, "step"), numpy_helper.from_array(np.array(d.int(0, 4)), "last")])
    return d.step(op, [d.index(d.int(0, 4)), d.some(d.add(np.array(d.chance(0.8)))), x], 2, body=inner)


@operator("Scan")
def scan(d, op):
    t = d.pick(np.float32, np.float64, np.int64)
    t = np.dtype(t)
    n, shape = d.pick(1, 2, 5), d.shape(0, 2)
    if d.opset < 9:
        raise Unfit
    nodes = [helper.make_node(arithmetic(d, t), ["state", "row"], ["next"], name="b0"), helper.make_node("Neg", ["next"], ["seen"], name="b1")]
    inner = body(nodes, [("state", t, shape), ("row", t, shape)], [("next", t, shape), ("seen", t, shape)])
    return d.step(op, [d.new(t, shape, calm=True), d.new(t, (n, *shape), calm=True)], 2, body=inner, num_scan_inputs=1, scan_input_directions=d.some([d.int(0, 1)]), scan_output_directions=d.some([d.int(0, 1)]))


def chain(d, nodes):
    return Step(nodes, list(nodes[-1].output))


@operator("SequenceConstruct")
def sequence(d, op):
    t, shape = d.type(op, among=lambda k: is_plain(k) and k.kind != "c"), d.shape(1, 3)
    parts = [d.new(t, shape) for _ in range(d.int(1, 3))]
    made = d.node(op, parts)
    now = made.output[0]
    nodes = [made]
    n = len(parts)
    if d.chance(0.4):
        at = d.some(d.index(d.int(-n, n)))
        nodes.append(d.node("SequenceInsert", [now, d.new(t, shape), at]))
        now, n = nodes[-1].output[0], n + 1
    if d.chance(0.3) and n > 1:
        nodes.append(d.node("SequenceErase", [now, d.some(d.index(d.int(-n, n - 1)))]))
        now, n = nodes[-1].output[0], n - 1
    how = d.pick("SequenceAt", "ConcatFromSequence", "SequenceLength")
    if how == "SequenceAt":
        nodes.append(d.node(how, [now, d.index(d.int(-n, n - 1))]))
    elif how == "SequenceLength":
        nodes.append(d.node(how, [now]))
    else:
        new = d.int(0, 1)
        nodes.append(d.node(how, [now], axis=d.int(-len(shape) - new, len(shape) - 1 + new), new_axis=new or d.some(0)))
    return chain(d, nodes)


@operator("SplitToSequence")
def split_to_sequence(d, op):
    x = d.tensor(d.type(op, among=lambda k: is_plain(k) and k.kind != "c"), (1, 3), fits=lambda v: v.size)
    axis = d.axis(d.values[x].ndim)
    n = d.values[x].shape[axis]
    how = d.some(d.index(d.int(1, n)))
    first = d.node(op, [x, how], axis=axis, keepdims=d.some(d.int(0, 1)) if how is None else None)
    return chain(d, [first, d.node("SequenceAt", [first.output[0], d.index(d.pick(0, -1))])])


@operator("Optional")
def optional(d, op):
    x = d.tensor(d.type(op))
    first = d.node(op, [x])
    return chain(d, [first, d.node(d.pick("OptionalGetElement", "OptionalHasElement"), [first.output[0]])])


# ---- text ----

@operator("StringNormalizer")
def string_normalizer(d, op):
    x = d.new(object, (d.pick(1, 3, 5),))
    return d.step(op, [x], case_change_action=d.some(d.pick("LOWER", "UPPER", "NONE")), is_case_sensitive=d.some(d.int(0, 1)), stopwords=d.some(["a", "the"]))


@operator("StringSplit")
def string_split(d, op):
    return d.step(op, [d.tensor(object, (0, 2))], 2, delimiter=d.some(d.pick(",", " ", "b")), maxsplit=d.some(d.int(0, 3)))


@operator("RegexFullMatch")
def regex(d, op):
    return d.step(op, [d.tensor(object)], pattern=d.pick("[a-z]*", ".", "(a|b)+", "[0-9.]+", "A.*"))


@operator("TfIdfVectorizer")
def tfidf(d, op):
    x = d.new(d.pick(np.int32, np.int64), d.shape(1, 2), 0, 4)
    if 0 in d.values[x].shape:
        raise Unfit
    n = d.int(1, 2)
    return d.step(op, [x], mode=d.pick("TF", "IDF", "TFIDF"), min_gram_length=d.int(1, n), max_gram_length=n, max_skip_count=d.int(0, 2), ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4],
                  pool_int64s=[0, 1, 3, 0, 1, 2, 3], weights=d.some([0.5, 1.0, 2.0, 3.0, 0.25]))


# ---- ai.onnx.ml ----

def ml(d, op, inputs, outputs=1, **attributes):
    return d.step(op, inputs, outputs, ML, **attributes)


def features(d, op, rank=(2, 2)):
    return d.tensor(d.type(op, 0, ML, is_plain), rank, calm=True, fits=lambda v: v.size)


@operator("ArrayFeatureExtractor")
def array_feature_extractor(d, op):
    x = d.tensor(d.type(op, 0, ML), (1, 3), fits=lambda v: v.size)
    return ml(d, op, [x, d.new(np.int64, (d.int(1, 3),), 0, d.values[x].shape[-1] - 1)])


@operator("Binarizer")
def binarizer(d, op):
    return ml(d, op, [d.tensor(d.type(op, 0, ML))], threshold=d.some(0.5))


@operator("Normalizer")
def normalizer(d, op):
    return ml(d, op, [features(d, op)], norm=d.some(d.pick("MAX", "L1", "L2")))


@operator("Scaler")
def scaler(d, op):
    x = features(d, op)
    n = d.values[x].shape[-1] if d.chance() else 1
    return ml(d, op, [x], offset=[0.5 * k for k in range(n)], scale=[1.5 + k for k in range(n)])


@operator("Imputer")
def imputer(d, op):
    t = d.pick(np.float32, np.int64)
    x = d.new(t, (d.pick(1, 3), d.pick(1, 2, 4)), calm=True)
    n = d.values[x].shape[-1] if d.chance() else 1
    if t == np.int64:
        return ml(d, op, [x], imputed_value_int64s=list(range(n)), replaced_value_int64=d.int(0, 2))
    d.values[x] = np.where(d.rng.random(d.values[x].shape) < 0.4, np.float32(np.nan), d.values[x])
    return ml(d, op, [x], imputed_value_floats=[0.5 * k for k in range(n)], replaced_value_float=float("nan"))


@operator("FeatureVectorizer")
def feature_vectorizer(d, op):
    t, n, widths = d.type(op, 0, ML), d.pick(1, 3), [d.pick(1, 2, 3) for _ in range(d.int(1, 3))]
    return ml(d, op, [d.new(t, (n, w), calm=True) for w in widths], inputdimensions=widths)


@operator("OneHotEncoder")
def one_hot_encoder(d, op):
    if d.chance(0.3):
        return ml(d, op, [d.new(object, d.shape(1, 2))], cats_strings=["a", "the", ""], zeros=d.some(1))
    return ml(d, op, [d.new(np.int64, d.shape(1, 2), 0, 3)], cats_int64s=[0, 2, 3, 1], zeros=d.some(1))


@operator("LabelEncoder")
def label_encoder(d, op):
    kinds = {"strings": ["a", "b", "the"], "int64s": [0, 2, 4], "floats": [0.5, 1.0, 2.0]}
    source, target = d.pick(*kinds), d.pick(*kinds)
    x = d.new({"strings": object, "int64s": np.int64, "floats": np.float32}[source], d.shape(1, 2), *([] if source == "strings" else [0, 4]))
    default = d.some({f"default_{target[:-1]}": {"strings": "none", "int64s": 9, "floats": 7.5}[target]})
    return ml(d, op, [x], **{f"keys_{source}": kinds[source], f"values_{target}": kinds[target]}, **(default or {}))


@operator("CategoryMapper")
def category_mapper(d, op):
    x = d.new(object, d.shape(1, 2)) if d.chance() else d.new(np.int64, d.shape(1, 2), 0, 4)
    return ml(d, op, [x], cats_strings=["a", "b", "the"], cats_int64s=[1, 2, 4], default_string=d.some("none"), default_int64=d.some(-7))


def classes(d, n):
    return dict(classlabels_ints=[7 * k for k in range(n)]) if d.chance() else dict(classlabels_strings=[f"c{k}" for k in range(n)])


POST = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


@operator("LinearRegressor")
def linear_regressor(d, op):
    x = features(d, op)
    n, k = d.pick(1, 2), d.values[x].shape[1]
    return ml(d, op, [x], coefficients=[float(v) for v in d.rng.standard_normal(n * k)], intercepts=d.some([0.5] * n), targets=n, post_transform=d.some("NONE"))


@operator("LinearClassifier")
def linear_classifier(d, op):
    x = features(d, op)
    n, k = d.pick(3, 4), d.values[x].shape[1]
    return ml(d, op, [x], 2, coefficients=[float(v) for v in d.rng.standard_normal(n * k)], intercepts=[0.25 * j for j in range(n)], post_transform=d.some(d.pick(*POST)), **classes(d, n))


@operator("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def trees(d, op):
    x = d.new(np.float32, (d.pick(1, 2, 5), 3), calm=True)
    kind = "class" if op.endswith("Classifier") else "target"
    targets, count = d.pick(1, 2) if kind == "target" else 3, d.pick(1, 2, 3)
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")} | {f"{kind}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        for node in range(7):
            leaf = node > 2
            mode = "LEAF" if leaf else d.pick("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE") if d.chance(0.3) else "BRANCH_LEQ"
            row = (tree, node, 0 if leaf else d.int(0, 2), 0.0 if leaf else float(d.rng.standard_normal()), mode, 0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2)
            for k, v in zip(("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"), row):
                a[f"nodes_{k}"].append(v)
            for target in range(targets if leaf else 0):
                for k, v in zip(("treeids", "nodeids", "ids", "weights"), (tree, node, target, float(d.rng.random()))):
                    a[f"{kind}_{k}"].append(v)
    if kind == "target":
        return ml(d, op, [x], n_targets=targets, aggregate_function=d.some(d.pick("SUM", "AVERAGE", "MIN", "MAX")), base_values=d.some([0.5] * targets), **a)
    labels = dict(classlabels_int64s=[4, 5, 6]) if d.chance() else dict(classlabels_strings=["a", "b", "c"])
    return ml(d, op, [x], 2, post_transform=d.some(d.pick(*POST)), **labels, **a)
