"""Who runs a model: us, onnxruntime, and the standard's reference evaluator. A peer's function takes a model and its
inputs by name and returns arrays, or None where it refuses."""
import functools
import sys
import warnings

import numpy as np
import onnx
import tgrun
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from draw import is_float, is_plain

try:
    import onnxruntime as ort
except ImportError:
    print("skipped: onnxruntime is not installed")
    sys.exit(0)

ort.set_default_logger_severity(4)
warnings.filterwarnings("ignore")
np.seterr(all="ignore")


def of_tgrun(model, device, dims=None):
    """A session; it raises tgrun.Error. dims: the range of free sizes."""
    options = tgrun.SessionOptions()
    options.no_cache, options.intra_op_num_threads, options.dims = 1, 1, dims
    return tgrun.InferenceSession(model.SerializeToString(), options, device=device)


def single_type(node, name, versions):
    """The type that an operator's output has whatever its inputs are; inference does not know all of them."""
    if not onnx.defs.has(node.op_type, node.domain):
        return 0
    text = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain).outputs
    text = text[min(list(node.output).index(name), len(text) - 1)].type_str
    return {"tensor(float)": TensorProto.FLOAT, "tensor(int64)": TensorProto.INT64}.get(text, 0)


def ports_of(model):
    """What the standard says of each output: numpy's type and its sizes, None where it says nothing."""
    versions = {s.domain: s.version for s in model.opset_import}
    maker = {name: n for n in model.graph.node for name in n.output}
    ports = []
    for p in onnx.shape_inference.infer_shapes(model).graph.output:
        t = p.type.tensor_type
        kind = t.elem_type or single_type(maker[p.name], p.name, versions)
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim] if t.HasField("shape") else None
        ports.append((helper.tensor_dtype_to_np_dtype(kind) if kind else None, sizes))
    return ports


def fits(array, port):
    """Is a result what the standard says of its type and sizes?"""
    dtype, sizes = port
    return isinstance(array, np.ndarray) and dtype in (None, array.dtype) and (
        sizes is None or len(sizes) == array.ndim and all(n in (None, k) for n, k in zip(sizes, array.shape)))


def in_plain_types(model, feed):
    """The same for an interface of numpy's own types: other inputs become initializers, other outputs are cast to f32
    or i8, which hold each of their values. Also the outputs' true types."""
    types = [dtype for dtype, _ in ports_of(model)]
    arrays = {name: v for name, v in feed.items() if isinstance(v, np.ndarray)}
    if all(is_plain(v.dtype) for v in arrays.values()) and all(t is None or is_plain(t) for t in types):
        return model, feed, [None] * len(types)
    out = onnx.ModelProto()
    out.CopyFrom(model)
    odd = [name for name, v in arrays.items() if not is_plain(v.dtype)]
    out.graph.initializer.extend(numpy_helper.from_array(feed[name], name) for name in odd)
    for port in [p for p in out.graph.input if p.name in odd]:
        out.graph.input.remove(port)
    for port, t in zip(out.graph.output, types):
        if t is not None and not is_plain(t):
            out.graph.node.append(
                helper.make_node(
                    "Cast", [port.name], [port.name + "_plain"], to=TensorProto.FLOAT
                    if is_float(t) else TensorProto.INT8 if t.name[0] == "i" else TensorProto.UINT8))
            port.name += "_plain"
    return out, {name: v
                 for name, v in feed.items()
                 if name not in odd}, [t if t is not None and not is_plain(t) else None for t in types]


@functools.cache
def newest_of_onnxruntime():
    """The last version of the standard that it takes."""
    for version in range(onnx.defs.onnx_opset_version(), 6, -1):
        port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [port("x")], [port("y")])
        try:
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
            ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            return version
        except Exception:                                       # its errors have no common class
            continue
    return 0


def in_its_version(model):
    """The same model by an older version of the standard, where its operators are those of that version."""
    newest, out = newest_of_onnxruntime(), onnx.ModelProto()
    mine = next((o for o in model.opset_import if o.domain == ""), None)
    since = lambda n, version: onnx.defs.get_schema(n.op_type, version, "").since_version
    if mine is None or mine.version <= newest or any(
            n.domain == "" and (any(a.HasField("g") for a in n.attribute) or since(n, mine.version) > newest)
            for n in model.graph.node):
        return model
    out.CopyFrom(model)
    next(o for o in out.opset_import if o.domain == "").version = newest
    out.ir_version = min(out.ir_version, 10)
    return out


def onnxruntime(model, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        model, feed, types = in_plain_types(in_its_version(model), feed)
        arrays = ort.InferenceSession(model.SerializeToString(), options,
                                      providers=["CPUExecutionProvider"]).run(None, feed)
        return [a if t is None else a.astype(t) for a, t in zip(arrays, types)]
    except Exception:                                           # its errors have no common class
        return None


def reference(model, feed):
    try:
        ports = ports_of(model)
        results = [plain(r, dtype) for r, (dtype, _) in zip(ReferenceEvaluator(model).run(None, feed), ports)]
        # it took whole numbers for broken ones
        return results if all(dtype in (None, r.dtype) for r, (dtype, _) in zip(results, ports)) else None
    except Exception:                                           # whatever an operator's Python raises
        return None


def plain(value, dtype):
    """numpy's own forms of text become the one that inputs have; numbers of another width, where Python forgot the
    type, become what the standard infers."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        value = value.astype(object) if value.dtype.kind in "US" or "StringDType" in str(value.dtype) else value
        alike = dtype is not None and (is_float(value.dtype) and is_float(dtype) or
                                       value.dtype.kind in "iu" and dtype.kind in "iu")
        return value.astype(dtype) if alike and value.dtype != dtype else value
    return value


PEERS = {"onnxruntime": onnxruntime, "reference": reference}
