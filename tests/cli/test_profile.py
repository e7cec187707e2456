#!/usr/bin/env python3
"""`tgrun profile`: every node that computes belongs to a row, no row names a node twice, and the rows' times are those
of the kernels. Networks of test_bisect.py, or FOLDER... of the zoo."""
import json, os, subprocess, sys, tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
COMPUTE = {
    "Conv", "MatMul", "Gemm", "Softmax", "LayerNormalization", "Relu", "Add", "Mul", "Sigmoid", "GlobalAveragePool",
    "TopK", "NonZero", "Gelu"
}


def look(path, data):
    import onnx
    p = subprocess.run([os.environ["TGRUN_PROGRAM"], "profile", path, "--json", "-q", *data], capture_output=True,
                       text=True, timeout=600)
    if p.returncode:
        return [p.stderr.strip()]
    j = json.loads(p.stdout)
    m = onnx.load(path, load_external_data=False)
    seen = {n["name"] for row in j["nodes"] for n in row["nodes"]}
    constant = {t.name for t in m.graph.initializer}
    bad = []
    for n in m.graph.node:
        if all(not i or i in constant for i in n.input):
            constant.update(n.output)
        elif n.op_type in COMPUTE and n.name not in seen:
            bad.append(f"node '{n.name}' ({n.op_type}) is in no row")
    for row in j["nodes"]:
        if len({n["index"] for n in row["nodes"]}) != len(row["nodes"]):
            bad.append(f"a row names a node twice: {row}")
        # what a sum is made of (Winograd's tiles) belongs to its own node
        if {"first", "last"} <= {n["name"] for n in row["nodes"]}:
            bad.append(f"a row names both ends of the network: {row}")
    kernels = sum(k["run_seconds"] for k in j["kernels"])
    nodes = sum(r["run_seconds"] for r in j["nodes"] if r["kernel"])
    if not 0.5 * kernels <= nodes <= 1.5 * kernels:
        bad.append(f"kernels take {kernels:.6f} s, rows of nodes {nodes:.6f}")
    return bad


def tiles(rng):
    """Convolutions that tiles of windows make, and a head."""
    import numpy as np
    from onnx import helper as h, numpy_helper as nh
    from test_bisect import model
    w = [nh.from_array(rng.normal(0, 0.1, (64, 64, 3, 3)).astype(np.float32), f"w{k}") for k in (0, 1)]
    return model([
        h.make_node("Conv", ["x", "w0"], ["a"], name="first", pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["a"], ["b"], name="relu"),
        h.make_node("Conv", ["b", "w1"], ["c"], name="second", pads=[1, 1, 1, 1]),
        h.make_node("GlobalAveragePool", ["c"], ["d"], name="pool"),
        h.make_node("Softmax", ["d"], ["y"], name="last", axis=1)
    ], w, [1, 64, 56, 56], ["y"])


def main(folders):
    import numpy as np, onnx
    from test_bisect import small
    networks = [lambda rng: small(rng, 0), lambda rng: small(rng, 1), tiles]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(f, "model.onnx") for f in folders]
        for kind, network in enumerate(networks) if not paths else ():
            paths.append(os.path.join(folder, f"small{kind}.onnx"))
            onnx.save(network(np.random.default_rng(kind)), paths[-1])
        for path in paths:
            wrong = look(path, ["--test-data", os.path.dirname(path)] if folders else [])
            bad += bool(wrong)
            for line in wrong[:10]:
                print(f"{path}: {line}")
    print(f"{len(paths) - bad} of {len(paths)} profiles name every node that computes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
