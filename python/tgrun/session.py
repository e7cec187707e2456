"""InferenceSession in onnxruntime's shape: a program that used that one only replaces the import.

A session is one model on one device. It compiles at the first run of each set of input shapes and keeps what it
compiled, also on disk. Options of onnxruntime that mean nothing here are accepted, and a warning says so once for each
(names.py).
"""
import contextlib
import copy
import ctypes
import functools
import json
import os
import threading
import time
import weakref
from dataclasses import dataclass, field

import numpy as np

from .adapters import adapted
from .binding import IOBinding, OrtValue, OrtValueVector
from . import names
from .library import (BAD_INPUT, BAD_MODEL, DEVICE, USAGE, BadInput, BadModel, DeviceError, Error, TgInfo, TgModel,
                      TgOptions, TgPort, TgTensor, Unsupported, check, lib, text)
from .options import PROVIDERS, RunOptions, SessionOptions, normal_providers
from .sparse import SparseTensor
from .stop import Flag
from .values import Loan, Outputs, dtype_of, type_text


@dataclass(frozen=True)
class NodeArg:
    """An input or output. type: onnxruntime's words, as `tensor(float)`, `seq(tensor(int64))`,
    `map(string,tensor(float))`. shape: sizes, symbols, and None where the model says nothing, of the tensors inside; []
    also when it does not say how many."""
    name: str
    type: str
    shape: list


@dataclass(frozen=True)
class ModelMetadata:
    """What the model says of itself."""
    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict = field(default_factory=dict)


# ---- devices ----

@functools.cache                                                # opening a GPU takes a third of a second
def works(device):
    o = TgOptions()
    lib.tg_options_default(o)
    o.device = device.encode()
    try:
        lib.tg_device(o, (ctypes.c_char * 128)(), (ctypes.c_char * 256)())
    except DeviceError:
        return False
    return True


def get_all_providers():
    """Names of all providers that tgrun may have."""
    return list(PROVIDERS)


def get_available_providers():
    """Names of those whose device works here."""
    return [name for name, device in PROVIDERS.items() if works(device)]


def set_default_logger_severity(level):
    """A run writes no log."""


set_default_logger_verbosity = set_default_logger_severity


def get_device():
    """"GPU" where CUDA works, else "CPU"."""
    return "GPU" if works("cuda") else "CPU"


def devices_of(providers, provider_options):
    """What `providers` requests, as names of devices in order; providers that are not ours are passed over."""
    out = []
    for name, options in zip(*normal_providers(providers, provider_options)):
        if name in PROVIDERS:
            number = str(options.get("device_id", ""))
            out.append(PROVIDERS[name] + (f":{number}" if number and (PROVIDERS[name] == "cuda" or "-" in number) else ""))
    return out


# ---- the session ----


def open_into(session, model, options):
    """From a file's name or bytes; returns what must live as long as the session."""
    if isinstance(model, (str, os.PathLike)):
        lib.tg_open(session, os.fsencode(model), options)
        return None
    data = np.frombuffer(model, np.uint8)
    lib.tg_open_memory(session, data.ctypes.data, data.size, None, options)
    return data


def properties(session):
    """A model's metadata_props."""
    key, value, found = ctypes.c_char_p(), ctypes.c_char_p(), {}
    while lib.tg_model_property(session, len(found), key, value):
        found[text(key.value)] = text(value.value)
    return found


def write_model(path_or_bytes, options):
    """optimized_model_filepath: the model as it is, which any runtime opens, its constants beside it where the
    options' entries say so."""
    names.ignore("SessionOptions.optimized_model_filepath",
                 "the file holds the model as it is: what is made of it here are kernels (InferenceSession.save)")
    import onnx                                                 # only for who wants such a file
    named = isinstance(path_or_bytes, (str, os.PathLike))
    model = onnx.load(path_or_bytes) if named else onnx.load_from_string(bytes(path_or_bytes))
    beside, least = (options.config.get(key) for key in SessionOptions.ENTRIES)
    onnx.save(model, options.optimized_model_filepath, save_as_external_data=beside is not None, location=beside,
              size_threshold=int(least or 1024))


SHAPES_MOST = 4096              # that a seat remembers


class Seat:
    """What one run at a time needs: a session of the library's, tensors, with the array types and shapes that they have
    from the last run, results. The first is the session that was opened, the others share with it."""

    def __init__(self, owner, first):
        self.session, self.stop = owner._session, owner._stop
        if not first:
            options, self.stop, self.session = TgOptions(), Flag(), ctypes.c_void_p()
            self.stop.watch(options)
            options.call_limit_s = owner._options.call_limit_s or 0
            lib.tg_share(self.session, owner._session, options)
        self.inputs, self.outputs = (TgTensor * len(owner._inputs))(), Outputs(self.session, len(owner._outputs))
        self.results = self.outputs.tensors
        places = [ctypes.addressof(tensors) for tensors in (self.inputs, self.results)]
        self.arguments = self.session.value, places[0], len(self.inputs), places[1]
        self.loans = [Loan(tensor, port.name, t) for tensor, port, t in zip(self.inputs, owner._inputs, owner._types)]
        self.first, self.ran = first, set()             # ran: types and shapes for which there is a program

    def end(self, close=lib.tg_close):
        """That of what shares; the first ends with its owner."""
        if hasattr(self, "outputs"):
            self.outputs.forget()
        if not getattr(self, "first", True):
            close(self.session)
            self.first = True

    __del__ = end

    def run_into(self, feed, wanted, run_options, places):
        """Results of these numbers are written to the arrays of `places`; those that do not fit, and those of `wanted`
        that have none, are new ones."""
        bound = {k: v for k, v in places.items() if v.flags.c_contiguous and v.flags.writeable and v.dtype != object}
        self.outputs.forget()
        try:
            for k, v in bound.items():
                lib.tg_bind_output(self.session, k, v.ctypes.data, v.nbytes)
            self.run(feed, (), run_options)
            fits = all(v.dtype == dtype_of(self.results[k].type) and
                       v.shape == tuple(self.results[k].shape[:self.results[k].rank]) for k, v in bound.items())
            if fits:
                return [bound[k] if k in bound else self.outputs.receive(k) for k in wanted]
        except BadInput:                        # of a size, or what the run below says again
            pass
        finally:
            for k in bound:
                lib.tg_bind_output(self.session, k, None, 0)
        return self.run(feed, wanted, run_options)

    def run(self, feed, wanted, run_options):
        known = Loan.new
        self.outputs.settle()
        kept = [loan.lend(feed[loan.name]) for loan in self.loans]      # lives until the run is over
        if run_options is not None or (Loan.new != known and not self.has_run()):
            self.run_watched(run_options)
        elif status := lib.tg_run(*self.arguments):
            check(status)
        del kept
        if type(wanted) is range:
            return [self.outputs.receive(k) for k in wanted]
        found = {k: self.outputs.receive(k) for k in wanted}
        return [found[k] for k in wanted]

    def has_run(self):
        """Have arrays of these types and shapes been run?"""
        return tuple([(loan.dtype, loan.shape) for loan in self.loans]) in self.ran

    def run_watched(self, run_options):
        """One that may compile, or be terminated."""
        with run_options.stops.holding(self.stop) if run_options else contextlib.nullcontext():
            with self.stop.interrupts():
                check(lib.tg_run(*self.arguments))
        if len(self.ran) < SHAPES_MOST and all(loan.dtype for loan in self.loans):
            self.ran.add(tuple([(loan.dtype, loan.shape) for loan in self.loans]))


class Seats:
    """Seats of a session: one more whenever a run has waited for one, as many as there are processors."""

    def __init__(self, owner, more):
        self.owner, self.most = weakref.ref(owner), len(os.sched_getaffinity(0)) if more else 1
        self.changed, self.turn, self.waiting, self.all = threading.Condition(), threading.Lock(), 0, []
        self.renew()
        self.free = list(self.all)

    def renew(self):
        """The first seat alone, as its owner is now; `alone` makes it free."""
        for seat in self.all:
            seat.end()
        self.all = [Seat(self.owner(), True)]

    def take(self):
        try:
            return self.free.pop()
        except IndexError:
            return self.wait()

    def give(self, seat):
        self.free.append(seat)
        if self.waiting:
            with self.changed:
                self.changed.notify()

    def wait(self):
        with self.changed:
            self.waiting += 1
            try:
                while not self.free:
                    self.changed.wait()
                seat = self.free.pop()
                self.grow(seat)
                return seat
            finally:
                self.waiting -= 1

    def grow(self, seat):
        """The first has to be free to be shared with."""
        if len(self.all) < self.most and seat.first:
            try:
                self.all.append(Seat(self.owner(), False))
                self.free.append(self.all[-1])
                self.changed.notify()
            except Unsupported:
                self.most = 1

    @contextlib.contextmanager
    def alone(self):
        """No run is under way, and none begins."""
        with self.turn, self.changed:
            held, seats = [], self.all
            self.waiting += 1
            try:
                while len(held) < len(self.all):
                    try:
                        held.append(self.free.pop())
                    except IndexError:
                        self.changed.wait()
                yield
            finally:
                self.waiting -= 1
                self.free += held if self.all is seats else self.all
                self.changed.notify_all()


def options_in(model, options):
    """A copy of the options, with those that the model has in its property "ort_config"."""
    options, session = copy.copy(options), ctypes.c_void_p()
    look, kept = options.to_c("none")
    open_into(session, model, look)
    try:
        options.take(properties(session).get("ort_config", "{}"))
    except (AttributeError, TypeError, ValueError) as e:
        raise BadModel(f"the model's ort_config: {e}", BAD_MODEL, field="ort_config") from None
    finally:
        lib.tg_close(session)
    return options


def sparse_outputs(values, ports, wanted, index):
    ports = [ports[index[name]] for name in wanted] if wanted else ports
    return [SparseTensor.of_dense(v) if p.type.startswith("sparse") else v for v, p in zip(values, ports)]


class Inner:
    """A session by the names of onnxruntime's compiled part."""

    def __init__(self, session):
        self.outer = session

    def run_with_ort_values(self, feed, output_names, run_options=None):
        return OrtValueVector(self.outer.run_with_ort_values(output_names, feed, run_options))

    def run_with_iobinding(self, binding, run_options=None):
        binding.run(run_options)


THEIRS = {"disabled_optimizers", "enable_fallback", "read_config_from_model"}


class InferenceSession:
    """path_or_bytes: a file's name, or a model's bytes. providers: the first that works here is taken; device: `auto`,
    `cpu`, `cuda`, `cuda:N` or `reference` instead. Other keywords are onnxruntime's, and have no effect."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, device=None, **theirs):
        if unknown := set(theirs) - THEIRS:
            raise TypeError(f"InferenceSession: {', '.join(sorted(unknown))}: no such keyword")
        begin = time.perf_counter()
        self._options = sess_options or SessionOptions()
        providers = providers or self._options.providers
        if os.environ.get("ORT_LOAD_CONFIG_FROM_MODEL") == "1":
            self._options = options_in(path_or_bytes, self._options)
        devices = [device] if device else devices_of(providers, provider_options) if providers else ["auto"]
        self._model_path = os.fspath(path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else None
        self._session, self._stop = ctypes.c_void_p(), Flag()
        if not devices:
            raise DeviceError(f"none of the providers {list(providers)} is here; {', '.join(PROVIDERS)} are known",
                              DEVICE)
        for name in devices:
            try:
                options, self._lent = self._options.to_c(name)
                self._open(path_or_bytes, options)
                self._device = self.get_info().device_kind.decode()
                break
            except DeviceError:
                if name == devices[-1]:
                    raise
        self._events, self._began = ([] if self._options.enable_profiling else None), time.time_ns()
        self._given = set()                     # inputs that have a default value, and are given one
        self._outputs, _ = self._ports(lib.tg_output_count, lib.tg_output)
        self._index = {port.name: k for k, port in enumerate(self._outputs)}
        self._sparse = any(port.type.startswith("sparse") for port in self._outputs)
        self._at = {}                           # of outputs that are computed, where in the session; None: all are
        self._take_inputs()
        self._seats = Seats(self, self._device == "cpu")
        if self._options.optimized_model_filepath:
            write_model(path_or_bytes, self._options)
        self._event("session_initialization", begin)

    def _open(self, model, options):
        self._stop.watch(options)
        with self._options.cancelled.holding(self._stop), self._stop.interrupts():
            self._bytes = open_into(self._session, model, options)

    def __del__(self, close=lib.tg_close):
        if seats := getattr(self, "_seats", None):
            for seat in seats.all:
                seat.outputs.forget()
        if getattr(self, "_session", None):
            close(self._session)

    def _take_inputs(self):
        """The model's inputs as they are now."""
        self._inputs, self._types = self._ports(lib.tg_input_count, lib.tg_input)
        self._names = {port.name for port in self._inputs}

    def _ports(self, count, get):
        """As users see them; and their types, from outside in."""
        out, types = [], []
        for k in range(count(self._session)):
            p = TgPort()
            get(self._session, k, p)
            shape = [
                p.shape[d] if p.shape[d] >= 0 else
                self._options.size_of(text(p.symbol[d]), text(p.denotation[d]) if p.denotation else "") or
                text(p.symbol[d]) or None
                for d in range(max(p.rank, 0))
            ]
            types.append((p.type, *p.inside))
            out.append(NodeArg(text(p.name), "sparse_" * p.sparse + type_text(types[-1]), shape))
        return out, types

    def get_inputs(self):
        return [port for port in self._inputs if port.name not in self._given]

    def get_outputs(self):
        return list(self._outputs)

    def get_session_options(self):
        return self._options

    def get_providers(self):
        return [name for name, device in PROVIDERS.items() if device == text(self.get_info().device_kind)]

    def get_provider_options(self):
        return {name: {} for name in self.get_providers()}

    def set_providers(self, providers=None, provider_options=None):
        """A session stays where it is: fails when that is none of them."""
        wanted, _ = normal_providers(providers, provider_options, providers)
        for name in wanted:
            if name not in PROVIDERS:
                raise DeviceError(f"Unknown Provider Type: {name}; {', '.join(PROVIDERS)} are known", DEVICE)
        if wanted and not set(self.get_providers()) & set(wanted):
            raise DeviceError(f"the session is on {self.get_providers()}; make another one for {wanted}", DEVICE)

    def disable_fallback(self):
        """A device that was taken is never replaced."""

    enable_fallback = disable_fallback

    def get_overridable_initializers(self):
        """None is listed; a feed may name one."""
        return []

    def _event(self, name, begin):
        if self._events is not None:
            now = time.perf_counter()
            self._events.append({
                "cat": "Session", "pid": os.getpid(), "tid": threading.get_ident(), "dur": int((now - begin) * 1e6),
                "ts": int(begin * 1e6), "ph": "X", "name": name, "args": {}
            })

    def end_profiling(self):
        """Writes what SessionOptions.enable_profiling has noted, the session's opening and its runs, as trace events;
        returns the file's name. `tgrun profile MODEL` tells the times of kernels."""
        if self._events is None:
            return ""
        path = f"{self._options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        with open(path, "w") as f:
            json.dump(self._events, f)
        self._events = None
        return path

    def get_profiling_start_time_ns(self):
        return self._began

    def get_input_memory_infos(self):
        """All values lie in the computer's memory."""
        return [names.OrtMemoryInfo("Cpu") for _ in self.get_inputs()]

    def get_output_memory_infos(self):
        return [names.OrtMemoryInfo("Cpu") for _ in self._outputs]

    def create_ortvalue_from_shape_and_type(self, shape, element_type, *device):
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type)

    def get_tuning_results(self):
        """onnxruntime's lists of its own kernels; ours are in the user's cache."""
        return []

    def set_tuning_results(self, results, error_on_invalid=False):
        names.ignore("set_tuning_results", "kernels' choices are in the user's cache")

    def set_ep_dynamic_options(self, options):
        names.ignore("set_ep_dynamic_options")

    def get_info(self):
        """TgInfo (include/tgrun.h): kernels, times, sizes."""
        info = TgInfo()
        lib.tg_info(self._session, info)
        return info

    def get_stats(self):
        """What the session has made so far: programs (one for the first sizes, more where none serves the sizes that
        came); programs_kept: of these, ones that an earlier process had planned; kernels compiled and found in the
        cache, seconds; serial: why the samples of a batch run one after another, None where they run at once."""
        i, serial = self.get_info(), lib.tg_serial(self._session)
        return {
            "serial": text(serial) if serial else None,
            "programs": sum(lib.tg_program_count(seat.session) for seat in self._seats.all),
            "programs_kept": i.programs_kept,
            "kernels_compiled": i.kernels_compiled,
            "kernels_cached": i.kernels_cached,
            "load_s": i.load_s,
            "schedule_s": i.schedule_s,
            "compile_s": i.compile_s,
            "planned_bytes": i.planned_bytes,
        }

    def save(self, path):
        """Writes what the last run was made with as a compiled model (`tg_save` in tgrun.h), which a session opens like
        a model: without a compiler, for inputs of these shapes."""
        lib.tg_save(self._session, os.fsencode(path))

    def get_modelmeta(self):
        m = TgModel()
        lib.tg_model(self._session, m)
        return ModelMetadata(
            *(text(s) for s in (m.producer_name, m.graph_name, m.domain, m.doc_string, m.graph_doc_string)),
            m.model_version, properties(self._session))

    def run(self, output_names, input_feed, run_options=None):
        """The outputs of these names, in their order; None: all. Sequences are lists, maps dicts, and an optional is
        its element or None; so are inputs. Only those that the first run names are computed, until a run names others:
        from then on all are."""
        return self._run(output_names, input_feed, run_options, None)

    def _run(self, output_names, input_feed, run_options, places):
        """places: arrays that outputs are written to, by name, where they fit."""
        wanted = self._wanted(output_names) if output_names else range(len(self._outputs))
        if run_options is not None and run_options.adapters:
            input_feed = adapted(input_feed, run_options.adapters)
        begin = self._events is not None and time.perf_counter()
        if self._options.fixed or self._options.denoted:
            self._check_fixed(input_feed)
        seat = self._seats.take()
        try:
            while input_feed.keys() != self._names or self._at is not None and not self._covers(wanted):
                self._seats.give(seat)
                seat = None
                seat = self._other_names(input_feed, wanted)
            if self._at is not None:
                wanted = [self._at[k] for k in wanted]
            if places:
                places = {self._index[name]: place for name, place in places.items()}
                if self._at is not None:
                    places = {self._at[k]: place for k, place in places.items()}
                got = seat.run_into(input_feed, wanted, run_options, places)
            else:
                got = seat.run(input_feed, wanted, run_options)
        finally:
            if seat is not None:
                self._seats.give(seat)
        if begin:
            self._event("model_run", begin)
        return sparse_outputs(got, self._outputs, output_names, self._index) if self._sparse else got

    def _other_names(self, feed, wanted):
        """A seat for other inputs, or outputs, than those of the runs before."""
        with self._seats.alone():
            if feed.keys() != self._names or not self._covers(wanted):
                self._seats.renew()             # what shares with the first ends: the model changes
                self._check_names(feed)
                self._select(wanted)
                self._seats.renew()
        return self._seats.take()

    def _covers(self, wanted):
        return self._at is None or bool(self._at) and all(k in self._at for k in wanted)

    def _select(self, wanted):
        """The first run's outputs; after that, all."""
        few = sorted(set(wanted))
        if self._covers(wanted):
            return
        if self._at:
            lib.tg_select_outputs(self._session, None, 0)
        elif 0 < len(few) < len(self._outputs):
            try:
                lib.tg_select_outputs(self._session, (ctypes.c_int32 * len(few))(*few), len(few))
                self._at = {k: at for at, k in enumerate(few)}
                return
            except Error as e:                  # a compiled model has its own
                if e.status != USAGE:
                    raise
        self._at = None

    def run_async(self, output_names, input_feed, callback, user_data, run_options=None):
        """callback(outputs, user_data, error) is called by another thread; error is "" or the line that tells what
        failed."""
        def work():
            try:
                callback(self.run(output_names, input_feed, run_options), user_data, "")
            except Error as e:
                callback([], user_data, str(e))
        threading.Thread(target=work).start()

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self):
        return IOBinding(self)

    @property
    def _sess(self):
        """What onnxruntime's package has inside, for programs that reach for it."""
        return Inner(self)

    def run_with_ortvaluevector(self, run_options, feed_names, feeds, fetch_names, fetches, fetch_devices=None):
        fetches[:] = self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options)

    def run_with_iobinding(self, iobinding, run_options=None):
        iobinding.run(run_options)

    def _wanted(self, names):
        for name in names:
            if name not in self._index:
                raise BadInput(f"the model has no output '{name}'; it has {', '.join(self._index)}", BAD_INPUT,
                               field=name)
        return [self._index[name] for name in names]

    def _check_fixed(self, feed):
        for port in self._inputs:
            shape = np.shape(feed[port.name]) if port.name in feed else port.shape
            for axis, (want, size) in enumerate(zip(port.shape, shape)):
                if isinstance(want, int) and want != size:
                    raise BadInput(f"input '{port.name}': axis {axis} is {size}; {want} is wanted", BAD_INPUT,
                                   field=port.name)

    def _check_names(self, feed):
        """An input that has a default value is one only as long as it is given."""
        required = {port.name for port in self._inputs} - self._given
        if absent := [port.name for port in self._inputs if port.name in required - feed.keys()]:
            raise BadInput(f"Required inputs ({absent}) are missing from input feed ({list(feed)})", BAD_INPUT,
                           field=absent[0])
        given = feed.keys() - required
        for name in sorted(given ^ self._given):
            try:
                lib.tg_give(self._session, os.fsencode(name), name in given)
            except BadInput:
                raise BadInput(
                    f"the model has no input '{name}'; it has {', '.join(port.name for port in self.get_inputs())}",
                    BAD_INPUT, field=name) from None
            self._given ^= {name}
            self._take_inputs()
