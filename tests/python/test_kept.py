"""Programs that are kept in the cache: a session that opens the same model with inputs of the same form reads what an
earlier one has made, gives the same bytes and the same failures, and makes anew what is another's."""
import os
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx.parser

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import tgrun

GATHERED = "(float[n, 4] x, int64[m] i) => (float[m, 4] y) { y = Gather<axis = 0>(x, i) }"
RESHAPED = "(float[n] x, int64[k] to) => (y) { y = Reshape(x, to) }"
BOXES = """(float[1, n, 4] box, float[1, 2, n] score) => (int64[m, 3] y)
    <int64[1] most = {5}, float[1] overlap = {0.5}, float[1] least = {0.1}>
    { y = NonMaxSuppression(box, score, most, overlap, least) }"""
LOOPED = """(float[2, 3] x, int64 trip) => (float[2, 3] y)
    {
        go = Constant<value = bool {1}>()
        y = Loop(trip, go, x)<body = b (int64 i, bool on, float[2, 3] s) => (bool on, float[2, 3] t) { t = Add(s, s) }>
    }"""
PRODUCT = """(float[n, 64] x) => (float[n, 32] y, float[n, 32] z)
    { w = RandomNormal<shape = [64, 32], dtype = 1, seed = 3.0>()  p = MatMul(x, w)  y = Relu(p)  z = Neg(p) }"""


class Kept(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def session(self, graph, **more):
        text = f'<ir_version: 9, opset_import: ["" : 18]> g {graph}'
        options = tgrun.SessionOptions()
        for name, value in {"cache_dir": self.folder, **more}.items():
            setattr(options, name, value)
        return tgrun.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options, device="cpu")

    def run_one(self, graph, *feeds, names=None, **more):
        """Outputs of a new session's runs; how many programs it has made, how many of these were kept."""
        s = self.session(graph, **more)
        out = [s.run(names, feed) for feed in feeds]
        stats = s.get_stats()
        return out, (stats["programs"], stats["programs_kept"])

    def check(self, graph, *feeds, made=1, **more):
        first, counts = self.run_one(graph, *feeds, **more)
        self.assertEqual(counts, (made, 0))
        second, counts = self.run_one(graph, *feeds, **more)
        self.assertEqual(counts, (made, made))
        for a, b in zip(first, second):
            self.assertEqual([v.tobytes() for v in a], [v.tobytes() for v in b])

    def files(self):
        folder = os.path.join(self.folder, "program")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []

    def test_sizes(self):
        x = np.random.default_rng(1).normal(size=(9, 64)).astype("f4")
        self.check(PRODUCT, {"x": x[:5]})
        self.check(PRODUCT, {"x": x[:4]}, {"x": x[:7]}, {"x": x[:2]}, made=2)
        _, counts = self.run_one(PRODUCT, {"x": x[:4]}, {"x": x})        # others of the range
        self.assertEqual(counts, (2, 2))
        self.check(PRODUCT, {"x": x[:6]}, compiler="own")

    def test_what_makes_another(self):
        x = np.ones((3, 64), "f4")
        self.check(PRODUCT, {"x": x})
        for more in ({"seed": 7}, {"names": ["z"]}, {"names": ["y"]}):
            _, counts = self.run_one(PRODUCT, {"x": x}, **more)
            self.assertEqual(counts, (1, 0), more)
        with self.assertRaisesRegex(tgrun.Error, "opts: none of the kernels"):
            self.run_one(PRODUCT, {"x": x}, opts="nobody: ")

    def test_no_cache(self):
        x = np.ones((3, 64), "f4")
        self.run_one(PRODUCT, {"x": x}, no_cache=True)
        self.assertEqual(self.files(), [])

    def test_values_that_are_built_in(self):
        x = np.arange(12, dtype="f4")
        self.check(RESHAPED, {"x": x, "to": np.array([3, 4])})
        (first,), counts = self.run_one(RESHAPED, {"x": x, "to": np.array([2, 6])})
        self.assertEqual((first[0].shape, counts), ((2, 6), (1, 0)))

    def test_steps_of_the_host(self):
        rng = np.random.default_rng(2)
        corner = rng.uniform(0, 5, (1, 40, 2))
        box = np.concatenate([corner, corner + rng.uniform(1, 3, (1, 40, 2))], 2).astype("f4")
        self.check(BOXES, {"box": box, "score": rng.uniform(size=(1, 2, 40)).astype("f4")})
        self.check(LOOPED, {"x": box[0, :2, :3], "trip": np.array(5)})

    def test_failures(self):
        feed = {"x": np.ones((3, 4), "f4"), "i": np.array([0, 2])}
        self.check(GATHERED, feed)
        said = []
        for _ in range(2):
            s = self.session(GATHERED)
            s.run(None, feed)
            with self.assertRaises(tgrun.Error) as e:
                s.run(None, {**feed, "i": np.array([0, 3])})
            said.append(str(e.exception))
        self.assertEqual(said[0], said[1])
        self.assertIn("Gather", said[0])

    def test_damage(self):
        x = np.ones((3, 64), "f4")
        self.check(PRODUCT, {"x": x})
        want, _ = self.run_one(PRODUCT, {"x": x})
        (path,) = self.files()
        with open(path, "rb") as f:
            good = f.read()
        for bad in (good[:-9], good[:200] + bytes([good[200] ^ 1]) + good[201:], b""):
            with open(path, "wb") as f:
                f.write(bad)
            got, counts = self.run_one(PRODUCT, {"x": x})
            self.assertEqual((counts, got[0][0].tobytes()), ((1, 0), want[0][0].tobytes()))
        _, counts = self.run_one(PRODUCT, {"x": x})                     # it was written again
        self.assertEqual(counts, (1, 1))

    def test_kernels_that_are_gone(self):
        x = np.ones((3, 64), "f4")
        self.check(PRODUCT, {"x": x}, compiler="cc")
        for kind in ("cpu", "cpu-index"):
            shutil.rmtree(os.path.join(self.folder, kind))
        _, counts = self.run_one(PRODUCT, {"x": x}, compiler="cc")
        self.assertEqual(counts, (1, 0))

    def test_lists_that_were_learned(self):
        """Whatever a search has written makes another program."""
        x = {"x": np.ones((3, 64), "f4")}
        self.check(PRODUCT, x)
        with open(os.path.join(self.folder, "tune-1.db"), "wb"):
            pass
        self.check(PRODUCT, x)

    def test_compiled(self):
        x = {"x": np.ones((3, 64), "f4")}
        s, path = self.session(PRODUCT), os.path.join(self.folder, "m.tgc")
        want = s.run(None, x)
        s.save(path)
        t = tgrun.InferenceSession(path, device="cpu")
        got = t.run(None, x)
        self.assertEqual([v.tobytes() for v in got], [v.tobytes() for v in want])
        self.assertEqual(t.get_stats()["programs_kept"], 1)


if __name__ == "__main__":
    unittest.main()
