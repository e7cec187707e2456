#!/usr/bin/env python3
"""Whole models through tgrun, every data set compared: two of the light models of the installed onnx package with seeded weights, and every folder below those that TGRUN_MODELS names
(DIR[:DIR..]; a model is a folder with model.onnx and test_data_set_K/). A models.json beside the folders may give `suggested_atol`: a number (rtol 1e-4), or one an output (rtol 0).
The results are cached in the build folder like any user's."""
import json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIGHT = ("squeezenet", "shufflenet")
SECONDS = 300


def light_models():
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import fill_light
    folder = os.path.join(os.environ["BUILD_DIR"], "light")
    for name in LIGHT:
        fill_light.fill(name, folder)
    return [os.path.join(folder, "light_" + name) for name in LIGHT]


def folders_below(top):
    return sorted(os.path.join(top, d) for d in os.listdir(top) if os.path.exists(os.path.join(top, d, "model.onnx")))


def tolerance(folder, tgrun):
    listed = os.path.join(os.path.dirname(folder), "models.json")
    rows = json.load(open(listed))["models"] if os.path.exists(listed) else []
    atol = next((r.get("suggested_atol") for r in rows if r.get("key") == os.path.basename(folder)), None)
    if atol is None:
        return []
    if not isinstance(atol, list):
        return ["--rtol", "1e-4", "--atol", str(atol)]
    info = json.loads(subprocess.run([tgrun, "info", os.path.join(folder, "model.onnx"), "--json"], stdout=subprocess.PIPE).stdout)
    return ["--rtol", "0"] + [x for o, v in zip(info["outputs"], atol) for x in ("--atol", f"{o['name']}:{v}")]


def check(folder, tgrun, cache):
    """What is wrong, "" when nothing is; None when the model needs what is not covered."""
    command = [tgrun, os.path.join(folder, "model.onnx"), "--test-data", folder, "--runs", "1", "-q", "--cache-dir", cache] + tolerance(folder, tgrun)
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS} s"
    if p.returncode == 5:
        return None
    return "" if p.returncode == 0 else f"exit {p.returncode}: " + p.stdout.decode(errors="replace").strip()


def main():
    tgrun = os.environ["TGRUN_PROGRAM"]
    folders = light_models() + [f for top in os.environ.get("TGRUN_MODELS", "").split(":") if top for f in folders_below(top)]
    bad = uncovered = 0
    for folder in folders:
        wrong = check(folder, tgrun, os.path.join(os.environ["BUILD_DIR"], "cache"))
        print(f"{os.path.basename(folder):28} {'not covered' if wrong is None else wrong or 'ok'}", flush=True)
        bad += bool(wrong)
        uncovered += wrong is None
    print(f"{len(folders) - bad - uncovered} of {len(folders) - uncovered} models are right")
    return 1 if bad else 0


sys.dont_write_bytecode = True
if __name__ == "__main__":
    sys.exit(main())
