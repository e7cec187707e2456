"""First runs: a model's kernels run as tgrun's own machine code at once, the C compiler's take their place between runs,
and both give what each alone gives. Without AVX2 there is nothing to test: the compiler is waited for."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from onnx import TensorProto, helper as h, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import tgrun

rng = np.random.default_rng(3)
F = TensorProto.FLOAT

def constant(name, *shape):
    return numpy_helper.from_array((0.2 * rng.standard_normal(shape)).astype(np.float32), name)

def network():
    nodes = [
        h.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"]),
        h.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Flatten", ["p"], ["f"]),
        h.make_node("Gemm", ["f", "v", "d"], ["g"]),
        h.make_node("Softmax", ["g"], ["y"])
    ]
    port = h.make_tensor_value_info
    graph = h.make_graph(nodes, "first", [port("x", F, [1, 3, 32, 32])], [port("y", F, [1, 10])],
                         [constant("w", 24, 3, 3, 3), constant("b", 24), constant("v", 6144, 10), constant("d", 10)])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9).SerializeToString()

def layers(count):
    """As many products of different widths: a kernel each."""
    widths = [24 + 8 * k for k in range(count + 1)]
    nodes = [node for k in range(count) for node in (h.make_node("MatMul", [f"x{k}", f"w{k}"], [f"m{k}"]),
                                                      h.make_node("Tanh", [f"m{k}"], [f"x{k + 1}"]))]
    port = h.make_tensor_value_info
    graph = h.make_graph(nodes, "layers", [port("x0", F, [7, widths[0]])], [port(f"x{count}", F, [7, widths[-1]])],
                         [constant(f"w{k}", widths[k], widths[k + 1]) for k in range(count)])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9).SerializeToString()

def options(compiler, cache):
    o = tgrun.SessionOptions()
    o.compiler, o.cache_dir, o.intra_op_num_threads = compiler, cache, 2
    return o

def fails(f, *words):
    try:
        f()
    except Exception as e:
        assert all(w in str(e) for w in words), f"{e} lacks one of {words}"
        return
    raise AssertionError(f"nothing was refused that should name {words}")

def left():
    return glob.glob(os.path.join(tempfile.gettempdir(), f"tgrun-cc-{os.getpid()}-*"))

def reduced(op, values, cache):
    t = h.np_dtype_to_tensor_dtype(values.dtype)
    out = TensorProto.INT64 if op.startswith("Arg") else t
    port = h.make_tensor_value_info
    graph = h.make_graph([h.make_node(op, ["x"], ["y"], keepdims=0)], "g", [port("x", t, values.shape)],
                         [port("y", out, None)])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9).SerializeToString()
    s = tgrun.InferenceSession(m, options("own", cache), providers=["CPUExecutionProvider"])
    return s.run(None, {"x": values})[0]

model, x = network(), rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
run = lambda s: s.run(None, {"x": x})[0]
open_cpu = lambda compiler, cache: tgrun.InferenceSession(model, options(compiler, cache), providers=["CPUExecutionProvider"])

with tempfile.TemporaryDirectory() as folder:
    want = run(open_cpu("cc", os.path.join(folder, "cc")))
    fails(lambda: run(open_cpu("tcc", folder)), "compiler", "tcc", "own")
    try:
        own = run(open_cpu("own", os.path.join(folder, "own")))
    except Exception as e:
        assert "AVX2" in str(e), e
        print("1 passed, 0 failed, 1 skipped")
        sys.exit(0)
    np.testing.assert_allclose(own, want, rtol=1e-5)
    assert not os.path.exists(os.path.join(folder, "own", "cpu")), "own code was put into the compiler's cache"

    # the first runs are own code, the last ones the compiler's
    cache = os.path.join(folder, "auto")
    plain = os.environ.get("CC")
    if not plain and shutil.which("gcc"):
        os.environ["CC"] = "env gcc"                             # several words
    session = open_cpu("auto", cache)
    first, begin = run(session), time.time()
    np.testing.assert_array_equal(first, own)
    last = first
    while (not glob.glob(os.path.join(cache, "cpu-index", "*")) or left()) and time.time() - begin < 60:
        last = run(session)
        np.testing.assert_allclose(last, want, rtol=1e-5)
        time.sleep(0.01)
    time.sleep(0.1)
    for _ in range(3):
        last = run(session)
    np.testing.assert_array_equal(last, want)
    np.testing.assert_array_equal(run(open_cpu("auto", cache)), want)        # from the cache at once
    if not plain:
        os.environ.pop("CC", None)

    # reductions across the lanes of a vector of integers
    for t in (np.uint64, np.int64, np.uint32, np.int32):
        for n in (2, 8):
            v = np.array([300 - 7 * k for k in range(n)], t)
            for op, of in (("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceSum", np.sum)):
                assert reduced(op, v, cache) == of(v), (op, v)
            assert reduced("ArgMin", np.ones(n, t), cache) == 0, (t, n)

    # threads that open sessions at the same time make their kernels at the same time
    many, input7 = layers(24), rng.standard_normal((7, 24)).astype(np.float32)
    outputs = []
    def opens():
        for _ in range(4):
            session = tgrun.InferenceSession(many, options("own", ""), providers=["CPUExecutionProvider"])
            outputs.append(session.run(None, {"x0": input7})[0])
    threads = [threading.Thread(target=opens) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outputs) == 24
    for y in outputs:
        np.testing.assert_array_equal(y, outputs[0])

    # a time limit that is over while they are made is an error, whatever is made then
    more, over = layers(80), 0
    for k in range(30):
        o = options("own", "")
        o.call_limit_s = 0.002 + 0.006 * k
        try:
            session = tgrun.InferenceSession(more, o, providers=["CPUExecutionProvider"])
            session.run(None, {"x0": input7})
        except tgrun.OverTime:
            over += 1
    assert over > 0

    # a session that ends while its kernels are compiled leaves nothing behind
    for k in range(8):
        session = open_cpu("auto", os.path.join(folder, f"ended{k}"))
        np.testing.assert_array_equal(run(session), own)
        time.sleep(0.01 * k)
        del session
    assert not left(), left()

    # without a compiler own code serves
    code = ("import numpy as np, sys; sys.path.insert(0, sys.argv[1]); import tgrun; o = tgrun.SessionOptions()\n"
            "o.compiler, o.cache_dir = 'auto', sys.argv[2]\n"
            "s = tgrun.InferenceSession(sys.argv[3], o, providers=['CPUExecutionProvider'])\n"
            "np.save(sys.argv[5], s.run(None, {'x': np.load(sys.argv[4])})[0])\n")
    paths = [os.path.join(folder, n) for n in ("none", "m.onnx", "x.npy", "y.npy")]
    with open(paths[1], "wb") as file:
        file.write(model)
    np.save(paths[2], x)
    subprocess.run([sys.executable, "-c", code, os.path.dirname(os.path.dirname(tgrun.__file__))] + paths, check=True,
                   env={k: v for k, v in os.environ.items() if k != "CC"} | {"PATH": "/nonexistent"})
    np.testing.assert_allclose(np.load(paths[3]), want, rtol=1e-5)
print("9 passed, 0 failed")
