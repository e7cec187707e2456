"""What only moves is moved by vectors: transposed squares, few rows in alternation, steps, repeats and reversals are
loads side by side and shuffles, pads are parts beside what moves as a whole; products are stored turned. Sizes are odd,
types of every width, and results are those of numpy. No kernel of the sizes that have room for vectors gathers element
by element."""
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
model = build / "moved.onnx"
rng = np.random.default_rng(1)
nodes, inputs, constants, wanted = [], {}, [], {}


def constant(values):
    constants.append(numpy_helper.from_array(np.array(values, np.int64), f"c{len(constants)}"))
    return constants[-1].name


def case(op, x, y, more=(), **attrs):
    n = len(nodes)
    inputs[f"x{n}"], wanted[f"y{n}"] = x, y
    nodes.append(helper.make_node(op, [f"x{n}", *more], [f"y{n}"], **attrs))


def data(dtype, *shape):
    return rng.integers(0, 2, shape).astype(bool) if dtype == bool else rng.integers(-100, 100, shape).astype(dtype)


def transposed(dtype, shape, order):
    x = data(dtype, *shape)
    case("Transpose", x, x.transpose(order), perm=order)


for dtype in (np.float32, np.float64, np.float16, np.int64, np.int32, np.int16, np.uint8, bool):
    transposed(dtype, (37, 53), (1, 0))
for shape in ((16, 16), (64, 32), (5, 100), (100, 9), (17, 16), (3, 50), (50, 3), (2, 49), (49, 4)):
    transposed(np.float32, shape, (1, 0))
for order in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
    transposed(np.float32, (2, 19, 18, 21), order)
    transposed(np.uint8, (2, 3, 23, 17), order)
    transposed(np.uint8, (2, 23, 17, 3), order)
for x in (data(np.float32, 3, 70), data(np.int8, 2, 333)):
    case("Tile", x, np.tile(x, (3, 4)), [constant([3, 4])])
    case("Slice", x, x[:, ::-1], [constant(v) for v in ([-1], [-1000], [1], [-1])])
    case("Slice", x, x[:, 1::2], [constant(v) for v in ([1], [1000], [1], [2])])
products = (37, 5, 53), (64, 16, 32), (17, 3, 100), (100, 40, 16), (16, 7, 9), (9, 4, 64)
for rows, terms, columns in products:
    x, w = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((rows, terms), (terms, columns)))
    constants.append(numpy_helper.from_array(w, f"w{rows}"))
    inputs[f"x{len(nodes)}"], wanted[f"y{len(nodes)}"] = x, (x @ w).T
    nodes.append(helper.make_node("Einsum", [f"x{len(nodes)}", f"w{rows}"], [f"y{len(nodes)}"], equation="ik,kj->ji"))
for block in (2, 3):
    x = data(np.float32, 2, block * block * 5, 9, 41)
    y = x.reshape(2, block, block, 5, 9, 41).transpose(0, 3, 4, 1, 5, 2).reshape(2, 5, 9 * block, 41 * block)
    case("DepthToSpace", x, y, blocksize=block)
    case("SpaceToDepth", y, x, blocksize=block)
for width in (50, 64):
    x = data(np.float32, 1, 3, 20, width)
    case("Resize", x, x.repeat(2, 2).repeat(2, 3), ["", "", constant([1, 3, 40, 2 * width])], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
for mode in ("reflect", "edge", "wrap"):
    for shape, pads in (((2, 40, 33), ((0, 0), (3, 4), (5, 2))), ((3, 70), ((0, 1), (0, 69))), ((1000, ), ((37, 0), )),
                        ((2, 9), ((1, 1), (0, 0)))):
        x = data(np.float32, *shape)
        case("Pad", x, np.pad(x, pads, mode), [constant([begin for begin, _ in pads] + [end for _, end in pads])], mode=mode)
x = data(np.float32, 3, 29, 29)
case("Einsum", x, np.einsum("bii->bi", x), equation="bii->bi")


def port(name, a):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)


graph = helper.make_graph(nodes, "g", [port(name, a) for name, a in inputs.items()],
                          [port(name, a) for name, a in wanted.items()], constants)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
np.savez(build / "moved.npz", **inputs)


def run(*words):
    done = subprocess.run([build / "tgrun", *words, "--device", "cpu"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


results = build / "moved"
run("run", model, "-i", str(build / "moved.npz"), "--runs", "1", "--output-dir", results)
wrong = [
    f"{node.op_type} {inputs[node.input[0]].dtype}{list(a.shape)}" for node, (name, a) in zip(nodes, wanted.items())
    if not np.array_equal(np.load(results / f"{name}.npy"), a)
]
source = run("dump", model, "--stage", "source")
checks = {
    "a vector of 3 of scattered elements is gathered, in few kernels": len(re.findall(r"tg_gather\w*\(p|\{ p\d\[", source)) <= 6,
    "squares and rotations are shuffles": source.count("__builtin_shufflevector") > (1000 if "f32x16 " in source else 500),
    "a diagonal is no sum, and products are": source.count("void r_") == len(products),
}
wrong += [f"{name}: not so" for name, good in checks.items() if not good]
count = len(nodes) + len(checks)
print("\n".join(wrong))
print(f"{count - len(wrong)} of {count} checks right")
raise SystemExit(bool(wrong))
