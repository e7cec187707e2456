"""Decoders whose cache grows by a token at each run: what numpy computes, and one program for all lengths
(tg_program_count)."""
import os
import sys
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

WIDTH, HEADS, MOST = 16, 2, 64
node = helper.make_node


class Decoder:
    """One layer of attention over a cache, as exporters write it. mask: "sliced" takes the rows and columns of a
    constant triangle that the lengths of cache and tokens say; "given" adds an input of the whole length; "range"
    compares positions that are made of the lengths."""

    def __init__(self, mask):
        rng = np.random.default_rng(3)
        self.mask = mask
        self.w = {n: (rng.standard_normal((WIDTH, WIDTH)) / 4).astype("f4") for n in "qkvo"}
        self.table = rng.standard_normal((10, WIDTH)).astype("f4")

    def bytes(self):
        constant = {f"w{n}": w for n, w in self.w.items()}
        constant |= {
            "table": self.table, "shape": np.array([0, 0, HEADS, WIDTH // HEADS]), "flat": np.array([0, 0, WIDTH]),
            "scale": np.float32((WIDTH // HEADS)**-0.5), "least": np.float32(-1e9), "zero": np.array([0]), "i0":
            np.int64(0), "one": np.array([1]), "i1": np.int64(1), "two": np.array([2]), "three": np.array([3]),
            "triangle": np.tril(np.ones((1, 1, MOST, MOST), bool))
        }
        nodes = [node("Gather", ["table", "ids"], ["x"])]
        for n in "qkv":
            nodes += [
                node("MatMul", ["x", f"w{n}"], [f"{n}0"]),
                node("Reshape", [f"{n}0", "shape"], [f"{n}1"]),
                node("Transpose", [f"{n}1"], [f"{n}2"], perm=[0, 2, 1, 3])
            ]
        nodes += [
            node("Concat", ["past_k", "k2"], ["k"], axis=2),
            node("Concat", ["past_v", "v2"], ["v"], axis=2),
            node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            node("MatMul", ["q2", "kt"], ["s0"]),
            node("Mul", ["s0", "scale"], ["s1"])
        ]
        lengths = [
            node("Shape", ["ids"], ["n_"], start=1, end=2),
            node("Shape", ["k"], ["all_"], start=2, end=3),
            node("Sub", ["all_", "n_"], ["p_"])
        ]
        if self.mask == "sliced":
            nodes += lengths + [
                node("Slice", ["triangle", "p_", "all_", "two"], ["t0"]),
                node("Slice", ["t0", "zero", "all_", "three"], ["t1"]),
                node("Where", ["t1", "s1", "least"], ["s"])
            ]
        elif self.mask == "range":
            nodes += lengths + [node("Squeeze", [n, "zero"], [m]) for n, m in (("p_", "p"), ("all_", "all"))] + [
                node("Range", ["p", "all", "i1"], ["rows"]), node("Unsqueeze", ["rows", "one"], ["rows1"]), node("Range", ["i0", "all", "i1"], ["columns"]), node("LessOrEqual", ["columns", "rows1"], ["t"]),
                node("Where", ["t", "s1", "least"], ["s"])]
        else:
            nodes += [node("Add", ["s1", "mask"], ["s"])]
        nodes += [
            node("Softmax", ["s"], ["p"] if self.mask != "range" else ["probabilities"], axis=-1),
            node("MatMul", ["p" if self.mask != "range" else "probabilities", "v"], ["y0"]),
            node("Transpose", ["y0"], ["y1"], perm=[0, 2, 1, 3]),
            node("Reshape", ["y1", "flat"], ["y2"]),
            node("MatMul", ["y2", "wo"], ["y"])
        ]
        cache = ["b", HEADS, "past", WIDTH // HEADS]
        ports = [("ids", TensorProto.INT64, ["b", "n"]), ("past_k", TensorProto.FLOAT, cache),
                 ("past_v", TensorProto.FLOAT, cache)]
        ports += [("mask", TensorProto.FLOAT, ["b", 1, "n", "total"])] if self.mask == "given" else []
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*p) for p in ports],
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "k", "v")],
                                  [numpy_helper.from_array(np.asarray(v), n) for n, v in constant.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def expected(self, ids, k, v):
        """What a run gives: the standard's operators in numpy."""
        heads = lambda x: x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)
        x = self.table[ids]
        k, v = np.concatenate([k, heads(x @ self.w["k"])], 2), np.concatenate([v, heads(x @ self.w["v"])], 2)
        s = heads(x @ self.w["q"]) @ k.transpose(0, 1, 3, 2) * np.float32((WIDTH // HEADS) ** -0.5)
        s = np.where(np.tril(np.ones((MOST, MOST), bool))[k.shape[2] - ids.shape[1]:k.shape[2], :k.shape[2]], s, -1e9)
        p = np.exp(s - s.max(-1, keepdims=True))
        y = (p / p.sum(-1, keepdims=True)) @ v
        return y.transpose(0, 2, 1, 3).reshape(x.shape) @ self.w["o"], k, v


class Growing(unittest.TestCase):
    def generate(self, mask, prompts, programs):
        d, rng = Decoder(mask), np.random.default_rng(5)
        session = tgrun.InferenceSession(d.bytes(), device="cpu")
        for prompt in prompts:
            k = v = np.zeros((1, HEADS, 0, WIDTH // HEADS), "f4")
            ids = rng.integers(0, 10, (1, prompt))
            for _ in range(20):
                want = d.expected(ids, k, v)
                feed = {"ids": ids, "past_k": k, "past_v": v}
                if mask == "given":
                    rows, columns = np.arange(k.shape[2],
                                              k.shape[2] + ids.shape[1]), np.arange(k.shape[2] + ids.shape[1])
                    feed["mask"] = np.where(columns <= rows[:, None], 0, -1e9).astype("f4")[None, None]
                y, k, v = session.run(None, feed)
                for got, w in zip((y, k, v), want):
                    np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-5)
                ids = rng.integers(0, 10, (1, 1))
        self.assertLessEqual(session.get_stats()["programs"], programs)

    def test_one_prompt(self):
        """The prompt's program, and one for tokens behind it."""
        for mask in ("given", "range", "sliced"):
            with self.subTest(mask):
                self.generate(mask, [5], 3)

    def test_more_prompts(self):
        """Prompts of other lengths share one more."""
        for mask in ("given", "range", "sliced"):
            with self.subTest(mask):
                self.generate(mask, [5, 7, 3, 11], 4)

    def test_a_sum_that_does_not_hold(self):
        """Lengths that agreed by a sum at first and do not later are another program, or the error that they are."""
        ports = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [s]) for n, s in (("x", "p"), ("y", "n"), ("m", "t"))
        ]
        graph = helper.make_graph([node("Concat", ["x", "y"], ["c"], axis=0),
                                   node("Add", ["c", "m"], ["z"])], "g", ports,
                                  [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
        session = tgrun.InferenceSession(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(),
            device="cpu")
        ones = lambda n: np.ones(n, "f4")
        for p, n in ((3, 2), (4, 3), (5, 4), (9, 2)):
            self.assertEqual(
                session.run(None, {"x": ones(p), "y": ones(n), "m": ones(p + n)})[0].tolist(), [2] * (p + n))
        self.assertEqual(session.get_stats()["programs"], 2)
        with self.assertRaises(tgrun.Error):
            session.run(None, {"x": ones(6), "y": ones(4), "m": ones(9)})
        self.assertEqual(session.run(None, {"x": ones(6), "y": ones(4), "m": ones(1)})[0].tolist(), [2] * 10)

    def test_ranges_reach_as_far_as_is_cheap(self):
        """Memory is planned for the largest sizes. Ranges that nobody requested are halved until 256 MiB serve, and not
        further, whether values grow with a size or with its square."""
        for name, nodes, shape in (("linear", [node("MatMul", ["w", "x"], ["y"])], lambda b, n: (b, 64, n)),
                                   ("square", [
                                       node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
                                       node("MatMul", ["x", "t"], ["y"])
                                   ], lambda b, n: (b, n, 64))):
            with self.subTest(name):
                rank = helper.make_tensor_value_info
                graph = helper.make_graph(
                    nodes, "g", [rank("x", TensorProto.FLOAT, shape("b", "n"))],
                    [rank("y", TensorProto.FLOAT, None)],
                    [numpy_helper.from_array(np.ones((512, 64), "f4"), "w")] if name == "linear" else [])
                session = tgrun.InferenceSession(
                    helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                      ir_version=8).SerializeToString(),
                    device="cpu")
                for b, n in ((1, 20), (2, 30), (3, 17), (5, 25), (5, 1000)):
                    y = session.run(None, {"x": np.ones(shape(b, n), "f4")})[0]
                    self.assertEqual((y.shape[0], y.shape[-1], y.min(), y.max()), (b, n, 64, 64))
                self.assertEqual(session.get_stats()["programs"], 2)


if __name__ == "__main__":
    unittest.main()
