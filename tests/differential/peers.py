"""Who runs a model: us, onnxruntime, and the standard's reference evaluator. A peer's function takes a model and its inputs by name and returns arrays, or None where it refuses."""
import os
import warnings

import numpy as np
import onnxruntime as ort
import tgrun
from onnx.reference import ReferenceEvaluator

from draw import is_plain

ort.set_default_logger_severity(4)
warnings.filterwarnings("ignore")
np.seterr(all="ignore")


def of_tgrun(model, device):
    """A session; it raises tgrun.Error."""
    options = tgrun.SessionOptions()
    options.no_cache, options.intra_op_num_threads = 1, 1
    return tgrun.InferenceSession(model.SerializeToString(), options, device=device)


def onnxruntime(model, feed):
    if not all(is_plain(v.dtype) for v in feed.values()):       # its Python interface takes numpy's own types
        return None
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        if any(word in port.type for port in session.get_outputs() for word in ("float8", "float4", "bfloat16", "int4", "int2")):
            return None
        return session.run(None, feed)
    except Exception:                                           # its errors have no common class
        return None


def reference(model, feed):
    try:
        results = ReferenceEvaluator(model).run(None, feed)
    except Exception:                                           # whatever an operator's Python raises
        return None
    return [plain(r) for r in results]


def plain(value):
    """numpy's own forms of text become the one that inputs have."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        return value.astype(object) if value.dtype.kind in "US" or "StringDType" in str(value.dtype) else value
    return value


PEERS = {"onnxruntime": onnxruntime, "reference": reference}
