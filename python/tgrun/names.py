"""onnxruntime's names beside sessions: devices, memory, build information, and what is there only so that programs
which name it get a warning.

obeyed: done as onnxruntime does. ignored: accepted, and a warning says once that it has no effect. refused:
Unsupported. docs/python.md lists them; tests/python compares the list with an installed onnxruntime.
"""
import enum
import importlib.abc
import importlib.machinery
import sys
import warnings

from .library import UNSUPPORTED, Unsupported, lib, text

warned = set()


def ignore(what, why="it has no effect here"):
    """Warns once a process."""
    if what not in warned:
        warned.add(what)
        warnings.warn(f"tgrun: {what}: {why}", stacklevel=3)


def refuse(what, why):
    raise Unsupported(f"{what}: {why}", UNSUPPORTED)


OrtAllocatorType = enum.IntEnum("OrtAllocatorType",
                                {"INVALID": -1, "ORT_DEVICE_ALLOCATOR": 0, "ORT_ARENA_ALLOCATOR": 1})
OrtMemType = enum.IntEnum("OrtMemType", {"CPU_INPUT": -2, "CPU_OUTPUT": -1, "CPU": -1, "DEFAULT": 0})
OrtDeviceMemoryType = enum.IntEnum("OrtDeviceMemoryType", {"DEFAULT": 0, "HOST_ACCESSIBLE": 5})
OrtMemoryInfoDeviceType = enum.IntEnum("OrtMemoryInfoDeviceType", {"CPU": 0, "GPU": 1, "NPU": 2, "FPGA": 3})
OrtHardwareDeviceType = enum.IntEnum("OrtHardwareDeviceType", {"CPU": 0, "GPU": 1, "NPU": 2})
ExecutionOrder = enum.IntEnum("ExecutionOrder", {"DEFAULT": 0, "PRIORITY_BASED": 1, "MEMORY_EFFICIENT": 2})
OrtSparseFormat = enum.IntEnum(
    "OrtSparseFormat",
    {"ORT_SPARSE_UNDEFINED": 0, "ORT_SPARSE_COO": 1, "ORT_SPARSE_CSRC": 2, "ORT_SPARSE_BLOCK_SPARSE": 4})


class OrtDevice:
    """Where a value lies. Values of this package lie in the computer's own memory."""
    KINDS = ("cpu", "cuda")

    def __init__(self, kind, memory_type=0, device_id=0, vendor_id=0):
        """kind: its number (`cpu()`, `cuda()`)."""
        if kind not in range(len(self.KINDS)):
            refuse(f"OrtDevice {kind}", f"{', '.join(self.KINDS)} are known")
        self._kind, self._id = self.KINDS[kind], device_id

    def __str__(self):
        return self._kind

    @staticmethod
    def make(ort_device_name, device_id, vendor_id=-1):
        name = ort_device_name.lower()
        if name not in OrtDevice.KINDS:
            refuse(f"OrtDevice {ort_device_name!r}", f"{', '.join(OrtDevice.KINDS)} are known")
        return OrtDevice(OrtDevice.KINDS.index(name), device_id=device_id)

    def device_id(self):
        return self._id

    def device_type(self):
        return self.KINDS.index(self._kind)

    def device_vendor_id(self):
        return 0

    def device_mem_type(self):
        return 0

    cpu = default_memory = staticmethod(lambda: 0)
    cuda = gpu = webgpu = staticmethod(lambda: 1)               # numbers of kinds of devices, ours or not
    fpga = staticmethod(lambda: 2)
    npu = cann = staticmethod(lambda: 3)
    dml = staticmethod(lambda: 4)


class OrtMemoryInfo:
    """Where memory lies, by name; nothing here depends on it."""
    def __init__(self, name, allocator_type=OrtAllocatorType.ORT_DEVICE_ALLOCATOR, id=0, mem_type=OrtMemType.DEFAULT):
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0


class OrtArenaCfg:
    """From four numbers or a dict, as onnxruntime's."""
    NAMES = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
             "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes")

    def __init__(self, *values):
        given = values[0] if len(values) == 1 and isinstance(values[0], dict) else dict(zip(self.NAMES, values))
        for name in set(given) - set(self.NAMES):
            raise RuntimeError(f"Invalid OrtArenaCfg option: {name}")
        for name in self.NAMES:
            setattr(self, name, given.get(name, 0 if name == "max_mem" else -1))


def create_and_register_allocator(memory_info, arena_config):
    """Accepted with a warning."""
    ignore("create_and_register_allocator", "memory is planned before a run, no allocator is used")


def create_and_register_allocator_v2(provider, memory_info, options, arena_config):
    """Accepted with a warning."""
    ignore("create_and_register_allocator_v2", "memory is planned before a run, no allocator is used")


def disable_telemetry_events():
    """There are none."""


enable_telemetry_events = disable_telemetry_events


def get_build_info():
    """Name and version."""
    return f"Build Info: tgrun {text(lib.tg_version())}"


def get_version_string():
    """The library's version."""
    return text(lib.tg_version())


def has_collective_ops():
    """False: there are none."""
    return False


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """A GPU's libraries are opened when a session wants them."""


def print_debug_info():
    """Prints get_build_info()."""
    print(get_build_info())


def set_global_thread_pool_sizes(intra_op=0, inter_op=0):
    """Accepted with a warning."""
    ignore("set_global_thread_pool_sizes", "threads are a session's: SessionOptions.intra_op_num_threads")


def set_default_logger_callback(callback):
    """Accepted with a warning."""
    ignore("set_default_logger_callback", "a run writes no log")


def register_execution_provider_library(name, path):
    """Refused: Unsupported."""
    refuse("register_execution_provider_library", "providers of other libraries are not taken")


def unregister_execution_provider_library(name):
    """Refused: Unsupported."""
    refuse("unregister_execution_provider_library", "providers of other libraries are not taken")


def get_ep_devices():
    """Refused: Unsupported."""
    refuse("get_ep_devices", "get_available_providers tells what works here")


def copy_tensors(source, target, stream=None):
    """Copies OrtValues of equal types and shapes, one after the other."""
    for a, b in zip(source, target):
        b.update_inplace(a.numpy())


class Borrower(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages of onnxruntime's that are Python alone, by names of ours: tgrun.quantization.calibrate is the very module
    onnxruntime.quantization.calibrate, so that each of its classes is one."""
    PACKAGES = ("datasets", "quantization", "transformers")

    def find_spec(self, name, path=None, target=None):
        ours, _, theirs = name.partition(".")
        return importlib.machinery.ModuleSpec(name, self) if ours == __package__ and \
            theirs.split(".")[0] in self.PACKAGES else None

    def create_module(self, spec):
        theirs = spec.name.replace(__package__, "onnxruntime", 1)
        try:
            module = importlib.import_module(theirs)
        except ImportError as e:
            raise ImportError(f"{spec.name} is {theirs}: {e}; pip install onnxruntime onnx") from e
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """It has run; it gets back what the import machinery wrote over."""
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, Borrower())


class ModelCompiler:
    """Refused: Unsupported."""

    def __init__(self, *values, **named):
        refuse("ModelCompiler", "kernels are kept in the cache of the user")
