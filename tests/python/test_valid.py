"""Valid models of unusual form: very many inputs, outputs, states and nodes' arguments, tensors without elements,
functions that leave inputs out. Each runs on the CPU and on the interpreter. What a case expects is written here in
numpy. A case is a row: its name, nodes and what is declared around them, the inputs, the expected outputs, constants.
To add one: a row.
"""
import os
import sys

import numpy as np
from onnx import TensorProto, helper as h, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

rng = np.random.default_rng(5)
MANY = 100


def f(*shape): return rng.standard_normal(shape).astype(np.float32)


def names(letter, n): return [f"{letter}{k}" for k in range(n)]


def port(name, value=None):
    return h.make_tensor_value_info(name,
                                    h.np_dtype_to_tensor_dtype(value.dtype) if value is not None else TensorProto.FLOAT,
                                    value.shape if value is not None else None)


def chain(op, n):
    return [
        h.make_node(op, ["x0" if k == 1 else f"t{k - 1}", f"x{k}"], [f"t{k}" if k + 1 < n else "y"])
        for k in range(1, n)
    ]


def inputs(values, letter="x"): return dict(zip(names(letter, len(values)), values))


def graph(nodes, ins, outs): return h.make_graph(nodes, "g", [port(n) for n in ins], [port(n) for n in outs])


xs, rows, swapped = f(MANY, 5), f(4, 300), (np.eye(70) + f(70, 70) / 50).astype(np.float32)[rng.permutation(70)]
turn = h.make_graph([
    h.make_node("Identity", ["go"], ["on"]),
    *[h.make_node("Add", [f"s{k}", f"s{(k + 1) % MANY}"], [f"n{k}"]) for k in range(MANY)]
], "turn", [port("i", np.array(0)), port("go", np.array(True)), *map(port, names("s", MANY))],
                    [port("on", np.array(True)), *map(port, names("n", MANY))])
words = np.array([f"w{k * k % 977}" for k in range(50000)], object)


def unique(x, order):
    y, at, back, count = np.unique(x, True, True, True)
    to = np.arange(len(y)) if order else np.argsort(at)
    return [y[to], at[to], np.argsort(to)[back.reshape(-1)], count[to]]


LIMITS = h.make_function("local", "limits", ["x", "least", "most"], ["y", "z"],
                         [h.make_node("Clip", ["x", "least", "most"], ["y"]),
                          h.make_node("Neg", ["x"], ["z"])], [h.make_opsetid("", 18)])
CASES = [
    ("a sum of many", chain("Add", MANY), inputs(xs), [xs.sum(0)]),
    ("one of many numbers each", [
        h.make_node("Sum", names("x", MANY), ["a"]),
        h.make_node("Max", names("x", MANY), ["b"]),
        h.make_node("Concat", ["a", "b"], ["y"], axis=0)
    ], inputs(xs), [np.concatenate([xs.sum(0), xs.max(0)])]),
    ("many products summed", [
        *[h.make_node("Mul", ["x0", f"w{k}"], [f"m{k}"]) for k in range(MANY)],
        h.make_node("Sum", names("m", MANY), ["s"]),
        h.make_node("ReduceSum", ["s"], ["y"], keepdims=0)
    ], dict(inputs([rows]), **inputs(xs[:, :1] + rows[0], "w")), [(rows * (xs[:, :1] + rows[0]).sum(0)).sum()]),
    ("a loop of many states", [h.make_node("Loop", ["iterations", "", *names("x", MANY)], names("y", MANY),
                                           body=turn)], dict(inputs(xs), iterations=np.array(12)),
     list(sum(np.float32(c) * np.roll(xs, -k, 0) for k, c in enumerate(np.poly1d([1, 1])**12)))),
    ("a branch of many values", [
        h.make_node("ReduceMin", ["x"], ["m"], keepdims=0),
        h.make_node("Greater", ["m", "zero"], ["c"]),
        h.make_node(
            "If", ["c"], names("y", MANY), then_branch=graph([
                h.make_node("ReduceMax", ["x"], ["s"], keepdims=0),
                *[h.make_node("Mul", ["s", f"w{k}"], [f"p{k}"]) for k in range(MANY)]
            ], [], names("p", MANY)), else_branch=graph([
                h.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
                *[h.make_node("Mul", ["t", f"w{k}"], [f"q{k}"]) for k in range(MANY)]
            ], [], names("q", MANY)))
    ], dict(inputs(list(xs[:, 0]), "w"), x=np.abs(np.tile(xs, (10, 1))),
            zero=np.float32(100)), list(xs[:, 0] * np.abs(np.tile(xs, (10, 1))).sum())),
    *[(f"a determinant of {n} rows", [h.make_node("Det", ["x"], ["y"])
                                      ], dict(x=x), [np.linalg.det(x.astype(np.float64)).astype(np.float32)])
      for n in (0, 1, 7, 9, 100) for x in [(np.eye(n) + f(2, n, n) / 50).astype(np.float32)[:, rng.permutation(n)]]],
    ("a singular matrix", [h.make_node("Det", ["x"], ["y"])],
     dict(x=np.outer(np.arange(12), np.ones(12)).astype(np.float32)), [np.float32(0)]),
    ("an inverse of 70 rows", [h.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")], dict(x=swapped),
     [np.linalg.inv(swapped.astype(np.float64)).astype(np.float32)]),
    ("300 parts", [h.make_node("Split", ["x0"], names("y", 300), axis=1, num_outputs=300)], inputs([rows]),
     list(rows.T[:, :, None])), *[(f"{op} of no steps", [
         h.make_node(op, ["x", "w", "r", "", "", "first"], ["y", "last"], hidden_size=2, direction="bidirectional")
     ], dict(x=f(0, 3, 4), w=f(2, 2 * gates, 4), r=f(2, 2 * gates, 2), first=xs[:12].reshape(
         2, 3, 10)[:, :, :2]), [np.zeros((0, 2, 3, 2), np.float32), xs[:12].reshape(2, 3, 10)[:, :, :2]])
                                  for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))],
    ("a scan of nothing", [
        h.make_node(
            "Scan", ["first", "x"], ["last", "y"], num_scan_inputs=1,
            body=h.make_graph([h.make_node("Add", ["s", "v"], ["n"]),
                               h.make_node("Mul", ["s", "v"], ["p"])], "turn", [port("s"), port("v")],
                              [port("n"), port("p")]))
    ], dict(first=xs[0], x=f(0, 5)), [xs[0], np.zeros((0, 5), np.float32)]),
    ("a range that no memory holds",
     [h.make_node("Range", ["zero", "end", "one"], ["r"]),
      h.make_node("Slice", ["r", "from", "until"], ["y"])], {}, [np.array([2**36 - 2, 2**36 - 1])],
     dict(zero=0, end=2**36, one=1, **{"from": [2**36 - 2], "until": [2**36]})),
    ("a function without some inputs", [
        LIMITS,
        h.make_node("limits", ["x0", "", "x1"], ["a"], domain="local"),
        h.make_node("limits", ["x0"], ["", "b"], domain="local"),
        h.make_node("Concat", ["a", "b"], ["y"], axis=0)
    ], inputs([xs[0], np.float32(0.1)]), [np.concatenate([np.minimum(xs[0], np.float32(0.1)), -xs[0]])]),
    *[(f"distinct ones of {n} words", [h.make_node("Unique", ["x"], ["y", "at", "back", "count"], sorted=order)
                                       ], dict(x=words[:n]), unique(words[:n], order)) for n in (40, 6000, 50000)
      for order in (0, 1)],
]


def said(device, name, nodes, feed, want, constants={}):
    """What is wrong, or ''."""
    outputs = nodes[-1].output
    functions = [n for n in nodes if not hasattr(n, "op_type")]
    g = h.make_graph([n
                      for n in nodes if hasattr(n, "op_type")], "g", [port(n, np.asarray(v)) for n, v in feed.items()],
                     [port(n, np.asarray(v)) for n, v in zip(outputs, want)],
                     [numpy_helper.from_array(np.array(v), n) for n, v in constants.items()])
    model = h.make_model(
        g, opset_imports=[h.make_opsetid("", 18),
                          h.make_opsetid("local", 1),
                          h.make_opsetid("com.microsoft", 1)], functions=functions, ir_version=9)
    try:
        got = tgrun.InferenceSession(model.SerializeToString(), device=device).run(None, feed)
    except tgrun.Error as e:
        return str(e)
    bad = [
        n for n, a, b in zip(outputs, got, want) if np.shape(a) != np.shape(b) or
        not (np.array_equal(a, b) if np.asarray(b).dtype == object else np.allclose(a, b, 1e-3, 1e-4))
    ]
    return f"{', '.join(bad)} differ" if bad else ""


right = 0
for device in ("cpu", "reference"):
    for case in CASES:
        wrong = said(device, *case)
        right += not wrong
        if wrong:
            print(f"{device}: {case[0]}: {wrong}")
print(f"{right} of {2 * len(CASES)} valid models right")
sys.exit(right != 2 * len(CASES))
