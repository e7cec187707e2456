"""Arithmetic of integers that C leaves undefined, and casts of floats that do not fit: defined for every input, and the
same on all devices, alone or in vectors, constant or not. Sums and products wrap; INT_MIN / -1 wraps and its rest is 0;
shifts of the width and more give 0; a float that does not fit becomes the nearest end of the type, NaN becomes 0. A
case is a row: operator, inputs, attributes, what numpy computes in integers of any size. To add one: a row."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

import program

rng = np.random.default_rng(5)
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SIGNED = INTS[:4]


def ends(dtype, n=37):
    """The ends of the type, small numbers, and others."""
    i = np.iinfo(dtype)
    few = [i.min, i.min + 1, i.max, i.max - 1, 0, 1, 2, 3, 7] + ([-1, -2, -7] if i.min else [])
    return np.array((few + [int(v) for v in rng.integers(i.min, i.max, n, dtype=dtype)])[:n], dtype)


def wrapped(values, dtype):
    """Python integers in the low bits of a type."""
    i = np.iinfo(dtype)
    return np.array([(int(v) - int(i.min)) % 2 ** i.bits + int(i.min) for v in values], dtype)


def each(f, dtype):
    return lambda *arrays: wrapped([f(*map(int, t))
                                    for t in zip(*(a.ravel() for a in arrays))], dtype).reshape(arrays[0].shape)


def toward_zero(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def saturated(dtype):
    i = np.iinfo(dtype)
    return lambda a: np.array([
        0 if np.isnan(v) else i.min if v < float(i.min) else i.max if v >= float(i.max) else int(v)
        for v in map(float, a)
    ], dtype)


def cases():
    for t in INTS:
        a, b = ends(t), np.roll(ends(t), 5)
        d = np.where(b == 0, t(3), b)
        yield "Add", [a, b], {}, each(lambda x, y: x + y, t)
        yield "Sub", [a, b], {}, each(lambda x, y: x - y, t)
        yield "Mul", [a, b], {}, each(lambda x, y: x * y, t)
        yield "Div", [a, d], {}, each(toward_zero, t)
        yield "Mod", [a, d], {}, each(lambda x, y: x % y, t)
        yield "Mod", [a, d], dict(fmod=1), each(lambda x, y: x - y * toward_zero(x, y), t)
        for how in ("max", "min"):                              # each place twice
            yield "ScatterElements", [a, np.arange(74) % 37, np.concatenate(
                [b,
                 a[::-1]])], dict(reduction=how), lambda x, _, u, f=getattr(np, how + "imum"): f(f(x, u[:37]), u[37:])
        if t in SIGNED:
            least, minus = np.full(19, np.iinfo(t).min, t), np.full(19, -1, t)
            yield "Div", [least, minus], {}, each(toward_zero, t)
            yield "Mod", [least, minus], {}, each(lambda x, y: x % y, t)
            yield "Abs", [a], {}, each(abs, t)
            yield "Neg", [a], {}, each(lambda x: -x, t)
        else:
            n = (np.arange(37) % (2 * np.iinfo(t).bits)).astype(t)
            yield "BitShift", [a,
                               n], dict(direction="LEFT"), each(lambda x, y, w=np.iinfo(t).bits: x << y
                                                                if y < w else 0, t)
            yield "BitShift", [a, n], dict(direction="RIGHT"), each(lambda x, y: x >> y, t)
        for f in (np.float32, np.float64, np.float16):
            i = np.iinfo(t)
            with np.errstate(all="ignore"):
                v = np.array([
                    np.nan, np.inf, -np.inf, 0, -0.0, 0.9, -0.9, 1.5, -1.5, 1e30, -1e30,
                    float(i.max),
                    float(i.min),
                    float(i.max) * 2, 100.7, -100.7, 300.5, 70000.0
                ] + [7.0] * 19).astype(f)
                v[-3:] = np.nextafter(f(i.max), f(0)), np.nextafter(f(i.min), f(0)), f(2.0) ** min(i.bits - 1, 15)
            yield "Cast", [v], dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(t))), saturated(t)


DEVICES = ["cpu", "reference"] + (["cuda"] if os.environ.get("CUDA_EMULATOR") and shutil.which("g++") else [])


def build(rows, constant):
    """One model of all rows: a kernel each, or with constants what is folded at load."""
    nodes, inputs, outputs, init = [], [], [], []
    for k, (op, arrays, attrs, want) in enumerate(rows):
        names = [f"x{k}_{j}" for j in range(len(arrays))]
        for name, a in zip(names, arrays):
            init.append(numpy_helper.from_array(a, name)) if constant else inputs.append(
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
        nodes.append(helper.make_node(op, names, [f"y{k}"], name=f"n{k}", **attrs))
        outputs.append(helper.make_tensor_value_info(f"y{k}", helper.np_dtype_to_tensor_dtype(want.dtype), want.shape))
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, init),
                             opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(folder, rows, constant, device):
    model = folder / ("known.onnx" if constant else "given.onnx")
    model.write_bytes(build(rows, constant).SerializeToString())
    given = {f"x{k}_{j}": a for k, row in enumerate(rows) for j, a in enumerate(row[1]) if not constant}
    np.savez(folder / "in.npz", **given)
    shutil.rmtree(folder / "out", ignore_errors=True)
    p = subprocess.run([
        os.environ["TGRUN_PROGRAM"],
        str(model), *(["-i", str(folder / "in.npz")] if given else []), "--runs", "1", "-q", "--device", device,
        "--output-dir",
        str(folder / "out")
    ], env=program.environment(folder, device), capture_output=True, text=True, timeout=600)
    return p.returncode, p.stderr.strip()


def main():
    wrong = 0
    rows = [(op, arrays, attrs, f(*arrays)) for op, arrays, attrs, f in cases()]
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        for constant in (False, True):
            for device in DEVICES[:1] if constant else DEVICES:
                code, line = run(folder, rows, constant, device)
                if code:
                    wrong += 1
                    print(f"{device}: exit {code}: {line}")
                    continue
                for k, (op, arrays, attrs, want) in enumerate(rows):
                    got = np.load(folder / "out" / f"y{k}.npy")
                    bad = np.nonzero(got != want)[0]
                    if len(bad):
                        j = bad[0]
                        wrong += 1
                        print(
                            f"{op} {attrs} {arrays[0].dtype} -> {want.dtype} on {device}{', known' * constant}: {[a[j] for a in arrays]} gives {got[j]}, not {want[j]}; {len(bad)} differ"
                        )
    total = len(rows) * (len(DEVICES) + 1)
    print(f"{total - wrong} of {total} rows are right, given on {', '.join(DEVICES)} and known")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
