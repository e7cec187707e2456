"""Results that have one right value, bit by bit: quotients, also by what is denormal, and remainders of quotients of
any size; what they are made of may be constant, shared, or under a sum. A case is a row: its name, the model, the
inputs, and what numpy gives. To add one: a row."""
import os
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx.parser

import program

rng = np.random.default_rng(9)
np.seterr(all="ignore")


def spread(*shape, t=np.float32):
    """Numbers of all sizes."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-60, 60, shape)).astype(t)


TINY = np.array([3, 1e-39, -7e-42, 1e38, 0.1], np.float32)
X, D = spread(4, 5), spread(5)
LIST = ", ".join(repr(float(v)) for v in D)
FAR = np.array([1e10, -1e10, 5.5, -5.5, 3e38, 1e-40, 7, -0.75, np.inf, np.nan, 2.0**30 + 64, -2.0**31], np.float32)
BY = np.array([3, -3, 0.1, 1e-42, 7, np.inf], np.float32)[:, None]


def floor_mod(a, b):
    r = np.fmod(a, b)
    return np.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


CASES = [
    ("a quotient", "(float[4,5] x, float[5] d) => (float y) { y = Div(x, d) }", dict(x=X, d=D), [X / D]),
    ("by what is denormal", "(float[4,5] x, float[5] d) => (float y) { y = Div(x, d) }", dict(x=X * 1e-20, d=TINY), [X * np.float32(1e-20) / TINY]),
    ("by a constant row", f"(float[4,5] x) => (float y) {{ d = Constant<value_floats = [{LIST}]>() y = Div(x, d) }}", dict(x=X), [X / D]),
    ("by a constant", "(float[4,5] x) => (float y, float z) { d = Constant<value_float = 3.0>() e = Constant<value_float = 1e-39>() y = Div(x, d) s = Constant<value_float = 1e-20>() w = Mul(x, s) z = Div(w, e) }",
     dict(x=X), [X / np.float32(3), X * np.float32(1e-20) / np.float32(1e-39)]),
    ("beside the reciprocal", "(float[4,5] x, float[5] d) => (float y, float r) { y = Div(x, d) r = Reciprocal(d) }", dict(x=X, d=D), [X / D, 1 / D]),
    ("by a root that a row shares", "(float[40,50] x, float[40,1] d) => (float y) { a = Abs(d) q = Sqrt(a) y = Div(x, q) }", dict(x=(x := spread(40, 50)), d=(d := spread(40, 1))), [x / np.sqrt(np.abs(d))]),
    ("under a maximum", "(float[30,4,5] x, float[5] d) => (float y) { q = Div(x, d) a = Constant<value_ints = [1, 2]>() y = ReduceMax<keepdims = 0>(q, a) }", dict(x=(x := spread(30, 4, 5)), d=D), [(x / D).max((1, 2))]),
    ("a mean of three", "(float[6,3] x) => (float y) { a = Constant<value_ints = [1]>() y = ReduceMean<keepdims = 0>(x, a) }", dict(x=(x := rng.integers(-99, 99, (6, 3)).astype(np.float32))), [x.sum(1) / np.float32(3)]),
    ("in double precision", "(double[4,5] x, double[5] d) => (double y) { y = Div(x, d) }", dict(x=spread(4, 5, t=np.float64), d=spread(5, t=np.float64)), [lambda x, d: x / d]),
    ("in half precision", "(float16[4,5] x, float16[5] d) => (float16 y) { y = Div(x, d) }", dict(x=rng.standard_normal((4, 5)).astype(np.float16), d=rng.standard_normal(5).astype(np.float16)), [lambda x, d: x / d]),
    ("a remainder", "(float[12] x, float[6,1] d) => (float y) { y = Mod<fmod = 1>(x, d) }", dict(x=FAR, d=BY), [np.fmod(FAR, BY)]),
    ("a remainder, operands exchanged", "(float[12] x, float[6,1] d) => (float y) { y = Mod<fmod = 1>(d, x) }", dict(x=FAR, d=BY), [np.fmod(BY, FAR)]),
    ("a remainder of doubles", "(double[12] x, double[6,1] d) => (double y) { y = Mod<fmod = 1>(x, d) }", dict(x=FAR.astype(np.float64) ** 3, d=BY.astype(np.float64)), [np.fmod]),
    ("a remainder with the divisor's sign", "(float[12] x, float[6,1] d) => (float y) { y = Mod(x, d) }", dict(x=FAR, d=BY), [floor_mod(FAR, BY)]),
    ("a mean of no integers", "(int64[2,0] x) => (int64 y, float z) { y = ReduceMean(x) f = Cast<to = 1>(x) z = ReduceMean(f) }", dict(x=np.zeros((2, 0), np.int64)),
     [np.zeros((1, 1), np.int64), np.full((1, 1), np.nan, np.float32)]),
]
DEVICES = ["cpu", "reference"] + (["cuda"] if os.environ.get("CUDA_EMULATOR") and shutil.which("g++") else [])


def same(got, want):
    return got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want, equal_nan=got.dtype.kind
                                                                                  == "f")


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        for k, (what, text, inputs, want) in enumerate(CASES):
            model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g ' + text)
            path = folder / f"case{k}.onnx"
            path.write_bytes(model.SerializeToString())
            want = [w(*inputs.values()) if callable(w) else w for w in want]
            for device in DEVICES:
                code, _, line = program.run(path, folder, inputs, device, "--runs", "1", "-q")
                got = [np.load(folder / "out" / f"{o.name}.npy") for o in model.graph.output] if code == 0 else []
                if code or not all(map(same, got, want)):
                    print(
                        f"{what} on {device}: exit {code} {line}",
                        *(f"{g.ravel()[g.ravel() != w.ravel()][:5]} instead of {w.ravel()[g.ravel() != w.ravel()][:5]}"
                          for g, w in zip(got, want) if g.shape == w.shape and not same(g, w)))
                    wrong += 1
    print(f"{len(CASES) * len(DEVICES) - wrong} of {len(CASES) * len(DEVICES)} results right")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
