"""Conditions of disagreements.py for one operator, or one kind of operators."""
import copy
import math

import numpy as np
from ml_dtypes import iinfo
from onnx import numpy_helper

import formulas
from compare import differences, largest, step_of
from conditions import empty, integers, reduced
from draw import is_float, model_of
from recurrent import recurrence
from waiver import REF, given, judging, of_shape, ours_is, outvoted, results, single

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


@judging
def raw_product(c):
    wanted = not c.attributes.get("qk_matmul_output_mode") and len(
        c.step.nodes[0].output) > 3 and c.index == len(c.got) - 1
    return wanted and ours_is(c, formulas.raw_product(*c.inputs, **c.attributes))


@judging
def largest_is_nan(c):
    x = c.inputs[0].astype(np.float64)
    return np.isnan(x).any() and ours_is(c, x.max(tuple(range(2, x.ndim)), keepdims=True))


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
    if x.size == 0 or x.dtype == object:
        return False
    axes = [k % x.ndim for k in a.get("axes", range(x.ndim))]
    of, region = [1.0] * x.ndim, [(0.0, 1.0)] * x.ndim
    policy = a.get("keep_aspect_ratio_policy", b"stretch")
    if policy != b"stretch":
        ratio = (min if policy == b"not_larger" else max)(int(n) / x.shape[k] for n, k in zip(sizes, axes))
        if any(c.got[0].shape[k] != math.floor(ratio * x.shape[k] + 0.5) for k in axes):
            return False
        scales = np.full(len(axes), ratio)
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
    good = np.logical_or.reduce([near(v if i is None else np.clip(v, float(i.min), float(i.max)))
                                 for v in both]) & ~single(g)
    return bool(good.all()) if of_shape(c) else good


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
