"""Convolutions of three by three in tiles (winograd.c), of odd sizes and pooled: what is made of the points' sums is made a
tile at once, part by part behind the sums that it reads, and is stored where a pool reads it. The results are the
plain sums'."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
model = build / "tiles.onnx"
rng = np.random.default_rng(1)


constants = {
    f"{name}{k}": (rng.standard_normal(shape) / 12).astype(np.float32)
    for k in range(2)
    for name, shape in (("w", (32, 32, 3, 3)), ("b", (32, )))
}


def wanted(x):
    for k in range(2):
        padded, w = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1))), constants[f"w{k}"]
        y = sum(
            np.tensordot(w[:, :, i, j], padded[:, i:i + x.shape[1], j:j + x.shape[2]], 1)
            for i in range(3) for j in range(3))
        x = np.maximum(y + constants[f"b{k}"][:, None, None], 0)
    height, width = x.shape[1] // 2, x.shape[2] // 2
    return x[:, :2 * height, :2 * width].reshape(32, height, 2, width, 2).max((2, 4))


def save(height, width):
    nodes, x = [], "x"
    for k in range(2):
        nodes += [
            helper.make_node("Conv", [x, f"w{k}", f"b{k}"], [f"c{k}"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{k}"], [f"r{k}"])
        ]
        x = f"r{k}"
    nodes.append(helper.make_node("MaxPool", [x], ["y"], kernel_shape=[2, 2], strides=[2, 2]))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 32, height, width]), ("y", [1, 32, height // 2, width // 2]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)


def run(*words):
    return subprocess.run([build / "tgrun", *words, "--device", "cpu", "--threads", "2"], capture_output=True, text=True,
                          check=False)


good = total = 0


def check(name, right, why=""):
    global good, total
    total += 1
    good += bool(right)
    if not right:
        print(f"{name}: not so\n{why}")


for size in (225, 161), (226, 160):
    save(*size)
    x = rng.standard_normal((32, *size)).astype(np.float32)
    np.save(build / "tiles_x.npy", x[None])
    ran = run("run", model, "--input", build / "tiles_x.npy", "--output", build / "tiles_y.npy", "--runs", "1")
    far = 1 if ran.returncode else np.abs(np.load(build / "tiles_y.npy")[0] - wanted(x)).max()
    check(f"{size}: the plain sums agree", far < 1e-5, f"{far} {ran.stderr}")
    plan = run("dump", model, "--stage", "plan").stdout.split("\nrun:")[-1]
    if len(re.findall(r"r_\d+_16_", plan)) != 2:        # of processors with units that sum parts: no tiles
        continue
    check(f"{size}: outputs follow their sums", len(re.findall(r" r_\d+_16_.*\n  \+ e_\d+_2_\d+_2_32_", plan)) == 2, plan)
    check(f"{size}: seven kernels", len(re.findall(r"\b[er]_\d", plan)) == 7, plan)
    profile = run("profile", model).stdout.split("nodes that")[0]
    excess = [float(f) for f in re.findall(r" ([\d.]+)  [er]_\d", profile)]
    check(f"{size}: nothing is computed twice", excess and max(excess) <= 1.2, profile)
print(f"{good} of {total} checks right")
raise SystemExit(good != total)
