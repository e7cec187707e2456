"""libtgrun by ctypes: the declarations of include/tgrun.h that this package uses, and failures as exceptions.

The library is the one that TGRUN_LIBRARY names, else libtgrun.so beside this file, else the system's. tests/python
compares the structures with the header.
"""
import ctypes
import os
from ctypes import CDLL, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

MAX_RANK, MAX_INSIDE = 16, 8


class TgTensor(Structure):
    _fields_ = [("type", c_int), ("rank", c_int32), ("shape", c_int64 * MAX_RANK), ("data", c_void_p),
                ("size_bytes", c_size_t)]


class TgPort(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("inside", c_int * MAX_INSIDE), ("rank", c_int32),
                ("shape", c_int64 * MAX_RANK), ("symbol", c_char_p * MAX_RANK), ("step", c_double), ("rounded", c_int),
                ("sparse", c_int64), ("denotation", POINTER(c_char_p)), ("reserved", c_int64 * 6)]


class TgModel(Structure):
    _fields_ = [
        (name, c_char_p)
        for name in ("producer_name", "producer_version", "domain", "doc_string", "graph_name", "graph_doc_string")
    ] + [("model_version", c_int64), ("ir_version", c_int64), ("reserved", c_int64 * 16)]


class TgData(Structure):
    _fields_ = [("initializer", c_char_p), ("file", c_char_p), ("value", TgTensor), ("reserved", c_int64 * 4)]


class TgOptions(Structure):
    _fields_ = [("device", c_char_p), ("threads", c_int32), ("cpus", c_char_p), ("precision", c_int),
                ("cache_dir", c_char_p), ("no_cache", c_int32), ("max_memory_bytes", c_int64), ("beam", c_int32),
                ("opts", c_char_p), ("tune_s", c_double), ("verbose", c_int32), ("progress", c_void_p),
                ("progress_user", c_void_p), ("seed", c_int64), ("dims", c_char_p), ("batch", c_int32),
                ("batch_inputs", c_char_p), ("compiler", c_char_p), ("stop", c_void_p),
                ("call_limit_s", c_double), ("log", c_void_p), ("log_user", c_void_p),
                ("shard", c_char_p), ("data", POINTER(TgData)), ("data_count", c_int64), ("reserved", c_int64 * 24)]


class TgInfo(Structure):
    _fields_ = [
        (name, c_int64)
        for name in ("opset", "nodes", "parameters", "kernels", "syncs", "host_steps", "kernels_compiled",
                     "kernels_cached", "lists_refused", "planned_bytes", "weight_bytes", "flops")
    ] + [(name, c_double) for name in ("load_s", "schedule_s", "compile_s", "tune_s")] + [("kernels_timed", c_int64),
                                                                                          ("kernels_better", c_int64),
                                                                                          ("run_before_s", c_double),
                                                                                          ("run_after_s", c_double),
                                                                                          ("threads", c_int32),
                                                                                          ("device_kind", c_char * 16),
                                                                                          ("device_name", c_char * 128),
                                                                                          ("features", c_char * 256),
                                                                                          ("model_hash", c_char * 33),
                                                                                          ("programs_kept", c_int64), ("schedule", c_char_p),
                                                                                          ("reserved", c_int64 * 30)]


SESSION, STATUS = c_void_p, "TgStatus"
FUNCTIONS = {                   # name: (result, arguments)
    "tg_version": (c_char_p, []),
    "tg_error": (c_char_p, []),
    "tg_error_where": (None, [POINTER(c_char_p)] * 3),
    "tg_options_default": (None, [POINTER(TgOptions)]),
    "tg_open": (STATUS, [POINTER(SESSION), c_char_p, POINTER(TgOptions)]),
    "tg_open_memory": (STATUS, [POINTER(SESSION), c_void_p, c_size_t, c_char_p, POINTER(TgOptions)]),
    "tg_share": (STATUS, [POINTER(SESSION), SESSION, POINTER(TgOptions)]),
    "tg_close": (None, [SESSION]),
    "tg_input_count": (c_int32, [SESSION]),
    "tg_output_count": (c_int32, [SESSION]),
    "tg_input": (STATUS, [SESSION, c_int32, POINTER(TgPort)]),
    "tg_output": (STATUS, [SESSION, c_int32, POINTER(TgPort)]),
    "tg_give": (STATUS, [SESSION, c_char_p, c_int32]),
    "tg_select_outputs": (STATUS, [SESSION, c_void_p, c_int32]),
    # addresses, and a status for `check`: what else ctypes does takes longer than a small model
    "tg_run": (c_int, [SESSION, c_void_p, c_int32, c_void_p]),
    "tg_ranks": (STATUS, [POINTER(c_int32)] * 2),
    "tg_ranks_serve": (STATUS, []),
    "tg_ranks_end": (None, [c_int32]),
    "tg_serial": (c_char_p, [SESSION]),
    "tg_bind_output": (STATUS, [SESSION, c_int32, c_void_p, c_size_t]),
    "tg_take": (STATUS, [POINTER(TgTensor), SESSION, c_int32]),
    "tg_save": (STATUS, [SESSION, c_char_p]),
    "tg_info": (STATUS, [SESSION, POINTER(TgInfo)]),
    "tg_program_count": (c_int64, [SESSION]),
    "tg_model": (None, [SESSION, POINTER(TgModel)]),
    "tg_model_property": (c_int32, [SESSION, c_int32, POINTER(c_char_p), POINTER(c_char_p)]),
    "tg_device": (STATUS, [POINTER(TgOptions), c_char * 128, c_char * 256]),
    "tg_tensor_free": (None, [POINTER(TgTensor)]),
}


class Error(RuntimeError):
    """What the library says, one line. status: a TgStatus, the exit code of the program `tgrun`; node, op and field:
    where in the model, or ""."""

    def __init__(self, message, status, node="", op="", field=""):
        super().__init__(message)
        self.status, self.node, self.op, self.field = status, node, op, field


class BadModel(Error):
    """The model breaks the standard."""


class BadInput(Error, ValueError):
    """An input does not fit the model."""


class Unsupported(Error, NotImplementedError):
    """Valid, but not covered."""


class DeviceError(Error):
    """The device that was requested."""


class Stopped(Error):
    """RunOptions.terminate, or a load that was cancelled."""


class OverTime(Error, TimeoutError):
    """call_limit_s."""


USAGE, BAD_MODEL, BAD_INPUT, UNSUPPORTED, DEVICE, OVER_TIME, STOPPED = 2, 3, 4, 5, 8, 124, 130
KINDS = {BAD_MODEL: BadModel, BAD_INPUT: BadInput, UNSUPPORTED: Unsupported, DEVICE: DeviceError, OVER_TIME: OverTime,
         STOPPED: Stopped}


def check(status, function=None, arguments=None):
    """ctypes calls it with what a function returned that tells by a TgStatus."""
    if status:
        where = [c_char_p() for _ in range(3)]
        message = text(lib.tg_error())
        lib.tg_error_where(*where)
        raise KINDS.get(status, Error)(message, status, *(text(w.value) for w in where))
    return status


def text(value):
    return (value or b"").decode(errors="replace")


def load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtgrun.so")
    try:
        library = CDLL(os.environ.get("TGRUN_LIBRARY") or (beside if os.path.exists(beside) else "libtgrun.so"))
    except OSError as e:
        raise ImportError(f"{e}; TGRUN_LIBRARY names the library of a build folder") from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = c_int if result is STATUS else result, arguments
        if result is STATUS:
            function.errcheck = check
    return library


lib = load()
