"""Cases in the standard's layout, and the program that runs them."""
import os
import pathlib
import subprocess

from onnx import numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])


def write(folder, model, inputs, outputs):
    """A model with arrays for its inputs and outputs, in order."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for k, value in enumerate(values):
            (data / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def run(top, *flags, devices=([], ["-d", "reference"])):
    """At tensor level, which has no strings, then through a session that interprets every kernel, where nothing may be unsupported: not 0 when a case differs."""
    failed = 0
    for device in devices:
        p = subprocess.run([build / "test_onnx_conformance", *flags, *device, str(top)], stdout=subprocess.PIPE, text=True)
        print(p.stdout, end="", flush=True)
        failed |= p.returncode or bool(device and " 0 unsupported" not in p.stdout)
    return failed
