"""Signed bytes that onnxruntime multiplies as the standard says.

Where the processor has no dot product of bytes, its products of u8 by s8 are added up by twos in 16 bits, which
saturate ("Quantize ONNX models", data type selection: U8S8 on AVX2 and AVX512, where reduce_range is the remedy). There
operands are drawn of 7 bits: 255 * 64 * 2 fits. What is compared, and how, stays the same."""
import functools
import importlib.util
import re

import numpy as np
from onnx import TensorProto, helper


@functools.cache
def saturates():
    """Does it here?"""
    if not importlib.util.find_spec("onnxruntime"):
        return False
    import onnxruntime as ort
    port = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "g",
                              [port("a", TensorProto.UINT8, [1, 4]), port("b", TensorProto.INT8, [4, 1])],
                              [port("y", TensorProto.INT32, [1, 1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"a": np.full((1, 4), 255, np.uint8), "b": np.full((4, 1), 127, np.int8)})[0] != 4 * 255 * 127


def fitting(value, op="MatMulInteger"):
    """The array, or half of it where op multiplies bytes."""
    multiplies = re.search("Integer|QLinear(Conv|MatMul)|QGemm|QAttention|DynamicQuantize(MatMul|LSTM)", op)
    return np.asarray(value // np.int8(2)) if multiplies and value.dtype == np.int8 and saturates() else value
