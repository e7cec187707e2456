"""Kernels of long rows: the loop of a row that computes most requests what the next row's first loop reads and what this
row's last one stores, where there is work enough for it; exponentials too small for a normal number are 0, by a mask
of the scaling where the machine has one. Rows of extreme values come out as numpy has them, in the compiler's code and
in our own."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx.parser

import machine

build = pathlib.Path(os.environ["BUILD_DIR"])
model, given = build / "long_rows.onnx", build / "long_rows.npy"
rows, columns = 300, 768


def run(*words):
    return subprocess.run([build / "tgrun", *words, "--device", "cpu", "--threads", "2"], capture_output=True, text=True,
                          check=True).stdout


def source(text):
    onnx.save(onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g ' + text), model)
    return run("dump", model, "--stage", "source")


good = total = 0


def check(what, right):
    global good, total
    total += 1
    good += bool(right)
    if not right:
        print("wrong:", what)


norm = source(f"(float[{rows},{columns}] x, float[{columns}] w) => (float y) {{ y = LayerNormalization(x, w) }}")
if "f32x16 " in norm:                                       # half a vector takes twice the instructions
    check("a layer normalisation has no work to spare for hints", "__builtin_prefetch" not in norm)
code = source(f"(float[{rows},{columns}] x) => (float y) {{ y = Softmax(x) }}")
hints = re.findall(r"__builtin_prefetch\((p\d).*, (\d)\);", code)
check("the next row and the place of this one's results are requested", {("p1", "0"), ("p0", "1")} <= set(hints))
check("by the loop of the exponentials alone", len(hints) <= 16)
body = code[code.rindex("\nvoid "):]
if "avx512dq" in pathlib.Path("/proc/cpuinfo").read_text() and not os.environ.get("TGRUN_PROCESSOR"):
    check("small exponentials are a mask", "tg_exp2z_f32x16" in body and "-126" not in body)

rng = np.random.default_rng(2)
x = (rng.standard_normal((rows, columns)) * 30).astype(np.float32)
x[1, 5], x[2], x[3, ::2], x[4, 9], x[5] = np.nan, -np.inf, -np.inf, np.inf, np.linspace(-130, 0, columns)
np.save(given, x)
with np.errstate(all="ignore"):
    wide = x.astype(float)
    e = np.exp(wide - wide.max(1, keepdims=True))
    wanted = e / e.sum(1, keepdims=True)
results = []
if not machine.has_own_code:
    print("skipped: own, this processor has no AVX2")
for compiler in ("own", "cc") if machine.has_own_code else ("cc", ):
    out = build / f"long_rows_{compiler}.npy"
    run("run", model, "--input", f"x={given}", "--output", out, "--compiler", compiler)
    results.append(np.load(out))
    close = np.allclose(results[-1], wanted, rtol=2e-5, atol=1e-37, equal_nan=True)
    check(f"rows by --compiler {compiler}", close and results[-1][5, 0] == 0)
check("both to the bit", np.array_equal(results[0], results[-1], equal_nan=True))
print(f"{good} of {total} good")
raise SystemExit(good != total)
