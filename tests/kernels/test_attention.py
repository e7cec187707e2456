"""Attention whose keys keep their order (inputs, caches that are outputs): a copy in the other order gives the product
lanes where its rows pay for it, and nowhere else. Scores that no cache holds are never in memory as a whole: kernels
follow each other part by part. Their rows begin with lines of the cache. Results are those of numpy in f64."""
import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

build = pathlib.Path(os.environ["BUILD_DIR"])
rng = np.random.default_rng(2)
wrong, count = [], 0


def check(name, good):
    global count
    count += 1
    if not good:
        wrong.append(name)


def run(*words):
    done = subprocess.run([build / "tgrun", *map(str, words), "--device", "cpu", "--threads", "2"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def save(name, nodes, inputs, outputs, constants=()):
    """shapes of inputs and outputs by name; constants: arrays by name"""
    def port(item):
        return helper.make_tensor_value_info(item[0], TensorProto.FLOAT, item[1])

    graph = helper.make_graph(nodes, "g", [*map(port, inputs.items())], [*map(port, outputs.items())],
                              [numpy_helper.from_array(a, n) for n, a in dict(constants).items()])
    path = build / f"attention_{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


def nodes_of(prefix, q, k, v, y):
    t = [f"{prefix}{n}" for n in range(4)]
    return [
        helper.make_node("Transpose", [k], [t[0]], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", [q, t[0]], [t[1]]),
        helper.make_node("Mul", [t[1], "scale"], [t[2]]),
        helper.make_node("Softmax", [t[2]], [t[3]], axis=-1),
        helper.make_node("MatMul", [t[3], v], [y]),
    ]


def results(model, inputs, *more):
    np.savez(build / "attention.npz", **inputs)
    folder = build / "attention"
    run("run", model, "-i", build / "attention.npz", "--runs", "1", "--output-dir", folder, *more)
    return folder


def close(folder, name, want):
    return np.allclose(np.load(folder / f"{name}.npy"), want, rtol=1e-4, atol=1e-5)


def copies(model, *more):
    plan = run("dump", model, "--stage", "plan", *more)
    return sum(line.split()[0 if line.strip()[0] == "e" else 1].startswith("e_") for line in plan.splitlines()
               if " >b" in line)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# keys are an input, of many queries and of few; lengths known and not
for queries, length, size, want in ((70, 75, 20, 1), (4, 75, 20, 0), (64, "n", 16, 1), ("m", "n", 16, 0)):
    shapes = {"q": [2, 3, queries, size], "k": [2, 3, length, size], "v": [2, 3, length, size]}
    name = f"{queries}_{length}"
    model = save(name, nodes_of("t", "q", "k", "v", "y"), shapes, {"y": [2, 3, queries, size]},
                 {"scale": np.float32(size**-0.5)})
    free = [w for d, n in (("m", 39), ("n", 133)) if d in (queries, length) for w in ("--dim", f"{d}=1..200")]
    check(f"{name}: {want} copy of the keys", copies(model, *free) == want)
    for m, n in ((39, 133), (1, 200)) if free else ((0, 0), ):
        given = {i: normal(*({"m": m, "n": n}.get(d, d) for d in s)) for i, s in shapes.items()}
        check(f"{name} {m} {n}: numbers", close(results(model, given, *free), "y", attend(*given.values())))

# three equal layers, whose keys and values are outputs; each of the three from a value of its own, so that no sum joins
# them
tokens, heads, size = 48, 3, 16
width, nodes, outputs, x = heads * size, [], {}, "x"
constants = {
    "scale": np.float32(size**-0.5),
    "split": np.array([1, tokens, heads, size]),
    "join": np.array([1, tokens, heads * size])
}
sources = {"q": ("Neg", np.negative), "k": ("Abs", np.abs), "v": ("Floor", np.floor)}
for layer in range(3):
    for part in "qkv":
        name = f"{part}{layer}"
        constants[f"w{name}"] = normal(width, width) / 8
        nodes += [
            helper.make_node(sources[part][0], [x], [f"from_{name}"]),
            helper.make_node("MatMul", [f"from_{name}", f"w{name}"], [f"flat_{name}"]),
            helper.make_node("Reshape", [f"flat_{name}", "split"], [f"split_{name}"]),
            helper.make_node("Transpose", [f"split_{name}"], [name], perm=[0, 2, 1, 3]),
        ]
    nodes += nodes_of(f"t{layer}_", f"q{layer}", f"k{layer}", f"v{layer}", f"y{layer}")
    nodes += [
        helper.make_node("Transpose", [f"y{layer}"], [f"rows{layer}"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", [f"rows{layer}", "join"], [f"joined{layer}"]),
        helper.make_node("Add", [x, f"joined{layer}"], [f"x{layer}"]),
    ]
    outputs |= {f"k{layer}": [1, heads, tokens, size], f"v{layer}": [1, heads, tokens, size]}
    x = f"x{layer}"
outputs[x] = [1, tokens, width]
model = save("layers", nodes, {"x": [1, tokens, width]}, outputs, constants)
given = normal(1, tokens, width)
folder, at = results(model, {"x": given}), given.astype(np.float64)
for layer in range(3):
    q, k, v = ((sources[part][1](at) @ constants[f"w{part}{layer}"]).reshape(1, tokens, heads, size).transpose(0, 2, 1, 3)
               for part in "qkv")
    check(f"layer {layer}: keys", close(folder, f"k{layer}", k))
    at = at + attend(q, k, v).transpose(0, 2, 1, 3).reshape(1, tokens, width)
check("the last layer", close(folder, x, at))

# rows of scores begin with lines of the cache: 150 floats take 160; those of 24 are too short for that
for length, row in ((150, 160), (24, 24)):
    shape = [1, 2, length, 16]
    model = save(f"rows_{length}", nodes_of("t", "q", "k", "v", "y"), {n: shape for n in "qkv"}, {"y": shape},
                 {"scale": np.float32(0.25)})
    plan = [line.split() for line in run("dump", model, "--stage", "plan").splitlines() if f"{length},{length}]" in line]
    check(f"rows of {length}", plan and all(int(words[-2]) == 2 * length * row * 4 for words in plan))
    given = {n: normal(*shape) for n in "qkv"}
    check(f"rows of {length}: numbers", close(results(model, given), "y", attend(*given.values())))

# scores of 128 MiB, inputs and outputs of 16
shape = [1, 8, 2048, 64]
model = save("long", nodes_of("t", "q", "k", "v", "y"), {n: shape for n in "qkv"}, {"y": shape},
             {"scale": np.float32(0.125)})
given = {n: normal(*shape) for n in "qkv"}
check("long: numbers", close(results(model, given), "y", attend(*given.values())))
values = json.loads(run("info", model, "--threads", "2", "--json"))["memory"]["values_bytes"]
check(f"long: {values >> 20} MiB of values", values < 24 << 20)

print("\n".join(wrong))
print(f"{count - len(wrong)} of {count} checks right")
raise SystemExit(bool(wrong))
