"""examples/server.c: 64 clients, three models; no failure, and memory that stays (SERVER_SECONDS, 6 unless given)."""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser
from onnx import numpy_helper

rng = np.random.default_rng(0)
TEXT = {
    "norm": "(float[n, 64, 96] x) => (float[n, 64, 96] y) { a = Softmax<axis = 1>(x) b = Tanh(a) y = Mul(b, x) }",
    "dense": "(float[n, 256] x) => (float[n, 256] y) { a = MatMul(x, w) b = Relu(a) y = MatMul(b, w) }",
    "picture": "(float[n, 8, 32, 32] x) => (float[n, 8, 32, 32] y) "
               "{ a = Conv<pads = [1, 1, 1, 1]>(x, w) b = Relu(a) y = Conv<pads = [1, 1, 1, 1]>(b, w) }",
}
SHAPE = {"dense": (256, 256), "picture": (8, 8, 3, 3)}
seconds = os.environ.get("SERVER_SECONDS", "6")
with tempfile.TemporaryDirectory() as folder:
    files = []
    for name, text in TEXT.items():
        m = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {text}')
        if name in SHAPE:
            w = rng.standard_normal(SHAPE[name]).astype(np.float32) / 16
            m.graph.initializer.append(numpy_helper.from_array(w, "w"))
        files.append(os.path.join(folder, name + ".onnx"))
        onnx.save(m, files[-1])
    command = [os.path.join(os.environ["BUILD_DIR"], "example_server"), seconds, "2", "64", *files]
    p = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": folder})
print(p.stdout.strip())
added = re.search(r"0 failures, (-?\d+) KiB added", p.stdout)
if p.returncode or not added or int(added.group(1)) > 1024:
    sys.exit(f"exit {p.returncode}: {p.stdout}")
print("1 of 1 servers ran")
