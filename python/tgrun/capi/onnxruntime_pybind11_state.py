"""onnxruntime's exceptions by their names, as ours, and what else programs take from this module."""
import ctypes

from .. import *  # noqa: F403
from .. import SessionOptions
from ..binding import OrtValueVector
from ..library import BadInput, BadModel, DeviceError, Error, Unsupported

Fail = RuntimeException = EngineError = ModelLoaded = Error
NoModel = NotFound = NoSuchFile = ModelLoadCanceled = ModelRequiresCompilation = Error
InvalidArgument, InvalidGraph, InvalidProtobuf = BadInput, BadModel, BadModel
NotImplemented, EPFail = Unsupported, DeviceError


def get_default_session_options():
    """New ones."""
    return SessionOptions()


def is_dlpack_uint8_tensor(capsule):
    """Is a DLPack capsule a tensor of bytes, as booleans travel in some?"""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # DLTensor: data, device (two i32), ndim (i32), then the type's code and bits, a byte each
    at = pointer_of(capsule, b"dltensor") + 8 + 8 + 4
    return tuple((ctypes.c_uint8 * 2).from_address(at)) == (1, 8)


def __getattr__(name):
    """Functions that pack weights are those of an installed onnxruntime."""
    if name.startswith("quantize_"):
        from onnxruntime.capi import onnxruntime_pybind11_state as theirs
        return getattr(theirs, name)
    raise AttributeError(f"{__name__} has no {name!r}")
