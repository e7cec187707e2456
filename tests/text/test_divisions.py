#!/usr/bin/env python3
"""No index is divided inside a REDUCE or UPCAST range: dumps after optimize of the networks named below, from
TGRUN_MODELS (DIR[:DIR..]) where it has them, else the light models of the onnx package of the same name, and of small
layers that tempt (a strided convolution, a reshaped and transposed matrix product, attention's heads, pixel shuffle,
windows rolled). A division that only GLOBAL, THREAD and LOOP ranges reach costs one an iteration of these and is
allowed; one of UPCAST and UNROLL ranges alone is a constant once they are expanded. Of loops that MERGE made one the rows
of a tile (UPCAST) have a division each, outside of every REDUCE. EXCEPTIONS lists what remains, with the reason."""
import os, re, subprocess, sys, tempfile
import onnx
from onnx import helper as h, numpy_helper, TensorProto as T
import numpy as np

NETWORKS = ["resnet50", "mobilenet_v2", "swin_t"]
INSIDE = {"R": "REDUCE", "G": "GROUP_REDUCE", "u": "UPCAST", "r": "UNROLL"}
# (model, pattern of the kernel's name): why
EXCEPTIONS = {
    ("swin_t", "e_64_49_.*"): "what a rolled picture's windows may not see: the 49 places of a window of 7 rows lie in lanes of 16, which end inside of a row: one small kernel without a reduce",
    ("swin_t", "r_64_3_49_49_32_.*"): "adds that mask behind the sum: the row of each of 49 places is found once a tile of lanes, outside of the loop over k",
}
NODE = re.compile(r"^%(\d+) = (\w+)\.(\w+)([^#]*)")


def divisions(text):
    """(kernel, what divides, the axis types it depends on) of each IDIV and MOD of an index inside of a reduce or of
    lanes."""
    kernel, reached, merged = "", {}, False
    for line in text.splitlines():
        if line.startswith("kernel "):
            kernel, reached, merged = line.split()[1], {}, "MERGE" in line
        m = NODE.match(line)
        if not m:
            continue
        number, op, dtype, rest = m.groups()
        sources = re.findall(r"%(\d+)", rest)
        mine = set().union(*(reached.get(s, set()) for s in sources)) if op != "REDUCE" else set()
        if op == "RANGE":
            mine = {rest.split()[-1]}
        reached[number] = mine
        inside = mine & set(INSIDE) if mine - set("ur") else set()
        if op in ("IDIV", "MOD") and dtype == "index" and inside and not (merged and inside == {"u"}):
            yield kernel, op, ", ".join(sorted(INSIDE[a] for a in inside))


def dump(path):
    p = subprocess.run([os.environ["TGRUN_PROGRAM"], "dump", path, "--stage", "optimize", "-d", "cpu"],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if p.returncode:
        sys.exit(f"{path}: {p.stderr.decode(errors='replace').strip()}")
    return p.stdout.decode()


def network(name):
    """A zoo's model, or the package's light one; None where neither has it."""
    for top in filter(None, os.environ.get("TGRUN_MODELS", "").split(":")):
        path = os.path.join(top, name, "model.onnx")
        if os.path.exists(path):
            return path
    path = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", f"light_{name}.onnx")
    return path if os.path.exists(path) else None


def layer(folder, name, nodes, shape, **constants):
    given = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    g = h.make_graph([h.make_node(op, i.split(), [o], **a) for op, i, o, a in nodes], name,
                     [h.make_tensor_value_info("x", T.FLOAT, shape)], [h.make_tensor_value_info("y", T.FLOAT, None)],
                     given)
    path = os.path.join(folder, name + ".onnx")
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


def layers(folder):
    w = lambda *shape: np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    yield layer(folder, "strided",
                [("Conv", "x w b", "c", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
                 ("Relu", "c", "y", {})], [1, 16, 28, 28], w=w(32, 16, 3, 3), b=w(32))
    yield layer(folder, "heads", [("MatMul", "x w", "q", {}), ("Reshape", "q s", "r", {}),
                                  ("Transpose", "r", "t", dict(perm=[0, 2, 1, 3])),
                                  ("Transpose", "r", "k", dict(perm=[0, 2, 3, 1])), ("MatMul", "t k", "p", {}),
                                  ("Softmax", "p", "f", {}), ("MatMul", "f t", "o", {}),
                                  ("Transpose", "o", "u", dict(perm=[0, 2, 1, 3])), ("Reshape", "u z", "v", {}),
                                  ("MatMul", "v w", "y", {})], [1, 48, 64], w=w(64, 64), s=np.array([1, 48, 4, 16]),
                z=np.array([1, 48, 64]))
    yield layer(folder, "shuffle", [("Conv", "x w", "c", dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])),
                                    ("DepthToSpace", "c", "y", dict(blocksize=2))], [1, 8, 16, 16], w=w(32, 8, 3, 3))
    yield layer(folder, "channels", [("Reshape", "x s", "r", {}), ("Transpose", "r", "t", dict(perm=[0, 2, 1, 3, 4])),
                                     ("Reshape", "t z", "v", {}), ("Conv", "v w", "y", dict(kernel_shape=[1, 1]))],
                [1, 32, 14, 14], s=np.array([1, 2, 16, 14, 14]), z=np.array([1, 32, 14, 14]), w=w(32, 32, 1, 1))
    yield layer(folder, "embedding", [("ReduceMean", "x", "m", dict(axes=[1], keepdims=1)), ("Sub", "x m", "d", {}),
                                      ("Reshape", "d s", "r", {}), ("MatMul", "r w", "y", {})], [1, 49, 96],
                s=np.array([7, 7, 96]), w=w(96, 32))


def check(path, name):
    text = dump(path)
    found = {}
    for kernel, op, inside in divisions(text):
        if not any(re.fullmatch(model, name) and re.fullmatch(pattern, kernel) for model, pattern in EXCEPTIONS):
            found.setdefault((kernel, inside), []).append(op)
    print(f"{name}: {text.count(chr(10) + 'kernel ') + 1} kernels, {len(found)} with divisions inside")
    for (kernel, inside), ops in found.items():
        print(f"    {kernel}: {' '.join(ops)} inside {inside}")
    return not found


with tempfile.TemporaryDirectory() as folder:
    paths = [(network(n), n) for n in NETWORKS] + [(p, os.path.basename(p)[:-5]) for p in layers(folder)]
    sys.exit(0 if all([check(p, n) for p, n in paths if p]) else 1)
