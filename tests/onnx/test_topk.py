"""TopK of rows and columns, short and long, few and many of each, of seven types, the largest and the smallest: with
equal numbers, of which the first comes first, zeros of both signs, infinities, and NaN, which is above all. The wanted
values and indices are those of numpy's stable sort."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
rng = np.random.default_rng(1)
nodes, inputs, constants, wanted = [], {}, [], {}
SHAPES = [(3, 5), (40, 8), (20, 9), (33, 31), (5, 64), (7, 65), (9, 97), (300, 300), (2, 1000), (1, 2158), (3, 4099),
          (1, 40000)]


def kinds(dtype, shape):
    """Of a shape: all differ, few differ, sorted either way, and what floats have besides."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        yield rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    else:
        x = rng.standard_normal(shape).astype(dtype)
        yield x
        odd = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)[rng.integers(0, 4, shape)]
        yield np.where(rng.random(shape) < 0.02, odd, np.where(rng.random(shape) < 0.3, dtype(0), x))
        yield np.full(shape, np.nan, dtype)
    yield rng.integers(-3, 4, shape).astype(dtype)
    ramp = (np.arange(np.prod(shape)).reshape(shape) % 60000).astype(dtype)
    yield ramp
    yield -ramp


def order(x, largest):
    """Stable, along axis 1; NaN is above all."""
    numbers = np.where(np.isnan(x), x.dtype.type(np.inf), x) if np.issubdtype(x.dtype, np.floating) else x
    ranks = np.unique(numbers, return_inverse=True)[1].reshape(x.shape) * 2 + np.isnan(x)
    return np.argsort(-ranks if largest else ranks, axis=1, kind="stable")


def case(x, k, largest, turned):
    n = len(nodes)
    at = order(x, largest)[:, :k]
    y = np.take_along_axis(x, at, 1)
    inputs[f"x{n}"] = x.T.copy() if turned else x
    wanted[f"y{n}"], wanted[f"i{n}"] = (y.T, at.T) if turned else (y, at)
    constants.append(numpy_helper.from_array(np.array([k]), f"k{n}"))
    nodes.append(helper.make_node("TopK", [f"x{n}", f"k{n}"], [f"y{n}", f"i{n}"], axis=0 if turned else 1,
                                  largest=int(largest)))


for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8, np.uint64):
    for shape in SHAPES:
        for x in kinds(dtype, shape):
            counts = [k for k in (1, 6, 13, 70, shape[1] // 2, shape[1]) if k <= shape[1]]
            case(x, counts[rng.integers(len(counts))], rng.random() < 0.5, rng.random() < 0.3)


def port(name, a):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)


graph = helper.make_graph(nodes, "g", [port(name, a) for name, a in inputs.items()],
                          [port(name, a) for name, a in wanted.items()], constants)
model, results = build / "topk.onnx", build / "topk"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
np.savez(build / "topk.npz", **inputs)
done = subprocess.run([os.environ["TGRUN_PROGRAM"], "run", model, "-i", str(build / "topk.npz"), "--runs", "1", "-d",
                       "cpu", "--output-dir", results], capture_output=True, text=True, check=False)
if done.returncode:
    raise SystemExit(done.stderr)
wrong = 0
for n, node in enumerate(nodes):
    if not all(np.array_equal(np.load(results / f"{name}.npy"), wanted[name], equal_nan=name[0] == "y")
               for name in node.output):
        wrong += 1
        a = node.attribute
        print(f"{inputs[f'x{n}'].dtype}{list(inputs[f'x{n}'].shape)} k {wanted[f'y{n}'].shape[a[0].i]} axis {a[0].i} "
              f"largest {a[1].i} differs")
print(f"{len(nodes) - wrong} of {len(nodes)} nodes right")
raise SystemExit(bool(wrong))
