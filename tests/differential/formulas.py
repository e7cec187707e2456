"""Operators by the standard's formulas, in double precision, for rows of disagreements.py where no peer can be taken at
its word. Comes in: attributes and inputs of a node as a Case has them. Goes out: the output's exact value, or None where
the formula does not cover the form."""
import itertools

import numpy as np


def hardmax(x, axis, as_matrix):
    """1 where the largest number of a row stands first; NaN is the largest."""
    axis %= x.ndim
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1) if as_matrix else np.moveaxis(x, axis, -1)
    hit = np.arange(rows.shape[-1]) == np.argmax(rows, -1)[..., None]
    return (hit.reshape(x.shape) if as_matrix else np.moveaxis(hit, -1, axis)).astype(np.float64)


def unique(x, axis):
    """Values in the order of their first occurrence, where that is, which each element has, how many there are."""
    items = [tuple(v.ravel().tolist()) for v in (x.ravel() if axis is None else np.moveaxis(x, axis, 0))]
    first = {}
    for k, item in enumerate(items):
        first.setdefault(item, k)
    order, at = list(first), list(first.values())
    values = x.ravel()[at] if axis is None else np.take(x, at, axis)
    more = at, [order.index(i) for i in items], [items.count(o) for o in order]
    return [values, *(np.array(v, np.int64) for v in more)]


EACH = {"Abs": np.abs, "Neg": np.negative, "Ceil": np.ceil, "Floor": np.floor, "Identity": lambda v: v}


def sequence(nodes, values):
    """The result of a chain of operators on a sequence, an optional of which is the sequence itself."""
    have = dict(values)
    for n in nodes:
        at = [have.get(name) for name in n.input if name]
        if any(v is None for v in at):
            return None
        if n.op_type in ("SequenceConstruct", "SequenceEmpty"):
            made = at
        elif n.op_type == "SequenceInsert":
            made, where = list(at[0]), int(at[2]) if len(at) > 2 else len(at[0])
            made.insert(where if where >= 0 else where + len(at[0]), at[1])
        elif n.op_type == "SequenceErase":
            made = list(at[0])
            del made[int(at[1]) if len(at) > 1 else -1]
        elif n.op_type == "SequenceAt":
            made = at[0][int(at[1])]
        elif n.op_type == "SequenceLength":
            made = np.array(len(at[0]), np.int64)
        elif n.op_type in ("Optional", "OptionalGetElement", "Identity"):
            made = at[0]
        elif n.op_type == "ConcatFromSequence":
            a = {b.name: b.i for b in n.attribute}
            made = np.stack(at[0], a["axis"]) if a.get("new_axis") else np.concatenate(at[0], a["axis"])
        elif n.op_type == "SequenceMap" and len(n.attribute[0].g.node) == 1 and n.attribute[0].g.node[0].op_type in EACH:
            made = [EACH[n.attribute[0].g.node[0].op_type](v) for v in at[0]]
        else:
            return None
        have[n.output[0]] = made
    return made if isinstance(made, np.ndarray) else None


def local_response(x, size, alpha=1e-4, beta=0.75, bias=1.0, **_):
    """x divided by a power of the squares of the channels around it."""
    squares, n = x.astype(np.float64)**2, x.shape[1]
    around = lambda c: squares[:, max(c - (size - 1) // 2, 0):c + size // 2 + 1].sum(1)
    total = np.stack([around(c) for c in range(n)], 1)
    return x / (bias + alpha / size * total)**beta


def cubic(t, a):
    """Weights of the four neighbours of a place t behind the second."""
    d = np.abs(np.stack([t + 1, t, 1 - t, 2 - t], -1))
    far = np.where(d < 2, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, 0)
    return np.where(d <= 1, (a + 2) * d**3 - (a + 3) * d**2 + 1, far)


def grid_sampled(x, grid, align_corners):
    """Cubic samples of pictures [N,C,H,W], places outside clamped before their neighbours are taken."""
    places = []
    for k, n in ((1, x.shape[2]), (0, x.shape[3])):
        g = grid[..., k].astype(np.float64)
        p, edge = ((g + 1) / 2 * (n - 1), 0) if align_corners else (((g + 1) * n - 1) / 2, 0.5)
        places.append(np.where((p < -edge) | (p > n - 1 + edge), np.clip(p, 0, n - 1), p))
    out = np.zeros((*x.shape[:2], *grid.shape[1:3]))
    firsts = [np.floor(p).astype(int) for p in places]
    weights = [cubic(p - f, -0.75) for p, f in zip(places, firsts)]
    for i, j in itertools.product(range(4), range(4)):
        rows, columns = (np.clip(f - 1 + m, 0, n - 1) for f, m, n in zip(firsts, (i, j), x.shape[2:]))
        for b in range(x.shape[0]):
            out[b] += weights[0][b, ..., i] * weights[1][b, ..., j] * x[b][:, rows[b], columns[b]].astype(np.float64)
    return out


def resize_axis(mode, length, size, scale, begin, end):
    """Where the elements of one axis come from."""
    i = np.arange(size, dtype=np.float64)
    if mode == b"align_corners":
        return i * (length - 1) / (scale * length - 1) if scale * length > 1 else np.zeros(size)
    if mode == b"asymmetric":
        return i / scale
    if mode == b"tf_crop_and_resize":
        return begin * (length - 1) + i * (end - begin) * (length - 1) / (size - 1) if size > 1 else np.full(
            size, 0.5 * (begin + end) * (length - 1))
    if mode == b"pytorch_half_pixel" and size <= 1:
        return np.zeros(size)
    offset = length / 2 * (1 - size / (scale * length)) if mode == b"half_pixel_symmetric" else 0
    return offset + (i + 0.5) / scale - 0.5


def resized(a, x, roi, scales, shape):
    """Resize without antialias, as two arrays: where a place is a tie but for a rounding, what lies on either side. a:
    attributes; scales by axis of x, None where the sizes say them; roi by axis [begins, ends] or None."""
    if a.get("antialias") and any(scale is None or scale < 1 for scale in scales):
        return None
    mode, move = a.get("coordinate_transformation_mode", b"half_pixel"), a.get("mode", b"nearest")
    nearest, fill = a.get("nearest_mode", b"round_prefer_floor"), a.get("extrapolation_value", 0.0)
    both = []
    for nudge in (-1e-5, 1e-5):
        y, outside = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64), np.zeros(shape, bool)
        for k, (length, size) in enumerate(zip(x.shape, shape)):
            scale = scales[k] if scales[k] is not None else size / length
            crop = mode == b"tf_crop_and_resize"
            if length == size and scale == 1 and not crop:
                continue
            at = resize_axis(mode, length, size, scale, *(roi[k] if roi is not None else (0.0, 1.0)))
            if crop:
                outside |= ((at < 0) | (at > length - 1)).reshape([-1 if j == k else 1 for j in range(x.ndim)])
            if move == b"nearest":
                at = at + nudge
                at = {b"round_prefer_floor": np.ceil(at - 0.5), b"round_prefer_ceil": np.floor(at + 0.5), b"floor":
                      np.floor(at), b"ceil": np.ceil(at)}[nearest]
                y = np.take(y, np.clip(at, 0, length - 1).astype(int), k)
                continue
            first = np.floor(at)
            weights = cubic(at - first, a.get("cubic_coeff_a", -0.75)) if move == b"cubic" else None
            if weights is None:
                at = np.clip(at, 0, length - 1)
                first = np.floor(at)
                weights = np.stack([0 * at, 1 - (at - first), at - first, 0 * at], -1)
            if a.get("exclude_outside") and move == b"cubic":
                neighbours = first[:, None] - 1 + np.arange(4)
                weights = np.where((neighbours < 0) | (neighbours > length - 1), 0, weights)
                weights = weights / weights.sum(-1, keepdims=True)
            total = 0
            for j in range(4):
                taken = np.take(y, np.clip(first - 1 + j, 0, length - 1).astype(int), k)
                total = total + taken * weights[:, j].reshape([-1 if m == k else 1 for m in range(x.ndim)])
            y = total
        both.append(np.where(outside, fill, y))
    return both


def raw_product(q, k, v=None, mask=None, past_key=None, *_, q_num_heads=0, kv_num_heads=0, scale=None, **__):
    """Attention's queries by keys times scale, before anything else; heads of keys serve as many of queries."""
    def by_head(x, heads):
        return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    q, k = by_head(q.astype(np.float64), q_num_heads), by_head(k.astype(np.float64), kv_num_heads)
    if past_key is not None:
        k = np.concatenate([past_key.astype(np.float64), k], 2)
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    return q @ k.swapaxes(2, 3) * (q.shape[-1]**-0.5 if scale is None else scale)
