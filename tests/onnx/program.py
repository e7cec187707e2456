"""tgrun as the tests of this folder call it."""
import datetime
import os
import re
import subprocess

import numpy as np
import onnx
from onnx import numpy_helper


def environment(folder, device):
    """A cache of its own; CUDA is the emulator, unless TGRUN_TEST_GPU is set."""
    env = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))
    if device == "cuda" and "TGRUN_TEST_GPU" not in os.environ:
        env |= {"TGRUN_LIBCUDA": os.environ["CUDA_EMULATOR"], "TGRUN_NVRTC": os.environ["CUDA_EMULATOR"]}
    return env


def todays(rows):
    """All; under sanitizers, where each takes several times as long, every third, from the day's number on."""
    return rows[datetime.date.today().toordinal() % 3::3] if os.environ.get("SANITIZED") else rows


def map_message(value):
    """numpy_helper.from_dict knows no strings."""
    words = isinstance(next(iter(value)), str)
    proto = onnx.MapProto(key_type=onnx.TensorProto.STRING if words else onnx.TensorProto.INT64,
                          values=numpy_helper.from_list([np.array(v) for v in value.values()]))
    if words:
        proto.string_keys.extend(k.encode() for k in value)
    else:
        proto.keys.extend(value)
    return proto


def save(path, value):
    """An array as path.npy; a list, a dict, or an optional as a tuple of at most one, as path.pb. Returns the file's
    name."""
    if not isinstance(value, (list, dict, tuple)):
        np.save(f"{path}.npy", value)
        return f"{path}.npy"
    if isinstance(value, tuple):
        proto = numpy_helper.from_optional(value[0] if value else None)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        proto = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=map(map_message, value))
    else:
        proto = map_message(value) if isinstance(value, dict) else numpy_helper.from_list(value)
    with open(f"{path}.pb", "wb") as f:
        f.write(proto.SerializeToString())
    return f"{path}.pb"


def load(path):
    """The same back: NAME.npy, else NAME.pb, whose first letter tells what it holds."""
    if path.with_suffix(".npy").exists():
        return np.load(path.with_suffix(".npy"))
    data = path.with_suffix(".pb").read_bytes()
    if path.name[0] == "s":
        proto = onnx.SequenceProto.FromString(data)
        return [dict(zip(m.keys, map(np.ndarray.item, numpy_helper.to_list(m.values))))
                for m in proto.map_values] or numpy_helper.to_list(proto)
    value = numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return () if value is None else (value,)


def checked(command, env, timeout):
    """Runs a program. LeakSanitizer itself may crash at the end, in its scan of thread-local memory (with use_tls=0 it
    does not): then the program's own end counts, without that check."""
    p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    if p.returncode and "LeakSanitizer has encountered a fatal error" in p.stderr:
        print("skipped: a check for leaks, in which LeakSanitizer crashed")
        options = f"{env['ASAN_OPTIONS']}:" if env.get("ASAN_OPTIONS") else ""
        p = subprocess.run(command, env=env | {"ASAN_OPTIONS": f"{options}detect_leaks=0"}, capture_output=True,
                           text=True, timeout=timeout)
    return p


def run(model, folder, inputs, device, *more, timeout=360 if os.environ.get("SANITIZED") else 120):
    """Runs a model on values by name: outputs are folder/out/NAME.npy, of sequences and optionals .pb; returns exit
    code, standard output, and what was said, without ASan's own warning about the emulator's fibres."""
    args = []
    for name, a in inputs.items():
        args += ["-i", f"{name}={save(folder / name, a)}"]
    p = checked([
        os.environ["TGRUN_PROGRAM"],
        str(model), *args, *more, "--device", device, "--output-dir",
        str(folder / "out")
    ], environment(folder, device), timeout)
    return p.returncode, p.stdout, re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext.*\n?", "",
                                          p.stderr).strip()
