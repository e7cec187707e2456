"""--batch: a model of one sample on many gives what each sample gives alone: at once where its graph is mapped, one after
another where an op or a size differs from sample to sample."""
import os
import sys

import numpy as np

from onnx import TensorProto, helper as h, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

N = 4
rng = np.random.default_rng(5)
F, I = TensorProto.FLOAT, TensorProto.INT64

def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)

def model(nodes, inputs, outputs, init=(), opset=18):
    port = lambda name, kind, shape: h.make_tensor_value_info(name, kind, shape)
    graph = h.make_graph(nodes, "g", [port(*i) for i in inputs], [port(*o) for o in outputs], list(init))
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=9)
    return m.SerializeToString()

def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)

def body(name, steps):
    """A loop that doubles its state as often as n says."""
    return h.make_graph([h.make_node("Identity", ["c"], ["d"]), h.make_node("Add", ["s", "s"], ["t"])], name, [
        h.make_tensor_value_info("i", I, []), h.make_tensor_value_info("c", TensorProto.BOOL, []),
        h.make_tensor_value_info("s", F, [3])
    ], [h.make_tensor_value_info("d", TensorProto.BOOL, []), h.make_tensor_value_info("t", F, [3])])

node = h.make_node
CASES = {       # name: (model, one sample's inputs by name, how many samples at once; None: shared)
    "a picture": (model([
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["p"]), node("Reshape", ["p", "flat"], ["q"]), node("MatMul", ["q", "m"], ["y"])
    ], [("x", F, [1, 3, 9, 9])], [("y", F, [1, 5])], [constant("w", f(8, 3, 3, 3)), constant("b", f(8)),
                                                     constant("m", f(8, 5)), constant("flat", np.array([1, 8]))]),
                  dict(x=lambda: f(1, 3, 9, 9)), True),
    "a new axis": (model([node("MatMul", ["x", "x"], ["z"]), node("Softmax", ["z"], ["y"])], [("x", F, [4, 4])],
                         [("y", F, [4, 4])]), dict(x=lambda: f(4, 4)), True),
    "one number": (model([node("Exp", ["x"], ["y"])], [("x", F, [])], [("y", F, [])]), dict(x=lambda: f()), True),
    "a table": (model([node("Gather", ["t", "i"], ["z"]), node("ReduceMean", ["z"], ["y"], keepdims=0)],
                      [("i", I, [1, 6])], [("y", F, [])], [constant("t", f(10, 3))]),
                dict(i=lambda: rng.integers(-10, 10, (1, 6))), True),
    "its own rows": (model([node("GatherElements", ["x", "i"], ["z"], axis=1), node("TopK", ["z", "k"], ["y", "at"])],
                           [("x", F, [1, 7]), ("i", I, [1, 5])], [("y", F, [1, 2]), ("at", I, [1, 2])],
                           [constant("k", np.array([2]))]),
                     dict(x=lambda: f(1, 7), i=lambda: rng.integers(0, 7, (1, 5))), None),
    "shared": (model([node("MatMul", ["x", "w"], ["y"])], [("x", F, [2, 3]), ("w", F, [3, 2])], [("y", F, [2, 2])]),
               dict(x=lambda: f(2, 3), w=None), True),
    "a loop": (model([node("Loop", ["n", "go", "x"], ["y"], body=body("b", 3))], [("n", I, []), ("x", F, [3])],
                     [("y", F, [3])], [constant("go", np.array(True))]),
               dict(n=lambda: rng.integers(0, 5, ()), x=lambda: f(3)), False),
    "a size of data": (model([node("Reshape", ["x", "s"], ["y"])], [("x", F, [1, 6]), ("s", I, [2])], [("y", F, None)]),
                       dict(x=lambda: f(1, 6), s=lambda: np.array([2, 3])), False),
    "text": (model([node("StringConcat", ["a", "b"], ["y"])], [("a", TensorProto.STRING, [1, 2]),
                                                             ("b", TensorProto.STRING, [1, 2])],
                   [("y", TensorProto.STRING, [1, 2])], opset=20),
             dict(a=lambda: np.array([["p", "q"]], object), b=lambda: np.array([["r", "s"]], object)), None),
}

def gathered(samples):
    return np.concatenate(samples) if samples[0].ndim and len(samples[0]) == 1 else np.stack(samples)

def check(name, data, draw, at_once, device):
    shared = {k: f(3, 2) for k, d in draw.items() if d is None}
    samples = [{k: np.asarray(d()) for k, d in draw.items() if d} for _ in range(N)]
    options = tgrun.SessionOptions()
    options.batch = N
    if shared:
        options.batch_inputs = ",".join(k for k, d in draw.items() if d)
    many = tgrun.InferenceSession(data, options, providers=[device])
    one = tgrun.InferenceSession(data, providers=[device])
    feed = {k: gathered([s[k] for s in samples]) for k in samples[0]}
    for x in many.get_inputs():
        assert x.name in shared or list(x.shape) == list(feed[x.name].shape), (name, x.shape)
    for _ in range(2):
        got = many.run(None, feed | shared)
        for k, y in enumerate(got):
            want = gathered([one.run(None, s | shared)[k] for s in samples])
            assert y.shape == want.shape and y.dtype == want.dtype, (name, y.shape, want.shape)
            close = np.array_equal(y, want) if y.dtype.kind != "f" else np.allclose(y, want, 1e-5, 1e-6)
            assert close, (name, y, want)
    serial = many.get_stats()["serial"]
    assert at_once is None or bool(serial) != at_once, (name, serial)

def refused(what, data, wanted, **options):
    o = tgrun.SessionOptions()
    for k, v in options.items():
        setattr(o, k, v)
    try:
        session = tgrun.InferenceSession(data, o)
        session.run(None, {x.name: f(2, 3, 9, 9) for x in session.get_inputs()})
    except Exception as e:
        assert wanted in str(e), (what, str(e))
        return 1
    raise AssertionError(f"{what} is not refused")

def main():
    count = 0
    for device in ("CPUExecutionProvider", ):
        for name, case in CASES.items():
            check(name, *case, device)
            count += 1
    picture, free = CASES["a picture"][0], model([node("Relu", ["x"], ["y"])], [("x", F, ["b", 3])], [("y", F, None)])
    count += refused("a negative batch", picture, "batch: -1 is negative", batch=-1)
    count += refused("another size", picture, "'x': axis 0 is 2; the batch is 3", batch=3)
    count += refused("a free axis", free, "batch: axis 0 of input 'x' is free", batch=3)
    count += refused("an unknown input", picture, "batch_inputs: the model has no input 'z'", batch=3, batch_inputs="x,z")
    count += refused("inputs without a batch", picture, "batch_inputs: there is no batch", batch_inputs="x")
    count += refused("varying sizes", free, "batch: sizes that vary do not go with it", batch=3, dims="b=1..8")
    print(f"{count} of {count} batches are as their samples")

if __name__ == "__main__":
    main()
