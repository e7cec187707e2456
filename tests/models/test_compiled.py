#!/usr/bin/env python3
"""Compiled models give the bytes that the model itself gives, without a compiler or a cache: the light models of the
onnx package with seeded weights, then ten of those below the folders that TGRUN_MODELS names (DIR[:DIR..]), or FOLDER...
Sizes that vary, other threads and what is refused: tests/cli/compile.sh, tests/unit/test_bundle.c."""
import itertools, os, subprocess, sys, tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def run(arguments, env=None):
    p = subprocess.run([os.environ["TGRUN_PROGRAM"], *arguments, "-q"], capture_output=True, text=True, timeout=900, env=env)
    return p.stderr.strip() or f"exit {p.returncode}" if p.returncode else ""


def outputs(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}


def look(folder, work):
    """What is wrong, "" when nothing is."""
    model, compiled = os.path.join(folder, "model.onnx"), os.path.join(work, "model.tgc")
    data = ["--test-data", os.path.join(folder, "test_data_set_0"), "-d", "cpu"]
    own, theirs = os.path.join(work, "own"), os.path.join(work, "compiled")
    cache = ["--cache-dir", os.path.join(os.environ["BUILD_DIR"], "cache")]
    bare = {"PATH": "/nowhere", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    wrong = run(["compile", model, "-o", compiled, *data, *cache]) or run(
        [model, "--runs", "1", "--output-dir", own, *data, *cache, "--rtol", "1e9", "--atol", "1e9"]) or run(
            [compiled, "--runs", "1", "--output-dir", theirs, *data, "--no-cache", "--rtol", "1e9", "--atol", "1e9"], bare)
    if wrong:
        return wrong
    a, b = outputs(own), outputs(theirs)
    return "" if a == b and a else f"outputs differ: {[n for n in a if a[n] != b.get(n)]}"


def main(folders):
    from test_models import folders_below, light_models
    more = [f for top in os.environ.get("TGRUN_MODELS", "").split(":") if top for f in folders_below(top)]
    light = (f for f in light_models() if os.path.basename(f).startswith("light_"))
    right = count = 0
    for folder in folders or itertools.chain(light, more[:10]):
        with tempfile.TemporaryDirectory() as work:
            wrong = look(folder, work)
        print(f"{os.path.basename(folder):28} {wrong or 'the same'}", flush=True)
        right += not wrong
        count += 1
    print(f"{right} of {count} compiled models give the same bytes")
    return right != count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
