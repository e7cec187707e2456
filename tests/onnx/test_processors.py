"""The classes of x86-64 processors up to this one (TGRUN_PROCESSOR): a part of the standard's node tests by date, with
the C compiler's kernels and with machine code of tgrun's own where it has some for the class; what the variable refuses;
and, without a compiler and without code of tgrun's own, the interpreter in their place.

    test_processors.py [N [FIRST]]          every N-th of the node tests (60), from number FIRST on (by date)"""
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy as np

CLASSES = {"sse2": ["cc"], "avx": ["cc"], "avx2": ["cc", "own"], "avx512": ["cc", "own"]}
PROGRAM, BUILD = os.environ["TGRUN_PROGRAM"], pathlib.Path(os.environ["BUILD_DIR"])
HERE = pathlib.Path(__file__).parent
failed = passed = 0


def check(name, ok, words=""):
    global failed, passed
    passed, failed = passed + ok, failed + (not ok)
    if not ok:
        print(f"{name}: {words}")


def run(args, processor, **env):
    said = subprocess.run(args, capture_output=True, text=True, env=dict(os.environ, TGRUN_PROCESSOR=processor, **env))
    return said.returncode, said.stdout + said.stderr


def cpu(processor):
    _, words = run([PROGRAM, "env", "--json"], processor)
    return next(d for d in json.loads(words)["devices"] if d["kind"] == "cpu")


def last_resort(folder):
    """A model, run where no program is on the path."""
    import onnx.parser
    onnx.save(onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g (float[3,5] x) => (float[3,5] y) '
                                      '{ y = Softmax(x) }'), folder / "m.onnx")
    np.save(folder / "x.npy", np.float32(np.arange(15).reshape(3, 5)))
    (folder / "empty").mkdir()
    args = [PROGRAM, str(folder / "m.onnx"), "-i", f"x={folder}/x.npy", "--runs", "1", "--no-cache", "--output-dir"]
    bare = {"PATH": str(folder / "empty"), "CC": ""}
    code, words = run([*args, str(folder / "want")], "sse2", CC="")
    check("with a compiler", code == 0, words)
    code, words = run([*args, str(folder / "got")], "sse2", **bare)
    check("the interpreter", code == 0 and "the interpreter runs the model" in words and "gcc" in words, words)
    check("values", np.allclose(np.load(folder / "got/y.npy"), np.load(folder / "want/y.npy"), 1e-6))
    for more, word in (["--device", "cpu"], "no C compiler found"), (["--compiler", "cc"], "no C compiler found"):
        code, words = run([*args, str(folder / "no"), *more], "sse2", **bare)
        check(f"{more}", code != 0 and word in words and not (folder / "no").exists(), words)


def main():
    n = sys.argv[1] if len(sys.argv) > 1 else "60"
    first = sys.argv[2] if len(sys.argv) > 2 else str(datetime.date.today().toordinal())
    if platform.machine() != "x86_64":
        print("skipped: classes of processors are of x86-64")
        return 0
    device = cpu("pentium")
    check("an unknown class", not device["works"] and "TGRUN_PROCESSOR=pentium: there is no such" in device["name"], device)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.executable, "-W", "ignore", HERE / "sample.py", folder / "sample", n, first], check=True)
        for processor, compilers in CLASSES.items():
            device = cpu(processor)
            if not device["works"]:
                check(processor, "this processor is not of it" in device["name"], device)
                print(f"skipped: {processor}, which this processor is not")
                continue
            features = device["features"].split()
            check(processor, features[0] == processor and "vnni" not in features and "amx" not in features, device)
            for compiler in compilers:
                code, words = run([BUILD / "test_onnx_conformance", "-d", "cpu", folder / "sample"], processor,
                                  TGRUN_DEFAULT_COMPILER=compiler, XDG_CACHE_HOME=name)
                check(f"{processor}, {compiler}", code == 0, words)
        last_resort(folder)
    print(f"{passed} of {passed + failed} checks are right")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
