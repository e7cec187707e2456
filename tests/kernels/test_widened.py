"""Values of 16 bits that a convolution multiplies as floats are widened where they are stored, once, not at each step
of a sum. The results are those of the model in floats."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
model = build / "widened.onnx"
rng = np.random.default_rng(1)


def save():
    constants = {
        "v": rng.standard_normal((16, 8, 1, 1)) / 4, "w": rng.standard_normal((32, 16, 3, 3)) / 12, "b":
        rng.standard_normal(32)
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["s"]),
        helper.make_node("Relu", ["s"], ["t"]),
        helper.make_node("Conv", ["t", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
        for name, shape in (("x", [1, 8, 29, 31]), ("y", [1, 32, 29, 31]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:],
                              [numpy_helper.from_array(a.astype(np.float16), name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)


def run(*words):
    return subprocess.run([build / "tgrun", *words, "--device", "cpu"], capture_output=True, text=True, check=False)


save()
bodies = re.findall(r"void r_\w*_3_3_\w*\(.*?\n}", run("dump", model, "--stage", "source").stdout, re.S)
compared = run("run", model, "--against", "reference", "--runs", "1")
checks = {
    "one kernel has the window": len(bodies) == 1, "its loop widens nothing":
    not any("tg_f16(" in body for body in bodies), "the reference agrees": compared.returncode == 0
}
for name, good in checks.items():
    if not good:
        print(f"{name}: not so\n{compared.stderr}")
print(f"{sum(checks.values())} of {len(checks)} checks right")
raise SystemExit(not all(checks.values()))
