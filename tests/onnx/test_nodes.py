"""The conformance run: the standard's node tests and the models of the installed onnx package, through test_onnx_conformance.

    test_nodes.py [DEVICE...]

The package makes the node tests in memory; they are written once per build folder, in the standard's own layout. Every case runs at tensor level first, then
through a session of each device (default: reference, which takes every stage of the compiler and interprets the kernels; cpu takes minutes). Fails when a
case differs or crashes; what is not covered yet is listed and counted.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

warnings.filterwarnings("ignore")


def message(value, port):
    """A value of a data set as the proto that the file of such a port holds."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = port.type.WhichOneof("value")
    if kind == "optional_type":
        return numpy_helper.from_optional(value if value is None or isinstance(value, list) else np.asarray(value))
    return numpy_helper.from_list(value) if kind == "sequence_type" else numpy_helper.from_dict(value) if kind == "map_type" else numpy_helper.from_array(np.asarray(value))


def write_case(folder, case):
    for number, (inputs, outputs) in enumerate(case.data_sets):
        at = folder / f"test_data_set_{number}"
        at.mkdir(parents=True)
        graph = case.model.graph
        for kind, values, ports in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for position, (value, port) in enumerate(zip(values, ports)):
                (at / f"{kind}_{position}.pb").write_bytes(message(value, port).SerializeToString())
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())


def node_data(folder):
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for case in onnx.backend.test.loader.load_model_tests(kind="node"):
        write_case(folder / case.name, case)
    (folder / "done").touch()


build = pathlib.Path(os.environ["BUILD_DIR"])
nodes = build / "onnx_node_tests"
node_data(nodes)
carried = pathlib.Path(onnx.backend.test.__file__).parent / "data"
folders = [nodes] + [carried / name for name in ("simple", "pytorch-operator", "pytorch-converted")]
failed = 0
for device in [None, *(sys.argv[1:] or ["reference"])]:
    print(f"== {device or 'tensor level'}", flush=True)
    failed |= subprocess.run([build / "test_onnx_conformance", *(["-d", device] if device else []), *map(str, folders)]).returncode
sys.exit(failed)
