"""onnxruntime as an engine of tgbench (bench/peer.h says what it must answer): ort.py MODEL DATA_DIR THREADS
[PROVIDER]."""
import json, os, sys, time

SHORT = {"cpu": "CPU", "cuda": "CUDA", "tensorrt": "Tensorrt", "openvino": "OpenVINO", "dnnl": "Dnnl", "rocm": "ROCM"}


def peak_mib():
    """Of this process alone: what getrusage tells starts at the highest of the process that started it."""
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) / 1024


def read(path, kind):
    """path.npy; of a sequence, optional or map (onnxruntime's words for them: seq(..), optional(..), map(..))
    path.pb."""
    import numpy as np
    if os.path.exists(path + ".npy"):
        a = np.load(path + ".npy")
        return a.astype(object) if a.dtype.kind == "U" else a
    import onnx
    from onnx import numpy_helper as h
    proto, convert = {
        "s": (onnx.SequenceProto, h.to_list), "o": (onnx.OptionalProto, h.to_optional), "m": (onnx.MapProto, h.to_dict)
    }[kind[0]]
    with open(path + ".pb", "rb") as f:
        return convert(proto.FromString(f.read()))


def write(path, value, kind):
    import numpy as np
    if isinstance(value, np.ndarray):
        return np.save(path + ".npy", value)
    import onnx
    from onnx import numpy_helper as h

    def map_of(row):                        # h.from_dict knows no strings
        words = isinstance(next(iter(row), 0), str)
        keys = dict(string_keys=[k.encode() for k in row]) if words else dict(keys=row)
        return onnx.MapProto(
            key_type=8 if words else 7,
            values=h.from_list([np.array(v, np.float32 if isinstance(v, float) else None) for v in row.values()]),
            **keys)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        proto = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=map(map_of, value))
    else:
        proto = h.from_optional(value) if kind[0] == "o" else map_of(value) if isinstance(value,
                                                                                          dict) else h.from_list(value)
    with open(path + ".pb", "wb") as f:
        f.write(proto.SerializeToString())


class Set:
    """One set of inputs, and how to run on it: without copies where the types allow a binding."""

    def __init__(self, session, folder):
        self.session = session
        self.feed = {
            x.name: read(os.path.join(folder, f"input_{k}"), x.type)
            for k, x in enumerate(session.get_inputs())
        }
        self.binding = self.made = None

    def bind(self):
        try:
            binding = self.session.io_binding()
            for name, value in self.feed.items():
                binding.bind_cpu_input(name, value)
            for y in self.session.get_outputs():
                binding.bind_output(y.name)
            self.binding = binding
        except Exception:
            self.binding = None

    def run(self):
        if self.binding is None:
            self.made = self.session.run(None, self.feed)
        else:
            self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return self.made if self.binding is None else self.binding.copy_outputs_to_cpu()


def open_session(model, threads, provider):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    name = provider if provider.endswith("Provider") else SHORT.get(provider, provider) + "ExecutionProvider"
    if name not in ort.get_available_providers():
        raise ValueError(f"this onnxruntime has no {name}; it has {', '.join(ort.get_available_providers())}")
    start = time.perf_counter()
    session = ort.InferenceSession(model, options, providers=[name])
    load_s = time.perf_counter() - start
    if session.get_providers()[0] != name:
        raise ValueError(f"{name} does not work here: onnxruntime took {session.get_providers()[0]}")
    device = "cuda" if "CUDA" in name or "Tensorrt" in name else "cpu"
    return session, dict(name=f"onnxruntime {ort.__version__}" + ("" if name.startswith("CPU") else " " + name[:-17]),
                         load_s=load_s, sets=True, once=True, device=device, provider=name, threads=threads)


# a model that gives back its one number
EMPTY = (b'\x08\x07\x12\x00:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01b'
         b'\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r')


def overhead_ms():
    """What a run takes in which nothing is computed: of each time, that much is the way into the engine and back."""
    import numpy as np
    import onnxruntime as ort
    session, times = ort.InferenceSession(EMPTY, providers=["CPUExecutionProvider"]), []
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.zeros(1, np.float32))
    binding.bind_output("y")
    for _ in range(200):
        start = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        times.append(time.perf_counter_ns() - start)
    return 1e-6 * sorted(times)[100]


def save(session, values, folder):
    for k, (y, port) in enumerate(zip(values, session.get_outputs())):
        write(os.path.join(folder, f"output_{k}"), y, port.type)
    return "ok"


def serve(session, sets, idle):
    turn = 0
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "run":
            out = []
            for _ in range(int(rest)):
                last = sets[turn % len(sets)]
                turn += 1
                start = time.perf_counter_ns()
                last.run()
                out.append(time.perf_counter_ns() - start)
            answer = " ".join(map(str, out))
        elif word == "save":
            answer = save(session, session.run(None, sets[0].feed), rest)
        elif word == "kept":
            answer = save(session, last.outputs(), rest)
        elif word == "once":
            answer = save(session, session.run(None, Set(session, rest).feed), rest)
        elif word == "inputs":
            turn = len(sets)
            sets.append(Set(session, rest))
            sets[-1].bind()
            answer = "ok"
        else:
            answer = str(peak_mib() - idle)
        print(answer, flush=True)


def main(model, data, threads, provider=""):
    import onnxruntime
    idle = peak_mib()
    session, facts = open_session(model, int(threads) or os.cpu_count(), provider or "cpu")
    first = Set(session, data)
    start = time.perf_counter()
    first.run()
    facts["first_ms"] = 1e3 * (time.perf_counter() - start)
    facts["overhead_ms"] = overhead_ms()
    print(json.dumps(facts), flush=True)
    first.bind()
    serve(session, [first], idle)


try:
    main(*sys.argv[1:])
except ModuleNotFoundError as e:
    print(
        f"error {sys.executable} has no package '{e.name}': TGRUN_PYTHON names another Python, ort:LIB a shared library",
        flush=True)
    sys.exit(1)
except Exception as e:
    print("error " + " ".join(f"{type(e).__name__}: {e}".split()), flush=True)
    sys.exit(1)
