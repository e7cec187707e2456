"""What programs written for onnxruntime reach for beside runs: constants that they bring along, adapters, sparse values,
options that a model has, names of its compiled part, caches that are changed in place."""
import json
import os
import sys
import tempfile
import unittest
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import tgrun
from tgrun import names
from tgrun.capi import _pybind_state as inner

warnings.filterwarnings("ignore", "tgrun: ")
FLOAT = TensorProto.FLOAT


def port(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights=(), opsets=(("", 17),), **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], ir_version=9, **more)


def product(**more):
    w = numpy_helper.from_array(np.float32([[1, 2], [3, 4]]), "W")
    return model([helper.make_node("Mul", ["X", "W"], ["Y"])], [port("X", [2, 2])], [port("Y", [2, 2])], [w], **more)


def session(proto, options=None):
    return tgrun.InferenceSession(proto.SerializeToString(), options, device="cpu")


ONES = np.ones((2, 2), np.float32)


class Constants(unittest.TestCase):
    """Initializers and external files from the program's memory."""

    def test_initializer(self):
        for given in (5 * ONES, tgrun.OrtValue.ortvalue_from_numpy(7 * ONES)):
            o = tgrun.SessionOptions()
            o.add_initializer("W", given)
            self.assertEqual(session(product(), o).run(None, {"X": ONES})[0].tolist(), np.asarray(given).tolist())
        self.assertEqual(session(product()).run(None, {"X": ONES})[0].tolist(), [[1, 2], [3, 4]])

    def test_refused(self):
        for name, value, said in (("V", ONES, "data: the model has no such initializer"),
                                  ("W", ONES[:1], "initializer 'W': 8 bytes are given; type and shape need 16"),
                                  ("W", ONES.reshape(4), "W: data: the initializer is of rank 2; 1 is given"),
                                  ("W", ONES.reshape(1, 4), "W: data: axis 0 of the initializer is 2; 1 is given"),
                                  ("W", ONES.view(np.int32), "W: data: the initializer is of type f32; i32 is given")):
            o = tgrun.SessionOptions()
            o.add_initializer(name, value)
            with self.subTest(said), self.assertRaisesRegex(tgrun.BadInput, said):
                session(product(), o)
        o = tgrun.SessionOptions()
        o.add_external_initializers_from_files_in_memory(["w.bin"], [bytes(16)], [16])
        with self.assertRaisesRegex(tgrun.BadInput, "w.bin: data: the model reads no such file"):
            session(product(), o)

    def test_external(self):
        proto, data = product(), np.float32([[2, 4], [6, 8]])
        w = proto.graph.initializer[0]
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        w.external_data.add(key="location", value="w.bin")
        with self.assertRaises(tgrun.BadModel):
            session(proto)
        o = tgrun.SessionOptions()
        o.add_external_initializers(["W"], [tgrun.OrtValue.ortvalue_from_numpy(data)])
        self.assertEqual(session(proto, o).run(None, {"X": ONES})[0].tolist(), data.tolist())
        o = tgrun.SessionOptions()
        o.add_external_initializers_from_files_in_memory(["w.bin"], [data.tobytes()], [16])
        self.assertEqual(session(proto, o).run(None, {"X": ONES})[0].tolist(), data.tolist())

    def test_saved(self):
        """A compiled model has them."""
        o = tgrun.SessionOptions()
        o.add_initializer("W", 5 * ONES)
        s = session(product(), o)
        s.run(None, {"X": ONES})
        with tempfile.TemporaryDirectory() as folder:
            s.save(path := os.path.join(folder, "m.tgm"))
            again = tgrun.InferenceSession(path, device="cpu")
            self.assertEqual(again.run(None, {"X": ONES})[0].tolist(), (5 * ONES).tolist())
            with self.assertRaisesRegex(tgrun.Error, "data: a compiled model has its own"):
                tgrun.InferenceSession(path, o, device="cpu")


class Adapters(unittest.TestCase):
    def setUp(self):
        nodes = [helper.make_node("MatMul", ["x", "W"], ["base"]), helper.make_node("MatMul", ["x", "a"], ["l"]),
                 helper.make_node("MatMul", ["l", "b"], ["m"]), helper.make_node("Add", ["base", "m"], ["y"])]
        weights = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in (
            ("W", np.eye(2)), ("a", np.zeros((2, 0))), ("b", np.zeros((0, 2))))]
        self.session = session(model(nodes, [port("x", [2, 2]), port("a", [2, "r"]), port("b", ["r", 2])],
                                     [port("y", [2, 2])], weights))
        self.parameters = {"a": np.float32([[1], [2]]), "b": np.float32([[3, 4]])}

    def test_run(self):
        made = tgrun.AdapterFormat()
        made.set_adapter_version(3)
        made.set_model_version(4)
        made.set_parameters({n: tgrun.OrtValue.ortvalue_from_numpy(v) for n, v in self.parameters.items()})
        with tempfile.TemporaryDirectory() as folder:
            made.export_adapter(path := os.path.join(folder, "a.onnx_adapter"))
            read, adapter, o = tgrun.AdapterFormat.read_adapter(path), tgrun.LoraAdapter(), tgrun.RunOptions()
            self.assertEqual((read.get_adapter_version(), read.get_model_version()), (3, 4))
            adapter.Load(path)
            with open(path, "rb") as f:
                data = f.read()
            for k in range(0, len(data), 3):                    # damaged: refused, or other numbers
                with open(path, "wb") as f:
                    f.write(data[:k] + bytes([data[k] ^ 0x81]) + data[k + 1:])
                try:
                    tgrun.AdapterFormat.read_adapter(path)
                except tgrun.BadInput as e:
                    self.assertIn(path, str(e))
        o.add_active_adapter(adapter)
        want = ONES @ (np.eye(2) + self.parameters["a"] @ self.parameters["b"])
        self.assertEqual(self.session.run(None, {"x": ONES}, o)[0].tolist(), want.tolist())
        self.assertEqual(self.session.run(None, {"x": ONES})[0].tolist(), ONES.tolist())
        with self.assertRaisesRegex(tgrun.BadInput, "input 'a' is given twice"):
            self.session.run(None, {"x": ONES, "a": self.parameters["a"]}, o)


class Sparse(unittest.TestCase):
    def setUp(self):
        self.dense = np.zeros((3, 4), np.float32)
        self.dense[[0, 1, 2], [3, 0, 2]] = 1, 2, 3

    def test_formats(self):
        cpu, values = tgrun.OrtDevice.make("cpu", 0), np.float32([1, 2, 3])
        flat = tgrun.SparseTensor.sparse_coo_from_numpy([3, 4], values, np.int64([3, 4, 10]), cpu)
        pairs = tgrun.SparseTensor.sparse_coo_from_numpy([3, 4], values, np.int64([[0, 3], [1, 0], [2, 2]]), cpu)
        rows = tgrun.SparseTensor.sparse_csr_from_numpy([3, 4], values, np.int64([3, 0, 2]), np.int64([0, 1, 2, 3]),
                                                        cpu)
        for s in (flat, pairs, rows, tgrun.SparseTensor.of_dense(self.dense)):
            self.assertEqual((np.asarray(s).tolist(), s.dense_shape(), s.data_type()),
                             (self.dense.tolist(), [3, 4], "sparse_tensor(float)"))
            self.assertFalse(s.values().flags.writeable)
        self.assertEqual(rows.as_csrc_view().outer().tolist(), [0, 1, 2, 3])
        self.assertRaises(RuntimeError, rows.as_coo_view)
        words = tgrun.SparseTensor.sparse_coo_from_numpy([3], np.array(["a"]), np.int64([1]), cpu)
        self.assertEqual(np.asarray(words).tolist(), ["", "a", ""])

    def test_runs(self):
        """com.microsoft.SparseToDenseMatMul, and an output that the model says is sparse."""
        kind = helper.make_sparse_tensor_type_proto(FLOAT, [3, 4])
        nodes = [helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", alpha=2.0),
                 helper.make_node("Identity", ["a"], ["z"])]
        s = session(model(nodes, [helper.make_value_info("a", kind), port("b", [4, 2])],
                          [port("y", [3, 2]), helper.make_value_info("z", kind)],
                          opsets=(("", 17), ("com.microsoft", 1))))
        self.assertEqual([p.type for p in (*s.get_inputs(), *s.get_outputs())],
                         ["sparse_tensor(float)", "tensor(float)", "tensor(float)", "sparse_tensor(float)"])
        b = np.arange(8, dtype=np.float32).reshape(4, 2)
        a = tgrun.OrtValue.ort_value_from_sparse_tensor(tgrun.SparseTensor.of_dense(self.dense))
        y, z = s.run_with_ort_values(None, {"a": a, "b": b})
        self.assertEqual(y.numpy().tolist(), (2 * self.dense @ b).tolist())
        self.assertEqual((z.is_sparse_tensor(), z.as_sparse_tensor().as_coo_view().indices().tolist()),
                         (True, [3, 4, 10]))


class Options(unittest.TestCase):
    def test_of_the_model(self):
        proto = product()
        helper.set_model_props(proto, {"ort_config": json.dumps(
            {"session_options": {"intra_op_num_threads": 1, "enable_profiling": 1, "graph_optimization_level": 99}})})
        os.environ["ORT_LOAD_CONFIG_FROM_MODEL"] = "1"
        try:
            s = session(proto)
        finally:
            del os.environ["ORT_LOAD_CONFIG_FROM_MODEL"]
        o = s.get_session_options()
        self.assertEqual((o.intra_op_num_threads, o.enable_profiling, s.get_info().threads), (1, True, 1))
        os.remove(s.end_profiling())
        self.assertEqual(session(proto).get_session_options().intra_op_num_threads, 0)

    def test_of_the_model_that_are_none(self):
        os.environ["ORT_LOAD_CONFIG_FROM_MODEL"] = "1"
        try:
            for text in ("{", "[]", '{"session_options": {"unknown": 1}}',
                         '{"session_options": {"graph_optimization_level": 55}}'):
                proto = product()
                helper.set_model_props(proto, {"ort_config": text})
                self.assertRaisesRegex(tgrun.BadModel, "the model's ort_config: ", session, proto)
        finally:
            del os.environ["ORT_LOAD_CONFIG_FROM_MODEL"]

    def test_denotations(self):
        x, o = port("x", ["n", "m"]), tgrun.SessionOptions()
        x.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        o.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
        s = session(model([helper.make_node("Abs", ["x"], ["y"])], [x], [port("y", None)]), o)
        self.assertEqual(s.get_inputs()[0].shape, [3, "m"])
        self.assertRaisesRegex(tgrun.BadInput, "axis 0 is 2; 3 is wanted", s.run, None, {"x": ONES})

    def test_optimized_model(self):
        o = tgrun.SessionOptions()
        with tempfile.TemporaryDirectory() as folder:
            o.optimized_model_filepath = os.path.join(folder, "m.onnx")
            o.add_session_config_entry(o.ENTRIES[0], "w.bin")
            o.add_session_config_entry(o.ENTRIES[1], "10")
            session(product(), o)
            self.assertTrue(os.path.isfile(os.path.join(folder, "w.bin")))
            again = tgrun.InferenceSession(o.optimized_model_filepath, device="cpu")
            self.assertEqual(again.run(None, {"X": ONES})[0].tolist(), [[1, 2], [3, 4]])

    def test_entries(self):
        for o, get in ((tgrun.SessionOptions(), "get_session_config_entry"), (tgrun.RunOptions(), "get_run_config_entry")):
            self.assertRaisesRegex(RuntimeError, "does not have configuration with key: k", getattr(o, get), "k")

    def test_providers(self):
        normal = tgrun.options.normal_providers
        known = ["a", "b"]
        self.assertEqual(normal([("a", {1: 2}), "b"], None, known), (known, [{"1": "2"}, {}]))
        self.assertEqual(normal(known, [{}, {3: 4}], known), (known, [{}, {"3": "4"}]))
        with self.assertWarns(UserWarning):
            self.assertEqual(normal(["a", "a"], None, known), (["a"], [{}]))
        for providers, options in ((3, None), ([3], None), (known, 3), (known, ["x", {}]), (known, [{}]),
                                   ([("a", {})], [{}])):
            self.assertRaises(ValueError, normal, providers, options, known)
        with self.assertRaisesRegex(RuntimeError, "Unknown Provider Type: Other"):
            session(product()).set_providers(["Other"])


class Inner(unittest.TestCase):
    """Names of onnxruntime's compiled part."""

    def test_values(self):
        v = tgrun.OrtValue.ortvalue_from_numpy(ONES)
        s = session(product())
        vector = s._sess.run_with_ort_values({"X": v._get_c_value()}, ["Y"], inner.RunOptions())
        self.assertIsInstance(vector, inner.OrtValueVector)
        capsule = v._ortvalue.to_dlpack()
        self.assertFalse(inner.is_dlpack_uint8_tensor(capsule))
        self.assertEqual(inner.OrtValue.from_dlpack(capsule, False).data_ptr(), v.data_ptr())
        self.assertTrue(inner.is_dlpack_uint8_tensor(tgrun.OrtValue(ONES.view(np.uint8)).to_dlpack()))
        cpu, out = inner.OrtDevice(inner.OrtDevice.cpu(), inner.OrtDevice.default_memory(), 0), np.zeros_like(ONES)
        b = inner.SessionIOBinding(s._sess)
        b.bind_input("X", cpu, FLOAT, v.shape(), v.data_ptr())
        b.bind_output("Y", cpu, FLOAT, [2, 2], out.ctypes.data)
        s._sess.run_with_iobinding(b, None)
        self.assertEqual(out.tolist(), [[1, 2], [3, 4]])
        self.assertIsInstance(inner.get_default_session_options(), tgrun.SessionOptions)
        self.assertRaises(AttributeError, getattr, inner, "nobody")

    def test_backend(self):
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(product(), path := os.path.join(folder, "m.onnx"))
            import tgrun.backend.backend
            for given in (path, product()):
                for x in (ONES, [ONES], {"X": ONES}):
                    y, = tgrun.backend.prepare(given).run(x)
                    self.assertEqual(y.tolist(), [[1, 2], [3, 4]])
            self.assertIs(tgrun.backend.backend.OnnxRuntimeBackend, tgrun.backend.TgrunBackend)

    def test_map_of_other_keys(self):
        x = helper.make_value_info("x", helper.make_map_type_proto(
            TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, None)))
        node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[1, 2])
        s = session(model([node], [x], [port("y", [1, 2])], opsets=(("", 17), ("ai.onnx.ml", 1))))
        self.assertEqual(s.run(None, {"x": {2: 5.0}})[0].tolist(), [[0, 5]])
        with self.assertRaisesRegex(tgrun.BadInput, "Unexpected key type  <class 'str'>"):
            s.run(None, {"x": {1: 1.0, "a": 2.0}})


class Caches(unittest.TestCase):
    """com.microsoft.GroupQueryAttention with a cache that has room for more than there is, changed in place."""
    HEADS, SIZE, ROOM = 2, 8, 16

    def attention(self, past):
        node = helper.make_node(
            "GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "last", "total"], ["y", "present_k", "present_v"],
            domain="com.microsoft", num_heads=self.HEADS, kv_num_heads=self.HEADS)
        shape = ["b", self.HEADS, past, self.SIZE]
        inputs = [port(n, ["b", "s", self.HEADS * self.SIZE]) for n in "qkv"] + [port("past_k", shape), port("past_v", shape)]
        inputs += [port("last", ["b"], TensorProto.INT32), port("total", [1], TensorProto.INT32)]
        outputs = [port("y", None), port("present_k", None), port("present_v", None)]
        return session(model([node], inputs, outputs, opsets=(("", 17), ("com.microsoft", 1))))

    def test_in_place(self):
        """Prompts of two lengths, then tokens: what lies behind the rows in use stays, and does not count."""
        rng = np.random.default_rng(0)
        fresh = lambda rows: {n: rng.standard_normal((2, rows, self.HEADS * self.SIZE)).astype(np.float32) for n in "qkv"}
        s = self.attention(self.ROOM)
        caches = [np.full((2, self.HEADS, self.ROOM, self.SIZE), np.nan, np.float32) for _ in range(2)]
        keys, values, count = [[], []], [[], []], np.array([5, 3])
        for step in range(4):
            feed, rows = fresh(5 if step == 0 else 1), 5 if step == 0 else 1
            if step:
                count += 1
            b = s.io_binding()
            for name, array in feed.items():
                b.bind_cpu_input(name, array)
            for name, cache in zip(("k", "v"), caches):
                v = tgrun.OrtValue.ortvalue_from_numpy(cache)
                b.bind_ortvalue_input("past_" + name, v)
                b.bind_ortvalue_output("present_" + name, v)
            b.bind_cpu_input("last", (count - 1).astype(np.int32))
            b.bind_cpu_input("total", np.int32([count.max()]))
            b.bind_output("y")
            s.run_with_iobinding(b)
            y = b.get_outputs()[-1].numpy()
            for n in range(2):
                used = min(rows, count[n]) if step == 0 else 1
                split = lambda a: a[n, :used].reshape(used, self.HEADS, self.SIZE).transpose(1, 0, 2)
                keys[n].append(split(feed["k"]))
                values[n].append(split(feed["v"]))
                k, v = np.concatenate(keys[n], 1), np.concatenate(values[n], 1)
                scores = split(feed["q"]) @ k.transpose(0, 2, 1) / np.sqrt(self.SIZE)
                at = np.arange(count[n])
                scores[:, at[None] > at[count[n] - used:, None]] = -np.inf
                p = np.exp(scores - scores.max(-1, keepdims=True))
                want = (p / p.sum(-1, keepdims=True)) @ v
                got = y[n, :used].reshape(used, self.HEADS, self.SIZE).transpose(1, 0, 2)
                np.testing.assert_allclose(got, want, atol=2e-6)
                np.testing.assert_array_equal(caches[0][n, :, :count[n]], k)
                self.assertTrue(np.isnan(caches[0][n, :, 8:]).all())
        self.assertLessEqual(s.get_stats()["programs"], 3)


if __name__ == "__main__":
    unittest.main()
