#!/usr/bin/env python3
"""Chains of 1,000 and 10,000 nodes, of operators that do not fold and of those that need kernels of their own: from
model to plan the time grows about linearly, the plain stack of 8 MiB is enough and memory is no more than KIB a node;
the longer chain's value is right. With a number as argument: that many nodes are the longer chain (100000 is what the
notes' figures are for)."""
import os, resource, subprocess, sys, tempfile
import numpy as np
import onnx
from onnx import helper as h, numpy_helper, TensorProto as T

CHAINS = {
    "element-wise": (["Tanh", "Neg", "Relu", "Sin", "Cos"], 64), "rows": (["Softmax", "Tanh"], 64), "products":
    (["MatMul", "Tanh"], 8)
}
GROWTH = 3          # of the time a node, from the short chain to the long one
KIB = 36            # of memory a node


def weight(size):
    return np.eye(size, dtype=np.float32)[::-1] * 1.5


def chain(path, n, ops, size):
    names = ["x"] + [f"v{i}" for i in range(n - 1)] + ["y"]
    nodes = [
        h.make_node(ops[i % len(ops)], [names[i], "w"] if ops[i % len(ops)] == "MatMul" else [names[i]], [names[i + 1]])
        for i in range(n)
    ]
    port = lambda name: h.make_tensor_value_info(name, T.FLOAT, [size])
    onnx.save(
        h.make_model(
            h.make_graph(nodes, "chain", [port("x")], [port("y")], [numpy_helper.from_array(weight(size), "w")]),
            opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def want(x, n, ops):
    softmax = lambda v: np.exp(v - v.max()) / np.exp(v - v.max()).sum()
    fn = {
        "Tanh": np.tanh, "Neg": np.negative, "Relu": lambda v: np.maximum(v, 0), "Sin": np.sin, "Cos": np.cos,
        "Softmax": softmax, "MatMul": lambda v: v @ weight(len(v))
    }
    x = x.astype(np.float64)
    for i in range(n):
        x = fn[ops[i % len(ops)]](x)
    return x


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))


def run(*args):
    """Seconds of processor time and the highest KiB of memory; the program's failure is ours."""
    with tempfile.TemporaryFile() as said:
        p = subprocess.Popen([os.environ["TGRUN_PROGRAM"], *args], stdout=subprocess.DEVNULL, stderr=said,
                             preexec_fn=small_stack)
        _, status, usage = os.wait4(p.pid, 0)
        said.seek(0)
        if status:
            sys.exit(
                f"tgrun {' '.join(args)}: exit {os.waitstatus_to_exitcode(status)}: {said.read().decode(errors='replace').strip()[-300:]}"
            )
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def check(folder, title, n):
    ops, size = CHAINS[title]
    used = []
    for count in (n // 10, n):
        path = os.path.join(folder, f"{count}.onnx")
        chain(path, count, ops, size)
        used.append(run("dump", path, "--stage", "plan", "-d", "cpu"))
    (short, least), (long, most) = used
    growth, kib = long / 10 / max(short, 0.05), (most - least) / (n - n // 10)
    print(
        f"{title}: {n // 10} nodes {short:.2f} s, {n} nodes {long:.2f} s: {growth:.2f} times the time a node; {kib:.1f} KiB of memory a node"
    )
    x = np.linspace(-1, 1, size, dtype=np.float32)
    np.save(os.path.join(folder, "x.npy"), x)
    np.save(os.path.join(folder, "want.npy"), want(x, n // 10, ops).astype(np.float32))
    run(os.path.join(folder, f"{n // 10}.onnx"), "-i", os.path.join(folder, "x.npy"), "-e",
        os.path.join(folder, "want.npy"), "--rtol", "1e-3", "--atol", "1e-5", "--runs", "1", "-d", "cpu", "-q",
        "--cache-dir", os.path.join(folder, "cache"))
    return growth <= GROWTH and kib <= KIB


with tempfile.TemporaryDirectory() as folder:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    sys.exit(0 if all([check(folder, title, n) for title in CHAINS]) else "time or memory a node is too much")
