from .onnxruntime_pybind11_state import *  # noqa: F403
from .onnxruntime_pybind11_state import (  # noqa: F401
    EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, NoModel, NoSuchFile, NotImplemented,
    RuntimeException)
