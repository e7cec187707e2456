"""Ten small models in which each request for memory may be refused (no_memory.c). NO_MEMORY_TRIES says how many of them
are, for each model and device (0: all), NO_MEMORY_SEED where the first lies."""
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

TRIES = os.environ.get("NO_MEMORY_TRIES", "10" if os.environ.get("SANITIZED") else "30")
SEED = os.environ.get("NO_MEMORY_SEED", time.strftime("%Y%m%d"))


def weight(name, *shape):
    values = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return numpy_helper.from_array(values, name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def value(name, shape=None, dtype=T.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def conv():
    return [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["y"])], [value("x", ["n", 3, 8, 8])], [weight("w", 8, 3, 3, 3)]


def attention():
    return [helper.make_node("MatMul", ["x", "w"], ["q"]), helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["q", "t"], ["s"]), helper.make_node("Softmax", ["s"], ["p"]),
            helper.make_node("MatMul", ["p", "x"], ["y"])], [value("x", ["n", 16])], [weight("w", 16, 16)]


def recurrent():
    return [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8)], [value("x", ["n", 1, 4])], \
        [weight("w", 1, 32, 4), weight("r", 1, 32, 8)]


def loop():
    body = helper.make_graph([helper.make_node("Add", ["s", "one"], ["t"]), helper.make_node("Identity", ["go"], ["on"]),
                              helper.make_node("Identity", ["t"], ["row"])], "body",
                             [value("i", [], T.INT64), value("go", [], T.BOOL), value("s", [2])],
                             [value("on", [], T.BOOL), value("t", [2]), value("row", [2])], [weight("one", 2)])
    return [helper.make_node("Size", ["x"], ["trip"]), helper.make_node("Loop", ["trip", "", "zero"], ["y", "rows"], body=body)], \
        [value("x", ["n"])], [weight("zero", 2)]


def growing():
    """A sequence that grows by iterations: a session inside."""
    body = helper.make_graph([helper.make_node("Slice", ["x", "zero", "end"], ["part"]), helper.make_node("Add", ["i1", "one"], ["end"]),
                              helper.make_node("Reshape", ["i", "one"], ["i1"]), helper.make_node("SequenceInsert", ["s", "part"], ["t"]),
                              helper.make_node("Identity", ["go"], ["on"])], "body",
                             [value("i", [], T.INT64), value("go", [], T.BOOL),
                              helper.make_tensor_sequence_value_info("s", T.FLOAT, None)],
                             [value("on", [], T.BOOL), helper.make_tensor_sequence_value_info("t", T.FLOAT, None)],
                             [ints("zero", 0), ints("one", 1)])
    body.node[0].input[2] = "end"
    nodes = list(body.node)
    del body.node[:]
    body.node.extend([nodes[2], nodes[1], nodes[0], nodes[3], nodes[4]])
    return [helper.make_node("SequenceEmpty", [], ["none"]), helper.make_node("Size", ["x"], ["trip"]),
            helper.make_node("Loop", ["trip", "", "none"], ["all"], body=body),
            helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0)], [value("x", ["n"])], []


def branches():
    def graph(op):
        return helper.make_graph([helper.make_node(op, ["x"], ["z"])], op, [], [value("z", ["n"])])
    return [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "limit"], ["c"]),
            helper.make_node("If", ["c"], ["y"], then_branch=graph("Exp"), else_branch=graph("Neg"))], [value("x", ["n"])], \
        [numpy_helper.from_array(np.float32(0), "limit")]


def data_sized():
    return [helper.make_node("NonZero", ["x"], ["where"]), helper.make_node("Transpose", ["where"], ["t"]),
            helper.make_node("GatherND", ["x", "t"], ["found"]), helper.make_node("TopK", ["x", "k"], ["y", "i"])], \
        [value("x", ["n"])], [ints("k", 2)]


def shape_of_data():
    """A size that an input's data say: a program of its own answers."""
    return [helper.make_node("ReduceSum", ["x"], ["n"], keepdims=1), helper.make_node("Range", ["zero", "n0", "one"], ["r"]),
            helper.make_node("Squeeze", ["n"], ["n0"]), helper.make_node("Cast", ["r"], ["y"], to=T.FLOAT)], \
        [value("x", ["n"], T.INT64)], [numpy_helper.from_array(np.int64(0), "zero"), numpy_helper.from_array(np.int64(1), "one")]


def strings():
    return [helper.make_node("StringNormalizer", ["x"], ["low"], case_change_action="LOWER"),
            helper.make_node("RegexFullMatch", ["low"], ["m"], pattern="[a-z ]+"),
            helper.make_node("StringSplit", ["low"], ["y", "count"], delimiter=" ")], [value("x", ["n"], T.STRING)], []


def quantised():
    return [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            helper.make_node("MatMulInteger", ["q", "w", "z"], ["p"]), helper.make_node("Cast", ["p"], ["f"], to=T.FLOAT),
            helper.make_node("Mul", ["f", "s"], ["y"])], [value("x", ["n", 64])], \
        [numpy_helper.from_array((np.arange(64 * 32) % 17 - 8).astype(np.int8).reshape(64, 32), "w")]


# a compiler's processes take long; without +, programs are kept, and not made
WAYS = [("reference", "", 1), ("cpu", "own", 1), ("cpu", "own+", 1), ("cpu", "cc", 1), ("cpu", "cc+", 20), ("cpu", "auto+", 20)]
EMULATOR = os.environ.get("CUDA_EMULATOR") if shutil.which("g++") else None
if EMULATOR:
    WAYS.append(("cuda", "", 10))
MODELS = [conv, attention, recurrent, loop, growing, branches, data_sized, shape_of_data, strings, quantised]


def build(make, path):
    nodes, inputs, weights = make()
    if make is shape_of_data:
        nodes = [nodes[0], nodes[2], nodes[1], nodes[3]]
    sub = {i for n in nodes for i in n.input}
    made = [o for n in nodes for o in n.output if o]
    outputs = [onnx.ValueInfoProto(name=o) for o in made if o not in sub]
    model = helper.make_model(helper.make_graph(nodes, make.__name__, inputs, outputs, weights),
                              opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


@functools.cache
def has_own():
    """Does tgrun write machine code of its own for this processor?"""
    said = subprocess.run([os.environ["TGRUN_PROGRAM"], "env", "--json"], capture_output=True, text=True, check=True)
    features = json.loads(said.stdout)["devices"][0]["features"]
    return "avx512" in features or "avx2 fma" in features


def main():
    program = os.path.join(os.environ["BUILD_DIR"], "no_memory")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"))
        if EMULATOR:
            env.update(TGRUN_LIBCUDA=EMULATOR, TGRUN_NVRTC=EMULATOR)
        for make in MODELS:
            path = os.path.join(folder, make.__name__ + ".onnx")
            build(make, path)
            for device, compiler, share in WAYS:
                if compiler.startswith("own") and not has_own():
                    continue                                                    # said below
                tries = str(max(1, int(TRIES) // share) if int(TRIES) else 0)
                run = subprocess.run([program, device, compiler, tries, SEED, path], env=env,
                                     stderr=subprocess.PIPE, text=True)
                if run.returncode:
                    why = f"exit {run.returncode}: {run.stderr[-2000:]}"
                    failed.append(f"{make.__name__} on {device} {compiler}: {why}")
    if not has_own():
        print("skipped: own, this processor has no AVX2")
    print("\n".join([*failed, f"{len(MODELS)} models, {len(failed)} failed, seed {SEED}"]))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
