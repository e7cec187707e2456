"""Many host functions in a run, as a detector's tail has them: NonZero and TopK a class, NonMaxSuppression of what all
found; and rows that a ScatterElements puts in their places without one. On the CPU and on the emulator of CUDA, on
several pictures, one of which has classes where nothing is found, against the standard's own reference. On a GPU
functions that need not wait for one another wait together.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

import program

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


def rows(axis):
    """A row for each index takes its place among PLACES; of equal indices the last counts."""
    n, k = ("7, 24", "5, 24") if axis == 0 else ("24, 7", "24, 5")
    return f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[{n}] x, int64[5] at, float[{k}] row) => (float[{n}] y)
        <int64[2] tall = {{{"5, 1" if axis == 0 else "1, 5"}}}, int64[2] full = {{{k}}}> {{
            column = Reshape(at, tall)  index = Expand(column, full)  twice = Add(row, row)  y = ScatterElements<axis = {axis}>(x, index, twice)
        }}"""


TWICE = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[3, 8] x, float[1, 2, 9, 9] picture, float[4, 4] regions, int64[4] of) => (float[3, 5] v5, int64[3, 5] i5, float[3, 2] v2, int64[3, 2] i2, float[4, 2, 3, 3] r3, float[4, 2, 2, 2] r2,
        float[n] n0, float[m] n1)
    <int64[1] five = {5}, int64[1] two = {2}, int64[1] minus = {-1}, int64[1] one = {1}, float half = {0.5}> {
        v5, i5 = TopK(x, five)  v2, i2 = TopK(x, two)
        r3 = RoiAlign<output_height = 3, output_width = 3, sampling_ratio = 0>(picture, regions, of)  r2 = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 0>(picture, regions, of)
        flat = Reshape(x, minus)  mask = Greater(flat, half)  some = Compress(flat, mask)  count = Shape(some)  less = Sub(count, one)
        n0, no = TopK(some, count)  n1, yes = TopK(some, less)
    }"""                                                                # results of other sizes, of the same values


# Host functions of a loop: of the k best of what does not change, more each iteration, and of how many are not 0, of
# which only the number is requested.
ITERATIONS = """<ir_version: 9, opset_import: ["" : 18]> g (float[40] x, int64 n) => (float y, int64[m,1] counts, int64[m,1] again)
    <int64 one = {1}, int64[1] zero = {0}, float none = {0}, float half = {0.5}, bool yes = {1}, int64 iterations = {30}> {
        y, counts = Loop<body = b (int64 i, bool c, float s) => (bool d, float t, int64[1] count) { d = Identity(c)  i1 = Add(i, one)  k = Unsqueeze(i1, zero)  best, at = TopK(x, k)  least = ReduceMin<keepdims = 0>(best)
            t = Add(s, least)  p = Slice(x, zero, k)  g = Greater(p, half)  where = NonZero(g)  number = Size(where)  count = Unsqueeze(number, zero) }>(iterations, yes, none)
        again = Loop<body = bb (int64 i, bool c) => (bool d, int64[1] count) { d = Identity(c)  k = Unsqueeze(i, zero)  p = Slice(x, zero, k)  g = Greater(p, half)
            where = NonZero(g)  number = Size(where)  count = Unsqueeze(number, zero) }>(n, yes)
    }"""
CHAIN = """<ir_version: 9, opset_import: ["" : 18]> g (float[7] v0) => (float[n] v20) <int64[1] minus = {-1}, float half = {0.5}> {""" + "".join(
    # 20 kernels that differ in their sizes' names
    f" n{k} = NonZero(v{k})  f{k} = Cast<to = 1>(n{k})  r{k} = Reshape(f{k}, minus)  v{k + 1} = Add(r{k}, half)"
    for k in range(20)) + "}"


def run(model, folder, inputs, device):
    return program.run(model, folder, inputs, device, "--runs", "3", "--json", timeout=600)


def check(what, text, folder, inputs):
    """How many devices differ from the reference; and how many host functions a run has."""
    model, path, bad, steps = onnx.parser.parse_model(text), folder / "model.onnx", 0, 0
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    want = ReferenceEvaluator(model).run(None, inputs)
    for device in ("cpu", "cuda"):
        code, report, said = run(path, folder, inputs, device)
        got = None if code else [np.load(folder / "out" / f"{o.name}.npy") for o in model.graph.output]
        if code or any(g.shape != w.shape or not np.allclose(g, w, 1e-6) for g, w in zip(got, want)):
            print(f"{what} on {device}: {said if code else (got, want)}")
            bad += 1
        steps = 0 if code else json.loads(report)["model"]["host_steps"]
    return bad, steps


wrong = 0
with tempfile.TemporaryDirectory() as name:
    folder, rng = pathlib.Path(name), np.random.default_rng(3)
    for picture in range(3):
        corner = rng.random((BOXES, 2)).astype(np.float32)
        inputs = {
            "scores": rng.random((CLASSES, BOXES)).astype(np.float32), "boxes": np.concatenate([corner, corner + 0.3],
                                                                                               1)
        }
        inputs["scores"][1:] *= picture != 1                    # two classes find nothing
        bad, steps = check(f"picture {picture}", tail(), folder, inputs)
        wrong += bad + (steps != 2 * CLASSES + 1)
    inputs = {
        "x": rng.random((3, 8)).astype(np.float32), "picture": rng.random((1, 2, 9, 9)).astype(np.float32), "of":
        np.zeros(4, np.int64)
    }
    inputs["regions"] = np.sort(8 * rng.random((4, 2, 2)).astype(np.float32), axis=1).reshape(4, 4)
    wrong += check("twice", TWICE, folder, inputs)[0]
    wrong += sum(
        check(f"{n} iterations", ITERATIONS, folder, {"x": rng.random(40).astype(np.float32), "n": np.array(n)})[0]
        for n in (12, 33))
    wrong += check("chain", CHAIN, folder, {"v0": np.ones(7, np.float32)})[0]
    made = json.loads(
        program.run(folder / "model.onnx", folder, {"v0": np.ones(7, np.float32)}, "cpu", "--no-cache", "--json")[1])
    wrong += (made["kernels_compiled"], made["model"]["kernels"]) != (1, 20)
    for axis in (0, 1):
        shape = [(7, 24), (5, 24)] if axis == 0 else [(24, 7), (24, 5)]
        inputs = {
            "x": rng.random(shape[0]).astype(np.float32), "at": np.array([3, -1, 0, 3, -5]), "row":
            rng.random(shape[1]).astype(np.float32)
        }
        bad, steps = check(f"rows along axis {axis}", rows(axis), folder, inputs)
        inputs["at"][2] = 7
        code, _, said = run(folder / "model.onnx", folder, inputs, "cuda")
        wrong += bad + steps + (code != 4 or "index 7; the axis has size 7" not in said)
print(f"{wrong} failures")
sys.exit(wrong > 0)
