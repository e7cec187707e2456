"""Sums keep the bits of their terms: a term that is a sum itself is added up before it meets the rest, however the loop
is unrolled and in lanes. Against f64, in units of what a sum of f32 may lose. Reduces of few results over many elements
are made in parts, by several kernels, and have the same bits with one thread and with several."""
import os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import tgrun

ROWS, COLUMNS = 3508, 256


def run(nodes, feed, shape):
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feed.items()]
    axis = numpy_helper.from_array(np.array([0]), "axis")
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return tgrun.InferenceSession(model.SerializeToString(), device="cpu").run(None, feed)[0]


def constant_term(x, _):
    """A sum of x + c, over and over the same c: a log-softmax's."""
    exact = x.astype("f8") - x.max(0)
    exact -= np.log(np.exp(exact).sum(0))
    return [helper.make_node("LogSoftmax", ["x"], ["a"], axis=0), helper.make_node("ReduceMean", ["a", "axis"], ["y"])], {
        "x": x
    }, exact.mean(0, keepdims=True), 3e-5


def differences(x, z):
    """A sum of what is left when two large numbers cancel."""
    a = x + np.float32(1 << 14)
    b = a + z * np.float32(0.01)
    return [helper.make_node("Sub", ["a", "b"], ["d"]), helper.make_node("ReduceSum", ["d", "axis"], ["y"])], {
        "a": a, "b": b
    }, (a.astype("f8") - b).sum(0, keepdims=True), 1e-3


def products(x, z):
    """A sum of x * z - x: not in parts."""
    a = x + np.float32(1 << 12)
    b = z * np.float32(0.001) + np.float32(1)
    return [helper.make_node("Mul", ["a", "b"], ["p"]), helper.make_node("Sub", ["p", "a"], ["d"]),
            helper.make_node("ReduceSum", ["d", "axis"], ["y"])], {
                "a": a, "b": b
            }, (a.astype("f8") * b - a).sum(0, keepdims=True), 5e-3


def long_reduces(rng):
    """How many are wrong. 131071 is prime: nothing cuts it; a tenth of a million elements are too few."""
    wrong = 0
    for shape, axes, kernels in (([1 << 18], [0], 2), ([3, 200000], [1], 2), ([150000, 8], [0], 2),
                                 ([600, 700], [0, 1], 2), ([2, 128, 3, 500], [1, 3], 2), ([131071, 2], [0], 1), ([1000, 100], [0], 1)):
        x = rng.standard_normal(shape).astype("f4")
        for op, exact in (("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMean", np.mean),
                          ("ReduceL2", lambda v, axis: np.sqrt((v * v).sum(axis)))):
            graph = helper.make_graph([helper.make_node(op, ["x", "a"], ["y"], keepdims=0)], "g",
                                      [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                      [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                      [numpy_helper.from_array(np.array(axes), "a")])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
            got, made = [], 0
            for threads in (1, 2, 0):
                options = tgrun.SessionOptions()
                options.intra_op_num_threads = threads
                session = tgrun.InferenceSession(model.SerializeToString(), options, device="cpu")
                got.append(session.run(None, {"x": x})[0])
                made = session.get_info().kernels
            want = exact(x.astype("f8"), axis=tuple(axes))
            near = np.abs(got[0] - want).max() <= 2e-6 * np.abs(x).astype("f8").sum(tuple(axes)).max()
            same = all(v.tobytes() == got[0].tobytes() for v in got)
            wrong += not (near and same and made == kernels)
            if not (near and same and made == kernels):
                print(f"{op} of {shape} over {axes}: near {near}, same bits {same}, {made} kernels, not {kernels}   WRONG")
    return wrong


def main():
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal((2, ROWS, COLUMNS)).astype("f4")
    wrong = 0
    for case in (constant_term, differences, products):
        nodes, feed, exact, most = case(x, z)
        error = np.abs(run(nodes, feed, [1, COLUMNS]) - exact).max()
        wrong += error > most
        print(f"{case.__name__:16} error {error:.2e}, at most {most:.0e}{'' if error <= most else '   WRONG'}")
    wrong += long_reduces(rng)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
