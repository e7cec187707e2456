"""RNN, GRU and LSTM by the standard's formulas, in double precision: what judges where onnxruntime does not run a node
and the standard's evaluator leaves out what it requests."""
import numpy as np

ACTIVATIONS = {                 # f(x, alpha, beta), and what the two are where they are not given; None: it has none
    "Sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), None, None), "Tanh": (lambda x, a, b: np.tanh(x), None, None), "Relu": (lambda x, a, b: np.maximum(x, 0), None, None),
    "Softsign": (lambda x, a, b: x / (1 + np.abs(x)), None, None), "Softplus": (lambda x, a, b: np.logaddexp(x, 0), None, None), "Affine": (lambda x, a, b: a * x + b, 1, 0),
    "LeakyRelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, None), "ThresholdedRelu": (lambda x, a, b: np.where(x < a, 0, x), 1, None), "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), 1, 1),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5), "Elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(x), x), 1, None),
}
WITH_ALPHA, WITH_BETA = ([name for name, row in ACTIVATIONS.items() if row[k] is not None] for k in (1, 2))
OTHERWISE = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def functions(op, attributes, directions):
    """The activations of all directions; those with a parameter take the next one."""
    names = [name.decode() for name in attributes.get("activations", [])] or OTHERWISE[op] * directions
    alpha, beta = iter(attributes.get("activation_alpha", [])), iter(attributes.get("activation_beta", []))
    rows = [(ACTIVATIONS[name][0], *(next(given, default) if default is not None else None
                                     for given, default in zip((alpha, beta), ACTIVATIONS[name][1:])))
            for name in names]
    return [lambda x, row=row: row[0](x, *row[1:]) for row in rows]


def cell(op, attributes, act, w, r, b, p, x, h, c):
    """One step: the next states h and c [H]."""
    bound = attributes.get("clip", np.inf)
    f, g = (lambda x, k=k: act[min(k, len(act) - 1)](np.clip(x, -bound, bound)) for k in (0, 1))
    n = len(h)
    gates, own, bias = np.split(w @ x + b[:len(w)],
                                len(w) // n), np.split(r @ h,
                                                       len(w) // n), np.split(b[len(w):],
                                                                              len(w) // n)
    if op == "RNN":
        return f(gates[0] + own[0] + bias[0]), c
    if op == "GRU":
        z, reset = (f(gates[k] + own[k] + bias[k]) for k in (0, 1))
        share = reset * (own[2] + bias[2]) if attributes.get(
            "linear_before_reset") else np.split(r, 3)[2] @ (reset * h) + bias[2]
        return (1 - z) * g(gates[2] + share) + z * h, c
    i, o, forget, fresh = (gates[k] + own[k] + bias[k] for k in range(4))
    i = f(i + p[:n] * c)
    forget = 1 - i if attributes.get("input_forget") else f(forget + p[2 * n:] * c)
    c = forget * c + i * g(fresh)
    return f(o + p[n:2 * n] * c) * act[2](c), c                 # the state itself is not clipped: so does onnxruntime


def recurrence(op, attributes, inputs):
    """Y, Y_h and, of LSTM, Y_c."""
    inputs = [None if v is None else v.astype(np.float64) for v in inputs] + [None] * (8 - len(inputs))
    x, w, r, b, lengths, h, c, p = inputs
    swapped = lambda v: v.swapaxes(0, 1) if v is not None and attributes.get("layout") else v
    x, h, c = swapped(x), swapped(h), swapped(c)
    steps, batch, directions, hidden = *x.shape[:2], *r.shape[::2]
    act, way = functions(op, attributes, directions), attributes.get("direction", b"forward")
    y, states = np.zeros((steps, directions, batch, hidden)), np.zeros((2, directions, batch, hidden))
    for d, k in np.ndindex(directions, batch):
        state = [np.zeros(hidden) if v is None else v[d, k] for v in (h, c)]
        rows = range(steps if lengths is None else int(lengths[k]))
        for t in reversed(rows) if d == 1 or way == b"reverse" else rows:
            y[t, d, k] = (state := cell(op, attributes, act[d * len(act) // directions:][:len(OTHERWISE[op])], w[d],
                                        r[d],
                                        np.zeros(2 * w.shape[1]) if b is None else b[d],
                                        np.zeros(3 * hidden) if p is None else p[d], x[t, k], *state))[0]
        states[:, d, k] = state
    return [y.transpose(2, 0, 1, 3) if attributes.get("layout") else y, *map(swapped, states)]
