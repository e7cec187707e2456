"""What threads share out: rows of a long TopK, one long row of it, regions of RoiAlign, convolutions whose stored
values have halos, a ragged axis. With four threads the outputs are those of one; under the preset tsan a race ends the
run. A case is a row: name, nodes, shape of x, constants, outputs; to add one: a row."""
import pathlib
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import program

rng = np.random.default_rng(2)
RUNS = "5"


def topk(shape, k):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("TopK", ["a", "k"], ["v", "i"]),
        helper.make_node("Exp", ["v"], ["y"])
    ]
    return nodes, shape, {"k": np.array([k])}, ["y", "i"]


def roi_align(count):
    corner, size = rng.random((count, 2)) * 500, rng.random((count, 2)) * 300
    nodes = [
        helper.make_node("RoiAlign", ["x", "b", "i"], ["a"], output_height=7, output_width=7, sampling_ratio=0,
                         spatial_scale=0.0625),
        helper.make_node("Exp", ["a"], ["y"])
    ]
    return nodes, [1, 64, 50, 50], {
        "b": np.concatenate([corner, corner + size], 1).astype(np.float32), "i": np.zeros(count, np.int64)
    }, ["y"]


def convolutions(count, channels, height, width):
    nodes, value, weights = [], "x", {}
    for k in range(count):
        weights[f"w{k}"] = (rng.standard_normal((channels, channels, 3, 3)) / 10).astype(np.float32)
        nodes += [
            helper.make_node("Conv", [value, f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{k}"], [f"r{k}"])
        ]
        value = f"r{k}"
    return nodes, [1, channels, height, width], weights, [value]


CASES = {
    "rows": topk([1000, 1000], 400), "a row": topk([1, 400000], 100000), "regions": roi_align(1000), "halos":
    convolutions(4, 24, 67, 61)
}


def outputs(folder, name, threads):
    nodes, shape, constants, names = CASES[name]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_empty_tensor_value_info(n) for n in names],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    (folder / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())
    code, _, said = program.run(folder / "m.onnx", folder, {"x": x}, "cpu", "--runs", RUNS, "-q", "--threads",
                                str(threads))
    return [np.load(folder / "out" / f"{n}.npy") for n in names] if code == 0 else f"exit {code}: {said[-600:]}"


def check(name):
    """What is wrong, "" when nothing is."""
    with tempfile.TemporaryDirectory() as root:
        one, four = (outputs(pathlib.Path(root), name, threads) for threads in (1, 4))
    if isinstance(one, str) or isinstance(four, str):
        return next(v for v in (one, four) if isinstance(v, str))
    return "" if all(np.array_equal(a, b) for a, b in zip(one, four)) else "four threads give other values than one"


wrong = {name: said for name in CASES if (said := check(name))}
for name, said in wrong.items():
    print(f"{name}: {said}")
print(f"{len(CASES) - len(wrong)} of {len(CASES)} cases are right with four threads")
sys.exit(bool(wrong))
