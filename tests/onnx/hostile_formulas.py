"""What operators say, in numpy and in double precision, for forms that the peers refuse or take for something else
(hostile_reasons.py). A function takes a node's inputs in order, None where absent, and its attributes by name, and
returns its first outputs. To add one: by the standard's text, not by our code."""
import itertools

import numpy as np
from onnx import TensorProto, numpy_helper


def array(v):
    return numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v)


def max_unpool(x, at, shape=None, kernel_shape=(), strides=None, pads=None, **_):
    """Places count in the shape that windows make, no axis of which is longer than the result's."""
    n = len(kernel_shape)
    strides, pads = strides or [1] * n, pads or [0] * 2 * n
    made = [
        *x.shape[:2], *[(m - 1) * s + k - pads[a] - pads[a + n]
                        for a, (m, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape))]
    ]
    y = np.zeros(made if shape is None else shape)
    y[np.unravel_index(at.ravel(), np.minimum(made, y.shape))] = x.ravel()
    return [y]


def conv_transpose(x, w, bias=None, kernel_shape=None, strides=None, dilations=None, pads=None, output_padding=None,
                   output_shape=None, auto_pad=b"NOTSET", group=1, **_):
    n, per = x.ndim - 2, len(w) // group
    strides, dilations, more = strides or [1] * n, dilations or [1] * n, output_padding or [0] * n
    span = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    full = [(m - 1) * s + k + p for m, s, k, p in zip(x.shape[2:], strides, span, more)]
    same = auto_pad.startswith(b"SAME")
    if output_shape or same:
        size = output_shape or [m * s for m, s in zip(x.shape[2:], strides)]
        total = [f - o for f, o in zip(full, size)]
        first = [max(t, 0) - max(t, 0) // 2 if auto_pad != b"SAME_UPPER" else max(t, 0) // 2 for t in total]
    else:
        first = pads[:n] if pads and auto_pad == b"NOTSET" else [0] * n
        size = [f - a - b for f, a, b in zip(full, first, pads[n:] if pads and auto_pad == b"NOTSET" else [0] * n)]
    y = np.zeros((x.shape[0], w.shape[1] * group, *[max(f, a + o) for f, a, o in zip(full, first, size)]))
    for g, at, tap in itertools.product(range(group), np.ndindex(*x.shape[2:]), np.ndindex(*w.shape[2:])):
        place = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations))
        channels = slice(g * w.shape[1], (g + 1) * w.shape[1])
        y[(slice(None), channels, *place)] += x[(slice(None), slice(g * per,
                                                                    (g + 1) * per), *at)].astype(np.float64) @ w[(slice(
                                                                        g * per, (g + 1) * per), slice(None), *tap)]
    y = y[(slice(None), slice(None), *[slice(a, a + o) for a, o in zip(first, size)])]
    return [y if bias is None else y + bias.reshape(-1, *[1] * n)]


def short_time_transform(signal, step, window=None, length=None, onesided=1, **_):
    """A signal of two parts is complex, and has both sides."""
    x = signal[..., 0] + 1j * signal[..., 1] if signal.shape[-1] == 2 else signal.reshape(signal.shape[:2])
    n = int(length) if length is not None else len(window)
    frames = [
        np.fft.fft(x[:, k:k + n] * (1 if window is None else window)) for k in range(0, x.shape[1] - n + 1, int(step))
    ]
    y = np.stack(frames, 1)[..., :n // 2 + 1 if onesided and signal.shape[-1] == 1 else n]
    return [np.stack([y.real, y.imag], -1)]


def tf_idf(x, mode, ngram_counts, ngram_indexes, min_gram_length, max_gram_length, max_skip_count, pool_int64s=None,
           pool_strings=None, weights=None, **_):
    """n-grams of each row, at strides up to so many places; what is counted is a column of the result."""
    pool, rows = list(pool_int64s or pool_strings), x if x.ndim == 2 else x.reshape(1, -1)
    ends, grams = [*ngram_counts[1:], len(pool)], []
    for n, (first, end) in enumerate(zip(ngram_counts, ends), 1):
        grams += [(n, tuple(pool[k:k + n])) for k in range(first, end, n)]
    y = np.zeros((len(rows), max(ngram_indexes) + 1))
    for r, row in enumerate(rows):
        for (n, gram), column, weight in zip(grams, ngram_indexes, weights or [1.0] * len(grams)):
            reach = min(max_skip_count, len(row)) + 1 if n > 1 else 1
            found = sum(
                tuple(row[k + j * gap] for j in range(n)) == gram for gap in range(1, reach + 1)
                for k in range(len(row) - (n - 1) * gap)) if min_gram_length <= n <= max_gram_length else 0
            y[r, column] += {b"TF": found, b"IDF": (found > 0) * weight, b"TFIDF": found * weight}[mode]
    return [y if x.ndim == 2 else y[0]]


# ---- trees ----

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
COMPARE = dict(zip(MODES, (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)))
POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def posted(y, post):
    if post == "LOGISTIC":
        return 1 / (1 + np.exp(-y))
    if post == "SOFTMAX":
        e = np.exp(y - y.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    assert post == "NONE", post
    return y


def joined(votes, rows, targets, join, trees):
    """votes: (row, target, weight). Targets without one are 0."""
    y = np.zeros((rows, targets))
    for r, t in np.ndindex(rows, targets):
        mine = [v for a, b, v in votes if (a, b) == (r, t)]
        y[r, t] = {
            "SUM": sum, "AVERAGE": lambda v: sum(v) / trees, "MIN": lambda v: min(v, default=0), "MAX":
            lambda v: max(v, default=0)
        }[join](mine)
    return y


def tree_ensemble(x, nodes_splits, nodes_featureids, nodes_modes, nodes_truenodeids, nodes_falsenodeids,
                  nodes_trueleafs, nodes_falseleafs, leaf_targetids, leaf_weights, tree_roots, n_targets=1,
                  aggregate_function=1, post_transform=0, nodes_missing_value_tracks_true=None, membership_values=None,
                  **_):
    x, splits, modes, weights = (array(v).astype(np.float64)
                                 for v in (np.atleast_2d(x), nodes_splits, nodes_modes, leaf_weights))
    ends = np.flatnonzero(np.isnan(members := array([] if membership_values is None else membership_values).ravel()))
    sets = iter(np.split(members, ends + 1))
    member = {k: next(sets) for k in range(len(modes)) if modes[k] == len(MODES)}

    def holds(k, v):
        yes = v in member[k] if k in member else COMPARE[MODES[int(modes[k])]](v, splits[k])
        return yes or bool(np.isnan(v) and nodes_missing_value_tracks_true and nodes_missing_value_tracks_true[k])

    def leaf(row, k):
        yes = holds(k, row[nodes_featureids[k]])
        end, to = (nodes_trueleafs, nodes_truenodeids) if yes else (nodes_falseleafs, nodes_falsenodeids)
        return to[k] if end[k] else leaf(row, to[k])

    votes = [(r, leaf_targetids[k], weights[k]) for r, row in enumerate(x)
             for k in (leaf(row, root) for root in tree_roots)]
    return [
        posted(joined(votes, len(x), n_targets, ("AVERAGE", "SUM", "MIN", "MAX")[aggregate_function], len(tree_roots)),
               POST[post_transform])
    ]


def forest(x, kind, targets, join, a):
    """Scores by the lists of the older operators: the first node of a tree is its root; votes of a leaf add up."""
    x, nodes = np.atleast_2d(x).astype(np.float64), list(zip(a["nodes_treeids"], a["nodes_nodeids"]))
    row_of, roots = {
        key: k
        for k, key in enumerate(nodes)
    }, [nodes.index(next(n for n in nodes if n[0] == tree)) for tree in dict.fromkeys(a["nodes_treeids"])]
    splits, weights = (array(a[f"{name}_as_tensor"]) if f"{name}_as_tensor" in a else np.array(a[name], np.float32)
                       for name in ("nodes_values", f"{kind}_weights"))
    missing = a.get("nodes_missing_value_tracks_true") or [0] * len(nodes)

    def leaf(row, k):
        mode = a["nodes_modes"][k].decode()
        if mode == "LEAF":
            return k
        v = row[a["nodes_featureids"][k]]
        yes = COMPARE[mode.removeprefix("BRANCH_")](v, float(splits[k])) or np.isnan(v) and missing[k]
        return leaf(row, row_of[a["nodes_treeids"][k], a["nodes_truenodeids" if yes else "nodes_falsenodeids"][k]])

    votes = {}
    for tree, node, target, weight in zip(a[f"{kind}_treeids"], a[f"{kind}_nodeids"], a[f"{kind}_ids"], weights):
        at = row_of[tree, node], target
        votes[at] = votes.get(at, 0) + float(weight)
    cast = [(r, t, w) for r, row in enumerate(x) for root in roots for (k, t), w in votes.items()
            if k == leaf(row, root)]
    return joined(cast, len(x), targets, join, len(roots)), weights


def tree_regressor(x, **a):
    y, _ = forest(x, "target", a.get("n_targets", 1), a.get("aggregate_function", b"SUM").decode(), a)
    base = array(a["base_values_as_tensor"]) if "base_values_as_tensor" in a else np.array(
        a.get("base_values") or [0.0])
    return [posted(y + base, a.get("post_transform", b"NONE").decode())]


def tree_classifier(x, **a):
    """Of two classes of which leaves weigh one alone, a label by a half, or by zero where a weight is negative."""
    labels, post = a.get("classlabels_int64s") or a["classlabels_strings"], a.get("post_transform", b"NONE").decode()
    base = array(a["base_values_as_tensor"]) if "base_values_as_tensor" in a else np.array(
        a.get("base_values") or [0.0])
    y, weights = forest(x, "class", len(labels), "SUM", a)
    y, ids = y + base, set(a["class_ids"])
    if len(labels) > 2 or len(ids) > 1:
        return [np.array(labels)[y.argmax(1)], posted(y, post)]
    positive, second = bool((weights >= 0).all()), y[:, 0 if ids == {0} else 1]
    at = (second > (0.5 if positive else 0)).astype(int)
    if ids == {0}:
        y = np.stack([1 - second if positive and post != "LOGISTIC" else -second, second], 1)
        post = "LOGISTIC" if post == "LOGISTIC" else "NONE"
    return [np.array(labels)[at], posted(y, post)]
