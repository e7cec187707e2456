"""Many host functions in a run, as a detector's tail has them: NonZero and TopK a class, NonMaxSuppression of what all found. On the CPU and on the emulator of CUDA, on several
pictures, one of which has classes where nothing is found, against the standard's own reference. On a GPU functions that need not wait for one another wait together.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

CLASSES, BOXES = 3, 20


def tail():
    """scores [CLASSES, BOXES] and boxes [BOXES, 4] -> the boxes that are kept, and their classes."""
    rows = []
    for c in range(CLASSES):
        rows.append(f"""
            s{c} = Slice(scores, begin{c}, end{c}, zero)  flat{c} = Reshape(s{c}, minus)  mask{c} = Greater(flat{c}, least)
            n{c} = NonZero(mask{c})  at{c} = Reshape(n{c}, minus)  found{c} = Gather(flat{c}, at{c})
            size{c} = Shape(found{c})  k{c} = Min(size{c}, most)  best{c}, order{c} = TopK(found{c}, k{c})
            where{c} = Gather(at{c}, order{c})  b{c} = Gather(boxes, where{c})  twice{c} = Add(best{c}, best{c})""")
    alls = ", ".join(f"b{c}" for c in range(CLASSES)), ", ".join(f"twice{c}" for c in range(CLASSES))
    const = " ".join(f"int64[1] begin{c} = {{{c}}}, int64[1] end{c} = {{{c + 1}}}," for c in range(CLASSES))
    return f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[{CLASSES}, {BOXES}] scores, float[{BOXES}, 4] boxes) => (float[n, 4] kept, float[n] values)
        <{const} int64[1] zero = {{0}}, int64[1] minus = {{-1}}, float least = {{0.5}}, int64[1] most = {{6}}, int64[1] limit = {{4}}, float[1] overlap = {{0.3}}, int64[1] two = {{2}},
         int64[1] three = {{3}}, int64[2] plane = {{0, 1}}, int64[1] one = {{1}}> {{
            {"".join(rows)}
            all = Concat<axis = 0>({alls[0]})  value = Concat<axis = 0>({alls[1]})
            boxes3 = Unsqueeze(all, zero)  scores3 = Unsqueeze(value, plane)  picked = NonMaxSuppression(boxes3, scores3, limit, overlap)
            last = Slice(picked, two, three, one)  index = Reshape(last, minus)  kept = Gather(all, index)  values = Gather(value, index)
        }}"""


def run(model, folder, inputs, device):
    args = []
    for name, a in inputs.items():
        np.save(folder / f"{name}.npy", a)
        args += ["-i", f"{name}={folder / name}.npy"]
    env = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))
    if device == "cuda" and "TGRUN_TEST_GPU" not in os.environ:
        env |= {"TGRUN_LIBCUDA": os.environ["CUDA_EMULATOR"], "TGRUN_NVRTC": os.environ["CUDA_EMULATOR"]}
    p = subprocess.run([os.environ["TGRUN_PROGRAM"], str(model), *args, "--runs", "3", "-q", "--device", device, "--output-dir", str(folder / "out")], env=env, capture_output=True, text=True,
                       timeout=600)
    return p.stderr if p.returncode else None


wrong = 0
with tempfile.TemporaryDirectory() as name:
    folder, rng = pathlib.Path(name), np.random.default_rng(3)
    model = onnx.parser.parse_model(tail())
    onnx.checker.check_model(model)
    path = folder / "tail.onnx"
    path.write_bytes(model.SerializeToString())
    for picture in range(3):
        corner = rng.random((BOXES, 2)).astype(np.float32)
        inputs = {"scores": rng.random((CLASSES, BOXES)).astype(np.float32), "boxes": np.concatenate([corner, corner + 0.3], 1)}
        inputs["scores"][1:] *= picture != 1                    # two classes find nothing
        want = ReferenceEvaluator(model).run(None, inputs)
        for device in ("cpu", "cuda"):
            failed = run(path, folder, inputs, device)
            got = None if failed else [np.load(folder / "out" / f"{o.name}.npy") for o in model.graph.output]
            if failed or any(g.shape != w.shape or not np.array_equal(g, w) for g, w in zip(got, want)):
                print(f"picture {picture} on {device}: {failed or (got, want)}")
                wrong += 1
print(f"3 pictures, {wrong} failures")
sys.exit(wrong > 0)
