#!/usr/bin/env python3
"""Whole models through tgrun, every data set compared: the nine light models of the installed onnx package as they are
(constant weights; input and output are the package's own) and with seeded weights, and every folder below those that
TGRUN_MODELS names (DIR[:DIR..]; a model is a folder with model.onnx and test_data_set_K/). A models.json beside the
folders may give `suggested_atol`: a number (rtol 1e-4), or one an output (rtol 0). The results are cached in the build
folder like any user's."""
import itertools, json, os, shutil, subprocess, sys
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 300


def constant_model(name, source, folder):
    """A light model as the package has it: the input that its runner makes (0 to 1 in equal steps), the output that it
    ships."""
    import onnx
    folder = os.path.join(folder, "constant_" + name)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    shutil.copy(os.path.join(source, f"light_{name}.onnx"), os.path.join(folder, "model.onnx"))
    shutil.copy(os.path.join(source, f"light_{name}_output_0.pb"), os.path.join(data, "output_0.pb"))
    graph = onnx.load(os.path.join(folder, "model.onnx")).graph
    given = {t.name for t in graph.initializer}
    shape = next([d.dim_value for d in x.type.tensor_type.shape.dim] for x in graph.input if x.name not in given)
    n = int(np.prod(shape))
    np.save(os.path.join(data, "input_0.npy"), (np.arange(n).reshape(shape) / n).astype(np.float32))
    return folder


def light_models():
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import fill_light
    source, folder = fill_light.light_folder(), os.path.join(os.environ["BUILD_DIR"], "light")
    names = sorted(f[6:-5] for f in os.listdir(source) if f.endswith(".onnx"))
    for name in names:
        yield constant_model(name, source, folder)
        fill_light.fill(name, folder)
        yield os.path.join(folder, "light_" + name)


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
    info = json.loads(
        subprocess.run([tgrun, "info", os.path.join(folder, "model.onnx"), "--json"], stdout=subprocess.PIPE).stdout)
    return ["--rtol", "0"] + [x for o, v in zip(info["outputs"], atol) for x in ("--atol", f"{o['name']}:{v}")]


def check(folder, tgrun, cache):
    """What is wrong, "" when nothing is."""
    command = [
        tgrun,
        os.path.join(folder, "model.onnx"), "--test-data", folder, "--runs", "1", "-q", "--cache-dir", cache
    ] + tolerance(folder, tgrun)
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS} s"
    return "" if p.returncode == 0 else f"exit {p.returncode}: " + p.stdout.decode(errors="replace").strip()


def main():
    tgrun = os.environ["TGRUN_PROGRAM"]
    more = [f for top in os.environ.get("TGRUN_MODELS", "").split(":") if top for f in folders_below(top)]
    right = count = 0
    for folder in itertools.chain(light_models(), more):
        wrong = check(folder, tgrun, os.path.join(os.environ["BUILD_DIR"], "cache"))
        print(f"{os.path.basename(folder):28} {wrong or 'ok'}", flush=True)
        right += not wrong
        count += 1
    print(f"{right} of {count} models are right")
    return right != count


sys.dont_write_bytecode = True
if __name__ == "__main__":
    sys.exit(main())
