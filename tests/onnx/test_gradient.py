"""Gradient of whole networks: the operator's answer on both devices against central differences of the standard's
reference evaluator in float64. A case is nodes, weights, and what is wanted of the graph. To add one: a row."""
import pathlib
import sys
import tempfile

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import program

rng = np.random.default_rng(5)
n = helper.make_node
TRAINING = "ai.onnx.preview.training"


def f(*shape):
    return rng.standard_normal(shape)


SQUARE = [n("Mul", ["w", "x"], ["p"]), n("Mul", ["p", "p"], ["q"]), n("ReduceSum", ["q"], ["y"], keepdims=0)]
# name: nodes that make y, graph inputs, initializers (each of them is requested)
CASES = {
    "dense": ([n("Gemm", ["x", "w", "b"], ["h"], transB=1), n("Relu", ["h"], ["r"]), n("MatMul", ["r", "v"], ["s"]), n("Softmax", ["s"], ["p"]), n("Gather", ["p", "at"], ["g"], axis=1), n("Log", ["g"], ["l"]),
               n("ReduceMean", ["l"], ["y"], keepdims=0)], dict(x=f(3, 5)), dict(w=f(4, 5), b=f(4), v=f(4, 3)), dict(at=np.array([0, 2]))),
    "pictures": ([n("Conv", ["x", "w", "b"], ["h"], pads=[1, 1, 0, 0], strides=[2, 1]), n("MaxPool", ["h"], ["m"], kernel_shape=[2, 2]), n("Tanh", ["m"], ["t"]), n("AveragePool", ["t"], ["a"], kernel_shape=[1, 2]),
                  n("Flatten", ["a"], ["o"]), n("Gemm", ["o", "v"], ["z"]), n("ReduceSumSquare", ["z"], ["y"], keepdims=0)], dict(x=f(1, 2, 7, 5)), dict(w=f(3, 2, 3, 2), b=f(3), v=f(18, 2)), {}),
    "text": ([n("LayerNormalization", ["x", "s", "b"], ["h"]), n("MatMul", ["h", "w"], ["q"]), n("Transpose", ["q"], ["k"], perm=[1, 0]), n("MatMul", ["q", "k"], ["a"]), n("Softmax", ["a"], ["p"]),
              n("MatMul", ["p", "x"], ["o"]), n("Sigmoid", ["o"], ["g"]), n("Mul", ["o", "g"], ["z"]), n("ReduceL2", ["z"], ["y"], keepdims=0)], dict(x=f(4, 6)), dict(s=f(6), b=f(6), w=f(6, 6) * 0.3), {}),
    "equal constants": (SQUARE, dict(x=np.full((2, 3), 2.0)), dict(w=np.full((2, 3), 2.0)), {}),
}


def model(nodes, inputs, weights, others, outputs, dtype):
    t = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inits = [numpy_helper.from_array(v.astype(dtype), k)
             for k, v in weights.items()] + [numpy_helper.from_array(v, k) for k, v in others.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(k, t, v.shape) for k, v in inputs.items()],
                              [helper.make_tensor_value_info(o, t, None) for o in outputs], inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                   helper.make_opsetid(TRAINING, 1)], ir_version=8)


def differences(nodes, inputs, weights, others, of):
    """dy/d(of) by central differences."""
    fixed = {k: v for k, v in weights.items() if k != of}
    moving = (weights | inputs)[of]
    run = ReferenceEvaluator(model(nodes, dict(inputs) | {of: moving}, fixed, others, ["y"], np.float64))
    out = np.zeros_like(moving)
    for i in np.ndindex(moving.shape):
        value = []
        for step in (1e-5, -1e-5):
            moved = moving.copy()
            moved[i] += step
            value.append(run.run(None, dict(inputs) | {of: moved})[0])
        out[i] = (value[0] - value[1]) / 2e-5
    return out


def gradients(nodes, inputs, weights, others, outputs, device):
    """Outputs of a model in float32 through tgrun."""
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        (root / "m.onnx").write_bytes(model(nodes, inputs, weights, others, outputs, np.float32).SerializeToString())
        code, _, said = program.run(root / "m.onnx", root, {k: v.astype(np.float32)
                                                            for k, v in inputs.items()}, device, "--runs", "1", "-q")
        assert code == 0, said
        return [np.load(root / "out" / f"{o}.npy") for o in outputs]


WANT = {name: {of: differences(*case, of) for of in (*case[2], *case[1])} for name, case in CASES.items()}


def networks(device):
    wrong = []
    for name, (nodes, inputs, weights, others) in CASES.items():
        xs = [*weights, *inputs]
        outs = [f"d_{k}" for k in xs]
        got = gradients([*nodes, n("Gradient", xs, outs, domain=TRAINING, xs=xs, y="y")], inputs, weights, others, outs,
                        device)
        for k, d in zip(xs, got):
            want = WANT[name][k]
            if not np.allclose(d, want, rtol=2e-3, atol=2e-4 * (1 + abs(want).max())):
                wrong.append(f"{name}: {k}: {abs(d - want).max():.2g} of {abs(want).max():.2g}")
    return wrong


def meanings(device):
    """Other values than the graph's own, an intermediate tensor, a gradient's gradient, a tensor that y is not made
    of."""
    x, w, other = f(2, 3), f(2, 3), f(2, 3)
    ask = lambda *nodes, out: gradients([*SQUARE, *nodes], dict(x=x, w=w, o=other), {}, {}, out, device)
    first = n("Gradient", ["w", "x"], ["dw"], domain=TRAINING, xs=["w"], zs=["x"], y="y", name="first")
    checks = {
        "its own values": (ask(first, out=["dw"]), [2 * w * x * x]),
        "other values": (ask(n("Gradient", ["w", "o"], ["dw"], domain=TRAINING, xs=["w"], zs=["x"], y="y"), out=["dw"]), [2 * w * other * other]),
        "an intermediate tensor": (ask(n("Gradient", ["p"], ["dp"], domain=TRAINING, xs=["p"], y="y"), out=["dp"]), [2 * w * x]),
        "of second order": (ask(n("Gradient", ["w", "x"], ["dw", "dx"], domain=TRAINING, xs=["w", "x"], y="y"), n("Gradient", ["w", "x"], ["dww", "dwx"], domain=TRAINING, xs=["w", "x"], y="dw"), out=["dww", "dwx"]),
                            [2 * x * x, 4 * w * x]),
        "of something else": (ask(n("Gradient", ["o"], ["do"], domain=TRAINING, xs=["o"], y="y"), out=["do"]), [other * 0]),
    }
    return [
        name for name, (got, want) in checks.items()
        if not all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(got, want))
    ]


wrong = [f"{device}: {line}" for device in ("reference", "cpu") for line in networks(device) + meanings(device)]
print(*wrong, f"{len(wrong)} gradients are wrong", sep="\n")
sys.exit(bool(wrong))
