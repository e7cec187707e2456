"""The standard's backend interface (backend.py), as a module: `onnx.backend.test.BackendTest(tgrun.backend, __name__)`
runs the standard's own tests."""
from .backend import (  # noqa: F401
    Representation, TgrunBackend, is_compatible, prepare, run_model, run_node, supports_device)
