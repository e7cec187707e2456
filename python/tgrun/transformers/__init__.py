"""onnxruntime.transformers, which is Python alone, where onnxruntime is installed."""
import importlib
import sys

try:
    sys.modules[__name__] = importlib.import_module("onnxruntime.transformers")
except ImportError as e:
    raise ImportError("tgrun.transformers is that of onnxruntime: pip install onnxruntime onnx") from e
