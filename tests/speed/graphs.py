"""Random graphs of 1 to 8 ordinary operators at realistic sizes: is any of them far slower than onnxruntime, or than
the memory and the arithmetic allow?

    graphs.py --count 300 --seed 1             rows of the slowest, then geometric mean and shares; exit 1 when a cliff
                                               is found
    graphs.py --graph 17 --seed 1 --keep DIR   looks closer at one, and writes its model

Both engines run in this process on the same inputs with the same threads, alternating; a time is the least of the
samples' medians. The roofline of a graph is the larger of (bytes of its inputs, constants and outputs) / (the speed at
which this machine copies 64 MiB) and (its multiply-adds) / (the speed of a large product in onnxruntime), plus 2 us. A
cliff: more than --factor times onnxruntime's time and more than 2 times the roofline. A graph that looks like one is
timed again, longer, before it counts, since machines have other load. Outputs that differ from onnxruntime's are
compared with the interpreter's in double precision."""
import argparse
import math
import os
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "python")]
LEAST, MOST = 1 << 14, 1 << 22          # elements of an input
SETTLE = 0.03                           # seconds: the other engine's threads, which spin for a while, fall asleep
SIZES = [
    1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 49, 50, 64, 80, 96, 100, 128, 144, 160, 197, 224, 256, 300, 384, 512,
    577, 640, 768, 1000, 1024, 1500, 2048, 3000, 4096
]


class Grown:
    """A model in the making: values are (name, shape); `work` counts multiply-adds of products."""

    def __init__(self, rng):
        self.rng, self.nodes, self.inputs, self.constants, self.work = rng, [], {}, [], 0
        self.values = []

    def name(self):
        return f"t{len(self.nodes)}_{len(self.constants)}_{len(self.inputs)}"

    def constant(self, array):
        name = "c" + self.name()
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weights(self, *shape):
        return self.constant((self.rng.standard_normal(shape) * 0.3).astype("f4"))

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = tuple(shape)
        return name

    def node(self, op, inputs, shape, outputs=1, **attributes):
        out = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, out, **attributes))
        return out[0], tuple(int(n) for n in shape)


def shape_of(rng):
    """A shape of rank 1 to 5 with LEAST to MOST elements."""
    while True:
        shape = [
            int(rng.choice(SIZES)) if rng.random() < 0.8 else int(rng.integers(1, 4097))
            for _ in range(int(rng.choice([1, 2, 3, 3, 4, 4, 5])))
        ]
        if LEAST <= math.prod(shape) <= MOST:
            return shape


def axis(g, shape):
    return int(g.rng.integers(len(shape)))


def unary(g, x, s):
    return g.node(
        str(
            g.rng.choice(
                ["Relu", "Exp", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "Gelu", "HardSwish", "Softplus", "Floor"])),
        [x], s)


def binary(g, x, s):
    other = tuple(n if g.rng.random() < 0.6 else 1 for n in s)
    y = g.input(s) if g.rng.random() < 0.3 else g.weights(*other)
    return g.node(str(g.rng.choice(["Add", "Mul", "Sub", "Max"])), [x, y], s)


def reduce(g, x, s):
    axes = sorted({axis(g, s) for _ in range(int(g.rng.integers(1, 4)))})
    keep = g.rng.random() < 0.7
    out = [1 if k in axes else n for k, n in enumerate(s) if keep or k not in axes]
    y = g.node(str(g.rng.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp"])),
               [x, g.constant(np.array(axes, "i8"))], out, keepdims=int(keep))
    return g.node("Sub", [x, y[0]], s) if keep and g.rng.random() < 0.6 else y


def variance(g, x, s):
    axes = g.constant(np.array([axis(g, s)], "i8"))
    small = tuple(1 if k == numpy_helper.to_array(g.constants[-1])[0] else n for k, n in enumerate(s))
    centred = g.node("Sub", [x, g.node("ReduceMean", [x, axes], small)[0]], s)[0]
    mean = g.node("ReduceMean", [g.node("Mul", [centred, centred], s)[0], axes], small)[0]
    return g.node(
        "Div",
        [centred, g.node("Sqrt", [g.node("Add", [mean, g.constant(np.float32(1e-5))], small)[0]], small)[0]], s)


def softmax(g, x, s):
    return g.node(str(g.rng.choice(["Softmax", "LogSoftmax"])), [x], s, axis=axis(g, s))


def layer_norm(g, x, s):
    return g.node("LayerNormalization", [x, g.weights(s[-1])], s, axis=-1)


def cumulate(g, x, s):
    return g.node("CumSum", [x, g.constant(np.array(axis(g, s), "i8"))], s)


def arg(g, x, s):
    k = axis(g, s)
    y = g.node(str(g.rng.choice(["ArgMax", "ArgMin"])), [x], [1 if j == k else n for j, n in enumerate(s)], axis=k)
    return g.node("Cast", [y[0]], y[1], to=TensorProto.FLOAT)


def top(g, x, s):
    k = axis(g, s)
    n = int(min(s[k], g.rng.integers(1, 20)))
    return g.node("TopK", [x, g.constant(np.array([n], "i8"))], [n if j == k else m for j, m in enumerate(s)],
                  outputs=2, axis=k)


def transpose(g, x, s):
    p = [int(k) for k in g.rng.permutation(len(s))]
    return g.node("Transpose", [x], [s[k] for k in p], perm=p)


def cut(g, x, s):
    k = axis(g, s)
    begin, step = int(g.rng.integers(0, max(1, s[k] // 3))), int(g.rng.choice([1, 1, 2]))
    end = int(g.rng.integers(begin + 1, s[k] + 1))
    i = [g.constant(np.array([v], "i8")) for v in (begin, end, k, step)]
    return g.node("Slice", [x, *i], [(end - begin + step - 1) // step if j == k else n for j, n in enumerate(s)])


def join(g, x, s):
    k = axis(g, s)
    other = list(s)
    other[k] = int(g.rng.integers(1, s[k] + 1))
    if math.prod(s) + math.prod(other) > MOST:
        return unary(g, x, s)
    return g.node("Concat", [x, g.input(other)], [n + other[j] if j == k else n for j, n in enumerate(s)], axis=k)


def pad(g, x, s):
    before, after = [int(g.rng.integers(0, 3)) for _ in s], [int(g.rng.integers(0, 3)) for _ in s]
    return g.node("Pad", [x, g.constant(np.array(before + after, "i8"))],
                  [a + n + b for a, n, b in zip(before, s, after)])


def fold(g, x, s):
    if len(s) < 2:
        n = next((d for d in (64, 32, 16, 12, 7, 5, 3, 2) if s[0] % d == 0), 1)
        out = [s[0] // n, n]
    else:
        k = int(g.rng.integers(len(s) - 1))
        out = [*s[:k], s[k] * s[k + 1], *s[k + 2:]]
    return g.node("Reshape", [x, g.constant(np.array(out, "i8"))], out)


def gather(g, x, s):
    k = axis(g, s)
    i = g.constant(g.rng.integers(0, s[k], int(g.rng.integers(1, s[k] + 1))).astype("i8"))
    return g.node("Gather", [x, i], [g.constants[-1].dims[0] if j == k else n for j, n in enumerate(s)], axis=k)


def product(g, x, s):
    if len(s) < 2 or s[-1] < 4 or s[-1] > 1024:
        return unary(g, x, s)
    n = int(g.rng.choice([16, 24, 50, 64, 96, 128, 197, 256]))
    if math.prod(s[:-1]) * n > MOST:
        return unary(g, x, s)
    g.work += math.prod(s) * n
    y = g.input([*s[:-2], s[-1], n]) if g.rng.random() < 0.3 and math.prod(s[:-2]) * s[-1] * n <= MOST else g.weights(
        s[-1], n)
    return g.node("MatMul", [x, y], [*s[:-1], n])


def convolve(g, x, s):
    if len(s) != 4 or s[1] > 256 or min(s[2:]) < 3 or math.prod(s) * 9 > 1 << 24:
        return unary(g, x, s)
    depthwise, n = g.rng.random() < 0.3, int(g.rng.choice([8, 16, 32, 48]))
    if depthwise:
        g.work += math.prod(s) * 9
        return g.node("Conv", [x, g.weights(s[1], 1, 3, 3)], s, group=s[1], pads=[1, 1, 1, 1])
    if s[0] * n * s[2] * s[3] > MOST:
        return unary(g, x, s)
    g.work += math.prod(s) * 9 * n
    return g.node("Conv", [x, g.weights(n, s[1], 3, 3)], [s[0], n, s[2], s[3]], pads=[1, 1, 1, 1])


def pool(g, x, s):
    if len(s) != 4 or min(s[2:]) < 4:
        return unary(g, x, s)
    if g.rng.random() < 0.3:
        return g.node("GlobalAveragePool", [x], [s[0], s[1], 1, 1])
    return g.node(str(g.rng.choice(["MaxPool", "AveragePool"])), [x], [s[0], s[1], s[2] // 2, s[3] // 2],
                  kernel_shape=[2, 2], strides=[2, 2])


def where(g, x, s):
    c = g.node("Greater", [x, g.constant(np.float32(0.1))], s)
    return g.node("Where", [c[0], x, g.constant(np.float32(-1))], s)


OPERATORS = [
    unary, unary, binary, binary, reduce, reduce, variance, softmax, softmax, layer_norm, cumulate, arg, top, transpose,
    transpose, cut, join, pad, fold, gather, product, product, convolve, pool, where
]


def grow(seed, number):
    """A model, its inputs by name, and its multiply-adds."""
    rng = np.random.default_rng([seed, number])
    g = Grown(rng)
    s = tuple(shape_of(rng))
    x = g.input(s)
    kinds = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8]))):
        op = OPERATORS[int(rng.integers(len(OPERATORS)))]
        x, s = op(g, x, s)
        kinds.append(f"{g.nodes[-1].op_type}{list(s)}")
        if math.prod(s) < 256:
            break
    # The graph's first input stands in the text, so that a row of the report says what it is.
    first = next(iter(g.inputs.values()))
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v) for n, v in g.inputs.items()]
    graph = helper.make_graph(g.nodes, "g", io, [helper.make_tensor_value_info(x, TensorProto.FLOAT, s)], g.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    feed = {n: rng.standard_normal(v).astype("f4") for n, v in g.inputs.items()}
    moved = sum(v.nbytes for v in feed.values()) + 4 * math.prod(s) + sum(len(c.raw_data) for c in g.constants)
    return model.SerializeToString(), feed, g.work, moved, f"{list(first)} " + " ".join(kinds)


def median_s(run, seconds):
    time.sleep(SETTLE)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def alternated(runs, seconds, samples):
    for run in runs:
        run()
        run()
    return [min(v) for v in zip(*([median_s(run, seconds) for run in runs] for _ in range(samples)))]


def rates(engine, threads):
    """Bytes and multiply-adds a second that this machine gives: of a copy, and of a product of 1,024 cubed."""
    import onnxruntime

    a = np.ones(8 << 20, "f4")
    b = np.empty_like(a)
    w = helper.make_node("MatMul", ["x", "w"], ["y"])
    sizes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1024, 1024]) for n in "xy"]
    m = helper.make_model(
        helper.make_graph([w], "p", sizes[:1], sizes[1:], [numpy_helper.from_array(np.ones((1024, 1024), "f4"), "w")]),
        opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = {"x": np.ones((1024, 1024), "f4")}
    return 2 * a.nbytes / median_s(lambda: np.copyto(b, a), 0.3) * min(threads, 2), 1024**3 / median_s(
        lambda: session.run(None, x), 0.3)


def is_close(got, want):
    """But for a few ties of ArgMax or TopK, which may go another way after other roundings."""
    got, want = got.astype("f8"), want.astype("f8")
    with np.errstate(all="ignore"):
        close = (np.abs(got - want) <= 1e-3 * np.abs(want) +
                 1e-4 * np.nanmax(np.abs(want[np.isfinite(want)]), initial=1)) | (got == want) | (np.isnan(got)
                                                                                                  & np.isnan(want))
    return close.mean() >= 0.999


def doubled(model):
    """The model in double precision."""
    m = onnx.load_from_string(model)
    for t in m.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype("f8"), t.name))
    for v in (*m.graph.input, *m.graph.output):
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = TensorProto.DOUBLE
    for n in m.graph.node:
        for a in n.attribute:
            if n.op_type == "Cast" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.DOUBLE
    return m.SerializeToString()


JUMPS = ("ArgMax", "ArgMin", "Floor", "Greater")


def with_jumps(model):
    """The model with operands and results of nodes that jump as further outputs; and these nodes."""
    m = onnx.load_from_string(model)
    nodes = [n for n in m.graph.node if n.op_type in JUMPS]
    for n in nodes:
        m.graph.output.extend(onnx.ValueInfoProto(name=k) for k in (n.input[0], n.output[0]))
    return m.SerializeToString(), nodes


def follows(node, x, y):
    """Whether y is the node's result for x, but for values that differ by roundings alone."""
    if node.op_type == "Floor":
        return (y == np.floor(x)).all()
    if node.op_type == "Greater":
        return (y == (x > np.float32(0.1))).all()
    axis = next(a.i for a in node.attribute if a.name == "axis")
    best = (np.max if node.op_type == "ArgMax" else np.min)(x, axis, keepdims=True)
    return np.take_along_axis(np.abs(x - best) <= 1e-5 * np.abs(best), y, axis).all()


def has_jumped(model, feed, wide, run):
    """Whether a node that jumps has another result than in double precision because of its operand's roundings: what
    follows from it says nothing then."""
    more, nodes = with_jumps(model)
    ours, exact = run(more, feed)[1:], run_wide(doubled(more), wide)[1:]
    return any(
        follows(n, x, y) and is_close(x, x_exact) and (y != y_exact).any()
        for n, x, y, x_exact, y_exact in zip(nodes, ours[::2], ours[1::2], exact[::2], exact[1::2]))


def run_wide(model, feed):
    """In double precision, where onnxruntime has kernels for it: the interpreter takes minutes for large prefix sums."""
    import onnxruntime
    import tgrun

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)
    except Exception:  # noqa: BLE001  its errors have no common class
        return tgrun.InferenceSession(model, device="reference").run(None, feed)


def is_right(model, feed, got, theirs, run):
    """Close to onnxruntime's or to the result in double precision, or no further from that than onnxruntime's or plain
    arithmetic; or what follows from a jump. `run` runs a model."""
    if is_close(got, theirs):
        return True
    import tgrun

    wide = {k: v.astype("f8") for k, v in feed.items()}
    exact = run_wide(doubled(model), wide)[0]

    def no_further(x):
        return np.abs(got - exact).max() <= np.abs(x - exact).max()

    return (is_close(got, exact) or no_further(theirs) or has_jumped(model, feed, wide, run)
            or no_further(tgrun.InferenceSession(model, device="reference").run(None, feed)[0]))


def compare(args, number, seconds, samples):
    """(ours, onnxruntime's, roofline) in seconds, and what the graph is."""
    import onnxruntime
    import tgrun

    model, feed, work, moved, text = grow(args.seed, number)
    if args.keep:
        pathlib.Path(args.keep, f"graph{number}.onnx").write_bytes(model)
    theirs, ours = onnxruntime.SessionOptions(), tgrun.SessionOptions()
    ours.compiler = "cc"                # what stays: meanwhile compilers would share the processors
    theirs.log_severity_level = 4
    theirs.intra_op_num_threads = ours.intra_op_num_threads = args.threads
    a = onnxruntime.InferenceSession(model, theirs, providers=["CPUExecutionProvider"])
    b = tgrun.InferenceSession(model, ours, providers=["CPUExecutionProvider"])
    got = b.run(None, feed)[0]
    if not is_right(model, feed, got,
                    a.run(None, feed)[0], lambda m, f: tgrun.InferenceSession(m, ours).run(None, f)):
        text += "   OUTPUTS DIFFER"
    times = alternated([lambda: b.run(None, feed), lambda: a.run(None, feed)], seconds, samples)
    floor = max(moved / args.rates[0], work / args.rates[1]) + 2e-6
    return (*times, floor), text


def is_cliff(times, factor):
    ours, theirs, floor = times
    return ours > factor * theirs and ours > 2 * floor


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=300)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--graph", type=int)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.03, help="of a sample of an engine")
    p.add_argument("--limit", type=float, default=0, help="seconds after which no more graphs follow; 0: none")
    p.add_argument("--factor", type=float, default=3, help="times onnxruntime's time that make a cliff")
    p.add_argument("--keep", help="folder for the models")
    args = p.parse_args()
    args.rates = rates(None, args.threads)
    print(f"copies {args.rates[0] / 1e9:.1f} GB/s, products {args.rates[1] * 2 / 1e9:.0f} GFLOP/s", flush=True)
    numbers = [args.graph] if args.graph is not None else range(args.first, args.first + args.count)
    rows, until = [], time.perf_counter() + args.limit
    for number in numbers:
        if args.limit and time.perf_counter() > until:
            break
        times, text = compare(args, number, args.seconds, 2)
        for _ in range(2):
            if times[0] > 2 * times[1]:
                times, text = compare(args, number, 3 * args.seconds, 3)
        rows.append((times, number, text))
        if times[0] > times[1] or args.graph is not None or "DIFFER" in text:
            print(
                f"{number:6} ours {times[0] * 1e3:9.4f}  theirs {times[1] * 1e3:9.4f}  ratio {times[1] / times[0]:6.2f}  of roofline {times[0] / times[2]:6.1f}  {text}",
                flush=True)
    slower, cliffs = sum(t[0] > t[1] for t, _, _ in rows), [n for t, n, _ in rows if is_cliff(t, args.factor)]
    mean = math.exp(statistics.fmean(math.log(t[1] / t[0]) for t, _, _ in rows))
    print(
        f"{len(rows)} graphs, seed {args.seed}: geometric mean {mean:.2f} of onnxruntime's speed, {slower} slower ({100 * slower / len(rows):.1f} %), {len(cliffs)} cliffs {cliffs or ''}"
    )
    wrong = [n for _, n, text in rows if "DIFFER" in text]
    if wrong:
        print(f"outputs differ: {wrong}")
    bad = len({*wrong, *cliffs})
    print(f"{len(rows) - bad} of {len(rows)} graphs are right and no cliffs")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
