"""The Python package: onnxruntime's shape, every type in and out, who owns memory, errors. Beside it test_backend.py
runs the standard's own tests through the package."""
import concurrent.futures
import ctypes
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import weakref

import ml_dtypes
import numpy as np
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun
from tgrun import backend, library, names, values

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def model(nodes, inputs, outputs, **more):
    """Bytes of a model; inputs and outputs are (name, type, shape)."""
    ports = [[helper.make_tensor_value_info(*p) for p in side] for side in (inputs, outputs)]
    made = helper.make_model(helper.make_graph(nodes, "g", *ports),
                             opset_imports=[helper.make_opsetid("", 28),
                                            helper.make_opsetid("ai.onnx.ml", 3)], ir_version=14, **more)
    return made.SerializeToString()


def proto_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def parsed(graph, **more):
    return session(
        onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 1]> g {graph}')
        .SerializeToString(), **more)


def one(op, kind=TensorProto.FLOAT, shape=("n",), **attributes):
    return model([helper.make_node(op, ["x"], ["y"], name="only", **attributes)], [("x", kind, shape)],
                 [("y", kind, shape)])


def session(data, **more):
    return tgrun.InferenceSession(data, device="cpu", **more)


class Shape(unittest.TestCase):
    """What onnxruntime's package has, under its names."""

    def test_ports(self):
        s = session(
            model([helper.make_node("Add", ["a", "b"], ["sum"])], [("a", TensorProto.FLOAT, ["n", None, 3]),
                                                                   ("b", TensorProto.FLOAT, [])],
                  [("sum", TensorProto.FLOAT, None)]))
        self.assertEqual([(p.name, p.type, p.shape) for p in s.get_inputs()], [("a", "tensor(float)", ["n", None, 3]),
                                                                               ("b", "tensor(float)", [])])
        self.assertEqual([(p.name, p.shape) for p in s.get_outputs()], [("sum", [])])

    def test_names(self):
        s = session(
            model([helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2)], [("x", TensorProto.FLOAT, [4])],
                  [("a", TensorProto.FLOAT, [2]), ("b", TensorProto.FLOAT, [2])]))
        x = np.arange(4, dtype=np.float32)
        self.assertEqual([y.tolist() for y in s.run(None, {"x": x})], [[0, 1], [2, 3]])
        self.assertEqual([y.tolist() for y in s.run(["b", "a"], {"x": x})], [[2, 3], [0, 1]])
        self.assertEqual([y.tolist() for y in s.run(["b"], {"x": x}, tgrun.RunOptions())], [[2, 3]])

    def test_defaults(self):
        """Inputs whose default value is an initializer, of another shape too."""
        proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]> g (float[6] x, float[1] w, int64[k] shape, float[2] other) => (float[a,b] y) <float[1] w = {2}, int64[2] shape = {3, 2}>
            { m = Mul(x, w) r = Reshape(m, shape) y = Add(r, other) }""")
        s, x = session(proto.SerializeToString()), np.arange(6, dtype=np.float32)
        self.assertEqual([p.name for p in s.get_inputs()], ["x", "other"])
        for given in ({}, {"w": np.float32([5])}, {"shape": np.array([3, 1, 2])},
                      {"shape": np.array([1, 3, 2]), "w": np.float32([-1])}, {}):
            (y,) = s.run(None, {"x": x, "other": x[:2], **given})
            np.testing.assert_array_equal(y, (x * given.get("w", 2)).reshape(given.get("shape", [3, 2])) + x[:2])
        self.assertEqual([p.name for p in s.get_inputs()], ["x", "other"])
        with self.assertRaisesRegex(tgrun.BadInput, "no input 'm'; it has x, other"):
            s.run(None, {"x": x, "other": x[:2], "m": x})

    def test_metadata(self):
        proto = onnx.ModelProto.FromString(one("Neg"))
        proto.producer_name, proto.domain, proto.doc_string, proto.model_version, proto.graph.doc_string = "maker", "org.x", "why", 7, "grαph"
        helper.set_model_props(proto, {"labels": "a,b", "é": "ü"})
        m = session(proto.SerializeToString()).get_modelmeta()
        self.assertEqual((m.producer_name, m.graph_name, m.domain, m.description, m.graph_description, m.version),
                         ("maker", "g", "org.x", "why", "grαph", 7))
        self.assertEqual(m.custom_metadata_map, {"labels": "a,b", "é": "ü"})

    def test_options(self):
        o = tgrun.SessionOptions()
        o.intra_op_num_threads, o.no_cache = 1, True
        o.graph_optimization_level = tgrun.GraphOptimizationLevel.ORT_ENABLE_ALL
        o.add_session_config_entry("session.intra_op.allow_spinning", "0")
        s = session(one("Neg"), sess_options=o)
        self.assertEqual(s.get_info().threads, 1)
        self.assertIs(s.get_session_options(), o)
        with tempfile.TemporaryDirectory() as cache:
            o = tgrun.SessionOptions()
            o.cache_dir = cache
            session(one("Neg"), sess_options=o).run(None, {"x": np.ones(3, np.float32)})
            self.assertTrue(os.listdir(cache))

    def test_options_of_others(self):
        """Those that programs set or read have onnxruntime's names and first values; what has no effect warns once."""
        o, r = tgrun.SessionOptions(), tgrun.RunOptions()
        names.warned.clear()
        self.assertEqual(
            (o.graph_optimization_level, o.execution_mode, o.log_severity_level, o.enable_mem_pattern,
             o.optimized_model_filepath),
            (tgrun.GraphOptimizationLevel.ORT_ENABLE_ALL, tgrun.ExecutionMode.ORT_SEQUENTIAL, -1, True, ""))
        for _ in range(2):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                o.add_session_config_entry("a", "b")
                o.enable_mem_pattern, o.log_severity_level = True, 3
                r.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
                r.log_severity_level = 3
            self.assertEqual([str(w.message).split(":")[1].strip() for w in said], [
                "session config entry 'a'", "SessionOptions.log_severity_level",
                "run config entry 'memory.enable_memory_arena_shrinkage'", "RunOptions.log_severity_level"
            ] if _ == 0 else [])
        self.assertEqual((o.get_session_config_entry("a"), o.has_session_config_entry("c")), ("b", False))
        o.add_free_dimension_override_by_name("n", 2)
        tgrun.set_default_logger_severity(3)
        s = session(one("Neg"), sess_options=o, disabled_optimizers=["x"])
        self.assertEqual(s.run(None, {"x": [1, 2.5]}, r)[0].tolist(), [-1, -2.5])
        s.disable_fallback()
        s.set_providers(["CPUExecutionProvider"])
        self.assertEqual((s.get_provider_options(), s.get_overridable_initializers()),
                         ({"CPUExecutionProvider": {}}, []))
        self.assertEqual(tgrun.get_all_providers()[-1], "CPUExecutionProvider")
        self.assertEqual((s.get_inputs()[0].shape, s.end_profiling()), ([2], ""))
        with self.assertRaisesRegex(tgrun.BadInput, "input 'x': axis 0 is 3; 2 is wanted"):
            s.run(None, {"x": np.ones(3, np.float32)})
        for what in (lambda: o.register_custom_ops_library("x.so"), lambda: tgrun.ModelCompiler(),
                     lambda: tgrun.get_ep_devices()):
            self.assertRaises(tgrun.Unsupported, what)
        self.assertRaises(tgrun.DeviceError, s.set_providers, ["CUDAExecutionProvider"])

    def test_profiling_and_ends(self):
        o, r = tgrun.SessionOptions(), tgrun.RunOptions()
        with tempfile.TemporaryDirectory() as folder:
            o.enable_profiling, o.profile_file_prefix = True, os.path.join(folder, "times")
            s = session(one("Neg"), sess_options=o)
            s.run(None, {"x": np.ones(2, np.float32)})
            with open(s.end_profiling()) as f:
                self.assertEqual([e["name"] for e in json.load(f)], ["session_initialization", "model_run"])
        r.terminate = True
        self.assertRaises(tgrun.Stopped, s.run, None, {"x": np.ones(2, np.float32)}, r)
        r.terminate = False
        self.assertEqual(s.run(None, {"x": np.ones(2, np.float32)}, r)[0].tolist(), [-1, -1])
        o.set_load_cancellation_flag(True)
        self.assertRaises(tgrun.Stopped, session, one("Neg"), sess_options=o)
        self.assertRaises(AttributeError, setattr, r, "terminat", True)

    def test_runs_that_are_ended(self):
        """A loop of 2^40 iterations by another thread, and by time; one whose kernels are compiled by Ctrl-C."""
        text = """(float[4] x) => (float[4] y) <int64 m = {1099511627776}> { y = Loop <body = b (int64 i, bool c, float[4] v)
            => (bool d, float[4] w) { d = Identity(c) w = Add(v, v) }> (m, , x) }"""
        x, r, o = {"x": np.zeros(4, np.float32)}, tgrun.RunOptions(), tgrun.SessionOptions()
        s = parsed(text)
        threading.Timer(0.3, lambda: setattr(r, "terminate", True)).start()
        self.assertRaises(tgrun.Stopped, s.run, None, x, r)
        o.call_limit_s = 0.5
        self.assertRaises(TimeoutError, parsed(text, sess_options=o).run, None, x)

        sizes = range(16, 256)          # seconds of compiling
        weights = [numpy_helper.from_array(np.ones((k, k + 1), np.float32) / k, f"w{k}") for k in sizes]
        nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in sizes]
        graph = helper.make_graph(
            nodes, "g", *([helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, [1, k])] for k in (16, 256)), weights)
        many = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        o = tgrun.SessionOptions()
        o.no_cache, o.compiler = True, "cc"
        s = session(many.SerializeToString(), sess_options=o)
        begin = time.perf_counter()
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        self.assertRaises(KeyboardInterrupt, s.run, None, {"x16": np.ones((1, 16), np.float32)})
        self.assertLess(time.perf_counter() - begin, 1.5)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_threads(self):
        """Many runs of one session at once: each is what one alone gives, and a program is made once."""
        s = parsed("""(float[n, 64] x, float[64, 64] w) => (float[n, 64] y)
            { a = MatMul(x, w) b = Softmax<axis = -1>(a) c = MatMul(b, w) y = Relu(c) }""")
        random = np.random.default_rng(0)
        w = random.standard_normal((64, 64), np.float32)
        xs = [random.standard_normal((2 + k % 3, 64), np.float32) for k in range(12)]
        want = [s.run(None, {"x": x, "w": w})[0] for x in xs]
        wrong = []

        def work(number):
            for k in range(60):
                at = (number + k) % len(xs)
                if not np.array_equal(s.run(None, {"x": xs[at], "w": w})[0], want[at]):
                    wrong.append(at)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(s.get_stats()["programs"], 2)
        self.assertEqual(len(s._seats.free), len(s._seats.all))
        gone = weakref.ref(s)
        del s
        self.assertIsNone(gone())               # at once, not when cycles are looked for
        # an input with a default value is given now and then: the seats begin anew
        d = parsed("(float[2] x, float[2] b) => (float[2] y) <float[2] b = {1, 2}> { y = Add(x, b) }")

        def give(number):
            for k in range(40):
                b = {"b": np.array([number, k], np.float32)} if (number + k) % 2 else {}
                got, = d.run(None, {"x": np.zeros(2, np.float32), **b})
                if got.tolist() != ([number, k] if b else [1, 2]):
                    wrong.append(k)
        threads = [threading.Thread(target=give, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_names_are_listed(self):
        """Whatever an installed onnxruntime has, the package has, or docs/python.md says that it has not."""
        import onnxruntime
        with open(os.path.join(ROOT, "docs", "python.md")) as f:
            absent = set(re.findall(r"`(\w+)`", f.read().split("## Absent")[1]))
        made = {
            "OrtMemoryInfo": lambda: tgrun.OrtMemoryInfo("Cpu"), "OrtArenaCfg": lambda: tgrun.OrtArenaCfg({}),
            "SessionOptions": tgrun.SessionOptions, "RunOptions": tgrun.RunOptions
        }
        lacking = [
            n for n in dir(onnxruntime)
            if not n.startswith("_") and not isinstance(getattr(onnxruntime, n), type(os)) and not hasattr(tgrun, n)
        ]
        for name in ("SessionOptions", "RunOptions", "InferenceSession", "OrtValue", "IOBinding", "NodeArg",
                     "ModelMetadata", "OrtDevice", "OrtMemoryInfo", "OrtArenaCfg"):
            ours = getattr(tgrun, name)
            has = set(dir(made.get(name, lambda: ours)())) | set(getattr(ours, "__dataclass_fields__", ()))
            lacking += [n for n in dir(getattr(onnxruntime, name)) if not n.startswith("_") and n not in has]
        self.assertEqual([n for n in lacking if n not in absent], [])

    def test_modules(self):
        """What programs import from inside of onnxruntime."""
        from tgrun.capi import _pybind_state
        from tgrun.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
        self.assertTrue(
            issubclass(tgrun.BadInput, InvalidArgument) and issubclass(tgrun.Unsupported, Fail) and
            _pybind_state.InferenceSession is tgrun.InferenceSession)
        from onnxruntime.quantization import calibrate as theirs
        from tgrun.quantization import QuantType, calibrate
        self.assertEqual((QuantType.QInt8.name, theirs.__spec__.name), ("QInt8", "onnxruntime.quantization.calibrate"))
        self.assertIs(calibrate, theirs)                        # so that each of its classes is one

    def test_a_domain_that_is_not_imported(self):
        """onnxruntime's own is there; the standard has no other."""
        for domain, fails in (("com.microsoft", False), ("org.x", True)):
            data = model([helper.make_node("FusedMatMul", ["x", "x"], ["y"], domain=domain, alpha=2.0)],
                         [("x", TensorProto.FLOAT, [2, 2])], [("y", TensorProto.FLOAT, [2, 2])])
            if fails:
                with self.assertRaisesRegex(tgrun.BadModel, "'org.x' is not among the opset imports"):
                    session(data)
            else:
                np.testing.assert_allclose(
                    session(data).run(None, {"x": np.eye(2, dtype=np.float32)})[0], 2 * np.eye(2))

    def test_values_of_others(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        value = tgrun.OrtValue.from_dlpack(x)
        np.testing.assert_array_equal(np.from_dlpack(value), x)
        self.assertEqual(value.data_ptr(), x.ctypes.data)
        self.assertEqual(
            tgrun.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.uint16), 16).data_type(),
            "tensor(bfloat16)")
        self.assertEqual(tgrun.OrtDevice.make("cpu", 0).device_type(), tgrun.OrtDevice.cpu())

    def test_seed(self):
        def drawn(seed):
            o = tgrun.SessionOptions()
            o.seed = seed
            return session(one("RandomNormalLike", shape=[8]),
                           sess_options=o).run(None, {"x": np.zeros(8, np.float32)})[0].tolist()
        self.assertEqual(drawn(1), drawn(1))
        self.assertNotEqual(drawn(1), drawn(2))
        tgrun.set_seed(2)
        self.assertEqual(drawn(None), drawn(2))
        tgrun.set_seed(None)

    def test_providers(self):
        self.assertIn("CPUExecutionProvider", tgrun.get_available_providers())
        s = tgrun.InferenceSession(
            one("Neg"),
            providers=["TensorrtExecutionProvider", ("CPUExecutionProvider", {"arena_extend_strategy": "x"})])
        self.assertEqual(s.get_providers(), ["CPUExecutionProvider"])
        if tgrun.get_device() == "CPU":
            self.assertEqual(
                tgrun.InferenceSession(one("Neg"), providers=["CUDAExecutionProvider",
                                                              "CPUExecutionProvider"]).get_providers(),
                ["CPUExecutionProvider"])
            with self.assertRaisesRegex(tgrun.DeviceError, "cuda"):
                tgrun.InferenceSession(one("Neg"), providers=["CUDAExecutionProvider"])
        with self.assertRaisesRegex(tgrun.DeviceError, "none of the providers"):
            tgrun.InferenceSession(one("Neg"), providers=["TensorrtExecutionProvider"])

    def test_file_and_external_data(self):
        w = np.arange(300, dtype=np.float32)
        proto = onnx.ModelProto.FromString(
            model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, [300])],
                  [("y", TensorProto.FLOAT, [300])]))
        proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mödel.onnx")
            onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
            self.assertTrue((session(path).run(None, {"x": w})[0] == 2 * w).all())
            with self.assertRaisesRegex(tgrun.BadModel, "no folder"):
                session(proto_bytes(path))

    def test_compiled(self):
        """From memory, saved after a run, opened by name: the same numbers, and nothing is compiled."""
        x = np.arange(6, dtype="f4").reshape(2, 3)
        node = helper.make_node("Softmax", ["x"], ["y"])
        s = tgrun.InferenceSession(model([node], [("x", 1, [2, 3])], [("y", 1, [2, 3])]), device="cpu")
        want, = s.run(None, {"x": x})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.tgc")
            s.save(path)
            again = tgrun.InferenceSession(path)
            got, = again.run(None, {"x": x})
            self.assertEqual(got.tobytes(), want.tobytes())
            self.assertEqual(again.get_stats()["kernels_compiled"], 0)
            with self.assertRaisesRegex(tgrun.Error, "axis 0 is 1; 2 is wanted"):
                again.run(None, {"x": x[:1]})
            with self.assertRaisesRegex(tgrun.Error, "compiled model already"):
                again.save(path)


class Types(unittest.TestCase):
    """Identity of arrays, of every type, in every form that numpy has."""

    def same(self, x, kind, shape=None):
        (y,) = session(one("Identity", kind, list(x.shape) if shape is None else shape)).run(None, {"x": x})
        self.assertEqual((y.dtype, y.shape), (x.dtype.newbyteorder("="), x.shape))
        self.assertEqual(y.tolist() if x.dtype == object else y.tobytes(),
                         x.tolist() if x.dtype == object else x.astype(y.dtype).tobytes())

    def test_every_type(self):
        for number, (_, name) in values.TYPES.items():
            dtype = values.dtype_of(number)
            if name.startswith("float6"):
                continue                                        # which Identity does not take
            if name.startswith("complex"):
                x = (np.arange(13) - 1j * np.arange(13) / 2).astype(dtype)
            elif name == "object":
                x = np.array(["", "b", "c€😀"] + ["x"] * 10, object)
            elif number in values.PACKED_BITS:
                half = 1 << values.PACKED_BITS[number] - 1
                x = (np.arange(13) % (2 * half) - (half if name.startswith("int") else 0)).astype(np.int8).view(dtype)
            else:
                x = np.abs(np.arange(-4, 9)).astype(np.float32).astype(dtype)
            with self.subTest(name):
                self.same(x, number)
                self.same(x[:12].reshape(3, 4).T, number)

    def test_values_of_packed_types(self):
        x = np.array([-8, -1, 7, 3, 5], ml_dtypes.int4)
        (y,) = session(model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)], [("x", TensorProto.INT4, [5])], [("y", TensorProto.INT32, [5])])).run(None, {"x": x})
        self.assertEqual(y.tolist(), [-8, -1, 7, 3, 5])
        x = np.array([-6, 0.5, 1.5, 3], ml_dtypes.float4_e2m1fn)
        (y,) = session(model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], [("x", TensorProto.FLOAT4E2M1, [4])], [("y", TensorProto.FLOAT, [4])])).run(None, {"x": x})
        self.assertEqual(y.tolist(), [-6, 0.5, 1.5, 3])
        x = np.array([-7.5, 0.125, 1.5, 3, 0], ml_dtypes.float6_e2m3fn)
        (y,) = session(model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT6E3M2)], [("x", TensorProto.FLOAT6E2M3, [5])], [("y", TensorProto.FLOAT6E3M2, [5])])).run(None, {"x": x})
        self.assertEqual((y.dtype, y.astype(np.float32).tolist()), (ml_dtypes.float6_e3m2fn, [-8, 0.125, 1.5, 3, 0]))

    def test_narrow_types_of_several_sizes(self):
        s = session(
            model([helper.make_node("IsNaN", ["x"], ["y"])], [("x", TensorProto.FLOAT8E4M3FN, ["n"])],
                  [("y", TensorProto.BOOL, ["n"])]))
        for n in (3, 5, 900, 7000, 3):
            x = np.arange(n).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
            self.assertEqual(s.run(None, {"x": x})[0].tolist(), np.isnan(x.astype(np.float32)).tolist())

    def test_forms(self):
        x = np.arange(24, dtype=np.float32).reshape(4, 6)
        for form in (x[::2, ::-1], x.T, np.asfortranarray(x), x.astype(">f4"), x[:0], x[0, 0],
                     np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32)):
            self.same(np.asarray(form), TensorProto.FLOAT)
        locked = x.copy()
        locked.flags.writeable = False
        self.same(locked, TensorProto.FLOAT)

    def test_strings(self):
        for x in (np.array([["a", "ß"]]), np.array([[b"a", "ß".encode()]]), np.array([["a", "ß"]], object)):
            (y,) = session(one("Identity", TensorProto.STRING, [1, 2])).run(None, {"x": x})
            self.assertEqual((y.dtype, y.tolist()), (np.dtype(object), [["a", "ß"]]))

    def test_maps(self):
        s = parsed(
            '(float[2, 2] x) => (seq(map(string, float)) y) { y = ai.onnx.ml.ZipMap<classlabels_strings = ["a", "b"]>(x) }'
        )
        self.assertEqual([p.type for p in s.get_outputs()], ["seq(map(string,tensor(float)))"])
        self.assertEqual(s.run(None, {"x": np.array([[1, 2], [3, 4]], np.float32)}),
                         [[{"a": 1, "b": 2}, {"a": 3, "b": 4}]])
        s = parsed(
            '(map(string, float) m) => (float[1, 2] y) { y = ai.onnx.ml.DictVectorizer<string_vocabulary = ["b", "é"]>(m) }'
        )
        self.assertEqual(s.run(None, {"m": {"é": 1.5, "c": 2}})[0].tolist(), [[0, 1.5]])

    def test_sequences_and_optionals(self):
        s = parsed(
            "(seq(float[n]) s, optional(int64[n]) o) => (seq(float[n]) t, optional(int64[n]) p, bool has) { t = Identity(s) p = Identity(o) has = OptionalHasElement(o) }"
        )
        self.assertEqual([p.type for p in s.get_inputs()], ["seq(tensor(float))", "optional(tensor(int64))"])
        a, b, n = np.ones(2, np.float32), np.zeros(0, np.float32), np.arange(3)
        t, p, has = s.run(None, {"s": [a, b], "o": None})
        later, element, there = s.run(None, {"s": [2 * a, b], "o": n})
        self.assertEqual(([x.tolist() for x in t], p, has.item()), ([[1, 1], []], None, False))
        self.assertEqual(([x.tolist() for x in later], element.tolist(), there.item()), ([[2, 2], []], [0, 1, 2], True))
        self.assertEqual(s.run(["t"], {"s": [], "o": n}), [[]])
        for feed, said in (({"s": a, "o": n}, "'s' is f32; seq is wanted"), ({"s": [a, n], "o":
                                                                              n}, r"'s'\[1\] is i64; f32 is wanted"),
                           ({"s": [a], "o": a}, r"'o'\[0\] is f32; i64 is wanted"),
                           ({"s": None, "o":
                             n}, r"'s' is None; seq\(tensor\(float\)\) is wanted"), ({"s": [[a]], "o": n},
                                                                                     r"'s'\[0\] has 2 dimensions; 1")):
            with self.assertRaisesRegex(tgrun.BadInput, said):
                s.run(None, feed)
        words = parsed("(seq(string[n]) s) => (seq(string[n]) t) { t = Identity(s) }").run(
            None, {"s": [["a", "ß"], np.array([], object)]})
        self.assertEqual([x.tolist() for x in words[0]], [["a", "ß"], []])


class Values(unittest.TestCase):
    """Values that are no arrays of the caller's: OrtValues, what an IOBinding names, lists."""

    def setUp(self):
        self.session, self.x = session(one("Neg", shape=[2, "n"])), np.arange(6, dtype=np.float32).reshape(2, 3)

    def test_value(self):
        v = tgrun.OrtValue.ortvalue_from_numpy(self.x)
        self.assertEqual((v.shape(), v.data_type(), v.element_type(), v.device_name(), v.is_tensor(), v.has_value(),
                          v.tensor_size_in_bytes()), ([2, 3], "tensor(float)", 1, "cpu", True, True, 24))
        self.assertEqual(self.session.run(None, {"x": v})[0].tolist(), (-self.x).tolist())
        self.assertEqual(self.session.run_with_ort_values(["y"], {"x": v})[0].numpy().tolist(), (-self.x).tolist())
        v.update_inplace(self.x + 1)
        self.assertEqual(v.numpy().tolist(), self.x.tolist())       # of which it is a view
        for kind in (np.float32, 1):
            self.assertEqual(tgrun.OrtValue.ortvalue_from_shape_and_type([2, 1], kind).numpy().tolist(), [[0], [0]])

    def test_binding(self):
        b, y, v = self.session.io_binding(), np.zeros(
            (2, 3), np.float32), tgrun.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
        b.bind_cpu_input("x", self.x)
        b.bind_output("y")
        self.session.run_with_iobinding(b)
        self.assertEqual([r.tolist() for r in (*b.copy_outputs_to_cpu(), b.get_outputs()[0].numpy())],
                         [(-self.x).tolist()] * 2)
        b.bind_ortvalue_input("x", tgrun.OrtValue.ortvalue_from_numpy(2 * self.x))
        b.bind_ortvalue_output("y", v)
        self.session.run_with_iobinding(b, tgrun.RunOptions())
        self.assertEqual(v.numpy().tolist(), (-2 * self.x).tolist())
        b.bind_input("x", "cpu", 0, np.float32, self.x.shape, self.x.ctypes.data)
        b.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        self.session.run_with_iobinding(b)
        self.assertEqual(y.tolist(), (-self.x).tolist())
        b.bind_input("x", "cpu", 0, np.float32, y.shape, y.ctypes.data)     # in place
        self.session.run_with_iobinding(b)
        self.assertEqual(y.tolist(), self.x.tolist())
        b.bind_input("x", "cpu", 0, np.float32, self.x.shape, self.x.ctypes.data)
        b.bind_output("y", "cpu", 0, np.float32, [3, 2], y.ctypes.data)
        self.assertRaisesRegex(tgrun.BadInput, r"output 'y' is float32\[2, 3\]; it is bound to float32\[3, 2\]",
                               self.session.run_with_iobinding, b)
        self.assertRaisesRegex(tgrun.Unsupported, "memory of cuda", b.bind_input, "x", "cuda", 0, np.float32, [2, 3],
                               4096)
        b.clear_binding_inputs()
        self.assertRaisesRegex(tgrun.BadInput, "missing", self.session.run_with_iobinding, b)

    def test_lists(self):
        """They become what the input wants; arrays have a type of their own."""
        self.assertEqual(self.session.run(None, {"x": [[1], [2]]})[0].tolist(), [[-1], [-2]])
        self.assertRaisesRegex(tgrun.BadInput, "no array", self.session.run, None, {"x": [[1], [2, 3]]})
        self.assertRaisesRegex(tgrun.BadInput, "no array",
                               session(one("Neg", TensorProto.INT8)).run, None, {"x": [300]})
        self.assertRaisesRegex(tgrun.BadInput, "f64; f32 is wanted", self.session.run, None, {"x": np.zeros((2, 1))})

    def test_later(self):
        done, got = threading.Event(), []

        def callback(*what):
            got.append(what)
            if len(got) == 2:
                done.set()
        for feed in ({"x": self.x}, {}):
            self.session.run_async(None, feed, callback, "mine")
        self.assertTrue(done.wait(60))
        (good, user, said), (_, _, wrong) = sorted(got, key=lambda what: what[2])
        self.assertEqual((good[0].tolist(), user, said, wrong),
                         ((-self.x).tolist(), "mine", "", "Required inputs (['x']) are missing from input feed ([])"))


class Selected(unittest.TestCase):
    """Outputs that no run names are not computed: the product of 2^16 rows here is larger than memory may be."""

    def setUp(self):
        nodes = [helper.make_node("Neg", ["x"], ["small"]), helper.make_node("Abs", ["x"], ["other"]),
                 helper.make_node("MatMul", ["x", "row"], ["large"])]
        bytes_of = model(nodes, [("x", 1, [1 << 16, 1]), ("row", 1, [1, 1 << 16])],
                         [("large", 1, [1 << 16, 1 << 16]), ("small", 1, [1 << 16, 1]), ("other", 1, [1 << 16, 1])])
        options = tgrun.SessionOptions()
        options.max_memory_bytes = 1 << 28
        self.session = tgrun.InferenceSession(bytes_of, options, device="cpu")
        self.x = np.arange(1 << 16, dtype="f4")[:, None]
        self.feed = {"x": self.x, "row": self.x.T}

    def test_runs(self):
        s = self.session
        other, small = s.run(["other", "small"], self.feed)
        self.assertTrue((small == -self.x).all() and (other == self.x).all())
        (again,) = s.run(["small"], self.feed)
        self.assertEqual(again.tobytes(), small.tobytes())
        self.assertEqual(s.get_stats()["programs"], 1)
        self.assertEqual([port.name for port in s.get_outputs()], ["large", "small", "other"])
        with self.assertRaisesRegex(tgrun.Error, "needs 17180393472 bytes"):
            s.run(None, self.feed)

    def test_bound(self):
        place, binding = np.zeros_like(self.x), self.session.io_binding()
        for name, x in self.feed.items():
            binding.bind_cpu_input(name, x)
        binding.bind_output("other", "cpu", 0, np.float32, place.shape, place.ctypes.data)
        self.session.run_with_iobinding(binding)
        self.assertTrue((place == self.x).all())

    def test_threads(self):
        """Threads whose first runs name others agree on all."""
        nodes = [helper.make_node(op, ["x"], [name]) for op, name in zip(("Neg", "Abs", "Exp"), "abc")]
        s = session(model(nodes, [("x", 1, [2, 3])], [(name, 1, [2, 3]) for name in "abc"]))
        x = np.ones((2, 3), "f4")
        want = {"a": -x, "b": x, "c": np.exp(x)}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda name: (name, s.run([name], {"x": x})[0]), list("abc") * 40))
        for name, y in got:
            np.testing.assert_allclose(y, want[name], rtol=1e-6)


class Memory(unittest.TestCase):
    def test_outputs_are_nobody_elses(self):
        """Neither later runs nor the session's end touch them, and large ones are not copied."""
        for size in (1000, 100000):
            s = session(one("Neg", shape=[size]))
            first, second = (s.run(None, {"x": np.full(size, k, np.float32)})[0] for k in (1, 2))
            del s
            gc.collect()
            self.assertEqual(first.flags.owndata, size == 1000)
            self.assertTrue((first == -1).all() and (second == -2).all())
            first += 1
            self.assertTrue((first == 0).all())

    def test_memory_that_nobody_reads_is_written_again(self):
        s, size = session(one("Neg")), 100000

        def run(k, n=size):
            return s.run(None, {"x": np.full(n, k, np.float32)})[0]

        first = run(1)
        place = first.ctypes.data
        first.shape = 2, size // 2              # of the array, not of the memory
        first.flags.writeable = False
        del first
        again = run(2)
        self.assertEqual((again.ctypes.data, again.shape, again.flags.writeable), (place, (size,), True))
        readers = [again[7:9], memoryview(again), again.reshape(2, -1).T, np.from_dlpack(again), again.view(np.int32)]
        del again
        while readers:
            place = run(3).ctypes.data
            kept = readers.pop()
            self.assertNotEqual(place, np.asarray(kept).ctypes.data)
            self.assertTrue((np.asarray(kept).reshape(-1).view(np.float32) == -2).all())
        (wide,) = session(one("Neg", TensorProto.BFLOAT16)).run(None, {"x": np.ones(size, ml_dtypes.bfloat16)})
        self.assertTrue((wide == -1).all())

    def test_sizes_change_while_outputs_are_read(self):
        s, kept = session(one("Neg")), []
        for k in range(1, 30):
            n = 20000 + 10000 * (k % 4)
            kept += s.run(None, {"x": np.full(n, k, np.float32)})
            if k % 3 == 0:
                del kept[k % 2]
        bound, place = s.io_binding(), np.zeros(30000, np.float32)
        bound.bind_cpu_input("x", np.full(30000, 99, np.float32))
        bound.bind_ortvalue_output("y", tgrun.OrtValue.ortvalue_from_numpy(place))
        s.run_with_iobinding(bound)
        del s
        gc.collect()
        self.assertTrue((place == -99).all())
        values_of = [set(y.tolist()) for y in kept]
        self.assertEqual(len(set().union(*values_of)), len(kept))
        self.assertTrue(all(len(v) == 1 for v in values_of))

    def test_sizes_that_came_before_run_at_once(self):
        """They compile nothing, so nobody has to look at signals; another type, rank or layout is another case."""
        s, watched = session(one("Neg", shape=["n", "m"])), []
        xs = [np.random.default_rng(k).standard_normal((2 + k, 3), np.float32) for k in range(3)]
        for x in xs:
            s.run(None, {"x": x})
        seat = tgrun.session.Seat
        before = seat.run_watched
        try:
            seat.run_watched = lambda self, options: (watched.append(1), before(self, options))
            for k in (0, 1, 2, 0, 2, 1):
                np.testing.assert_array_equal(s.run(None, {"x": xs[k]})[0], -xs[k])
            self.assertEqual(watched, [])
            for x in (xs[2].T, xs[2].T, np.ones((7, 3), np.float32), xs[0].tolist()):
                np.testing.assert_array_equal(s.run(None, {"x": x})[0], -np.float32(x))
            self.assertGreaterEqual(len(watched), 3)
            self.assertRaises(tgrun.BadInput, s.run, None, {"x": xs[0][0]})
            np.testing.assert_array_equal(s.run(None, {"x": xs[1]})[0], -xs[1])
        finally:
            seat.run_watched = before

    def test_small_inputs_of_every_kind_are_found(self):
        """Read-only, empty, strided, scalar: where a quick way to an array's place fails, the long one serves, in any
        order."""
        s = session(one("Neg", shape=["n"]))
        fixed = np.arange(4, dtype=np.float32)
        fixed.flags.writeable = False
        for x in (np.ones(4, np.float32), fixed, np.ones(4, np.float32) * 2, np.arange(8, dtype=np.float32)[::2],
                  np.zeros(0, np.float32), np.ones(4, np.float32)):
            self.assertEqual(s.run(None, {"x": x})[0].tolist(), (-x).tolist())

    def test_inputs_are_lent(self):
        tensor, x = library.TgTensor(), np.zeros((3, 5), np.float32)
        values.lend(tensor, "x", x, (1,))
        self.assertEqual(tensor.data, x.ctypes.data)

    def test_bytes_live_as_long_as_the_session(self):
        s = session(bytearray(one("Neg")))
        gc.collect()
        self.assertEqual(s.run(None, {"x": np.ones(1, np.float32)})[0].tolist(), [-1])

    def test_threads_share_a_session(self):
        s, wrong = session(one("Neg")), []

        def work(k):
            kept = []
            for n in range(1, 40):
                size = (n % 5 + 1) * 4000
                kept.append(s.run(None, {"x": np.full(size, k, np.float32)})[0])
                wrong.extend(y for y in kept if not (y == -k).all())
                del kept[:n % 3]
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_layout(self):
        """The structures are those of the header, by its compiler."""
        structures = [library.TgTensor, library.TgPort, library.TgModel, library.TgOptions, library.TgInfo]
        lines = [
            f'printf("%zu\\n", sizeof({s.__name__}));' + "".join(f'printf("%zu\\n", offsetof({s.__name__}, {name}));'
                                                                 for name, _ in s._fields_) for s in structures
        ]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "layout.c"), "w") as f:
                f.write("#include <stdio.h>\n#include <tgrun.h>\nint main(void) {" + "\n".join(lines) + "return 0; }\n")
            subprocess.run(
                [os.environ.get("CC", "gcc"), "-I",
                 os.path.join(ROOT, "include"), "-o", "layout", "layout.c"], cwd=folder, check=True)
            said = subprocess.run([os.path.join(folder, "layout")], stdout=subprocess.PIPE, check=True).stdout.split()
        self.assertEqual(
            [int(n) for n in said],
            [n for s in structures for n in [ctypes.sizeof(s)] + [getattr(s, name).offset for name, _ in s._fields_]])


class Errors(unittest.TestCase):
    """One line, the library's, and a kind that a program can tell."""

    def test_models(self):
        for data, kind, said in ((b"no model", tgrun.BadModel, "^model: "), (b"", tgrun.BadModel, "is empty"),
                                 ("nosuch.onnx", tgrun.BadModel, "nosuch.onnx: cannot be opened")):
            with self.assertRaisesRegex(kind, said) as caught:
                session(data)
            self.assertEqual(caught.exception.status, 3)
        self.assertNotIn("\n", str(caught.exception))

    def test_node(self):
        bad = model([helper.make_node("Frobnicate", ["x"], ["y"], name="frob")], [("x", TensorProto.FLOAT, [1])],
                    [("y", TensorProto.FLOAT, [1])])
        with self.assertRaisesRegex(tgrun.Unsupported, "Frobnicate") as caught:
            session(bad).run(None, {"x": np.ones(1, np.float32)})
        self.assertEqual((caught.exception.status, caught.exception.node, caught.exception.op),
                         (5, "frob", "Frobnicate"))
        self.assertIsInstance(caught.exception, NotImplementedError)

    def test_inputs(self):
        s = session(one("Neg", shape=[2, "n"]))
        good = np.ones((2, 3), np.float32)
        for feed, said in (({}, r"Required inputs \(\['x'\]\) are missing"), ({"x": good, "z": good}, "no input 'z'; it has x"),
                           ({"x": good.astype(np.float64)}, "f64; f32 is wanted"), ({"x": good[:1]}, "axis 0 is 1"),
                           ({"x": good[0]}, "1 dimensions; 2"), ({"x": np.zeros(2, "M8[s]")}, "datetime64"),
                           ({"x": np.array(["a"])}, "string"), ({"x": np.zeros([1] * 17,
                                                                               np.float32)}, "17 dimensions")):
            with self.subTest(said), self.assertRaisesRegex(tgrun.BadInput, said) as caught:
                s.run(None, feed)
            self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaisesRegex(tgrun.BadInput, "no output 'z'; it has y"):
            s.run(["z"], {"x": good})
        with self.assertRaisesRegex(tgrun.BadInput, "zero byte"):
            session(one("Identity", TensorProto.STRING)).run(None, {"x": np.array(["a\0b"], object)})
        self.assertEqual(s.run(None, {"x": good})[0].tolist(), (-good).tolist())

    def test_later_sizes(self):
        """Sizes that do not fit are an error, after which others run."""
        s = session(
            model([helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)],
                  [("x", TensorProto.FLOAT, [1, 1, "n", "n"])], [("y", TensorProto.FLOAT, None)]))
        for n in (4, 5, 6, 7, 4):
            if n % 2:
                with self.assertRaisesRegex(tgrun.Error, "2 on"):
                    s.run(None, {"x": np.ones((1, 1, n, n), np.float32)})
            else:
                self.assertEqual(s.run(None, {"x": np.ones((1, 1, n, n), np.float32)})[0].shape, (1, 4, n // 2, n // 2))
        s = session(
            model([helper.make_node("GatherElements", ["x", "i"], ["y"], axis=0)],
                  [("x", TensorProto.FLOAT, [3, 1]),
                   ("i", TensorProto.INT64, ["n", "m"])], [("y", TensorProto.FLOAT, None)]))
        for n, m in ((2, 1), (3, 1), (2, 2), (5, 1)):
            if m > 1:
                with self.assertRaisesRegex(tgrun.Error, "indices of size 2 on axis 1 of size 1"):
                    s.run(None, {"x": np.ones((3, 1), np.float32), "i": np.zeros((n, m), np.int64)})
            else:
                self.assertEqual(
                    s.run(None, {"x": np.ones((3, 1), np.float32), "i": np.zeros((n, m), np.int64)})[0].shape, (n, m))
        s = session(
            model([helper.make_node("Compress", ["x", "c"], ["y"])], [("x", TensorProto.FLOAT, [4]),
                                                                      ("c", TensorProto.BOOL, ["n"])],
                  [("y", TensorProto.FLOAT, None)]))
        for n in (2, 3, 5, 4):
            if n > 4:
                with self.assertRaisesRegex(tgrun.Error, "c: has size 5; there are 4 slices"):
                    s.run(None, {"x": np.ones(4, np.float32), "c": np.zeros(n, bool)})
            else:
                self.assertEqual(s.run(None, {"x": np.ones(4, np.float32), "c": np.ones(n, bool)})[0].shape, (n,))

    def test_devices(self):
        with self.assertRaisesRegex(tgrun.DeviceError, "device 'tpu' is unknown"):
            tgrun.InferenceSession(one("Neg"), device="tpu")


class Backend(unittest.TestCase):
    def test_run_node(self):
        x = np.array([[3, 1, 2]], np.float32)
        (y,) = backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [x])
        self.assertEqual(y.tolist(), [[-3, -1, -2]])
        out = backend.run_node(helper.make_node("TopK", ["x", "k"], ["values", "indices"], axis=1),
                               [x, np.array([2])], opset_version=13)
        self.assertEqual((out.values.tolist(), out["indices"].tolist()), ([[3, 2]], [[0, 2]]))
        (y,) = backend.run_node(helper.make_node("Clip", ["x", "", "max"], ["y"]), [x, np.float32(2)])
        self.assertEqual(y.tolist(), [[2, 1, 2]])
        (y,) = backend.run_node(helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=1.5), [x])
        self.assertEqual(y.tolist(), [[1, 0, 1]])

    def test_run_model(self):
        proto = onnx.ModelProto.FromString(one("Neg"))
        self.assertEqual(backend.run_model(proto, [np.ones(2, np.float32)])[0].tolist(), [-1, -1])
        self.assertEqual(backend.prepare(proto).run({"x": np.ones(2, np.float32)}).y.tolist(), [-1, -1])

    def test_devices(self):
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("TPU"))


sys.dont_write_bytecode = True
if __name__ == "__main__":
    done = unittest.main(exit=False).result
    bad = len(done.failures) + len(done.errors)
    print(f"{done.testsRun - bad} of {done.testsRun} tests of the package are right")
    sys.exit(bad != 0)
