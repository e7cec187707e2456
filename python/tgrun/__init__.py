"""tgrun: runs ONNX models. In the shape of onnxruntime's Python package:

    session = tgrun.InferenceSession("model.onnx")
    (y,) = session.run(["y"], {"x": x})

tgrun.backend is the standard's backend interface (onnx.backend.base); it alone needs the package onnx.
"""
from .binding import IOBinding, OrtValue
from .library import BadInput, BadModel, DeviceError, Error, Unsupported, lib, text
from .session import (ExecutionMode, GraphOptimizationLevel, InferenceSession, ModelMetadata, NodeArg, RunOptions, SessionOptions, get_all_providers, get_available_providers, get_device,
                      set_default_logger_severity, set_default_logger_verbosity, set_seed)

__version__ = text(lib.tg_version())
__all__ = ["BadInput", "BadModel", "DeviceError", "Error", "ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtValue",
           "RunOptions", "SessionOptions", "Unsupported", "get_all_providers", "get_available_providers", "get_device", "set_default_logger_severity", "set_default_logger_verbosity", "set_seed"]
