"""Known disagreements: who is wrong, exactly when, and what the standard says. A row explains the elements that its
condition names (True: all), where type and shape agree; else the whole output.

A row never speaks against both peers: where they agree with each other and not with us it is not used, unless it brings
a proof that neither can be taken at its word. Nor does it take our word: a condition that says nothing of our own value
(is not `judging`) needs a witness, the other peer or one in another precision, who gives what we give. To add one: the
narrowest condition on attributes, types, values and version under which the peer is wrong, and the sentence that says
who is right. `graphs.py --table` counts each row's use, and one that explains nothing goes; `graphs.py --plant` puts
faults where a row explained something, each of which must be found (plant.py)."""
import copy
import re
from dataclasses import dataclass

import numpy as np
from ml_dtypes import finfo, iinfo

import formulas
from compare import EXACT, differences, largest, step_of
from draw import is_float, model_of
from onnx import helper, numpy_helper
from recurrent import recurrence
from table import EACH
from terms import Terms

# either: inference as well
ORT, REF, EITHER, INFERENCE = "onnxruntime", "reference", "either", "the standard's shape inference"


@dataclass
class Case:
    """What a row may request."""
    step: object
    versions: dict
    attributes: dict            # of the first node
    inputs: list                # of the first node, None where absent
    values: dict                # all that enters
    got: list
    want: list
    peer: str
    index: int                  # of the output
    # where they differ, the other peer gives what "we" do, what the "peer" does, or "neither"; "none": it does not run
    # this
    other: str
    terms: object = None        # how far each element may be off by the roundings of what enters (terms.py)


@dataclass
class Row:
    op: str                     # regular expression of the full name
    peer: str                   # the one that is wrong
    when: object                # Case -> truth value, or one for each element
    why: str                    # by the standard's text
    proof: str = ""             # why it holds even where the peers agree
    free: bool = False          # the standard lets the value be anything

    @property
    def judges(self):
        return getattr(self.when, "judges", False)

    def __str__(self):
        return f"{self.op} ({self.peer}): {self.why}"


def judging(condition):
    """A condition that bounds our own value."""
    condition.judges = True
    return condition


def confirmed(condition):
    """The other peer has ours, or the condition holds, which bounds our own value."""
    return judging(lambda c: outvoted(c) or condition(c))


def given(name, *values):
    """An attribute has one of these values."""
    return lambda c: c.attributes.get(name) in values


def has(name):
    return lambda c: name in c.attributes


def lacks(name):
    return lambda c: name not in c.attributes


def before(opset):
    return lambda c: c.versions[""] < opset


def both(*conditions):
    every = lambda c: np.logical_and.reduce(np.broadcast_arrays(*[condition(c) for condition in conditions]))
    return judging(every) if any(getattr(condition, "judges", False) for condition in conditions) else every


@judging
def outvoted(c):
    """The other peer gives what we give."""
    return c.other == "we"


def output(k):
    return lambda c: c.index == k


def of_shape(c):
    return c.got[c.index].shape != c.want[c.index].shape


def results(c):
    """Ours and the peer's; where the shapes differ nothing that compares."""
    t = np.complex128 if c.got[c.index].dtype.kind == "c" else np.float64
    return (np.full(1, np.nan),) * 2 if of_shape(c) else (c.got[c.index].astype(t), c.want[c.index].astype(t))


def ours_is(c, exact, may=None):
    """Our result is this, which the text's formula gives in double precision, within `may`, else as any two right ways:
    by element, or the whole where the peer's shape is another. NaN is any integer."""
    g = c.got[c.index]
    if g.shape != exact.shape:
        return False
    with np.errstate(all="ignore"):
        near = np.abs(g.astype(np.float64) - exact) <= may if may is not None else ~differences(
            c.step.name, c.step.name in EACH, [v for v in c.inputs if v is not None], g, exact.astype(g.dtype), c.terms)
    near |= np.isnan(exact) & (np.isnan(g.astype(np.float64)) | (not is_float(g.dtype)))
    return bool(near.all()) if of_shape(c) or c.peer == INFERENCE else near


def gives(c, peer, dtype):
    """What a peer makes of the same node in another precision, all floats that enter in this type, and how far each
    element of that may be off; None where it refuses."""
    from peers import PEERS                                     # who requests no peer needs none
    cast = lambda v: v.astype(dtype) if is_float(v.dtype) else v
    step = copy.deepcopy(c.step)
    for a in (a for n in step.nodes for a in n.attribute if a.HasField("t")):
        a.t.CopyFrom(numpy_helper.from_array(cast(numpy_helper.to_array(a.t))))
    arrays = {name: cast(v) for name, v in c.values.items()}
    model, names = model_of(c.versions, [step], arrays, set(), step.outputs)
    results = PEERS[peer](model, {name: arrays[name] for name in names})
    if results is None:
        return None
    return results[c.index], lambda: Terms(c.versions, step, arrays, set()).of(PEERS[peer], results, c.index)


def single(g):
    """Numbers of double precision that one of single precision holds: what was computed in it and then widened. Those
    of few digits, or near 0 where others cancelled, may be anybody's."""
    if g.dtype not in (np.float64, np.complex128):
        return np.zeros(g.shape, bool)
    held = lambda x, bits: x == np.ldexp(np.round(np.ldexp(np.frexp(x)[0], bits)), np.frexp(x)[1] - bits)
    of = lambda x: np.isfinite(x) & (np.abs(x) > 2.0**-20) & held(x, 24) & ~held(x, 12)
    with np.errstate(all="ignore"):
        return of(g.real) | of(g.imag) if g.dtype.kind == "c" else of(g)


def arbiter(peer, dtype):
    """A peer gives ours where the numbers that enter are of this type, another than theirs; and ours are not of less
    precision than their type."""
    def agrees(c):
        g = c.got[c.index]
        if not (is_float(g.dtype) or g.dtype.kind == "c") or all(v.dtype == dtype
                                                                 for v in c.values.values() if is_float(v.dtype)):
            return False
        its, terms = gives(c, peer, dtype) or (None, None)
        if step_of(dtype) > step_of(g.dtype) and c.step.name in EXACT:
            return False
        coarse = g.dtype if g.dtype.kind == "c" or step_of(g.dtype) > step_of(dtype) else np.dtype(dtype)
        off = None if its is None or is_float(its.dtype) != is_float(g.dtype) else differences(
            c.step.name, c.step.name in EACH, [v for v in c.inputs if v is not None], g.astype(coarse),
            its.astype(coarse), terms)
        if off is None:
            return False
        return not off.any() and not single(g).any() if of_shape(c) else ~off & ~single(g)
    return judging(agrees)


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


# ---- windows ----

def window(c):
    """Of a pooling or convolution: for each axis its length, span, stride, dilation."""
    lengths = c.inputs[0].shape[2:]
    kernel = c.attributes.get("kernel_shape") or c.inputs[1].shape[2:]
    strides, dilations = c.attributes.get("strides") or [1] * len(kernel), c.attributes.get(
        "dilations") or [1] * len(kernel)
    return [(n, (k - 1) * d + 1, s, d) for n, k, s, d in zip(lengths, kernel, strides, dilations)]


same = given("auto_pad", b"SAME_UPPER", b"SAME_LOWER")


@judging
def pooled(c):
    """The windows' largest, mean or norm; the places of the largest. Windows and padding are those of the text."""
    x, auto, dims = c.inputs[0], c.attributes.get("auto_pad", b"NOTSET"), c.inputs[0].ndim - 2
    pads = c.attributes.get("pads") or [0] * 2 * dims
    # of each the windows' places, and how many of each are counted though they are padding
    axes = []
    for k, (n, span, s, d) in enumerate(window(c)):
        before, behind = (pads[k], pads[k + dims]) if auto == b"NOTSET" else (0, 0)
        count = (n + before + behind - span) // s + 1
        if auto == b"NOTSET" and c.attributes.get("ceil_mode"):
            count = -(-(n + before + behind - span) // s) + 1
            count -= (count - 1) * s >= n + before
        if same(c):
            count = -(-n // s)
            total = max((count - 1) * s + span - n, 0)
            before = total // 2 if auto == b"SAME_UPPER" else -(-total // 2)
            behind = total - before
        axes.append([(p[(p >= 0) & (p < n)], ((p >= -before) & (p < n + behind)).sum())
                     for p in (np.arange(0, span, d) + s * i - before for i in range(count))])
    every, exact = tuple(range(2, x.ndim)), np.zeros((*x.shape[:2], *map(len, axes)))
    # what lies at the places must be the largest; columns first: the first axis is the fastest
    if c.index == 1:
        order = x if not c.attributes.get("storage_order") else x.transpose(0, 1, *reversed(every))
        inside = ((c.got[1] >= 0) & (c.got[1] < x.size)).all()
        return bool(inside and (order.ravel()[c.got[1]] == c.got[0]).all())
    for at in np.ndindex(exact.shape[2:]):
        spots, counts = zip(*[axis[i] for axis, i in zip(axes, at)])
        part, p = x.astype(np.float64)[np.ix_(*map(range, x.shape[:2]), *spots)], c.attributes.get("p", 2)
        of = np.prod(counts) if c.attributes.get("count_include_pad") else part[0, 0].size if part.size else 1
        exact[(..., *at)] = part.max(
            every) if c.step.op == "MaxPool" else part.sum(every) / of if c.step.op == "AveragePool" else (
                np.abs(part)**p).sum(every)**(1 / p)
    return ours_is(c, exact)


@judging
def spread_out(c):
    """ConvTranspose: every number times the kernel, added up at its place; what lies outside of the result's size is
    cut off, or 0."""
    x, w, bias = (None if v is None else v.astype(np.float64) for v in [*c.inputs, None][:3])
    a, dims, group = c.attributes, x.ndim - 2, c.attributes.get("group", 1)
    extra, pads, sizes, auto = a.get("output_padding") or [0] * dims, a.get("pads") or [0] * 2 * dims, a.get(
        "output_shape"), a.get("auto_pad", b"NOTSET")
    # of each the size, the first window's place, stride and dilation
    axes = []
    for k, (n, span, s, d) in enumerate(window(c)):
        whole = s * (n - 1) + extra[k] + span
        size = sizes[k] if sizes else n * s if same(c) else whole - (pads[k] +
                                                                     pads[k + dims] if auto == b"NOTSET" else 0)
        total = max(whole - size, 0)
        before = pads[k] if auto == b"NOTSET" and not sizes else total // 2 if auto == b"SAME_UPPER" else -(-total // 2)
        axes.append((size, before, s, d))
    exact = np.zeros((x.shape[0], group, w.shape[1], *(size for size, *_ in axes)))
    parts, kernels = x.reshape(x.shape[0], group, -1, *x.shape[2:]), w.reshape(group, -1, *w.shape[1:])
    for at in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            place = [i * s - before + j * d for i, j, (_, before, s, d) in zip(at, tap, axes)]
            if all(0 <= p < size for p, (size, *_) in zip(place, axes)):
                exact[(..., *place)] += np.einsum("ngc,gcm->ngm", parts[(..., *at)], kernels[(..., *tap)])
    exact = exact.reshape(x.shape[0], -1, *exact.shape[3:])
    return ours_is(c, exact + (0 if bias is None else bias.reshape(-1, *[1] * dims)))


# ---- others ----

def inserted_at_end(c):
    """A position is given that is the sequence's length."""
    n = len(c.step.nodes[0].input)
    for node in c.step.nodes:
        if node.op_type == "SequenceInsert":
            if len(node.input) > 2 and int(c.values[node.input[2]]) == n:
                return True
            n += 1
        n -= node.op_type == "SequenceErase"
    return False


def declared_otherwise(c):
    """A body declares other sizes of a state than it begins with."""
    states = c.attributes["body"].input[2:]
    return any([d.dim_value for d in s.type.tensor_type.shape.dim] != list(v.shape)
               for s, v in zip(states, c.inputs[2:]) if v is not None)


@judging
def blended(c):
    """on * hit + off * miss by arithmetic."""
    v = c.inputs[2]
    if v.dtype == object or v.dtype == bool:
        return False
    with np.errstate(all="ignore"):
        hit = (v[1] - v[0]) + v[0]
        miss = np.zeros((), v.dtype) * (v[1] - v[0]) + v[0]
    g = c.got[0]
    at, depth, axis = c.inputs[0].astype(np.int64), int(np.ravel(c.inputs[1])[0]), c.attributes.get("axis", -1)
    place = np.arange(depth).reshape([-1 if k == axis % g.ndim else 1 for k in range(g.ndim)])
    exact = np.where(np.expand_dims(np.where(at < 0, at + depth, at), axis % g.ndim) == place, v[1], v[0])
    bits = lambda a: np.ascontiguousarray(a).view(f"V{g.dtype.itemsize}")
    return (bits(g) == bits(exact.astype(g.dtype))) & ((g == v[1]) & ~(hit == v[1]) | (g == v[0]) & ~(miss == v[0]) |
                                                       (g != g))


def empty_word(c):
    return "delimiter" in c.attributes and any(word == "" for word in c.inputs[0].ravel())


@judging
def normalised(c):
    """Ours are the words that are no stop words, in the wanted case."""
    fold = (lambda word: word) if c.attributes.get("is_case_sensitive") else str.lower
    stop = {fold(word.decode()) for word in c.attributes.get("stopwords", [])}
    change = {b"LOWER": str.lower, b"UPPER": str.upper, b"NONE": str}[c.attributes.get("case_change_action", b"NONE")]
    return c.got[0].ravel().tolist() == ([change(word) for word in c.inputs[0].ravel() if fold(word) not in stop] or
                                         [""])


def starts_before_first(c):
    """Backwards from more than a length before the end."""
    starts, steps, n = c.inputs[1], c.inputs[4] if len(c.inputs) > 4 else None, c.inputs[0].shape
    axes = range(len(starts)) if len(c.inputs) < 4 or c.inputs[3] is None else c.inputs[3]
    return steps is not None and any(step < 0 and start < -n[a] for start, a, step in zip(starts, axes, steps))


def ends_at_most(c):
    """Backwards from a place to the largest number."""
    return len(c.inputs) > 4 and c.inputs[4] is not None and any(step < 0 and end >= 2**31 - 1
                                                                 for end, step in zip(c.inputs[2], c.inputs[4]))


@judging
def sliced(c):
    """Starts and ends clamped into the axis, whatever their numbers."""
    starts, ends, axes, steps = [*c.inputs[1:], None, None][:4]
    y = c.inputs[0]
    for i, start in enumerate(int(v) for v in starts):
        axis, step = int(axes[i]) if axes is not None else i, int(steps[i]) if steps is not None else 1
        n, end = y.shape[axis], int(ends[i])
        low, high = (0, n) if step > 0 else (-1, n - 1)
        clamp = lambda v: min(max(v + n if v < 0 else v, low), high)
        y = y.take(range(max(clamp(start), 0), clamp(end), step), axis)
    return c.got[0].shape == y.shape and ours_is(c, y.astype(np.float64)) if is_float(y.dtype) else (
        c.got[0].shape == y.shape and y.tolist() == c.got[0].tolist())


def of_nothing(c):
    """A reduction of nothing has its shape."""
    return empty(c) and c.got[0].shape == reduced(c, lambda x, axes, keep: x.sum(axes, keepdims=keep)).shape


@judging
def neutral(c):
    """What a reduction of nothing is, where its type holds that."""
    if not of_nothing(c):
        return False
    t, op = c.got[0].dtype, c.step.op
    whole = not is_float(t)
    least, most = (int(iinfo(t).min), int(iinfo(t).max)) if whole and t != bool else (-np.inf, np.inf)
    value = {"ReduceProd": 1, "ReduceMean": np.nan, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf,
             "ReduceMax": least, "ReduceMin": most}.get(op, 0)
    if whole and not np.isfinite(float(value)):
        return False
    return ours_is(c, np.full(c.got[0].shape, float(value)), 0 if np.isfinite(float(value)) else None)


@judging
def all_channels(c):
    """As many samples as channels are none: ours is the formula's."""
    x = c.inputs[0]
    return x.ndim > 1 and x.shape[0] != x.shape[1] and ours_is(c, formulas.local_response(x, **c.attributes))


def raw_product(c):
    return not c.attributes.get("qk_matmul_output_mode") and len(
        c.step.nodes[0].output) > 3 and c.index == len(c.got) - 1


def two_classes(c):
    return len(c.attributes.get("classlabels_ints", c.attributes.get("classlabels_strings", []))) == 2


def axes_count_back(c):
    return any(a < 0 for a in c.attributes.get("axes", []))


def as_matrix(c):
    """The axis is not the last."""
    n = c.inputs[0].ndim
    return c.attributes.get("axis", 1) % n != n - 1


@judging
def transformed(c):
    """The peer's score of the second of two classes, and that with the other sign, transformed, are ours."""
    g, w = results(c)
    pair = w[..., -1:] * np.array([-1, 1])
    zero = (np.abs(pair) <= 1e-7) & (c.attributes.get("post_transform") == b"SOFTMAX_ZERO")
    exact = np.where(zero, pair, 1) * np.exp(np.where(zero, 0, pair) - pair.max(-1, keepdims=True))
    return np.abs(g - exact / exact.sum(-1, keepdims=True)) <= 1e-5


@judging
def in_a_row(c):
    """The same elements in a shape with a dimension less."""
    g, w = c.got[c.index], c.want[c.index]
    return of_shape(c) and g.dtype == w.dtype and g.size == w.size and not differences(
        c.step.name, True, [], g.ravel(), w.ravel()).any()


def zero_member(c):
    values = c.attributes.get("membership_values")
    return values is not None and not numpy_helper.to_array(values).all()


@judging
def by_formula(c):
    """RNN, GRU or LSTM in double precision."""
    output = [k for k, name in enumerate(c.step.nodes[0].output) if name][c.index]
    with np.errstate(over="ignore"):
        return ours_is(c, recurrence(c.step.op, c.attributes, c.inputs)[output])


def ends_before_first(c):
    return c.attributes.get("end", 0) < -c.inputs[0].ndim


def one_place(c):
    return 1 in c.inputs[1][2:]


@judging
def of_row_maximum(c):
    """Rows divided by their largest number."""
    x = c.inputs[0].astype(np.float64)
    if c.attributes.get("norm", b"MAX") != b"MAX" or not (x < 0).any():
        return False
    most = x.max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        return ours_is(c, np.where(most == 0, x, x / most))


@judging
def full_of_bytes(c):
    """A softmax in bytes that saturates."""
    x, scale, zero = (c.inputs[k].astype(np.float64) for k in (0, 3, 4))
    axis = tuple(range(c.attributes.get("axis", -1) % x.ndim, x.ndim)) if c.attributes.get("opset", 13) < 13 else (
        c.attributes.get("axis", -1), )
    e = np.exp((x - x.max(axis, keepdims=True)) * c.inputs[1].astype(np.float64))
    exact, i = np.round(e / e.sum(axis, keepdims=True) / scale) + zero, np.iinfo(c.got[0].dtype)
    return (exact > i.max) & (results(c)[0] == i.max)


@judging
def with_condition(c):
    """The loop with a condition that is true from the begin."""
    from peers import PEERS
    if len(c.inputs) > 1 and c.inputs[1] is not None:
        return False
    step, arrays = copy.deepcopy(c.step), c.values | {"begins": np.array(True)}
    step.nodes[0].input[:] = [*step.nodes[0].input[:1], "begins", *step.nodes[0].input[2:]]
    model, names = model_of(c.versions, [step], arrays, set(), step.outputs)
    its = PEERS[REF](model, {name: arrays[name] for name in names})
    off = None if its is None else differences(c.step.name, False, [], c.got[c.index], its[c.index], c.terms)
    return off is not None and (not off.any() if of_shape(c) else ~off)


@judging
def regression(c):
    """x coefficients + 0."""
    if "intercepts" in c.attributes or c.step.op != "LinearRegressor":
        return outvoted(c) and "intercepts" not in c.attributes
    x = c.inputs[0].astype(np.float64)
    w = np.array(c.attributes["coefficients"], np.float64).reshape(c.attributes.get("targets", 1), -1)
    return c.attributes.get("post_transform", b"NONE") == b"NONE" and ours_is(
        c, x @ w.T, 64 * step_of(np.float32) * (np.abs(x) @ np.abs(w.T)))


@judging
def resized(c):
    """Resize's formula, where a rounding may move a place to the next number either."""
    at = 2 if c.versions[""] > 10 else 1
    roi, scales, sizes = [*c.inputs, None, None, None][1:4] if at == 2 else (None, c.inputs[1], None)
    x, a = c.inputs[0], c.attributes
    if a.get("keep_aspect_ratio_policy", b"stretch") != b"stretch" or x.size == 0 or x.dtype == object:
        return False
    axes = [k % x.ndim for k in a.get("axes", range(x.ndim))]
    of, region = [1.0] * x.ndim, [(0.0, 1.0)] * x.ndim
    for i, k in enumerate(axes):
        of[k] = float(scales[i]) if scales is not None and scales.size else None
        if roi is not None and roi.size:
            region[k] = float(roi[i]), float(roi[i + len(axes)])
    move = a.get("mode", b"nearest")
    old = {"mode": move, "coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"}
    a = dict(a) if c.versions[""] > 10 else old
    both = formulas.resized(a, x, region, of, c.got[0].shape)
    if both is None:
        return False
    g = c.got[0]
    if g.dtype.kind == "c":
        return np.logical_or.reduce([np.abs(g - v) <= 1e-5 * (1 + np.abs(v)) for v in both]) & ~single(g)
    wide, whole = g.astype(np.float64), not is_float(g.dtype)
    i = np.iinfo(g.dtype) if g.dtype.kind in "iu" else None
    may = 0 if move == b"nearest" else 1.0 if whole else (1e-6 if g.dtype == np.float64 else 2e-5) * largest([x])
    near = lambda v: (np.abs(wide - v) <= may + step_of(np.float64 if whole else g.dtype) * np.abs(v)) | (v == wide) | (
        np.isnan(v) & np.isnan(wide))
    return np.logical_or.reduce([near(v if i is None else np.clip(v, float(i.min), float(i.max)))
                                 for v in both]) & ~single(g)


@judging
def sampled_at_border(c):
    align = bool(c.attributes.get("align_corners", 0))
    if c.inputs[0].ndim != 4 or c.attributes.get("padding_mode") != b"border" or c.attributes.get("mode") not in (
            b"cubic", b"bicubic") or not np.isfinite(c.inputs[1]).all():
        return False
    return ours_is(c, formulas.grid_sampled(c.inputs[0], c.inputs[1], align), 1e-3 * (1 + largest(c.inputs[:1])) *
                   (step_of(c.got[0].dtype) / step_of(np.float32)) * (1 + largest(c.inputs[1:])))


@judging
def unsorted(c):
    output = [k for k, name in enumerate(c.step.nodes[0].output) if name][c.index]
    exact, g = formulas.unique(c.inputs[0], c.attributes.get("axis"))[output], c.got[c.index]
    return g.shape == exact.shape and ((g == exact) | (g != g) & (exact != exact))


@judging
def in_sequence(c):
    exact = formulas.sequence(c.step.nodes, c.values)
    if exact is None or exact.shape != c.got[0].shape:
        return False
    same = (exact == c.got[0]) | (exact != exact) & (c.got[0] != c.got[0])
    return bool(same.all()) if of_shape(c) else same


@judging
def largest_with_nan(c):
    x = c.inputs[0].astype(np.float64)
    old = c.versions[""] < 13
    return np.isnan(x).any() and ours_is(c, formulas.hardmax(x, c.attributes.get("axis", 1 if old else -1), old))


def by_scales(c):
    return len(c.inputs) > 2 and c.inputs[2] is not None and c.inputs[2].size > 0 if c.versions[""] > 10 else True


def to_one(c):
    """An axis that is not of size 1 becomes so."""
    return any(n != 1 == m for n, m in zip(c.inputs[0].shape, c.got[0].shape))


def extrapolated(c):
    """The other peer has ours, or it is the whole number of extrapolation_value."""
    return outvoted(c) or integers(c) & (results(c)[0] == int(c.attributes.get("extrapolation_value", 0)))


def cut_length(c):
    """scale * length is not whole."""
    if not by_scales(c):
        return False
    scales = c.inputs[2 if c.versions[""] > 10 else 1].astype(np.float64)
    axes = c.attributes.get("axes", range(c.inputs[0].ndim))
    return any(s * c.inputs[0].shape[a] != np.floor(s * c.inputs[0].shape[a]) for s, a in zip(scales, axes))


ROWS = [
    # what the standard does not determine
    Row("Cast|CastLike", EITHER, outside, "a float outside the range of an integer type is undefined", "Cast: 'float to integer: undefined if it does not fit'", free=True),
    Row("Pow", EITHER, outside_power, "a power that the integer type does not hold is undefined", "the text knows no overflow of integers; peers take a double and cast it, which is undefined", free=True),
    Row("Shrink", EITHER, outside_shrink, "a float outside the range of an integer type is undefined", "as Cast", free=True),
    Row("ReduceL2|ReduceMean|ReduceLogSum|ReduceLogSumExp", EITHER, overflows, "a sum that the integer type does not hold is undefined", free=True),
    Row("ReduceProd|ReduceSum|ReduceSumSquare|ReduceL1", ORT, overflows, "integers wrap"),
    Row("ReduceLogSum", EITHER, not_positive, "a logarithm that is no number is undefined in integers", free=True),
    Row("ReduceProd", EITHER, beyond_range, "whether a product over- or underflows on the way is a matter of order",
        "the order and the precision of a product are not said"),
    Row("BatchNormalization|InstanceNormalization|LayerNormalization", EITHER, flat, "where the deviation is small the rounding of the mean shows", "sums of single precision differ by their order"),
    Row("Tan", EITHER, steep, "beside a pole a rounding of x shows", "tan' is 1 + tan^2"),
    Row("ReduceLogSum", EITHER, judging(lambda c: is_float(c.got[0].dtype) and cancelled_sum(c)), "the order of a sum is not said", "as of any sum"),
    Row("Cast|CastLike", EITHER, same_number, "how many digits a number has as text is not said"),
    Row("GroupNormalization|LayerNormalization|RMSNormalization|SimplifiedLayerNormalization", EITHER, rough, "the first stage is as precise as stash_type",
        "stash_type is 1, single precision, where it is not given"),
    Row("Pad|Trilu|CenterCropPad|EyeLike", EITHER, judging(lambda c: c.got[0].dtype.name == "float8_e8m0fnu" and (results(c)[0] == 2.0 ** -127) & np.isnan(results(c)[1])), "e8m0 holds no 0 to fill with",
        "the type has neither 0 nor a sign"),
    Row("Dropout", ORT, both(output(1), before(12)), "the mask is not filled outside training"),
    Row("Clip", ORT, clipped, "the standard's function body has no bound where none is given"),
    Row("AveragePool|MaxPool|LpPool", EITHER, judging(lambda c: not c.step.has("MaxUnpool") and pooled(c)), "pads are not negative, those of SAME and LOWER and what ceil_mode adds lie where the text says, dilated windows are longer",
        "windows, padding and what they hold by the text's formulas, in double precision"),
    Row("ConvTranspose", EITHER, spread_out, "each group has its own channels and bias; SAME keeps size * stride, and where that is more than the windows reach they lie at its begin",
        "sizes, pads and sums by the text's formulas, in double precision"),
    # the reference evaluator
    Row("LogSoftmax", REF, lost_logarithm, "x - max - log(sum), of which the logarithm of the rounded quotient is no good form"),
    Row("LSTM|GRU|RNN", REF, by_formula, "sequence_lens, clip, activations and input_forget count"),
    Row("BatchNormalization", REF, before(14), "mean and variance are inputs, not the batch's"),
    Row("Softmax|LogSoftmax|Hardmax", REF, both(before(13), as_matrix), "before version 13 the input is taken as a matrix", "'The input does not need to explicitly be a 2D vector; rather, it will be coerced into one'"),
    Row("Loop", REF, both(output(1), in_a_row), "scan outputs are stacked along a new first axis"),
    Row("Loop", REF, with_condition, "a condition that is absent is true"),
    Row("LpNormalization", REF, given("p", 1), "the norm is the sum of magnitudes"),
    Row("RoiAlign", REF, given("mode", b"max"), "of the samples' interpolated values the maximum"),
    Row("GlobalMaxPool", REF, lambda c: c.inputs[0].ndim != 4, "the first two dimensions stay, and there are no more of size 1 than there were"),
    Row("Cast|CastLike", REF, both(of_type("object"), lambda c: outvoted(c) or c.got[0].dtype == bool), "text is read as a number, of which 0 is false"),
    Row("Cast|CastLike", REF, both(of_type("bool"), lambda c: c.got[0].dtype == object), "numbers become text in plain representation, and bool is 1 and 0 as a number"),
    Row("Cast|CastLike", REF, lambda c: c.got[0].dtype.name == "float8_e8m0fnu" and ((np.abs(c.inputs[0].astype(np.float64)) < 2.0 ** -126) | infinite(c)),
        "what is outside of e8m0's range becomes the end of it, or NaN where it does not saturate"),
    Row("Scan", REF, both(outvoted, before(9)), "before version 9 a batch is the first axis, and lengths stand before the states"),
    Row("LRN", REF, rough, "the formula in double precision gives ours to 1e-16"),
    Row("ai.onnx.ml.SVMClassifier", REF, both(output(0), two_classes), "of two classes the sign of the decision says which"),
    Row("MeanVarianceNormalization", REF, cancelled, "the function's body takes E(x^2) - E(x)^2, which loses digits"),
    Row("RoiAlign", REF, before(16), "before version 16 no half pixel is taken off"),
    Row("Slice", REF, both(starts_before_first, confirmed(sliced)), "a start is clamped into the axis before steps go backwards"),
    Row("ai.onnx.ml.TreeEnsemble", REF, both(given("aggregate_function", 2, 3), judging(lambda c: (results(c)[0] == 0) & (np.abs(results(c)[1]) > 0.99 * float(finfo(c.got[0].dtype).max)))), "a target without a leaf stays 0"),
    Row("Pow", REF, lambda c: np.isneginf(c.inputs[0].astype(np.float64)) & (c.inputs[1].astype(np.float64) == 0.5), "IEEE 754: a power of -inf with a positive exponent that is no odd integer is inf; a square root was taken"),
    Row("QLinearMatMul", REF, multiplied, "float8 holds numbers that are not whole, and NaN, which is any integer; the quotient of scales is wider than their type"),
    Row("ai.onnx.preview.training.Ada.*|ai.onnx.preview.training.Momentum", REF, rough, "attributes are of single precision, defaults too"),
    Row("ai.onnx.ml.TreeEnsemble", REF, zero_member, "a list of members ends with NaN; 0 is a member"),
    Row("Resize", EITHER, both(given("coordinate_transformation_mode", b"pytorch_half_pixel"), to_one, confirmed(resized)), "the only place of an axis of size 1 is 0"),
    Row("ReduceLogSumExp", REF, lambda c: np.isinf(results(c)[0]) & np.isnan(results(c)[1]), "the logarithm of an infinite sum is infinite"),
    Row("HardSwish", EITHER, rough, "alpha is 1/6", "the function's body has 1/6 in single precision"),
    Row("DeformConv|GridSample", REF, rough, "the type of the result says the precision"),
    Row("SequenceConstruct|SequenceEmpty", REF, both(lambda c: c.step.has("Optional"), confirmed(in_sequence)), "the element of an optional sequence is the sequence"),
    Row("StringNormalizer", REF, normalised, "stop words are whole strings and go by is_case_sensitive, whatever becomes of the case; the others stay as they are"),
    Row("LRN", REF, all_channels, "every channel is normalised, not as many as the batch has rows"),
    Row("Shape", REF, ends_before_first, "an end before the start leaves nothing"),
    Row("Unsqueeze", REF, both(before(13), axes_count_back), "negative axes count in the result's rank"),
    Row("OneHot", REF, blended, "values are moved as they are"),
    Row("SequenceConstruct|SequenceEmpty", REF, both(inserted_at_end, confirmed(in_sequence)), "a tensor inserted at the sequence's length becomes its last"),
    Row("StringSplit", REF, empty_word, "an empty string has no parts"),
    Row("ai.onnx.ml.LinearRegressor|ai.onnx.ml.LinearClassifier", REF, regression, "intercepts are 0 where none are given"),
    Row("ai.onnx.ml.Normalizer", REF, of_row_maximum, "MAX divides by max(x), not by the largest magnitude"),
    Row("ai.onnx.ml.SVMClassifier", REF, lambda c: "prob_a" in c.attributes and not two_classes(c), "pairwise chances are coupled as LIBSVM does"),
    Row("PRelu", REF, lambda c: ~np.isfinite(c.inputs[1].astype(np.float64)), "what is not negative stays, 0 too where the slope is infinite"),
    Row("DynamicQuantizeLinear", REF, lambda c: not c.inputs[0].any(), "a range of nothing has any scale"),
    Row("ai.onnx.ml.LinearClassifier", REF, both(output(0), given("post_transform", b"LOGISTIC")), "the label is that of the greatest score, before the transform makes several 1"),
    Row("Unique", REF, both(given("sorted", 0), confirmed(unsorted)), "unsorted values come in the order of their first occurrence"),
    Row("Resize", REF, both(given("coordinate_transformation_mode", b"pytorch_half_pixel", b"tf_crop_and_resize"), cut_length, confirmed(resized)), "the resized length is a whole number"),
    Row("Resize", REF, both(lambda c: c.inputs[0].dtype.kind == "c", resized), "a complex number has an imaginary part, too"),
    Row("Trilu|CenterCropPad|Pad", REF, judging(lambda c: c.got[0].dtype == object and (c.got[0] == "") & (c.want[0] == 0)), "what fills a tensor of strings is a string"),
    Row("Resize", REF, both(integers, given("coordinate_transformation_mode", b"tf_crop_and_resize"), has("extrapolation_value"), confirmed(resized)), "how extrapolation_value becomes a whole number is not said"),
    Row("Resize", REF, rough, "scales are of single precision, and so are places"),
    Row("Resize", REF, both(given("coordinate_transformation_mode", b"half_pixel_symmetric"), cut_length, confirmed(resized)), "where offset + (x + 0.5) / scale is whole but for a rounding, it is that pixel"),
    Row("Gelu", EITHER, rough, "the type of the result says the precision", "with numbers in double precision the formula gives ours; Erf and the constants of the function's body are of single precision"),
    Row("ai.onnx.preview.FlexAttention", REF, rough, "the type of the result says the precision: its scale is of single precision"),
    Row("Erf|AffineGrid|Det|HannWindow|HammingWindow|BlackmanWindow|DFT|STFT", REF, narrow, "the type of the result says the precision"),
    # onnxruntime
    Row("Max|Min|ReduceMax|ReduceMin|Relu|Clip|Sign|ReduceLogSumExp|ScatterElements|ScatterND", ORT, nan_stays, "NaN that enters stays"),
    Row("Softplus", ORT, both(outvoted, lambda c: c.inputs[0].astype(np.float64) > np.log(float(finfo(c.inputs[0].dtype).max))), "log(exp(x) + 1) is near x where exp(x) alone does not fit the type"),
    Row("Softmax|LogSoftmax", ORT, judging(lambda c: same_row(c, lambda x: ~np.isfinite(x)) & np.isnan(results(c)[0])), "a sum with NaN is NaN", "IEEE 754"),
    Row("Hardmax", EITHER, largest_with_nan, "NaN is the largest, as in the standard's evaluator; before version 13 the input is taken as a matrix", "position of the largest by numpy"),
    Row("Hardmax|ArgMax|ArgMin", ORT, lambda c: same_row(c, np.isnan), "NaN is the largest, as in the standard's evaluator"),
    Row("Attention", EITHER, rough, "the type of the result says the precision", "with numbers in double precision the formula gives ours to 1e-16; the root of scale is of single precision there"),
    Row("Attention", REF, both(has("softcap"), raw_product), "mode 0 is the raw product, before softcap"),
    Row("Resize", ORT, both(given("coordinate_transformation_mode", b"tf_crop_and_resize"), extrapolated, confirmed(resized)), "what lies outside the picture has extrapolation_value, on axes that keep their length too"),
    Row("MaxPool", ORT, lambda c: c.step.has("MaxUnpool") and len(c.step.nodes[1].input) > 2, "places count in the size that kernel and strides give, whatever output_shape is: the standard's own test"),
    Row("StringSplit", ORT, both(outvoted, has("maxsplit"), lacks("delimiter")), "what is left after that many splits stays as it is"),
    Row("Attention", ORT, lambda c: outvoted(c) and (results(c)[0] == 0) & np.isnan(results(c)[1]), "a query that sees no key gives a row of 0"),
    Row("Attention", ORT, both(outvoted, given("is_causal", 1), lambda c: any(v is not None for v in c.inputs[4:])), "a query sees as many more keys as are before it: those of past_key, or nonpad_kv_seqlen less the queries"),
    Row("ai.onnx.ml.SVMClassifier", ORT, both(output(1), two_classes, given("post_transform", b"SOFTMAX", b"SOFTMAX_ZERO"), transformed), "scores of two classes are transformed, too"),
    Row("ReduceLogSumExp", ORT, lambda c: outvoted(c) and np.isinf(results(c)[1]) & np.isfinite(results(c)[0]), "the result fits the type, whatever its exponential does"),
    Row("ReduceLogSumExp", ORT, whole_logarithm, "the exponentials are numbers, not of the type's whole ones"),
    Row("Swish", ORT, lambda c: outvoted(c) and np.abs(np.subtract(*results(c))) <= step_of(c.got[0].dtype) * np.abs(c.inputs[0].astype(np.float64)), "the sigmoid is as exact near 0 as elsewhere"),
    Row("LRN", ORT, running, "the sum is that of a window's own squares"),
    Row("QuantizeLinear", EITHER, quantised, "the type of the scale, or `precision`, says the precision of the division; the rounded quotient and the zero point are added without an end, and NaN is any integer",
        "computed in double precision; NaN as Cast has it"),
    Row("Shrink", ORT, both(integers, outvoted), "x - bias is computed in numbers, not in the type's whole ones"),
    Row("ReduceLogSum|ReduceLogSumExp|ReduceMean", ORT, both(integers, of_nothing), "a logarithm or quotient that is no number is undefined in integers", free=True),
    Row("Reduce.*", ORT, both(of_nothing, confirmed(neutral)), "what is reduced has size 1 or goes, and an empty sum is 0"),
    Row("ReduceMean|ReduceSum", EITHER, exact_sum, "a sum of integers is exact, and so is their mean", "both take doubles, which do not hold it"),
    Row("Cast|CastLike", ORT, rounded_to_bits, "of a number that is not whole the fraction is cut off"),
    Row("DFT", ORT, both(rough, outvoted), "the type of the result says the precision"),
    Row("Slice", ORT, both(ends_at_most, confirmed(sliced)), "an end is clamped into the axis, whatever its number"),
    Row("com.microsoft.Tokenizer", ORT, judging(lambda c: empty(c) and c.got[0].shape[:-1] == c.inputs[0].shape), "the axis of tokens is there where there is no text, too"),
    Row("Cast|CastLike", EITHER, lambda c: c.got[0].dtype.name == "float8_e8m0fnu" and (c.inputs[0].astype(np.float64) <= 0), "the type holds neither 0 nor what is negative, so what becomes of them is undefined", "as Cast", free=True),
    Row("BatchNormalization", ORT, both(given("training_mode", 1), outvoted), "the mean is taken from x before the division"),
    Row("Cast|CastLike", ORT, lambda c: outvoted(c) and c.got[0].dtype == bool and (c.inputs[0].astype(np.float64) == 0), "'+/- 0.0 to False'"),
    Row("CastLike", ORT, both(given("round_mode", b"down", b"nearest"), confirmed(whole_power)), "round_mode says where a number goes that e8m0 does not hold"),
    Row("Attention", ORT, lambda c: np.isneginf(results(c)[0]) & (results(c)[1] == float(finfo(c.want[c.index].dtype).min)), "what is masked is -inf"),
    Row("com.microsoft.GridSample", ORT, sampled_at_border, "with border, places outside are clamped before their neighbours are taken: as of the standard's GridSample"),
    Row("com.microsoft.QLinearSoftmax", ORT, full_of_bytes, "what is out of range saturates: 1 is 256 steps"),
    # shape inference of the onnx package
    Row("Loop", EITHER, declared_otherwise, "what enters has its own sizes, whatever the body declares"),
    Row("STFT", INFERENCE, lacks("onesided"), "onesided is 1 where it is not given"),
    Row("Resize", ORT, both(has("keep_aspect_ratio_policy"), axes_count_back), "axes may count from the end"),
    Row("MeanVarianceNormalization", ORT, cancelled, "1e-9 is added before the division"),
    Row("AffineGrid", ORT, one_place, "the only place of an axis of size 1 is -1 where corners are aligned, else 0"),
    Row("Resize", ORT, both(given("coordinate_transformation_mode", b"align_corners"), by_scales, confirmed(resized)), "the standard's evaluator takes scale * length where scales are given"),
    Row("GridSample", ORT, sampled_at_border, "with border, places outside are clamped before their neighbours are taken: the standard's evaluator"),
    Row("Mod", ORT, both(given("fmod", 1), beyond_double), "of integers it is exact"),
    Row("Gemm|MatMul|MatMulInteger", ORT, empty, "an empty sum is 0, and beta C stays"),
    Row("Gather", ORT, of_type("object"), "strings are moved as they are"),
    # the same node in another precision
    Row("(?!Cast).*", EITHER, arbiter(REF, np.float64), "intermediate results are as wide as need be", "the standard's evaluator gives ours where it computes in double precision"),
    Row("(?!Cast).*", EITHER, arbiter(REF, np.float32), "the standard's evaluator has constants of single precision", "it gives ours where all is of single precision"),
    Row("(?!Cast).*", REF, arbiter(ORT, np.float32), "onnxruntime gives ours where what enters is of single precision, which it takes"),
    Row("BlackmanWindow|HammingWindow|HannWindow|GroupNormalization|Shrink|ThresholdedRelu|Elu|Celu", ORT, narrow, "the type of the result says the precision"),
]


WITNESSES = [arbiter(ORT, np.float32), arbiter(REF, np.float64), arbiter(REF, np.float32)]


def witnessed(c, covers):
    """Of what a row covers, the elements that somebody else gives as we do."""
    g = c.got[c.index]
    if outvoted(c) or c.peer == INFERENCE:
        return covers & ~single(g) if covers.shape == g.shape else covers
    seen = False
    for agrees in WITNESSES:
        if np.any(covers & ~np.asarray(seen)):
            seen = seen | np.asarray(agrees(c))
    return covers & seen


def explain(case, wrong):
    """The first row that explains some of the elements that are wrong, and which; or None. wrong: None where type or
    shape differ, which a row explains as a whole."""
    for row in ROWS:
        if re.fullmatch(row.op, case.step.name) and row.peer in (case.peer, EITHER) and (row.proof or
                                                                                         case.other != "peer"):
            try:
                covers = np.asarray(row.when(case))
                covers = covers if wrong is None else np.broadcast_to(covers, wrong.shape) & wrong
            except (ValueError, IndexError, TypeError):         # it cannot read what is there
                continue
            if wrong is None and covers.ndim:
                continue
            if covers.any() and not row.judges and not row.free:
                covers = np.broadcast_to(witnessed(case, covers), covers.shape)
            if covers.any():
                return row, covers if wrong is not None else True
    return None


def sides_with(step, inputs, got, want, third, wrong, terms=None):
    """Whose result a third one is, in the elements that are wrong."""
    def same(a):
        off = differences(step.name, step.name in EACH, inputs, a, third, terms)
        return off is not None and not (off if wrong is None else off & wrong).any()

    return "none" if third is None else "we" if same(got) else "peer" if same(want) else "neither"


def remaining(wrong, case_of, said, used=None):
    """What of `wrong` no row explains; None: type or shape differ, and no row says why. case_of: the Case, by what is
    left; said counts the rows; used gets the rows and what they explained."""
    while wrong is None or wrong.any():
        row = explain(case_of(wrong), wrong)
        if not row:
            break
        said["explained", str(row[0])] += 1
        if used is not None:
            used.append((row[0], np.asarray(row[1])))
        wrong = wrong & ~row[1] if wrong is not None else np.zeros(())
    return wrong
