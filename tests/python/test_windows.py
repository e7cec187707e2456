"""Convolutions of 3 x 3 on sizes where they are made of tiles, beside numpy in double precision: finite inputs, then an
Inf, a NaN and numbers whose differences overflow. These spoil the outputs that read them and no others, and a run on
finite numbers afterwards is as good as before."""
import os
import sys

import numpy as np
from onnx import helper, numpy_helper

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "python")]
sys.dont_write_bytecode = True
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

C, M, H, W = 36, 44, 33, 40


def convolve(x, w, b):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = np.zeros((1, w.shape[0], *x.shape[2:])) + b.reshape(1, -1, 1, 1)
    with np.errstate(all="ignore"):
        for i in range(3):
            for j in range(3):
                part = padded[0, :, i:i + x.shape[2], j:j + x.shape[3]]
                y[0] += (w[:, :, i, j, None, None] * part[None]).sum(1)
    return y


def agree(got, want):
    with np.errstate(all="ignore"):
        places = (np.isnan(want) == np.isnan(got)).all() and (np.isinf(want) == np.isinf(got)).all()
        return bool(places and (~np.isfinite(want) | (np.abs(got - want) <= 1e-4 * np.maximum(1, np.abs(want)))).all())


def main():
    rng = np.random.default_rng(7)
    w = [(rng.standard_normal(s) * (2 / (9 * s[1]))**0.5).astype("f4") for s in ((M, C, 3, 3), (C, M, 3, 3))]
    b = [rng.standard_normal(n).astype("f4") for n in (M, C)]
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["s"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Conv", ["r", "w1", "b1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    port = lambda name, n: helper.make_tensor_value_info(name, 1, [1, n, H, W])
    constants = [numpy_helper.from_array(a, f"{n}{k}") for n, v in (("w", w), ("b", b)) for k, a in enumerate(v)]
    graph = helper.make_graph(nodes, "g", [port("x", C)], [port("s", M), port("y", C)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
    session = tgrun.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = rng.standard_normal((1, C, H, W)).astype("f4")
    inputs = {"finite": x}
    for name, values in (("Inf", [np.inf]), ("NaN", [np.nan]), ("overflow", [2e38, -2e38])):
        inputs[name] = x.copy()
        inputs[name][0, 3, 10, 11:11 + 2 * len(values):2] = values
    inputs["finite again"] = -x
    good = 0
    for name, v in inputs.items():
        with np.errstate(all="ignore"):
            middle = convolve(v.astype("f8"), w[0], b[0])
            last = convolve(np.where(np.isnan(middle), middle, np.maximum(middle, 0)), w[1], b[1])
        right = [agree(*pair) for pair in zip(session.run(None, {"x": v}), (middle, last))]
        good += all(right)
        if not all(right):
            print(f"{name}: outputs differ: {right}")
    print(f"{good} of {len(inputs)} inputs are convolved")
    sys.exit(good != len(inputs))


if __name__ == "__main__":
    main()
