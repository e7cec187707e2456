#!/usr/bin/env python3
"""Models as C source: what a C compiler makes of it gives tgrun's results, and where products and sums are rounded one
by one every compiler's program gives the same bytes. Light models of the onnx package with seeded weights, then ten of
those below the folders that TGRUN_MODELS names (DIR[:DIR..]), or FOLDER... Models that want the library are refused by
the node's name. Compilers: those of gcc, clang and tcc that are here."""
import itertools, os, re, shutil, stat, subprocess, sys, tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIGHT = ("light_densenet121", "light_inception_v1", "light_resnet50", "light_shufflenet", "light_squeezenet")
EVERY = LIGHT[3:]                       # that all compilers see
REFUSED = re.compile(r"(node|input|output) '.*: (.*has no (C source|form in C source)|.*depend on )")


def run(arguments, folder=None):
    p = subprocess.run(arguments, capture_output=True, text=True, timeout=900, cwd=folder)
    return (p.stderr.strip() or f"exit {p.returncode}") if p.returncode else ""


def tgrun(*arguments):
    return run([os.environ["TGRUN_PROGRAM"], *arguments, "-q", "--cache-dir", os.path.join(os.environ["BUILD_DIR"], "cache")])


def inputs(folder, work, count):
    """The first set's inputs as files of bare elements."""
    paths = []
    for k in range(count):
        base = os.path.join(folder, "test_data_set_0", f"input_{k}.")
        if os.path.exists(base + "npy"):
            x = np.load(base + "npy")
        else:
            x = numpy_helper.to_array(onnx.load_tensor(base + "pb"))
        paths.append(os.path.join(work, f"in{k}"))
        if x.dtype != object:           # strings have no such form
            x.tofile(paths[-1])
    return paths


def build(source, compiler, contract):
    run(["make", "-s", "clean"], source)
    wrong = run(["make", "-s", "-j2", f"CC={compiler}", f"CONTRACT={contract}"] + (["MACHINE="] if contract == "off" else []),
                source)
    return wrong or ("" if stat.S_ISCHR(os.stat("/dev/null").st_mode) else f"make with {compiler} replaced /dev/null")


def results(source, given, count):
    """(what went wrong, the outputs' bytes)"""
    out = [os.path.join(source, f"out{k}") for k in range(count)]
    wrong = run([os.path.join(source, "net"), *given, *out])
    return wrong, [] if wrong else [open(f, "rb").read() for f in out]


def differs(got, want, graph):
    """The number of the first output that is another, or -1. want: the folder of those that are right."""
    for k in range(len(graph.output)):
        w = np.load(os.path.join(want, f"{k}.npy"))
        g = np.frombuffer(got[k], w.dtype)
        near = (4e-3 if w.dtype == np.float16 else 1e-4) * (1 + np.abs(w).max(initial=0))
        if g.size != w.size or not np.allclose(g, w.ravel(), 1e-3, near, True):
            return k
    return -1


def look(folder, work):
    """What is wrong, "" when nothing is."""
    model, data = os.path.join(folder, "model.onnx"), ["--test-data", os.path.join(folder, "test_data_set_0")]
    every = os.path.basename(folder) in EVERY
    graph = onnx.load(model, load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    own, source = os.path.join(work, "own"), os.path.join(work, "net")
    given, same = inputs(folder, work, sum(i.name not in weights for i in graph.input)), {}
    for form in ("c", "c11") if every else ("c",):
        shutil.rmtree(source, ignore_errors=True)
        wrong = tgrun("compile", model, "--format", form, "-o", source, *data)
        if not wrong and not os.path.exists(own):
            os.mkdir(own)
            to = [x for k, o in enumerate(graph.output) for x in ("-o", f"{o.name}={own}/{k}.npy")]
            wrong = tgrun(model, "--runs", "1", *to, *data, "-d", "cpu", "--rtol", "1e9", "--atol", "1e9")
        if wrong:
            return wrong
        here = [c for c in ("gcc", "clang", "tcc") if shutil.which(c) and not (form == "c" and c == "tcc")]
        for compiler, contract in itertools.product(here, ("fast", "off")) if every else [(here[0], "fast")]:
            wrong = build(source, compiler, contract)
            if not wrong:
                wrong, got = results(source, given, len(graph.output))
            if wrong:
                return f"{form}, {compiler}: {wrong}"
            if contract == "off" and same.setdefault(form, got) != got:
                return f"{form}: the program of {compiler} gives other bytes"
            k = differs(got, own, graph)
            if k >= 0:
                return f"{form}, {compiler}: output {k} differs"
    return ""


def main(folders):
    from test_models import folders_below, light_models
    more = [f for top in os.environ.get("TGRUN_MODELS", "").split(":") if top for f in folders_below(top)]
    light = (f for f in light_models() if os.path.basename(f) in LIGHT)
    right = count = 0
    for folder in folders or itertools.chain(light, more[:10]):
        with tempfile.TemporaryDirectory() as work:
            wrong = look(folder, work)
        refused = bool(REFUSED.search(wrong))
        print(f"{os.path.basename(folder):28} {'refused: ' if refused else ''}{wrong or 'right'}", flush=True)
        right += refused or not wrong
        count += 1
    print(f"{right} of {count} models are right as C source, or refused by name")
    return int(right != count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
