"""Products of bytes in tgrun's own machine code: where there is AVX2 alone bytes become halves of words, once for all
products of a tile. The results are numpy's integers, in tiles of several shapes."""
import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import machine

build = pathlib.Path(os.environ["BUILD_DIR"])
model, given, result = build / "bytes.onnx", build / "bytes.npy", build / "bytes_y.npy"
rng = np.random.default_rng(1)
TERMS, COLUMNS = 96, 768
LISTS = {                                               # by rows; unit 6 is avx_u8
    1: ["", *(f"SPLIT 0 8 UPCAST; SPLIT 0 {vectors} UPCAST; TC 3 6; PACK 1" for vectors in (2, 8, 12, 16))],
    24: ["", *(f"SPLIT 1 8 UPCAST; SPLIT 1 {vectors} UPCAST; SPLIT 0 {rows} UPCAST; TC 5 6; PACK 1"
               for vectors, rows in ((2, 4), (8, 3), (12, 2), (2, 12)))]
}
w = rng.integers(-128, 128, (TERMS, COLUMNS), np.int8)


def run(*words):
    return subprocess.run([build / "tgrun", *words, "-d", "cpu", "-t", "1", "--compiler", "own"], capture_output=True,
                          text=True, check=True, env=dict(os.environ, TGRUN_PROCESSOR="avx2")).stdout


def wanted(rows):
    """Of the model that is written."""
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, [rows, TERMS])],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, [rows, COLUMNS])],
                              [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    x = rng.integers(0, 256, (rows, TERMS), np.uint8)
    np.save(given, x)
    return x.astype(np.int32) @ w.astype(np.int32)


if not machine.has_own_code:
    print("skipped: this processor has no AVX2")
    raise SystemExit(0)
right = total = 0
for rows, lists in LISTS.items():
    y = wanted(rows)
    kernel = next(k for k in json.loads(run("profile", model, "--json"))["kernels"] if str(TERMS) in k["name"])["name"]
    for ops in lists:
        run("run", model, "-i", f"x={given}", "--runs", "1", "--output", result, "--opts", f"{kernel}: {ops}")
        wrong = np.count_nonzero(np.load(result) != y)
        total += 1
        right += not wrong
        if wrong:
            print(f"{rows} rows, '{ops}': {wrong} of {y.size} numbers differ")
print(f"{right} of {total} products right")
raise SystemExit(right != total)
