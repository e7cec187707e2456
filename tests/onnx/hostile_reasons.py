"""Hostile forms that run here, and that both peers refuse or answer otherwise: why that is right (test_hostile.py fails
for any other). A row: operators and forms, regular expressions of the whole, the reason, and a proof: a
function that takes a Proved and says whether ours are right. To add one: as narrow as
the reason is; what can be said of the values without the form belongs to differential/disagreements.py."""
import functools
import re
from collections import namedtuple

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

import formulas
import hostile
from hostile_formulas import (
    conv_transpose, max_unpool, short_time_transform, tf_idf, tree_classifier, tree_ensemble,
    tree_regressor)

# case: the model and inputs before the change; model, feed: after it; got: our outputs by name; results: those of the
# peers that run it; ours, peers: functions of another model and inputs
Proved = namedtuple("Proved", "case model feed got results ours peers")
Row = namedtuple("Row", "ops forms why proof")


def equal(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(equal, a, b))
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and (a == b if a.dtype == object else
                                                          (a == b) | ((a != a) & (b != b))).all()


def as_before(p):
    """The change makes no difference."""
    before = p.ours(p.case.model, p.case.feed)
    return before is not None and all(equal(v, before[name]) for name, v in p.got.items())


def numbers(a):
    """As float64, or complex."""
    a = np.asarray(a)
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def step(dtype):
    """What is between 1 and the next number of a type."""
    return {2: 2**-7, 1: 2**-2}.get(np.dtype(dtype).itemsize, 2**-23)


def near(got, want, much=8.0, whole=0.5):
    """Of one shape, and different by a few roundings of the type of got; whole: that of integers, which saturate."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype == object or want.dtype == object:
        return equal(got, want)
    g, w = numbers(got), numbers(want)
    if got.dtype.kind in "iu":
        w = np.clip(w, np.iinfo(got.dtype).min, np.iinfo(got.dtype).max)
    with np.errstate(all="ignore"):
        return bool(((g == w) | (g != g) & (w != w) |
                     (np.abs(g - w) <= (whole + 1e-4 if got.dtype.kind in "iub" else much * step(got.dtype) *
                                        (1 + np.abs(w))))).all())


def by_peers(change, **tolerance):
    """A model and inputs of the same meaning, which a peer takes, gives what we gave. change: Proved -> (model,
    feed)."""
    return lambda p: any(
        len(r) == len(p.got) and all(near(v, w, **tolerance) for v, w in zip(p.got.values(), r))
        for r in p.peers(*change(p)).values())


def copy(model):
    other = type(model)()
    other.CopyFrom(model)
    return other


def formula(f, much=8.0):
    """The first outputs by numpy in double precision. f: takes the inputs in order, None where absent, and attributes
    by name."""
    def proof(p):
        want = f(*values_of(p), **attributes(p))
        return all(near(p.got[name], w, much) for name, w in zip(hostile.tried(p.model).output, want) if name)
    return proof


# ---- changes that the peers understand ----

def of_first_types(p):
    """Each tensor in the type that it had."""
    return p.case.model, p.case.feed | {
        name: v.astype(p.case.feed[name].dtype)
        for name, v in p.feed.items() if isinstance(v, np.ndarray)
    }


def words_moved(p):
    """Words lie where the numbers come to lie that they say."""
    said = lambda v: np.where(np.asarray(v) == "", "0", v)          # no word where no number is
    return any(
        all(np.array_equal(said(v).astype(w.dtype), w) for v, w in zip(p.got.values(), r))
        for r in p.peers(*of_first_types(p)).values())


def in_one_row(p):
    name = hostile.tried(p.case.model).input[0]
    x = p.feed[name] if name in p.feed else numpy_helper.to_array(
        next(t for t in p.model.graph.initializer if t.name == name))
    form = hostile.Form(p.case).feeds(name, x.reshape(1, -1))
    return form.model, form.feed


def without(*names):
    """Attributes that say nothing."""
    def change(p):
        model = copy(p.model)
        for a in [a for a in hostile.tried(model).attribute if a.name in names]:
            hostile.tried(model).attribute.remove(a)
        return model, p.feed
    return change


def neutral(p):
    """Lists that are not there, or empty, are of zeros or ones."""
    form, node, (*_, y) = hostile.Form(p), hostile.tried(p.model), p.got.values()
    present = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for name, value, count in {
            "LinearClassifier": [("intercepts", 0.0, y.shape[-1])], "Scaler": [("offset", 0.0, 1), ("scale", 1.0, 1)],
            "ImageScaler": [("bias", 0.0, y.shape[1])]
    }[node.op_type]:
        if not present.get(name):
            form.put(hostile.attribute(name, hostile.A.FLOATS, [value] * count))
    return form.model, form.feed


def mask_in_numbers(p):
    form = hostile.Form(p).feeds("attn_mask", p.feed["attn_mask"].astype(np.float32))
    return form.model, form.feed


def one_branch(p):
    """Both branches are the one that is chosen, without declarations."""
    model = copy(p.model)
    yes, no = sorted(hostile.tried(model).attribute, key=lambda a: a.name, reverse=True)
    for port in yes.g.output:
        port.ClearField("type")
    no.g.CopyFrom(yes.g)
    return model, p.feed


# ---- formulas ----

def quantize(x, scale, zero=None, axis=1, block_size=0, output_dtype=2, **_):
    """Of one scale, one for each index of the axis, or one for each block."""
    if scale.ndim == x.ndim:
        scale = np.repeat(scale, block_size, axis).take(range(x.shape[axis]), axis)
    shape = scale.shape if scale.ndim == x.ndim else [-1 if k == axis % x.ndim else 1
                                                      for k in range(x.ndim)] if np.size(scale) > 1 else []
    with np.errstate(all="ignore"):
        y = np.rint(x.astype(np.float64) / scale.astype(np.float64).reshape(shape)) + (
            0 if zero is None else zero.astype(np.float64).reshape(shape if zero.size > 1 else []))
    i = ml_dtypes.iinfo(helper.tensor_dtype_to_np_dtype(output_dtype or 2) if zero is None else zero.dtype)
    return [np.where(y != y, 0, np.clip(y, i.min, i.max))]


def cross_entropy(scores, labels, weights=None, ignore_index=None, reduction=b"mean", logarithms=False, **_):
    x = scores.astype(np.float64)
    top = x.max(1, keepdims=True)
    logs = x if logarithms else x - top - np.log(np.exp(x - top).sum(1, keepdims=True))
    counts = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    at = np.where(counts, labels, 0)
    w = np.where(counts, 1.0 if weights is None else weights.astype(np.float64)[at], 0)
    loss = -np.take_along_axis(logs, at[:, None], 1)[:, 0] * w
    return [{b"none": loss, b"sum": loss.sum(), b"mean": loss.sum() / w.sum() if w.sum() else np.nan}[reduction]]


def pool(op):
    """A window at a time; with SAME the padding is never negative."""

    def f(x, kernel_shape, strides=None, pads=None, dilations=None, auto_pad=b"NOTSET", ceil_mode=0,
          count_include_pad=0, p=2, **_):
        n, size = len(kernel_shape), x.shape[2:]
        strides, dilations, pads = strides or [1] * n, dilations or [
            1
        ] * n, pads if pads and auto_pad == b"NOTSET" else [0] * 2 * n
        span = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations)]
        if auto_pad.startswith(b"SAME"):
            out = [-(-m // s) for m, s in zip(size, strides)]
            total = [max((o - 1) * s + k - m, 0) for o, s, k, m in zip(out, strides, span, size)]
            before = [(t + (auto_pad == b"SAME_LOWER")) // 2 for t in total]
            behind = [t - b for t, b in zip(total, before)]
        else:
            before, behind = pads[:n], pads[n:]
            out = [(m + b + e - k + (s - 1) * ceil_mode) // s + 1
                   for m, b, e, k, s in zip(size, before, behind, span, strides)]
            out = [o - (ceil_mode and (o - 1) * s >= m + b) for o, s, m, b in zip(out, strides, size, before)]
        y = np.zeros((*x.shape[:2], *out))
        for at in np.ndindex(*out):
            places = [[a * s - b + k * d for k in range(w)]
                      for a, s, b, w, d in zip(at, strides, before, kernel_shape, dilations)]
            inside = [[q for q in axis if 0 <= q < m] for axis, m in zip(places, size)]
            padded = np.prod(
                [sum(-b <= q < m + e for q in axis) for axis, b, m, e in zip(places, before, size, behind)])
            window = x.astype(np.float64)[(slice(None), slice(None), *np.ix_(*inside))].reshape(*x.shape[:2], -1)
            y[(slice(None), slice(None),
               *at)] = (window.max(-1, initial=-np.inf) if op == "MaxPool" else
                        (np.abs(window)**p).sum(-1)**(1 / p) if op == "LpPool" else window.sum(-1) /
                        max(padded if count_include_pad else window.shape[-1], 1))
        return [y]
    return f


def window(of):
    def f(size, periodic=1, **_):
        n = np.arange(int(size))
        turn = 2 * np.pi * n / max(int(size) - (0 if periodic else 1), 1)
        return [np.trunc(of(turn) if int(size) > 1 or periodic else np.ones(n.shape))]
    return f


def root_mean_square(x, scale, axis=-1, epsilon=1e-5, **_):
    x = x.astype(np.float64)
    return [
        x / np.sqrt((x * x).mean(tuple(range(axis % x.ndim, x.ndim)), keepdims=True) + epsilon) *
        scale.astype(np.float64)
    ]


def cut_depth(x, depth, values, axis=-1, **_):
    d = int(np.nan_to_num(np.asarray(depth, np.float64).ravel()[0]))
    at = np.where((x < -d) | (x >= d), -1, x % max(d, 1)).astype(np.int64)
    return [np.where(np.moveaxis(at[..., None] == np.arange(max(d, 0)), -1, axis), values[1], values[0])]


# ---- others ----

def nothing(p):
    """No elements, or what sums and means of none are."""
    return all(v.size == 0 or (v.dtype != object and not np.nan_to_num(numbers(v)).any())
               for v in map(np.asarray, p.got.values()))


def only_bias(p):
    return all(v.size == 0 or not np.ptp(numbers(v), axis=(0, *range(2, v.ndim))).any() for v in p.got.values())


def near_before(p):
    """Less precise, or more."""
    before = p.ours(p.case.model, p.case.feed)
    return before is not None and all(
        np.shape(v) == np.shape(before[name]) and np.allclose(numbers(v), numbers(before[name]), 2e-2, 2e-2)
        for name, v in p.got.items())


def drawn(p):
    """0 or 1, and what is certain; NaN: either."""
    x, y = (next(iter(p.feed.values())) if p.feed else numpy_helper.to_array(p.model.graph.initializer[0])), next(
        iter(p.got.values()))
    y = numbers(y)
    return bool(((y == 0) | (y == 1)).all() and (y[x <= 0] == 0).all() and
                (y[x >= 1] == 1).all()) if y.shape == x.shape else False


def other_regions_as_before(p):
    """Of regions that are finite as before; of others 0, NaN, or what is inside the picture."""
    name = hostile.tried(p.model).input[1]
    regions = p.feed[name] if name in p.feed else numpy_helper.to_array(
        next(t for t in p.model.graph.initializer if t.name == name))
    before, (output, got) = p.ours(p.case.model, p.case.feed), next(iter(p.got.items()))
    kept = (regions == p.case.feed[name]).all(1)
    return equal(got[kept], before[output][kept]) and bool((np.nan_to_num(numbers(got[~kept])) == 0).all())


def by_lengths(p):
    """A recurrent layer whose sample k is of length 0: there Y is 0 and the last state the first; the others are those
    of lengths that a peer takes."""
    node = hostile.tried(p.model)
    lengths = p.feed[node.input[4]] if node.input[4] in p.feed else numpy_helper.to_array(
        next(t for t in p.model.graph.initializer if t.name == node.input[4]))
    layout = next((a.i for a in node.attribute if a.name == "layout"), 0)
    form = hostile.Form(p.case).feeds(node.input[4], np.maximum(lengths, 1).astype(np.int32))
    want = next(iter(p.peers(form.model, form.feed).values()), None)
    if want is None:
        return False
    ok, none = True, lengths == 0
    for k, (name, w) in enumerate(zip([o for o in node.output if o], want)):
        position = [o for o in node.output].index(name)
        batch = (2 if position == 0 else 1) if not layout else 0
        first = p.feed.get(node.input[4 + position]) if position and len(node.input) > 4 + position else None
        expected = np.array(w)
        for b in np.flatnonzero(none):
            at = (slice(None),) * batch + (b,)
            expected[at] = 0 if first is None else first[(slice(None),) * (0 if layout else 1) + (b,)]
        ok &= near(p.got[name], expected, 64)
    return ok


def only_label(p):
    """Scores are as before."""
    label, score = p.got.values()
    return bool((label == hostile.tried(p.model).attribute[[
        a.name for a in hostile.tried(p.model).attribute
    ].index("classlabels_int64s")].ints[0]).all()) and score.shape == (len(label), 1)


def distinct(p):
    """What is not NaN is there once, in order."""
    x, y = next(iter(p.feed.values())) if p.feed else numpy_helper.to_array(
        p.model.graph.initializer[0]), p.got[hostile.tried(p.model).output[0]]
    return y.ndim > 1 or equal(np.unique(y[y == y]), np.unique(x[x == x]))


def either(*proofs):
    return lambda p: any(proof(p) for proof in proofs)


def same_numbers(p):
    """As before, in another shape."""
    before = p.ours(p.case.model, p.case.feed)
    return before is not None and all(near(np.ravel(v), np.ravel(before[name]), 64) for name, v in p.got.items())


def of_peers(**tolerance):
    """A peer's, but for more roundings."""
    return lambda p: any(all(near(v, w, **tolerance) for v, w in zip(p.got.values(), r)) for r in p.results.values())


def finite_alike(p):
    """What is finite here and there is alike, and the rest is infinite or no number on both sides."""
    lost = lambda v: ~np.isfinite(numbers(v))
    return any(all(near(np.where(lost(v) | lost(w), 0, v), np.where(lost(v) | lost(w), 0, w), 64)
                   for v, w in zip(p.got.values(), r)) for r in p.results.values())


def dropped(p):
    """0, or the number as many times larger as numbers were dropped."""
    x, y = numbers(next(iter(p.feed.values()))), numbers(next(iter(p.got.values())))
    rate = next((a.f for a in hostile.tried(p.model).attribute if a.name == "ratio"), 0.5)
    return y.shape == x.shape and bool(((y == 0) | (np.abs(y * (1 - rate) - x) <= 1e-5 * (1 + np.abs(x)))).all())


def as_text(p):
    """A number and its text, or a text and its number."""
    (x, ), (y, ) = p.feed.values() or [None], p.got.values()
    read = lambda v: np.array([float(t) for t in np.ravel(v)]) if v.dtype == object else np.ravel(numbers(v))
    try:
        return y.shape == x.shape and near(read(y).astype(np.float32), read(x).astype(np.float32))
    except ValueError:
        return False


def power_of_two(p):
    y = numbers(next(iter(p.got.values())))
    return bool((np.isnan(y) | (np.frexp(y)[0] == 0.5)).all())


def nothing_there(p):
    return all(v is None or np.size(v) == 0 or not np.any(v) for v in p.got.values())


def activated(p):
    """A convolution, which a peer computes, then the activation with its parameters, or the operator's own."""
    model = copy(p.model)
    node, params = hostile.tried(model), {a.name: helper.get_attribute_value(a) for a in hostile.tried(model).attribute}
    kept = [a for a in node.attribute if not a.name.startswith("activation")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.op_type, node.domain = "Conv", ""
    del node.input[3:]
    given, name = list(params.get("activation_params", [])), params.get("activation", b"Relu").decode().lower()
    a = given + {"leakyrelu": [0.01], "clip": [-np.inf, np.inf], "hardsigmoid": [0.2, 0.5]}.get(name, [])[len(given):]
    f = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
         "leakyrelu": lambda x: np.where(x < 0, a[0] * x, x), "clip": lambda x: np.clip(x, a[0], a[1]),
         "hardsigmoid": lambda x: np.clip(a[0] * x + a[1], 0, 1)}.get(name)
    z = p.feed.get(p.model.graph.node[-1].input[3]) if len(p.model.graph.node[-1].input) > 3 else 0
    return f is not None and any(
        near(next(iter(p.got.values())), f(numbers(r[0]) + (0 if z is None else numbers(z))), 64)
        for r in p.peers(model, p.feed).values())


def attributes(p):
    return {a.name: helper.get_attribute_value(a) for a in hostile.tried(p.model).attribute}


def values_of(p):
    """The inputs of the node in order, None where absent."""
    values = p.feed | {t.name: numpy_helper.to_array(t) for t in p.model.graph.initializer}
    return [values.get(name) for name in hostile.tried(p.model).input]


def of_no_steps(p):
    """A recurrent layer: Y has no elements, the last states are the first, or 0."""
    node, inputs = hostile.tried(p.model), values_of(p)
    for k, name in enumerate(node.output):
        given = inputs[4 + k] if k and len(inputs) > 4 + k else None
        if name and k and not equal(p.got[name], np.zeros_like(p.got[name]) if given is None else given):
            return False
        if name and not k and p.got[name].size:
            return False
    return True


def distinct_experts(p):
    """Equal numbers of the router, the first ones of them larger by little."""
    name = hostile.tried(p.model).input[1]
    x = values_of(p)[1]
    form = hostile.Form(p)
    x = (x + np.linspace(1e-6, 0, x.shape[-1])).astype(x.dtype)
    if name in p.feed:
        return p.model, p.feed | {name: x}
    for t in [t for t in form.graph.initializer if t.name == name]:
        t.CopyFrom(numpy_helper.from_array(x, name))
    return form.model, form.feed


def share_of_chosen(p):
    """A peer that makes weights sum to 1: each row by the share that the chosen experts have."""
    x, k = numbers(values_of(p)[1]), attributes(p)["k"]
    share = np.exp(x - x.max(-1, keepdims=True))
    share = np.sort(share / share.sum(-1, keepdims=True))[:, -k:].sum(-1, keepdims=True)
    y = next(iter(p.got.values()))
    return any(
        near(y, (numbers(r[0]).reshape(share.shape[0], -1) * share).reshape(y.shape), 1024) for r in p.results.values())


def fused_product(a, b, transA=0, transB=0, transBatchA=0, transBatchB=0, alpha=1.0, **_):
    def turned(x, last, batch):
        if batch and x.ndim > 2:
            x = np.moveaxis(x, 0, -2)
        return np.swapaxes(x, -1, -2) if last and x.ndim > 1 else x
    return [alpha * (turned(numbers(a), transA, transBatchA) @ turned(numbers(b), transB, transBatchB))]


def plain_gemm(p):
    """Gemm by a peer, then the activation that is named, with its own parameters where none are given."""
    model, given = copy(p.model), attributes(p)
    node = hostile.tried(model)
    kept = [a for a in node.attribute if not a.name.startswith("activation")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.op_type, node.domain = "Gemm", ""
    name = given.get("activation", b"").decode()
    own = {"LeakyRelu": 0.01, "Elu": 1.0, "HardSigmoid": 0.2, "ThresholdedRelu": 1.0}
    a, b = given.get("activation_alpha", own.get(name)), given.get("activation_beta", 0.5)
    f = {"": lambda x: x, "LeakyRelu": lambda x: np.where(x < 0, a * x, x), "Elu": lambda x: np.where(
        x < 0, a * np.expm1(x), x), "HardSigmoid": lambda x: np.clip(a * x + b, 0, 1),
         "ThresholdedRelu": lambda x: np.where(x > a, x, 0)}.get(name)
    return f is not None and any(
        near(next(iter(p.got.values())), f(numbers(r[0])), 64) for r in p.peers(model, p.feed).values())


def no_repeats(ids, scores, ngram_size=1):
    """What would end a run of tokens that came before is -inf, as far as there are such numbers."""
    out = numbers(scores).copy()
    for row, words in zip(out, ids.tolist()):
        before = words[len(words) - ngram_size + 1:]
        for k in range(len(words) - ngram_size + 1):
            if words[k:k + ngram_size - 1] == before and 0 <= words[k + ngram_size - 1] < len(row):
                row[words[k + ngram_size - 1]] = -np.inf
    return [out]


def padded(x, pads, value=None, mode=b"constant"):
    around = np.reshape(pads, (2, -1)).T
    return [np.pad(x, around, mode=mode.decode())] if (around >= 0).all() and mode != b"constant" else []


def counted(x):
    """com.microsoft: of one number, which of them it is, and how often it is there."""
    return list(np.unique(np.ravel(x), return_inverse=True, return_counts=True))


def keys_in_use(p):
    """A peer's, up to each sample's last key."""
    node = hostile.tried(p.model)
    values = p.feed | {t.name: numpy_helper.to_array(t) for t in p.model.graph.initializer}
    last = np.ravel(values[node.input[5]])
    upto = lambda v, b: v[b][:, :last[b % len(last)] + 1] if v.ndim == 4 else v[b][:last[b % len(last)] + 1]
    return any(all(near(upto(v, b), upto(w, b), 64) for v, w in zip(p.got.values(), r) for b in range(len(v)))
               for r in p.results.values())


# ---- bodies, an iteration at a time ----

def runs(p, body, arrays):
    """What a peer makes of a body as a model of its own; arrays: of its inputs, in order."""
    graph, outer = copy(body), p.feed | {t.name: numpy_helper.to_array(t) for t in p.model.graph.initializer}
    feed = dict(zip([i.name for i in graph.input], arrays))
    made = {o for n in graph.node for o in n.output} | set(feed) | {t.name for t in graph.initializer}
    for name in dict.fromkeys(i for n in graph.node for i in n.input if i and i not in made):
        if name not in outer:
            return None
        feed[name] = outer[name]
    del graph.input[:]
    for name, v in feed.items():
        graph.input.append(helper.make_tensor_value_info(name, hostile.type_of(np.asarray(v)), np.shape(v)))
    for k, o in enumerate(graph.output):                        # one that is an input, or is there twice
        graph.node.append(helper.make_node("Identity", [o.name], [f"output_{k}"]))
        o.ClearField("type")
        o.name = f"output_{k}"
    model = helper.make_model(graph, opset_imports=p.model.opset_import, ir_version=p.model.ir_version)
    return next((list(r) for r in p.peers(model, feed).values()), None)


def scanned(p, a, ins):
    """States and rows of a Scan along first axes, or None."""
    m, steps = a["num_scan_inputs"], []
    states = ins[:-m]
    for k in range(len(ins[-1])):
        made = runs(p, a["body"], [*states, *(v[k] for v in ins[-m:])])
        if made is None:
            return None
        states, more = made[:len(states)], made[len(states):]
        steps.append(more)
    try:
        return [*states, *(np.stack(v) for v in zip(*steps))]
    except ValueError:
        return None


def by_iterations(p):
    """If, Loop, Scan along first axes and SequenceMap whose body a peer runs, whatever the body declares."""
    node = hostile.tried(p.model)
    values = p.feed | {t.name: numpy_helper.to_array(t) for t in p.model.graph.initializer}
    a, got = {a.name: helper.get_attribute_value(a) for a in node.attribute}, list(p.got.values())
    ins, steps, states = [values.get(name) for name in node.input], [], []
    if node.op_type == "If":
        want = runs(p, a["then_branch" if np.ravel(ins[0])[0] else "else_branch"], [])
        return want is not None and all(map(near, got, want))
    if node.op_type == "SequenceMap":
        n = len(ins[0])
        for k in range(n):
            steps.append(runs(p, a["body"], [v[k] if isinstance(v, list) else v for v in ins]))
        return None not in steps and all(len(g) == n and all(near(v, s[j]) for v, s in zip(g, steps))
                                         for j, g in enumerate(got))
    if node.op_type == "Scan" and not any(k.startswith(("scan_", "directions")) for k in a):
        old = next(o.version for o in p.model.opset_import if o.domain == "") < 9
        batch = [scanned(p, a, [v[b] for v in ins[1:]]) for b in range(len(ins[1]))] if old and ins[0] is None else [
            scanned(p, a, ins)]
        return None not in batch and all(near(g, np.stack(w) if old else w[0]) for g, w in zip(got, zip(*batch)))
    elif node.op_type == "Loop":
        go, states = ins[1] is None or bool(np.ravel(ins[1])[0]), ins[2:]
        while go and (ins[0] is None or len(steps) < int(np.ravel(ins[0])[0])) and len(steps) < 1000:
            made = runs(p, a["body"], [np.array(len(steps)), np.array(True), *states])
            if made is None:
                return False
            go, states, more = bool(np.ravel(made[0])[0]), made[1:1 + len(states)], made[1 + len(states):]
            steps.append(more)
    else:
        return False
    try:
        alike = lambda g, w: all(map(near, g, w)) if isinstance(g, list) else near(g, w)
        return all(map(alike, got, [*states, *(np.stack(v) for v in zip(*steps))]))
    except ValueError:
        return False


# ---- more changes that the peers understand ----

def readable(p):
    """Bytes that are no text become a word."""
    model = copy(p.model)
    for a in hostile.tried(model).attribute:
        if a.type == a.STRING:
            a.s = a.s.replace(b"\xff\xfe%n\n", b"zzz")
        strings = [v.replace(b"\xff\xfe%n\n", b"zzz") for v in a.strings]
        del a.strings[:]
        a.strings.extend(strings)
    return model, p.feed


def without_empty(p):
    return without(*[a.name for a in hostile.tried(p.model).attribute
                     if a.type in (a.FLOATS, a.INTS, a.STRINGS) and not (a.floats or a.ints or a.strings)])(p)


def with_zero_bias(p):
    form = hostile.Form(p)
    weights = p.feed[form.node.input[1]] if form.node.input[1] in p.feed else numpy_helper.to_array(
        next(t for t in p.model.graph.initializer if t.name == form.node.input[1]))
    form.graph.initializer.append(numpy_helper.from_array(np.zeros(weights.shape[1], weights.dtype), "no_bias"))
    form.node.input[:] = [*form.node.input[:2], "no_bias", *form.node.input[3:]]
    return form.model, form.feed


def with_zeros(p):
    """Zero points that are absent are 0; the axis of a DFT the one before the last."""
    form = hostile.Form(p)
    node, kinds = form.node, [v.dtype for v in p.feed.values() if isinstance(v, np.ndarray)]
    kind = next((t for t in kinds if t.itemsize == 1 and t.kind in "iu"), kinds[0])
    most = {"QLinearAdd": 8, "QLinearMul": 8, "QLinearSigmoid": 5, "QLinearLeakyRelu": 5, "QLinearAveragePool": 5,
            "QLinearWhere": 9, "DFT": 3}[node.op_type]
    names = [*node.input, *[""] * (most - len(node.input))]
    if node.op_type == "DFT":
        form.graph.initializer.append(numpy_helper.from_array(np.array(-2), "no_axis"))
        names[2] = names[2] or "no_axis"
    else:
        form.graph.initializer.append(numpy_helper.from_array(np.zeros((), kind), "no_zero"))
        names = [name or "no_zero" for name in names]
    node.input[:] = names
    return form.model, form.feed


def whole_mask(p):
    """A mask repeated to all that it stands for."""
    form = hostile.Form(p)
    mask = p.feed["attn_mask"] if "attn_mask" in p.feed else numpy_helper.to_array(
        next(t for t in p.model.graph.initializer if t.name == "attn_mask"))
    whole = np.ascontiguousarray(np.broadcast_to(mask, p.case.feed["attn_mask"].shape))
    if "attn_mask" not in p.feed:
        for t in [t for t in form.graph.initializer if t.name == "attn_mask"]:
            t.CopyFrom(numpy_helper.from_array(whole, "attn_mask"))
        return form.model, form.feed
    form.feeds("attn_mask", whole)
    return form.model, form.feed


def interleaved(p):
    """Rows of the first product, gates and values in turn, as onnxruntime's CPU knows them."""
    model, feed = copy(p.model), dict(p.feed)
    node = hostile.tried(model)
    next(a for a in node.attribute if a.name == "swiglu_fusion").i = 1
    mix = lambda v: np.ascontiguousarray(np.stack(np.split(v, 2, 1), 2).reshape(v.shape))
    for name in [node.input[k] for k in (2, 3, 4) if k < len(node.input) and node.input[k]]:
        if name in feed:
            feed[name] = mix(feed[name])
        for t in [t for t in model.graph.initializer if t.name == name]:
            t.CopyFrom(numpy_helper.from_array(mix(numpy_helper.to_array(t)), name))
    return model, feed


EMPTY = r"(.*, |constant )?\w+ axis \d of 0"
TYPE = r"\w+ of type \d+"
ONE = r"(.*, |constant )?\w+ (rank (up|down)|first of axis 0)"
WORD = r"\w+ = (\[.*)?b'\\xff\\xfe%n\\n'.*"
NONE = r"\w+ = \[\]"
ROWS = [
    # what the peers do not know
    ("If|Loop|Scan", r"opset \d+", "operators inside are older, too", as_before),
    ("Selu", "opset 1", "its defaults are of fewer digits", near_before),
    ("Dropout", r"opset \d+", "draws where is_test is not given", dropped),
    (".*", r"opset \d+", "an older version, which they no longer run or take for a newer one", as_before),
    ("ConvTranspose", EMPTY, "of no elements the bias is left", only_bias),
    ("Attention|FlexAttention|Col2Im|GlobalAveragePool|GlobalLpPool|GlobalMaxPool|GroupNormalization|Resize|TfIdfVectorizer|ScatterND|RoiAlign|MultiHeadAttention|GroupQueryAttention|Upsample|LpNormalization|"
     "LinearRegressor|LinearClassifier|SVMRegressor|SVMClassifier|TreeEnsemble.*|Normalizer|Scaler|.*Pool|DeformConv|Inverse|STFT|DFT|QLinearSoftmax|QLinearConv|QAttention", EMPTY, "of no elements there are none", nothing),
    ("GridSample", r"\w+ of type (11|14)", "a grid may be of another type, a complex picture of two parts", either(near_before, by_peers(of_first_types))),
    ("OneHot|Unique", r"\w+ of type 8", "text may be chosen, and counted", either(words_moved, distinct)),
    ("TreeEnsemble", r"X of type 1", "splits of another type are numbers as well", formula(tree_ensemble)),
    ("Optional.*", r"x of type \d+", "any tensor", by_peers(of_first_types)),
    ("Resize|GridSample", r"\w+ of type 9", "bools, too", by_peers(of_first_types)),
    ("Resize|Upsample|GridSample|UnfoldTensor|Trilu", r"\w+ of type 8", "strings are moved, where nothing is mixed", words_moved),
    ("Resize|Upsample|GridSample", r"\w+ of type \d+", "integers are cut, as onnxruntime does for those that it takes; single precision rounds places at the border", by_peers(of_first_types, whole=1.0)),
    ("Attention", r"attn_mask of type \d", "what is not bool is added", by_peers(mask_in_numbers)),
    ("LinearRegressor", r"x0 of type [67]", "integers are numbers", by_peers(of_first_types)),
    ("Affine|ParametricSoftplus|ScaledTanh|ImageScaler|Crop|Gelu|QuickGelu|BiasGelu|FastGelu|FusedMatMul|Inverse|MaxRoiPool|MeanVarianceNormalization|LinearRegressor|TreeEnsemble.*|SVMRegressor|OneHot|"
     "QLinear.*|RotaryEmbedding|UnfoldTensor|LRN|LpNormalization|Normalizer|Scaler|Binarizer|.*LayerNormalization|Attention|Momentum|Adam|Adagrad|Unique|CumSum|GlobalLpPool|LinearAttention|QAttention|ScaledSiLU|Trilu|Pad", TYPE,
     "a type that the schema, or the definition, takes", by_peers(of_first_types)),
    ("Attention", r"[qk]v?_num_heads = \d", "what is said twice where the shapes tell", as_before),
    ("Attention", r"no left_window_size|left_window_size = -1", "no window", either(as_before, by_peers(without("left_window_size")))),
    ("LayerNormalization|GroupNormalization|Range|RMSNormalization", r"stash_type = (1|10|11|16)", "the float types of stash_type", near_before),
    ("ConvTranspose", r"output_padding = .*", "less than the stride or the dilation", formula(conv_transpose, 64)),
    ("MaxUnpool", r"(strides|kernel_shape) = .*", "output_shape says the size, and places are its own where it is smaller", formula(max_unpool)),
    ("Resize", "no mode", "what concerns other modes only is not used", by_peers(without("antialias", "cubic_coeff_a", "exclude_outside"))),
    ("Resize", r"antialias = 1|exclude_outside = 1", "what concerns other modes only is not used", as_before),
    ("LRN", r"(.*, |constant )?x\d? (rank up|first of axis 0)", "any rank, as the formula has it", formula(lambda x, **a: [formulas.local_response(x, **a)], 64)),
    (".*LayerNormalization|MatMulIntegerToFloat", r"(.*, |constant )?x\d? (rank up|first of axis 0)", "any rank, as the formula has it", same_numbers),
    ("Attention", r"input 2 absent|2 inputs", "com.microsoft: a bias may be absent", by_peers(with_zero_bias, much=64)),
    ("RNN|GRU|LSTM|DynamicQuantizeLSTM", r"(.*, |constant )?(x0|X) axis \d of 0", "of no steps the last states are the first, of no samples there is nothing", either(nothing, of_no_steps)),
    ("DynamicQuantizeLSTM", r"no hidden_size", "the weights tell the size", as_before),
    ("MoE|QMoE", r"(constant )?x1 all .*", "of equal experts the first ones", by_peers(distinct_experts, much=1e5)),
    ("QMoE", r"normalize_routing_weights = 0", "onnxruntime's CPU makes them sum to 1 all the same", share_of_chosen),
    ("FusedMatMul", r"(.*, |constant )?x\d (rank up|first of axis 0|axis 0 of 0)", "any rank, as the formula has it", formula(fused_product, 64)),
    ("FusedGemm", r"no activation(_alpha)?", "none, and the operator's own parameters", plain_gemm),
    ("NGramRepeatBlock", r".*x[01] .*", "numbers beyond the table have no score", formula(no_repeats)),
    ("Pad", r"(.*, |constant )?x0 axis \d of 1", "the reflection of one element is it", formula(padded)),
    ("QLinearAveragePool", r"(.*, |constant )?x0 axis \d of 1|kernel_shape = .*", "a window longer than the picture has no place", nothing),
    ("Unique", r".*rank down", "one number is a list of one", formula(counted)),
    ("QMoE", r"swiglu_fusion = 2", "halves side by side: onnxruntime's CPU knows interleaved ones alone", by_peers(interleaved, much=1024)),
    ("GroupQueryAttention|SequenceMap|EmbedLayerNormalization|SkipLayerNormalization|MaxPool|Loop|Scan|TreeEnsembleClassifier|Attention|CausalConvWithState|LinearAttention|QAttention|"
     "QEmbedLayerNormalization|Unique", r"output \d absent", "an output that nobody wants", as_before),
    ("QLinearAdd|QLinearMul|QLinearSigmoid|QLinearLeakyRelu|QLinearAveragePool|QLinearWhere|DFT", r"input \d absent|\d inputs", "what is optional may be absent", by_peers(with_zeros, much=64, whole=1.0)),
    ("RotaryEmbedding", r"(no )?num_heads( = 0)?", "the tables tell how many", as_before),
    ("Momentum|Adam|Adagrad", r"9 inputs more", "more tensors, whose new values nobody wants", as_before),
    ("RNN|GRU|LSTM", r"activations = \[\]", "an empty list is none", by_peers(without("activations"))),
    ("RNN|GRU|LSTM", r"no hidden_size|activation_(alpha|beta) = .*", "the weights tell the size, an empty list is none, and what no activation takes is not used", as_before),
    ("LinearClassifier|Scaler|ImageScaler", NONE, "an empty list is none", by_peers(neutral)),
    ("Crop|FusedConv|Bernoulli|.*Regressor|.*Classifier", NONE, "an empty list is none", either(by_peers(without_empty), activated)),
    ("Scaler|ImageScaler", "no (offset|scale|bias)", "0, and 1, where nothing is said", by_peers(neutral)),
    ("FusedConv", r"(no )?activation_params.*", "those of the operator where they are not given; what it does not take is not used", either(activated, as_before)),
    ("TreeEnsemble.*|SVM.*|Linear.*|LabelEncoder|.*Encoder|CategoryMapper|StringNormalizer|StringConcat|ZipMap|Tokenizer|.*Vectorizer|RegexFullMatch", WORD, "bytes that are no text stay as they are", either(by_peers(readable), as_before)),
    ("Scan", r"(.*, |constant )?(initial|x) (rank up|axis \d of 1)|output 1 absent", "a body is of the shapes that come", by_iterations),
    ("SequenceMap", r"(constant )?x\d (rank (up|down)|first of axis 0)", "a body is of the shapes that come", by_iterations),
    (".*", r"\w+: (input|output) \d declared as .*", "declarations of a body may be others than what is there", as_before),
    ("If", r"else_branch(, form \d+|: .*)", "a branch that is not chosen is not looked at", as_before),
    ("If", r"\w+ of type \d+", "a branch that is not chosen is not looked at", by_peers(one_branch)),
    ("If", r"(.*, |constant )?\w+ axis \d of \d", "a branch that is not chosen is not looked at", by_iterations),
    (".*", r"\w+: ((input|output) \d (is \w*|as .*|twice.*|of .*)|no node \d|node \d, \w+, form \d+)", "a body may give what it was given, and of another shape or type", either(as_before, by_iterations)),
    ("Loop", r"body: node \d, axes = \[\]", "of no axes", as_before),
    ("Optional", "0 inputs|input 0 absent", "an empty one of no known type", nothing_there),
    ("Cast", r"round_mode = .*", "what concerns other types only is not used", as_before),
    ("(Q|Deq)uantizeLinear", r"block_size = \d+", "a block may be longer than the axis", as_before),
    ("Loop", r"(.*, |constant )?(c|cond) rank up", "one number, in a list or not", as_before),
    # one number, in a list or not
    ("TopK|Squeeze|OneHot|H.*Window|BlackmanWindow|RotaryEmbedding|Pad|Slice|Clip|Dropout|CumSum|Range|Trilu|NonMaxSuppression|DFT|STFT", ONE, "one number, in a list or not", as_before),
    ("TreeEnsemble.*", ONE, "one row, in a list or not", by_peers(in_one_row)),
    ("ConstantOfShape|GroupQueryAttention", ONE, "one number, in a list or not", as_before),
    ("Einsum", r"equation = b''", "a scalar without names", formula(lambda *xs, **_: [np.prod(xs, 0)])),
    # what the text leaves open
    ("Bernoulli", r".*(x (all|one) .*|seed = .*|x (rank down|first of axis 0))", "below 0 never, above 1 always; any number is a seed", drawn),
    ("RoiAlign|MaxRoiPool", r"(constant |.*, )?\w+ (all|one) (nan|-?inf|3e\+38)", "regions without end: samples outside are 0, NaN stays", other_regions_as_before),
    ("SplitToSequence", "keepdims = 0", "is not used where the sizes are given", as_before),
    ("FeatureVectorizer", "no inputdimensions", "the shapes tell", as_before),
    ("EmbedLayerNormalization", "free sizes", "sizes may be open", as_before),
    ("RoiAlign|MaxRoiPool", r"spatial_scale = 3e\+38", "regions without end: samples outside are 0", nothing),
    ("QuantizeLinear", r".*(3e\+38|0\.0|inf)", "what is too large, infinite by a scale of 0 too, is the largest number", formula(quantize)),
    ("TfIdfVectorizer", r"max_skip_count = .*|ngram_(counts|indexes) = .*|pool_int64s = .*", "n-grams that the row does not reach, or of a length without any", formula(tf_idf)),
    ("TreeEnsembleRegressor", r"no n_targets", "one, where it is not said", as_before),
    ("Resize", r"cubic_coeff_a = .*", "infinities meet", finite_alike),
    ("OneHot", r"(constant )?depth all .*", "a depth is cut to an integer", formula(cut_depth)),
    ("Unique", r".* nan", "whether one NaN is another's equal", distinct),
    ("RNN|GRU|LSTM", r"(.*, |constant )?x4 (all|one) 0", "of a length of 0 the last state is the first", by_lengths),
    ("GroupQueryAttention", r"(.*, |constant )?x5 (all|one) \d", "what lies behind a sample's last key is nobody's", keys_in_use),
    *[(op, r"nodes_modes = .*|(target|class)_\w+ = .*", "a leaf at the root; votes add up, and a leaf without one says 0", formula(f, 64))
      for op, f in (("TreeEnsembleRegressor", tree_regressor), ("TreeEnsembleClassifier", tree_classifier))],
    ("GroupQueryAttention", r"local_window_size = \d+", "a window that is longer than all keys is none", by_peers(without("local_window_size"))),
    ("Cast", r"to = 8|input of type 8", "any type becomes text, and the other way", as_text),
    ("Cast", r"to = 24", "what the type does not hold is undefined", power_of_two),
    ("BatchNormalization", r"x of type 11", "its other inputs are of single precision there", near_before),
    ("LabelEncoder", r"(keys|values|default)_tensor, form 0", "lists may be tables of one row", as_before),
    ("STFT", r"(.*, |constant )?signal axis 2 \+ 1", "a complex signal has both sides", formula(short_time_transform, 1024)),
    ("SoftmaxCrossEntropyLoss", r"y .*|ignore_index = .*", "sums of single precision, one number after the other", formula(cross_entropy, 1024)),
    ("NegativeLogLikelihoodLoss", r"y .*|ignore_index = .*", "sums of single precision, one number after the other", formula(functools.partial(cross_entropy, logarithms=True), 1024)),
    *[(op, r"(strides|kernel_shape|auto_pad) = .*", "a stride may be longer than the window, and than the picture: the padding of SAME is never negative", formula(pool(op))) for op in ("AveragePool", "LpPool", "MaxPool")],
    ("TreeEnsembleClassifier", r".*x0 .*|nodes_nodeids = .*", "labels by onnxruntime's rule for two classes", formula(tree_classifier, 64)),
    ("TreeEnsembleClassifier", r"classlabels_int64s = \[\d+\]", "every row is of the only class", only_label),
    ("ConvTranspose", r"auto_pad = .*", "SAME where pads are given as well", formula(conv_transpose, 64)),
    ("HannWindow", r"output_datatype = \d+", "integers are cut", formula(window(lambda t: 0.5 - 0.5 * np.cos(t)))),
    ("HammingWindow", r"output_datatype = \d+", "integers are cut", formula(window(lambda t: 25 / 46 - 21 / 46 * np.cos(t)))),
    ("BlackmanWindow", r"output_datatype = \d+", "integers are cut", formula(window(lambda t: 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t)))),
    # the standard's text, or its function's body
    ("TreeEnsemble", r"post_transform = [12]", "1 is SOFTMAX, 2 LOGISTIC", formula(tree_ensemble, 64)),
    ("TreeEnsemble", r"nodes_(true|false)(leafs|nodeids) = .*", "paths may meet", formula(tree_ensemble)),
    ("TreeEnsemble", r"(nodes_splits|leaf_weights), form \d+", "of less precision, as they are given", formula(tree_ensemble)),
    ("TreeEnsemble", r"membership_values, form \d+", "a last set without its NaN, or with it", formula(tree_ensemble)),
    ("Attention", r".*attn_mask axis \d of 1", "version 23 repeats a mask of one key", either(as_before, by_peers(whole_mask, much=64))),
    ("Attention|FlexAttention", r"softmax_precision = (10|16)", "scores and probabilities are rounded to it", near_before),
    ("RMSNormalization", r"[XW] of type \d+", "the result is of the scale's type", formula(root_mean_square)),
    ("Resize", r"(.*, |constant )?(X|x0|roi) axis \d .*|.*sizes all 33", "integers are rounded, single precision rounds places at the border", of_peers(much=64, whole=1.0)),
]


def reason(op, form):
    return next((row for row in (Row(*r) for r in ROWS) if re.fullmatch(row.ops, op) and re.fullmatch(row.forms, form)),
                None)
