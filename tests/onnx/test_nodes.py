"""The conformance run: the standard's node tests and the models of the installed onnx package, through
test_onnx_conformance.

    test_nodes.py [DEVICE...]

The package makes the node tests in memory; they are written once per build folder, in the standard's own layout. Every
case runs at tensor level first, then through a session of each device (default: reference, which takes every stage of
the compiler and interprets the kernels; cpu takes minutes). Fails when a case differs or crashes; what is not covered
yet is listed and counted.
"""
import pathlib
import subprocess
import sys
import warnings

import onnx.backend.test

import cases

warnings.filterwarnings("ignore")
nodes = cases.node_folder()
carried = pathlib.Path(onnx.backend.test.__file__).parent / "data"
folders = [nodes] + [carried / name for name in ("simple", "pytorch-operator", "pytorch-converted")]
failed = 0
for device in [None, *(sys.argv[1:] or ["reference"])]:
    print(f"== {device or 'tensor level'}", flush=True)
    failed |= subprocess.run(
        [cases.build / "test_onnx_conformance", *(["-d", device] if device else []), *map(str, folders)]).returncode
sys.exit(failed)
