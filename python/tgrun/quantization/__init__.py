"""onnxruntime.quantization, which is Python alone, where onnxruntime is installed."""
import importlib
import sys

try:
    sys.modules[__name__] = importlib.import_module("onnxruntime.quantization")
except ImportError as e:
    raise ImportError("tgrun.quantization is that of onnxruntime: pip install onnxruntime onnx") from e
