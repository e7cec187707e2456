"""Convolutions whose tile has a register for every sum, weight and value: the compiler keeps them there, so that hardly
a multiply-add reads the stack (gcc 12 none, 13 up to two). Where the machine has none, there is nothing to see."""
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
FEW = 0 if os.environ.get("CC", "gcc") == "gcc" and shutil.which("gcc") and subprocess.run(
    ["gcc", "-dumpversion"], capture_output=True, text=True).stdout.startswith("12") else 1 / 16
# channels of the input and of the result, size
CASES = [(16, 64, 55), (32, 128, 27), (64, 256, 13), (48, 192, 13)]


def save(path, channels, results, size):
    constants = {
        "w": np.ones((results, channels, 3, 3), np.float32), "b": np.ones(results, np.float32), "v": np.ones(
            (channels, results, 1, 1), np.float32)
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["s"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["s"], ["t"]),
        helper.make_node("Conv", ["t", "v"], ["y"])
    ]
    shape = [1, channels, size, size]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(a, name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


right = 0
for case in CASES:
    model = build / "registers.onnx"
    save(model, *case)
    text = subprocess.run([build / "tgrun", "dump", model, "--device", "cpu", "--stage", "asm", "-t", "1"],
                          capture_output=True, text=True, check=True).stdout
    stack = re.findall(r"vfmadd.*\(%r[sb]p\).*", text)
    if "__tsan" in text:                                                    # calls between all of them
        stack = []
    good = len(stack) <= FEW * text.count("vfmadd")
    right += good
    if not good:
        print(f"{case}: {len(stack)} of {text.count('vfmadd')} multiply-adds read the stack: {stack[0].strip()}")
print(f"{right} of {len(CASES)} convolutions right")
raise SystemExit(right != len(CASES))
