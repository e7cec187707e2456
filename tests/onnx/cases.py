"""Cases in the standard's layout, and the program that runs them."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])


# ---- the standard's node tests: the package makes them in memory; they are written once per build folder ----

def message(value, port):
    """A value of a data set as the proto that the file of such a port holds."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = port.type.WhichOneof("value")
    if kind == "optional_type":
        return numpy_helper.from_optional(value if value is None or isinstance(value, list) else np.asarray(value))
    return numpy_helper.from_list(value) if kind == "sequence_type" else numpy_helper.from_dict(
        value) if kind == "map_type" else numpy_helper.from_array(np.asarray(value))


def value(path, port):
    """The other way."""
    data, kind = path.read_bytes(), port.type.WhichOneof("value")
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    if kind == "map_type":
        return numpy_helper.to_dict(onnx.MapProto.FromString(data))
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    a = numpy_helper.to_array(onnx.TensorProto.FromString(data))
    return np.vectorize(lambda s: s.decode()
                        if isinstance(s, bytes) else str(s), [object])(a) if a.dtype.kind in "OSU" and a.size else a


def write_case(folder, case):
    for number, (inputs, outputs) in enumerate(case.data_sets):
        at = folder / f"test_data_set_{number}"
        at.mkdir(parents=True)
        graph = case.model.graph
        for kind, values, ports in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for position, (v, port) in enumerate(zip(values, ports)):
                (at / f"{kind}_{position}.pb").write_bytes(message(v, port).SerializeToString())
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())


def node_folder():
    """Of all of them; another process may be writing it too."""
    folder, mine = build / "onnx_node_tests", build / f"onnx_node_tests.{os.getpid()}"
    if (folder / "done").exists():
        return folder
    for case in onnx.backend.test.loader.load_model_tests(kind="node"):
        write_case(mine / case.name, case)
    (mine / "done").touch()
    try:
        mine.rename(folder)
    except OSError:
        shutil.rmtree(mine if (folder / "done").exists() else folder)
        if mine.exists():
            mine.rename(folder)
    return folder


def node_cases():
    """(name, model, inputs by name) of each, with its first data set."""
    for path in sorted(node_folder().glob("*/model.onnx")):
        model = onnx.load(path)
        yield path.parent.name, model, {
            port.name: value(path.parent / "test_data_set_0" / f"input_{k}.pb", port)
            for k, port in enumerate(model.graph.input)
        }


def write(folder, model, inputs, outputs):
    """A model with arrays for its inputs and outputs, in order."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for k, value in enumerate(values):
            (data / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def run(top, *flags, devices=([], ["-d", "reference"])):
    """At tensor level, which has no strings, then through a session that interprets every kernel, where nothing may be
    unsupported: not 0 when a case differs."""
    failed = 0
    for device in devices:
        p = subprocess.run([build / "test_onnx_conformance", *flags, *device,
                            str(top)], stdout=subprocess.PIPE, text=True)
        print(p.stdout, end="", flush=True)
        failed |= p.returncode or bool(device and " 0 unsupported" not in p.stdout)
    return failed
