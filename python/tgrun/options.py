"""SessionOptions and RunOptions in onnxruntime's shape, with ours beside them."""
import collections.abc
import enum
import json
import os
import warnings

import numpy as np

from . import names
from .library import TgData, TgOptions, lib
from .stop import Switch
from .values import lend_array, number_of

PROVIDERS = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}
GraphOptimizationLevel = enum.IntEnum("GraphOptimizationLevel", {
    "ORT_DISABLE_ALL": 0, "ORT_ENABLE_BASIC": 1, "ORT_ENABLE_EXTENDED": 2, "ORT_ENABLE_LAYOUT": 3, "ORT_ENABLE_ALL": 99
})
PRECISIONS = ("exact", "split", "fast")                         # TgPrecision
ExecutionMode = enum.IntEnum("ExecutionMode", {"ORT_SEQUENTIAL": 0, "ORT_PARALLEL": 1})
first_seed = None


class SessionOptions:
    """intra_op_num_threads: 0 is one a physical core. Those of TgOptions (include/tgrun.h), None being the library's
    default: cpus, precision ("exact", "split" or "fast"), cache_dir, no_cache, max_memory_bytes, beam, tune_s, opts,
    seed, dims, batch, batch_inputs ("x,mask"), shard ("auto", "batch" or "weights": how the devices of the CPU
    provider's option device_id, such as "0-3", divide a model), compiler ("auto", "cc" or "own"), verbose (lines on standard error),
    call_limit_s (a call that takes longer ends with OverTime). Of onnxruntime's, enable_profiling, profile_file_prefix,
    use_deterministic_compute (the C compiler is waited for), optimized_model_filepath (the model as it is), free
    dimensions, constants and providers are obeyed; the others have no effect, of which a warning tells; a name that is
    neither's is an AttributeError, as there."""

    OWN = ("cpus", "precision", "cache_dir", "no_cache", "max_memory_bytes", "beam", "tune_s", "opts", "seed", "dims",
           "batch", "batch_inputs", "shard", "compiler", "verbose", "call_limit_s")
    THEIRS = dict(inter_op_num_threads=0, execution_mode=ExecutionMode.ORT_SEQUENTIAL,
                  graph_optimization_level=GraphOptimizationLevel.ORT_ENABLE_ALL, enable_profiling=False,
                  enable_mem_pattern=True, enable_cpu_mem_arena=True, enable_mem_reuse=True,
                  use_deterministic_compute=False, use_per_session_threads=True, log_severity_level=-1,
                  log_verbosity_level=0, logid="", optimized_model_filepath="",
                  profile_file_prefix="onnxruntime_profile_", execution_order=names.ExecutionOrder.DEFAULT)
    STATE = ("intra_op_num_threads", "config", "fixed", "providers", "cancelled", "initializers", "files",
             "denoted")
    OBEYED = ("enable_profiling", "profile_file_prefix", "use_deterministic_compute", "optimized_model_filepath")
    ENTRIES = ("session.optimized_model_external_initializers_file_name",
               "session.optimized_model_external_initializers_min_size_in_bytes")

    def __init__(self):
        self.intra_op_num_threads, self.config, self.fixed, self.providers, self.cancelled = 0, {}, {}, [], Switch()
        self.initializers, self.files = {}, {}  # values by an initializer's name, bytes by an external file's
        self.denoted = {}
        for name, value in (dict.fromkeys(self.OWN) | self.THEIRS).items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in self.OWN and name not in self.THEIRS and name not in self.STATE:
            raise AttributeError(f"SessionOptions has no {name!r}")
        if name in self.THEIRS and name not in self.OBEYED and value != self.THEIRS[name]:
            names.ignore(f"SessionOptions.{name}")
        if name == "precision" and value is not None and value not in PRECISIONS:
            raise ValueError(f"precision: {value!r} is none; {', '.join(PRECISIONS)} are known")
        super().__setattr__(name, value)

    def add_session_config_entry(self, key, value):
        if key not in self.ENTRIES:
            names.ignore(f"session config entry {key!r}")
        self.config[key] = value

    def get_session_config_entry(self, key):
        if key not in self.config:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self.config[key]

    def has_session_config_entry(self, key):
        return key in self.config

    def add_free_dimension_override_by_name(self, name, size):
        """Inputs have that size where the model says `name`, and no other."""
        self.fixed[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation, size):
        """The same where the model says that an axis means that: "DATA_BATCH"."""
        self.denoted[denotation] = int(size)

    def size_of(self, symbol, denotation):
        """Of a free dimension: the size that it is to have, or None."""
        return self.fixed.get(symbol, self.denoted.get(denotation))

    def add_provider(self, name, options):
        self.providers.append((name, dict(options)))

    def has_providers(self):
        return bool(self.providers)

    def set_load_cancellation_flag(self, cancelled):
        """A session that is opened with such options, or is just being opened by another thread, is not."""
        self.cancelled.turn(cancelled)

    def register_custom_ops_library(self, path):
        names.refuse(path, "operators of other libraries are not taken")

    def add_initializer(self, name, value):
        """An OrtValue or array in place of the model's own initializer, of its type and shape. It is the caller's, as
        long as the session lives."""
        self.initializers[name] = value

    def add_external_initializers(self, found, values):
        """The same for each; the model's external files need not be there then."""
        self.initializers |= dict(zip(found, values, strict=True))

    def add_external_initializers_from_files_in_memory(self, files, buffers, lengths):
        """Bytes of the model's external files, by the names that the model has for them."""
        self.files |= {name: np.frombuffer(b, np.uint8, n) for name, b, n in zip(files, buffers, lengths, strict=True)}

    def add_provider_for_devices(self, devices, options):
        names.refuse("add_provider_for_devices", "add_provider names a device")

    def set_provider_selection_policy(self, policy):
        names.ignore("set_provider_selection_policy", "the first provider that works here is taken")

    def take(self, model_options):
        """What a model says of itself, as JSON (ORT_LOAD_CONFIG_FROM_MODEL); names that are neither's are refused."""
        for name, value in json.loads(model_options).get("session_options", {}).items():
            if name == "graph_optimization_level":
                value = GraphOptimizationLevel(value)
            elif name == "execution_mode":
                value = ExecutionMode(value)
            elif isinstance(getattr(self, name), bool):
                value = bool(value)
            setattr(self, name, value)

    def to_c(self, device):
        """TgOptions, and what must live as long as the session."""
        o = TgOptions()
        lib.tg_options_default(o)
        o.device, o.threads = device.encode(), self.intra_op_num_threads
        for name in self.OWN:
            value = getattr(self, name)
            if value is None and name == "seed":
                value = first_seed
            if name == "compiler" and value is None and self.use_deterministic_compute and device == "cpu":
                value = "cc"
            if name == "precision" and value is not None:
                value = PRECISIONS.index(value)
            if value is not None:
                setattr(o, name, os.fsencode(value) if isinstance(value, (str, os.PathLike)) else value)
        given = [(name, np.asarray(value), True) for name, value in self.initializers.items()]
        given += [(name, value, False) for name, value in self.files.items()]
        o.data, o.data_count = (TgData * len(given))(), len(given)
        kept = [lend_data(o.data[k], *one) for k, one in enumerate(given)]
        return o, kept


def lend_data(data, name, array, is_initializer):
    """Fills in a TgData; returns what must live as long as the session."""
    if is_initializer:
        data.initializer = os.fsencode(name)
    else:
        data.file = os.fsencode(name)
    return lend_array(data.value, name, array, number_of(array.dtype))


class RunOptions:
    """terminate: runs with these options end soon, those that other threads are in too, with Stopped. The others are
    onnxruntime's, and have no effect, of which a warning tells."""

    THEIRS = dict(log_severity_level=-1, log_verbosity_level=0, logid="", only_execute_path_to_fetches=False,
                  training_mode=False)

    def __init__(self):
        self.stops, self.config, self.adapters = Switch(), {}, []
        for name, value in self.THEIRS.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in self.THEIRS and name not in ("terminate", "config", "stops", "adapters"):
            raise AttributeError(f"RunOptions has no {name!r}")
        if name in self.THEIRS and value != self.THEIRS[name]:
            names.ignore(f"RunOptions.{name}")
        super().__setattr__(name, value)

    @property
    def terminate(self):
        return self.stops.on

    @terminate.setter
    def terminate(self, value):
        self.stops.turn(value)

    def add_run_config_entry(self, key, value):
        names.ignore(f"run config entry {key!r}")
        self.config[key] = value

    def get_run_config_entry(self, key):
        if key not in self.config:
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self.config[key]

    def add_active_adapter(self, adapter):
        """Runs with these options take a LoraAdapter's parameters for the model's inputs of their names."""
        self.adapters.append(adapter)


def set_seed(seed):
    """The seed of sessions whose options name none."""
    global first_seed
    first_seed = seed


def sequence(what, name):
    if not isinstance(what, collections.abc.Sequence) or isinstance(what, str):
        raise ValueError(f"'{name}' should be a sequence, not {type(what).__name__}")


def normal_providers(providers, provider_options, available=tuple(PROVIDERS)):
    """Names, each once, and a dict of texts for each: from names, or (name, options), or names and their options beside
    them. Who is not available is kept, with a warning."""
    if providers is None:
        return [], []
    sequence(providers, "providers")
    if provider_options is not None:
        sequence(provider_options, "provider_options")
        if len(providers) != len(provider_options):
            raise ValueError(f"{len(providers)} 'providers' and {len(provider_options)} 'provider_options'")
        if not all(isinstance(p, str) for p in providers):
            raise ValueError("'providers' should be names where 'provider_options' are given")
        providers = list(zip(providers, provider_options))
    found = {}
    for p in providers:
        name, options = p if isinstance(p, tuple) and len(p) == 2 else (p, {})
        if not isinstance(name, str) or not isinstance(options, dict):
            raise ValueError(f"'providers': {p!r} is neither a name nor a name and a dict of options")
        if name in found:
            warnings.warn(f"provider '{name}' is given twice; the first counts", stacklevel=3)
        elif name not in available:
            warnings.warn(f"provider '{name}' is not available; {', '.join(available)} are", stacklevel=3)
        found.setdefault(name, {str(key): str(value) for key, value in options.items()})
    return list(found), list(found.values())
