"""Conditions of disagreements.py that hold for any operator: what enters, what comes out, what integers do not hold."""

import numpy as np
from ml_dtypes import finfo, iinfo
from onnx import helper

from compare import largest, step_of
from draw import is_float
from waiver import judging, ours_is, outvoted, results, single

# ---- what enters ----

def floats(c):
    return [v.astype(np.float64) for v in c.values.values() if is_float(v.dtype)]


def integers(c):
    return c.inputs[0].dtype.kind in "iu"


def of_type(*names):
    return lambda c: c.inputs[0].dtype.name in names


def empty(c):
    return any(v.size == 0 for v in c.values.values())


def infinite(c):
    return np.isinf(c.inputs[0].astype(np.float64))


# ---- what comes out ----

def reduced(c, f):
    """f(x, axes, keepdims) of the first input along the axes of the node, in double precision."""
    more = c.inputs[1] if len(c.inputs) > 1 else None
    axes = tuple(int(a) for a in (c.attributes.get("axes", ()) if more is None else more))
    every = None if not c.attributes.get("noop_with_empty_axes") else ()
    return f(c.inputs[0].astype(np.float64), axes or every, bool(c.attributes.get("keepdims", 1)))


def same_row(c, f):
    """Does f hold of any number of the row, along the axis or, of a Softmax before 13, all that follow, that an element
    of the result comes from?"""
    x, arg = f(c.inputs[0].astype(np.float64)), c.step.op.startswith("Arg")
    axis = c.attributes.get("axis", 0 if arg else 1 if c.versions[""] < 13 else -1)
    return x.any(axis if arg or c.versions[""] > 12 else tuple(range(axis % x.ndim, x.ndim)), keepdims=not arg or
                 bool(c.attributes.get("keepdims", 1)))


def scattered(c):
    """Where NaN comes to lie that is in the data or the updates."""
    lost, at, updates = (np.isnan(v.astype(np.float64)) if v is not c.inputs[1] else v for v in c.inputs)
    places = list(np.indices(at.shape)) if c.step.op == "ScatterElements" else list(np.moveaxis(at, -1, 0))
    if c.step.op == "ScatterElements":
        places[c.attributes.get("axis", 0)] = at
    np.logical_or.at(lost, tuple(places), updates)
    return lost


@judging
def exact_sum(c):
    """A sum or mean of integers beyond those that doubles hold; it wraps, and is then cut off or rounded down."""
    if not integers(c) or (np.abs(results(c)[0]) <= 2.0**53).all():
        return False
    more = c.inputs[1] if len(c.inputs) > 1 else None
    axes = tuple(int(a) for a in (c.attributes.get("axes", ()) if more is None else more)) or None
    total = np.asarray(c.inputs[0].astype(object).sum(axes, keepdims=bool(c.attributes.get("keepdims", 1))), object)
    bits, n = 8 * c.inputs[0].dtype.itemsize, c.inputs[0].size // max(c.got[0].size, 1) if c.step.op == "ReduceMean" else 1
    low = 2**(bits - 1) if c.inputs[0].dtype.kind == "i" else 0
    near = [abs(int(g) * n - ((int(t) + low) % 2**bits - low)) < n for g, t in zip(c.got[0].ravel(), total.ravel())]
    return np.array(near, bool).reshape(c.got[0].shape) & (np.abs(results(c)[0]) > 2.0**53)


@judging
def whole_power(c):
    """A positive number as e8m0: a power of two, below or nearest, cut to the ends of the range."""
    x = c.inputs[0].astype(np.float64)
    with np.errstate(all="ignore"):
        low = np.exp2(np.floor(np.log2(np.maximum(x, 2.0**-127))))
        up = (x - low >= low / 2) & (c.attributes.get("round_mode") == b"nearest")
    return (x > 0) & (results(c)[0] == np.clip(np.where(up, 2 * low, low), 2.0**-127, 2.0**127))


@judging
def clipped(c):
    """The number itself, or the bound that is given."""
    low, high = ([*c.inputs, None, None][1:3] if c.versions[""] > 10 else
                 [None if v is None else np.asarray(v) for v in (c.attributes.get("min"), c.attributes.get("max"))])
    lows = -np.inf if low is None else low.astype(np.float64)
    highs = np.inf if high is None else high.astype(np.float64)
    return infinite(c) & (results(c)[0] == np.minimum(np.maximum(c.inputs[0].astype(np.float64), lows), highs))


@judging
def nan_stays(c):
    """NaN enters what this element is made of, and our result is NaN."""
    if not floats(c):
        return False
    lost = (scattered(c) if c.step.op.startswith("Scatter") else
            reduced(c, lambda x, axes, keep: np.isnan(x).any(axes, keepdims=keep)) if c.step.op.startswith("Reduce")
            else np.logical_or.reduce(np.broadcast_arrays(*[np.isnan(v) for v in floats(c)])))
    return lost & np.isnan(results(c)[0])


@judging
def narrow(c):
    """In double precision the peer is right to single precision, and computed in it: its number is one of single
    precision, or the other peer has ours."""
    g, w = results(c)
    if c.got[c.index].dtype != np.float64:
        return False
    return (np.abs(g - w) <= 1e-5 * (1 + np.abs(w))) & ((w == w.astype(np.float32)) | outvoted(c)) & ~single(g)


@judging
def rough(c):
    """In double precision right to single precision: a constant or a step on the way is of single precision."""
    g, w = results(c)
    coarse = max([1e-5, *(2 * step_of(v.dtype) for v in c.values.values() if is_float(v.dtype))])
    return c.got[c.index].dtype in (np.float64, np.complex128) and (np.abs(g - w) <= coarse *
                                                                    (1 + np.abs(w))) & ~single(c.got[c.index])


@judging
def flat(c):
    """What is normalised has so small a deviation that the rounding of its mean shows: as far as a sum of so many
    numbers may be off."""
    if c.index or c.step.op == "BatchNormalization" and not c.attributes.get("training_mode"):
        return False
    g, w = results(c)
    x, scale, of_row = c.inputs[0].astype(np.float64), np.abs(c.inputs[1].astype(
        np.float64)), c.step.op == "LayerNormalization"
    axes = tuple(
        range(c.attributes.get("axis", -1) % x.ndim, x.ndim
              ) if of_row else [a for a in range(x.ndim) if a > 1 or a == 0 and c.step.op == "BatchNormalization"])
    variance = x.var(axes, keepdims=True)
    steepness = (scale if of_row else scale.reshape(-1, *[1] *
                                                    (x.ndim - 2))) / np.sqrt(variance +
                                                                             c.attributes.get("epsilon", 1e-5))
    return np.abs(g - w) <= step_of(c.inputs[0].dtype) * largest([x]) * x.size / max(variance.size, 1) * steepness


@judging
def cancelled(c):
    """The formula in double precision gives ours, as far as the rounding of the mean lets it, and is farther from the
    peer's, or as near as that."""
    g, w = results(c)
    x, axes = c.inputs[0].astype(np.float64), tuple(c.attributes.get("axes", (0, 2, 3)))
    deviation = np.sqrt(x.var(axes, keepdims=True)) + 1e-9
    exact = (x - x.mean(axes, keepdims=True)) / deviation
    off, others, may = np.abs(g -
                              exact), np.abs(w -
                                             exact), 64 * step_of(c.inputs[0].dtype) * (1 + largest([x]) / deviation)
    return (off <= may) & ((others <= may) | ~(others <= off))


def along(c, v):
    """A scale or zero point beside the first input."""
    x, axis, block = c.inputs[0], c.attributes.get("axis", 1), c.attributes.get("block_size", 0)
    v = v.astype(np.float64)
    if v.size == 1:
        return v.ravel()[0]
    if block:
        return np.repeat(v, block, axis).take(range(x.shape[axis]), axis)
    return v.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


@judging
def quantised(c):
    """x / scale + zero within the type, rounded once; the quotient as precise as `precision` or else the scale's
    type."""
    t = c.got[0].dtype
    precision = helper.tensor_dtype_to_np_dtype(
        c.attributes["precision"]) if c.attributes.get("precision") else c.inputs[1].dtype
    step = step_of(precision if precision.itemsize > 1 else np.float32)
    zero = along(c, c.inputs[2]) if len(c.inputs) > 2 and c.inputs[2] is not None else 0.0
    i, quotient = (finfo if is_float(t) else iinfo)(t), c.inputs[0].astype(np.float64) / along(c, c.inputs[1])
    with np.errstate(invalid="ignore"):
        may = 2 * step * np.abs(quotient) + (step_of(t) * np.abs(quotient) +
                                             float(i.smallest_subnormal) if is_float(t) else 0.5)
    return ours_is(c, np.clip(quotient + zero, float(i.min), float(i.max)), may)


@judging
def multiplied(c):
    """The product of quantised matrices, rounded once; scales and zero points of b may be those of columns."""
    a, b = ((v.astype(np.float64) - zero.astype(np.float64)) * scale.astype(np.float64)
            for v, scale, zero in (c.inputs[:3], c.inputs[3:6]))
    t, exact = c.got[0].dtype, a @ b / c.inputs[6].astype(np.float64)
    i = (finfo if is_float(t) else iinfo)(t)
    may = 64 * step_of(np.float32) * np.abs(exact) + (step_of(t) * np.abs(exact) +
                                                      float(i.smallest_subnormal) if is_float(t) else 0.5)
    return ours_is(c, np.clip(exact + c.inputs[7].astype(np.float64), float(i.min), float(i.max)), may)


@judging
def running(c):
    """LRN whose sum is that of the window before, plus what enters, minus what leaves: off by roundings of the largest
    square."""
    g, w = results(c)
    alpha, beta, size = c.attributes.get("alpha", 1e-4), c.attributes.get("beta", 0.75), c.attributes["size"]
    with np.errstate(all="ignore"):
        total = [np.power(c.inputs[0].astype(np.float64) / v, 1 / beta) * size / alpha for v in (g, w)]
    return np.abs(total[0] - total[1]) <= 4 * step_of(c.got[0].dtype) * c.inputs[0].shape[1] * largest(c.inputs) ** 2


@judging
def steep(c):
    """Beside a pole a rounding of x shows."""
    g, w = results(c)
    return np.abs(g - w) <= 64 * step_of(c.got[0].dtype) * (1 + w * w)


@judging
def lost_logarithm(c):
    """log of a quotient that was rounded: what is lost grows with its smallness."""
    g, w = results(c)
    with np.errstate(all="ignore"):
        return (g < 1e-3) & (np.abs(
            np.exp(w) -
            np.exp(g)) <= 4 * step_of(c.got[0].dtype) * np.exp(g) + 4 * float(finfo(c.got[0].dtype).smallest_subnormal))


@judging
def beyond_range(c):
    """A product that leaves the type's range on the way, in one order or another, and is 0 or not finite."""
    if not is_float(c.got[0].dtype):
        return False
    i, lost = finfo(c.got[0].dtype), [(v == 0) | ~np.isfinite(v) for v in results(c)]
    large = reduced(c, lambda x, axes, keep: np.prod(np.maximum(np.abs(x), 1), axes, keepdims=keep)) > float(i.max)
    small = reduced(
        c, lambda x, axes, keep: np.prod(np.where(x == 0, 1, np.minimum(np.abs(x), 1)), axes, keepdims=keep)) < float(
            i.smallest_normal)
    return (large | small) & (lost[0] | lost[1])


@judging
def cancelled_sum(c):
    """The logarithm of a sum that is as near to the other as the roundings of one order or another let it be; it is
    negative where they are larger."""
    may = 2 * c.inputs[0].size / max(c.got[0].size, 1) * step_of(c.got[0].dtype) * reduced(
        c, lambda x, axes, keep: np.abs(x).sum(axes, keepdims=keep))
    with np.errstate(all="ignore"):
        sums = [np.where(np.isnan(v), 0, np.exp(v)) for v in results(c)]
        return np.isfinite(may) & (np.abs(sums[0] - sums[1]) <= may)


@judging
def whole_logarithm(c):
    """Ours is the whole number of the logarithm."""
    if not integers(c) or not c.inputs[0].size:
        return False
    with np.errstate(all="ignore"):
        exact = reduced(c, lambda x, axes, keep: x.max(axes, keepdims=keep) +
                        np.log(np.exp(x - x.max(axes, keepdims=True)).sum(axes, keepdims=keep)))
    return np.abs(results(c)[0] - np.trunc(exact)) <= (np.abs(exact - np.round(exact)) < 1e-9)


@judging
def same_number(c):
    """Two texts of one number, to the eight digits that one of single precision has here."""
    if c.got[0].dtype != object or not is_float(c.inputs[0].dtype):
        return False
    read = lambda a: np.array([float(text)
                               for text in a.ravel()]).reshape(a.shape).astype(c.inputs[0].dtype).astype(np.float64)
    g, w = read(c.got[0]), read(c.want[0])
    return np.isclose(g, w, 1e-7, 0, equal_nan=True)


# ---- what integers do not hold ----

def outside(c):
    """Numbers that the integer type of the result does not hold."""
    to = c.got[0].dtype
    if not is_float(c.inputs[0].dtype) or is_float(to) or to in (object, bool):
        return False
    v, i = c.inputs[0].astype(np.float64), iinfo(to)
    return ~((v > int(i.min) - 1) & (v < int(i.max) + 1))


def outside_shrink(c):
    x, bias = c.inputs[0].astype(np.float64), c.attributes.get("bias", 0.0)
    i = np.iinfo(c.got[0].dtype) if integers(c) else None
    return i is not None and ((x - bias < float(i.min)) | (x + bias >= float(i.max)))


def outside_power(c):
    with np.errstate(all="ignore"):
        y = np.power(c.inputs[0].astype(np.float64), c.inputs[1].astype(np.float64))
    i = np.iinfo(c.got[0].dtype) if integers(c) else None
    return i is not None and ~((y > float(i.min) - 1) & (y < float(i.max)))


@judging
def rounded_to_bits(c):
    """A float that becomes an integer of few bits."""
    t = c.got[0].dtype.name
    return t in ("int4", "uint4", "int2", "uint2") and is_float(
        c.inputs[0].dtype) and (np.subtract(*results(c)) + 1) % 2**int(t[-1]) <= 2


def overflows(c):
    """Sums, squares or products of the integers of a row that leave the type."""
    t, op = c.got[0].dtype, c.step.op
    if t.kind not in "iu":
        return False
    of = {"ReduceProd": lambda x, axes, keep: np.prod(np.abs(np.where(x == 0, 1, x)), axes, keepdims=keep),
          "ReduceSumSquare": lambda x, axes, keep: (x**2).sum(axes, keepdims=keep),
          "ReduceL2": lambda x, axes, keep: (x**2).sum(axes, keepdims=keep),
          "ReduceLogSumExp": lambda x, axes, keep: np.exp(np.minimum(x, 700)).sum(axes, keepdims=keep)
          }.get(op, lambda x, axes, keep: np.abs(x).sum(axes, keepdims=keep))
    return reduced(c, of) >= float(np.iinfo(t).max)


def not_positive(c):
    """The sum of a row of integers has no logarithm."""
    return integers(c) and reduced(c, lambda x, axes, keep: x.sum(axes, keepdims=keep)) <= 0


def beyond_double(c):
    return integers(c) and np.maximum(*np.broadcast_arrays(*[np.abs(v.astype(np.float64)) for v in c.inputs])) > 2.0**53
