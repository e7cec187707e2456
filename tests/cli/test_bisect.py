#!/usr/bin/env python3
"""Does `tgrun bisect` find the node that was made wrong? Faults are planted in a copy of a model (an axis, an epsilon,
a weight cut to few bits, a transposed or turned weight, another operator), and the copy is compared with the model;
pairs without a fault must show no difference. By itself: small networks that this script makes. With folders: FOLDER...
[--faults N] [--clean N] [--seed N]: models of the zoo."""
import argparse, glob, json, os, random, subprocess, sys, tempfile
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh

TGRUN = os.environ["TGRUN_PROGRAM"]


# ---- networks

def small(rng, kind):
    """kind 0: convolutions with a residual and two heads; 1: rows through a layer norm, a gate and a softmax."""
    init, nodes = [], []

    def w(name, *shape):
        init.append(nh.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name))
        return name

    def n(op, ins, out, **a):
        nodes.append(h.make_node(op, ins, [out], name=f"{op}_{out}", **a))
        return out
    if kind == 0:
        x = n("Conv", ["x", w("w0", 8, 3, 3, 3), w("b0", 8)], "c0", pads=[1, 1, 1, 1])
        x = n("BatchNormalization", [x, w("s", 8), w("o", 8), w("m", 8), "v"], "bn", epsilon=1e-5)
        init.append(nh.from_array(np.full(8, 0.01, np.float32), "v"))
        r = n("Relu", [x], "r0")
        x = n("Conv", [r, w("w1", 8, 8, 3, 3)], "c1", pads=[1, 1, 1, 1])
        x = n("Add", [x, r], "sum")
        p = n("GlobalAveragePool", [x], "pool")
        p = n("Flatten", [p], "flat")
        n("Gemm", [p, w("w2", 8, 8), w("b2", 8)], "y")
        n("Sigmoid", [x], "z")
        return model(nodes, init, [1, 3, 12, 12], ["y", "z"])
    x = n("LayerNormalization", ["x", w("g", 16), w("b", 16)], "ln", epsilon=1e-2)
    q = n("MatMul", [x, w("wq", 16, 16)], "q")
    k = n("MatMul", [x, w("wk", 16, 16)], "k")
    kt = n("Transpose", [k], "kt", perm=[0, 2, 1])
    s = n("Softmax", [n("MatMul", [q, kt], "qk")], "s", axis=-1)
    o = n("MatMul", [s, x], "o")
    gate = n("Mul", [o, n("Sigmoid", [q], "sg")], "gate")
    n("Add", [n("MatMul", [gate, w("wo", 16, 16)], "wo_y"), "x"], "y")
    return model(nodes, init, [2, 16, 16], ["y"])


def model(nodes, init, shape, outputs):
    port = lambda name, dims: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
    graph = h.make_graph(nodes, "g", [port("x", shape)], [port(y, None) for y in outputs], init)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


# ---- faults

def weight(m, node):
    """The first float initializer of two axes or more that this node alone reads."""
    users = [i for n in m.graph.node for i in n.input]
    for t in m.graph.initializer:
        if t.name in node.input and users.count(t.name) == 1 and t.data_type == 1 and len(t.dims) > 1 and np.prod(
                t.dims) > 8:
            return t
    return None


def replace(m, t, a):
    t.CopyFrom(nh.from_array(np.ascontiguousarray(a), t.name))
    return True


def turned(m, node, rng):
    t = weight(m, node)
    if t is None or t.external_data:
        return False
    a = nh.to_array(t)
    return replace(m, t, a.T if a.ndim == 2 and a.shape[0] == a.shape[1] else a[::-1])


def cut(m, node, rng):
    t = weight(m, node)
    if t is None or t.external_data:
        return False
    a = nh.to_array(t)
    step = np.abs(a).max() / 4
    return replace(m, t, (np.round(a / step) * step).astype(np.float32))


def attribute(m, node, name, change):
    for a in node.attribute:
        if a.name == name:
            change(a)
            return True
    return False


def epsilon(m, node, rng):
    def change(a):
        a.f = a.f * 1000 + 0.5
    return node.op_type.endswith("Normalization") and attribute(m, node, "epsilon", change)


def axis(m, node, rng):
    def change(a):
        a.i = -2 if a.i != -2 else -1
    return node.op_type in ("Softmax", "LogSoftmax") and attribute(m, node, "axis", change)


def operator(m, node, rng):
    other = {
        "Relu": "Abs", "Add": "Sub", "Sigmoid": "Tanh", "Mul": "Add", "MaxPool": None, "Sub": "Add", "Tanh": "Sigmoid",
        "Erf": "Tanh"
    }.get(node.op_type)
    if other is None or any(a for a in node.attribute):
        return False
    node.op_type = other
    return True


FAULTS = [turned, cut, epsilon, axis, operator]


def plant(m, rng):
    """Makes one node wrong; its name, and what was done."""
    for _ in range(1000):
        fault = rng.choice(FAULTS)
        node = rng.choice(m.graph.node)
        if fault(m, node, rng):
            return node.name or node.output[0], f"{fault.__name__} of {node.op_type}"
    return None, None


# ---- trials

def bisect(good, bad, data, folder):
    args = [
        TGRUN, "bisect", bad, "--against", good, "--output-dir",
        os.path.join(folder, "part"), "--json", "-q", *data
    ]
    p = subprocess.run(args, capture_output=True, text=True, timeout=900)
    if p.returncode not in (0, 1):
        return None, p.stderr.strip()
    return json.loads(p.stdout), ""


def trial(path, data, rng, faulty):
    """True: right; None: the fault does not show in the outputs."""
    m = onnx.load(path)
    name, what = plant(m, rng) if faulty else (None, "no fault")
    if faulty and not name:
        return None
    with tempfile.TemporaryDirectory() as folder:
        bad = os.path.join(folder, "bad.onnx")
        onnx.save(m, bad)
        found, error = bisect(path, bad, data, folder)
        if found is None or (faulty and not found["ok"] and
                             found.get("node", {}).get("name") != name) or (not faulty and not found["ok"]):
            print(f"{path}: {what} at '{name}': {error or found.get('node')}")
            return False
        if faulty and found["ok"]:
            return None
        if faulty and not os.path.exists(os.path.join(folder, "part", "model.onnx")):
            print(f"{path}: {what}: no part was written")
            return False
    return True


def trials(paths, count, rng, faulty, data_of):
    done = right = 0
    for _ in range(20 * count):
        path = rng.choice(paths)
        result = trial(path, data_of(path), rng, faulty)
        done += result is not None
        right += bool(result)
        if done == count:
            break
    print(f"{right} of {count} {'planted faults are found' if faulty else 'pairs without a fault show none'}")
    return right == count


def main(argv):
    p = argparse.ArgumentParser()
    p.add_argument("folders", nargs="*")
    p.add_argument("--faults", type=int, default=12)
    p.add_argument("--clean", type=int, default=4)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args(argv)
    rng = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(f, "model.onnx") for f in a.folders]
        data_of = lambda path: ["--test-data", os.path.dirname(path)] if a.folders else []
        for kind in (0, 1) if not paths else ():
            paths.append(os.path.join(folder, f"small{kind}.onnx"))
            onnx.save(small(np.random.default_rng(kind), kind), paths[-1])
        good = trials(paths, a.faults, rng, True, data_of)
        return 0 if trials(paths, a.clean, rng, False, data_of) and good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
