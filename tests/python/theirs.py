"""onnxruntime's own Python tests under onnxruntime and under tgrun, by one changed import: how many pass under both,
and which pass under onnxruntime alone. docs/python.md names those and why.

    theirs.py SOURCE [FILE..]       SOURCE: onnxruntime's source at the version of the installed package; FILE: of
                                    onnxruntime/test/python, else those below

Needs onnxruntime, onnx of the same year, parameterized, sympy, torch (CPU), einops. Some archives of the source lack
the models that the tests open: those that are small are made here, from what the tests say of them."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ["onnxruntime_test_python.py", "onnxruntime_test_python_iobinding.py", "onnxruntime_test_python_mlops.py",
         "onnxruntime_test_python_backend.py", "onnxruntime_test_python_backend_mlops.py",
         "onnxruntime_test_python_sparse_matmul.py", "onnxruntime_test_python_nested_control_flow_op.py",
         "onnxruntime_test_float8.py", "onnxruntime_test_scatternd.py", "quantization/test_*.py",
         "transformers/test_mha.py", "transformers/test_gqa_cpu.py", "transformers/test_parity_rotary_embedding.py",
         "transformers/test_rotary_*_fusion.py", "transformers/test_skip_layer_norm_fusion.py",
         "transformers/test_simplified_layernorm_fusion.py"]
LIMIT_S = 600
IMPORTS = [(r"import onnxruntime as ", "import tgrun as "), (r"import onnxruntime$", "import tgrun as onnxruntime"),
           (r"import onnxruntime\.([\w.]+) as ", r"import tgrun.\1 as "), (r"from onnxruntime(?=[. ])", "from tgrun")]


# ---- models ----

def port(name, shape, kind=T.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype), name)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def ml(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


def sequence(name, kind):
    return helper.make_tensor_sequence_value_info(name, kind, None)


def scores(kind):
    return helper.make_value_info("Z", helper.make_sequence_type_proto(
        helper.make_map_type_proto(kind, helper.make_tensor_type_proto(T.FLOAT, None))))


def doubles(name, values):
    return numpy_helper.from_array(np.array(values, np.float64), name)


def small_models():
    """(name, nodes, inputs, outputs, weights, versions of domains)"""
    rng = np.random.default_rng(0)
    W, free = [weight("W", [[1], [2]])], port("x", ["Dim1", "Dim2", 5])
    for dim, meaning in zip(free.type.tensor_type.shape.dim, ("DATA_BATCH", "DATA_CHANNEL")):
        dim.denotation = meaning
    optional = helper.make_optional_type_proto(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.FLOAT, [5])))
    numbers = helper.make_map_type_proto(T.INT64, helper.make_tensor_type_proto(T.FLOAT, None))
    I = T.INT64
    yield ("mul_1", [node("Mul", "X W", "Y")], [port("X", [3, 2])], [port("Y", [3, 2])],
           [weight("W", [[1, 2], [3, 4], [5, 6]])])
    yield "matmul_1", [node("MatMul", "X W", "Y")], [port("X", [3, 2])], [port("Y", [3, 1])], W
    yield "matmul_2", [node("MatMul", "X W", "Y")], [port("X", ["None", 2])], [port("Y", ["None", 1])], W
    yield ("logicaland", [node("And", "input1:0 input:0", "output:0")],
           [port("input1:0", [2, 2], T.BOOL), port("input:0", [2, 2], T.BOOL)], [port("output:0", [2, 2], T.BOOL)])
    yield ("identity_string", [node("Identity", "input:0", "output:0")], [port("input:0", [2, 2], T.STRING)],
           [port("output:0", [2, 2], T.STRING)])
    yield "sequence_length", [node("SequenceLength", "X", "Y")], [sequence("X", T.FLOAT)], [port("Y", [], I)]
    yield ("sequence_construct", [node("SequenceConstruct", "tensor1 tensor2", "output_sequence")],
           [port("tensor1", [2, 3], I), port("tensor2", [2, 3], I)], [sequence("output_sequence", I)])
    yield ("sequence_insert", [node("SequenceInsert", "input_seq tensor", "output_sequence")],
           [sequence("input_seq", I), port("tensor", [2, 3], I)], [sequence("output_sequence", I)])
    yield ("identity_opt", [node("Identity", "opt_in", "opt_out")], [helper.make_value_info("opt_in", optional)],
           [helper.make_value_info("opt_out", optional)], [], {"": 16})
    yield "abs_free_dimensions", [node("Abs", "x", "y")], [free], [port("y", ["Dim1", "Dim2", 5])]
    yield ("alloc_tensor_reuse", [node("Add", "inp0 inp1", "a"), node("Sub", "inp0 inp1", "b"), node("Neg", "a", "outp0"),
                                  node("Neg", "b", "outp1")],
           [port("inp0", [10]), port("inp1", [10])], [port("outp0", [10]), port("outp1", [10])])
    yield "model_with_valid_ort_config_json", [node("Abs", "x", "y")], [port("x", [3])], [port("y", [3])]
    yield ("mnist", [node("Conv", "Input3 K", "a", pads=[2, 2, 2, 2]), node("Relu", "a", "b"),
                     node("MaxPool", "b", "c", kernel_shape=[4, 4], strides=[4, 4]), node("Reshape", "c s", "d"),
                     node("MatMul", "d W", "e"), node("Add", "e B", "Plus214_Output_0")],
           [port("Input3", [1, 1, 28, 28])], [port("Plus214_Output_0", [1, 10])],
           [weight("K", rng.standard_normal((8, 1, 5, 5))), weight("s", [1, 392], np.int64),
            weight("W", rng.standard_normal((392, 10))), weight("B", rng.standard_normal((1, 10)))])
    yield ("model_with_orig_ext_data", [node("MatMul", "X W", "e"), node("Add", "e B", "Y")], [port("X", [4, 16])],
           [port("Y", [4, 16])],
           [weight("W", rng.standard_normal((16, 16))), weight("B", rng.standard_normal(16))])
    yield ("lora/two_params_lora_model", [node("MatMul", "input_x W", "base"), node("MatMul", "input_x lora_param_a", "l"),
                                          node("MatMul", "l lora_param_b", "m"), node("Add", "base m", "output")],
           [port("input_x", [4, 4]), port("lora_param_a", [4, "r"]), port("lora_param_b", ["r", 4])],
           [port("output", [4, 4])],
           [weight("W", np.arange(1, 17).reshape(4, 4)), weight("lora_param_a", np.zeros((4, 0))),
            weight("lora_param_b", np.zeros((0, 4)))])
    old, new = {"": 8, "ai.onnx.ml": 1}, {"": 13, "ai.onnx.ml": 3}
    yield ("zipmap_stringfloat", [ml("ZipMap", "X", "Z", classlabels_strings=["class1", "class2", "class3"])],
           [port("X", [2, 3])], [scores(T.STRING)], [], old)
    yield ("zipmap_int64float", [ml("ZipMap", "X", "Z", classlabels_int64s=[10, 20, 30])], [port("X", [2, 3])],
           [scores(I)], [], old)
    yield ("pipeline_vectorize", [ml("DictVectorizer", "float_input", "v", int64_vocabulary=[0, 1, 2, 3, 4]),
                                  ml("LinearRegressor", "v", "variable1", coefficients=[1.0] * 5, intercepts=[13.203754])],
           [helper.make_value_info("float_input", numbers)], [port("variable1", [1, 1])], [], old)
    yield ("LabelEncoder", [ml("LabelEncoder", "input", "variable", classes_strings=["1", "2", "3", "4"])],
           [port("input", [1, 1], T.STRING)], [port("variable", [1, 1], I)], [], old)
    yield ("mlnet_encoder", [node("Identity", "C0", "C00"),
                             ml("OneHotEncoder", "C1", "C12", zeros=1, cats_strings=[b"B\0B\0", "B", b"C\0C\0", "C"])],
           [port("C0", [1, 1]), port("C1", [1, 3], T.STRING)], [port("C00", [1, 1]), port("C12", [1, 3, 4])], [], old)
    yield ("tree_ensemble_as_tensor", [
        ml("TreeEnsembleRegressor", "X", "y", n_targets=1, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],
           nodes_featureids=[2, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
           nodes_values_as_tensor=doubles("a", [1.7999999523162842, 0, 0]), nodes_truenodeids=[1, 0, 0],
           nodes_falsenodeids=[2, 0, 0], nodes_missing_value_tracks_true=[0, 0, 0], target_treeids=[0, 0],
           target_nodeids=[1, 2], target_ids=[0, 0],
           target_weights_as_tensor=doubles("b", [0.7284910678863525, 0.9134243130683899])),
        node("Cast", "y", "Y", to=T.DOUBLE)], [port("X", [None, 4], T.DOUBLE)], [port("Y", [None, 1], T.DOUBLE)], [], new)


def make_models(folder):
    """Those that are not there."""
    for name, nodes, inputs, outputs, *more in small_models():
        path, versions = os.path.join(folder, name + ".onnx"), more[1] if len(more) > 1 else {"": 13}
        if os.path.exists(path):
            continue
        m = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, more[0] if more else []), ir_version=8,
                              opset_imports=[helper.make_opsetid(*v) for v in versions.items()])
        if "config" in name:
            helper.set_model_props(m, {"ort_config": '{"session_options": {"inter_op_num_threads": 5, "intra_op_num_'
                                                     'threads": 2, "graph_optimization_level": 99, "enable_profiling": 1}}'})
        outside = "ext_data" in name
        onnx.save(m, path, save_as_external_data=outside, location=os.path.basename(name) + ".bin" if outside else None,
                  size_threshold=10)
    adapter = os.path.join(folder, "lora", "two_params_lora_model.onnx_adapter")
    if not os.path.exists(adapter):
        import onnxruntime
        made = onnxruntime.AdapterFormat()
        made.set_adapter_version(1)
        made.set_model_version(1)
        made.set_parameters({name: onnxruntime.OrtValue.ortvalue_from_numpy(np.float32(v)) for name, v in (
            ("lora_param_a", [[0, 3], [0, 4], [0, 5], [0, 6]]), ("lora_param_b", [[1, 2, 3, 4], [7, 8, 9, 10]]))})
        made.export_adapter(adapter)
    for script, *arguments in (["sparse_initializer_as_output", "--node_name", "Constant", "--output_file"],
                               ["sparse_to_dense_matmul", "--output_file"],
                               ["model_with_external_initializer_come_from_user"]):
        name = [script + ".onnx"] if arguments else []
        if not os.path.exists(os.path.join(folder, script + ".onnx")):
            subprocess.run([sys.executable, script + ".py", *arguments, *name], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)


# ---- tests ----

def prepare(source, folder, engine):
    tests = os.path.join(source, "onnxruntime", "test")
    shutil.copytree(os.path.join(tests, "testdata"), os.path.join(folder, "testdata"))
    make_models(os.path.join(folder, "testdata"))
    shutil.copytree(os.path.join(tests, "python"), os.path.join(folder, "python"))
    shutil.copytree(os.path.join(folder, "testdata"), os.path.join(folder, "python", "testdata"), dirs_exist_ok=True)
    for path in glob.glob(os.path.join(folder, "python", "**", "*.py"), recursive=True) if engine == "tgrun" else ():
        with open(path) as f:
            text = f.read()
        for old, new in IMPORTS:
            text = re.sub(r"(?m)^(\s*)" + old, r"\1" + re.sub(r"\\1", r"\\2", new), text)
        with open(path, "w") as f:
            f.write(text)


def run(folder, name):
    """{test: "ok", "FAIL", "ERROR" or "skipped"}; seconds."""
    where = os.path.join(folder, "python")
    path = os.pathsep.join([os.path.join(HERE, "..", "..", "python"), where, os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run([sys.executable, "-W", "ignore", "-m", "unittest", "-v", os.path.basename(name)[:-3]],
                              cwd=os.path.dirname(os.path.join(where, name)), env=os.environ | {"PYTHONPATH": path},
                              capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {name: "takes too long"}, LIMIT_S
    found, seconds = {}, re.search(r"Ran \d+ tests? in ([\d.]+)s", done.stderr)
    for test, rest in re.findall(r"(?m)^(test_\w+) \([\w.]+\)(.*(?:\n(?!test_\w+ \().*)*)", done.stderr.split("=" * 70)[0]):
        found[test] = "skipped" if "skipped" in rest else "ok" if re.search(r"\bok\b", rest) else "fails"
    for test in re.findall(r"(?m)^(?:FAIL|ERROR): (\w+)", done.stderr):
        found[test] = "fails"
    return found or {name: "fails"}, float(seconds.group(1)) if seconds else 0.0


def main():
    source, *names = sys.argv[1:]
    tests = os.path.join(source, "onnxruntime", "test", "python")
    names = names or [os.path.relpath(p, tests) for name in FILES for p in sorted(glob.glob(os.path.join(tests, name)))]
    count, seconds, alone = {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for engine in ("onnxruntime", "tgrun"):
            prepare(source, os.path.join(folder, engine), engine)
        for name in names:
            theirs, ours = {}, {}
            for engine, found in (("onnxruntime", theirs), ("tgrun", ours)):
                results, took = run(os.path.join(folder, engine), name)
                found.update(results)
                seconds[engine] = seconds.get(engine, 0) + took
            for test, result in theirs.items():
                both = (result, ours.get(test, "fails"))
                count[both] = count.get(both, 0) + 1
                if both[0] == "ok" and both[1] != "ok":
                    alone.append(f"{name}: {test}")
    for (theirs, ours), n in sorted(count.items()):
        print(f"{n} tests: onnxruntime {theirs}, tgrun {ours}")
    print(", ".join(f"{engine} {t:.0f} s" for engine, t in seconds.items()))
    for line in alone:
        print("onnxruntime alone:", line)
    return bool(alone)


if __name__ == "__main__":
    sys.exit(main())
