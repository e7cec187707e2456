"""tgrun as the tests of this folder call it."""
import os
import re
import subprocess

import numpy as np


def environment(folder, device):
    """A cache of its own; CUDA is the emulator, unless TGRUN_TEST_GPU is set."""
    env = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))
    if device == "cuda" and "TGRUN_TEST_GPU" not in os.environ:
        env |= {"TGRUN_LIBCUDA": os.environ["CUDA_EMULATOR"], "TGRUN_NVRTC": os.environ["CUDA_EMULATOR"]}
    return env


def run(model, folder, inputs, device, *more, timeout=120):
    """Runs a model on arrays by name: outputs are folder/out/NAME.npy; returns exit code, standard output, and what was said, without ASan's own warning about the emulator's fibres."""
    args = []
    for name, a in inputs.items():
        np.save(folder / f"{name}.npy", a)
        args += ["-i", f"{name}={folder / name}.npy"]
    p = subprocess.run([os.environ["TGRUN_PROGRAM"], str(model), *args, *more, "--device", device, "--output-dir", str(folder / "out")], env=environment(folder, device),
                       capture_output=True, text=True, timeout=timeout)
    return p.returncode, p.stdout, re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext.*\n?", "", p.stderr).strip()
