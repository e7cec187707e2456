"""tgrun: runs ONNX models. In the shape of onnxruntime's Python package:

    session = tgrun.InferenceSession("model.onnx")
    (y,) = session.run(["y"], {"x": x})

tgrun.backend is the standard's backend interface (onnx.backend.base); it alone needs the package onnx. tgrun.capi holds
names that programs import from onnxruntime.capi; tgrun.quantization, tgrun.transformers and tgrun.datasets are those of
an installed onnxruntime (names.Borrower).
"""
from .adapters import AdapterFormat, LoraAdapter
from .binding import IOBinding, OrtValue, SessionIOBinding
from .library import BadInput, BadModel, DeviceError, Error, OverTime, Stopped, Unsupported, lib, text
from .names import (ExecutionOrder, ModelCompiler, OrtAllocatorType, OrtArenaCfg, OrtDevice,
                    OrtDeviceMemoryType, OrtHardwareDeviceType, OrtMemoryInfo, OrtMemoryInfoDeviceType, OrtMemType,
                    OrtSparseFormat, copy_tensors, create_and_register_allocator,
                    create_and_register_allocator_v2, disable_telemetry_events, enable_telemetry_events, get_build_info,
                    get_ep_devices, get_version_string, has_collective_ops, preload_dlls, print_debug_info,
                    register_execution_provider_library, set_default_logger_callback, set_global_thread_pool_sizes,
                    unregister_execution_provider_library)
from .options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions, set_seed
from .ranks import end_ranks, ranks, serve_ranks
from .session import (InferenceSession, ModelMetadata, NodeArg, get_all_providers, get_available_providers, get_device,
                      set_default_logger_severity, set_default_logger_verbosity)
from .sparse import SparseTensor

__version__ = text(lib.tg_version())
__all__ = [
    name for name in dir()
    if not name.startswith("_") and name not in ("lib", "text") and not isinstance(globals()[name], type(names))
]
