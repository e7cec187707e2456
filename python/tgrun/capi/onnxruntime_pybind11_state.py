"""onnxruntime's exceptions by their names, as ours, and what else programs take from this module."""
from .. import *  # noqa: F403
from ..library import BadInput, BadModel, DeviceError, Error, Unsupported

Fail = RuntimeException = EngineError = ModelLoaded = Error
NoModel = NotFound = NoSuchFile = ModelLoadCanceled = ModelRequiresCompilation = Error
InvalidArgument, InvalidGraph, InvalidProtobuf = BadInput, BadModel, BadModel
NotImplemented, EPFail = Unsupported, DeviceError
