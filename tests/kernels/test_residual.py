"""Two quantised convolutions that are added: the second sum is stored as the bytes that it is rounded to, constants take
the scale of what is rounded, and the exact quotient of the sum of both looks at nothing. The results are the
standard's."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
model = build / "residual.onnx"
rng = np.random.default_rng(1)
constants, nodes = {}, []


def quantised(name, values, scale, zero, kind):
    constants.update({f"{name}_s": np.float32(scale), f"{name}_z": kind(zero)})
    if isinstance(values, np.ndarray):
        constants[f"{name}_q"] = values
    else:
        nodes.append(helper.make_node("QuantizeLinear", [values, f"{name}_s", f"{name}_z"], [f"{name}_q"]))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [name]))
    return name


def convolution(name, x, scale, zero):
    w = quantised(f"{name}_w", rng.integers(-127, 128, (64, 32, 1, 1)).astype(np.int8), 0.01, 0, np.int8)
    constants[f"{name}_b"] = rng.standard_normal(64).astype(np.float32)
    nodes.append(helper.make_node("Conv", [x, w, f"{name}_b"], [f"{name}_y"]))
    return quantised(name, f"{name}_y", scale, zero, np.uint8)


def save():
    x = quantised("in", "x", 0.02, 120, np.uint8)
    a, b = convolution("a", x, 0.034, 144), convolution("b", x, 0.017, 111)
    nodes.extend([helper.make_node("Add", [a, b], ["sum"]), helper.make_node("Relu", ["sum"], ["relu"])])
    nodes.append(helper.make_node("Identity", [quantised("out", "relu", 0.0236, 0, np.uint8)], ["y"]))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 32, 28, 28]), ("y", [1, 64, 28, 28]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:],
                              [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)


def run(*words):
    return subprocess.run([build / "tgrun", *words, "--device", "cpu"], capture_output=True, text=True, check=False)


save()
source = run("dump", model, "--stage", "source").stdout
bodies = [b for b in re.findall(r"void r_\w*\(.*?\n}", source, re.S) if "vnni" in b or "dot" in b]
compared = run("run", model, "--against", "reference", "--runs", "1", "-i", "x=random:normal(0,1)")
checks = {"the reference agrees": compared.returncode == 0}
if bodies:                              # of processors with dot products of bytes
    checks |= {
        "two kernels sum products": len(bodies) == 2, "no sum is stored as it is":
        not any(re.search(r"\bint \*p0|i32x\d+m \*\)\(p0", b) for b in bodies), "the quotient looks at nothing":
        not any("2147483647U" in b for b in bodies), "constants take the scales":
        not any(re.search(r"\* 29\.41|\* 58\.82", b) for b in bodies)
    }
for name, good in checks.items():
    if not good:
        print(f"{name}: not so\n{compared.stderr}")
print(f"{sum(checks.values())} of {len(checks)} checks right")
raise SystemExit(not all(checks.values()))
