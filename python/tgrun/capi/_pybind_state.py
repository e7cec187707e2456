"""Names that programs import from onnxruntime.capi."""
from . import onnxruntime_pybind11_state as state
from .onnxruntime_pybind11_state import *  # noqa: F403


def __getattr__(name):
    return getattr(state, name)
