"""sample.py FOLDER N FIRST: into FOLDER every N-th of the standard's node tests, from number FIRST % N on, those at which
a compiler has failed, and products of bytes that are large enough for dot products."""
import os
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import cases

ALWAYS = ["test_sinh", "test_clip_default_max"]      # a negation under a condition: see processor_arm.c

folder, n, first = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
every = sorted(case for case in cases.node_folder().iterdir() if case.is_dir())
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
for case in {*every[first % n :: n], *(case for case in every if case.name in ALWAYS)}:
    os.symlink(case.resolve(), folder / case.name)


def product(name, kind):
    """A MatMulInteger of 61 x 96 numbers by 96 x 64 of i8, as a case."""
    rng = np.random.default_rng(0)
    a = rng.integers(*((0, 256) if kind == np.uint8 else (-128, 128)), (61, 96)).astype(kind)
    b = rng.integers(-128, 128, (96, 64)).astype(np.int8)
    element = TensorProto.UINT8 if kind == np.uint8 else TensorProto.INT8
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], name,
                              [helper.make_tensor_value_info("a", element, a.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, (61, 64))],
                              [numpy_helper.from_array(b, "b")])
    data = folder / name / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
              folder / name / "model.onnx")
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(a, "a").SerializeToString())
    y = a.astype(np.int32) @ b.astype(np.int32)
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(y, "y").SerializeToString())


product("product_u8", np.uint8)
product("product_i8", np.int8)
