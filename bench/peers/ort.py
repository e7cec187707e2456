"""onnxruntime as an engine of tgbench (bench/peer.h says what it must answer): ort.py MODEL DATA_DIR THREADS."""
import glob, json, os, sys, time


def peak_mib():
    """Of this process alone: what getrusage tells starts at the highest of the process that started it."""
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) / 1024


def read(path, kind):
    """path.npy; of a sequence, optional or map (onnxruntime's words for them: seq(..), optional(..), map(..)) path.pb."""
    import numpy as np
    if os.path.exists(path + ".npy"):
        a = np.load(path + ".npy")
        return a.astype(object) if a.dtype.kind == "U" else a
    import onnx
    from onnx import numpy_helper as h
    proto, convert = {"s": (onnx.SequenceProto, h.to_list), "o": (onnx.OptionalProto, h.to_optional), "m": (onnx.MapProto, h.to_dict)}[kind[0]]
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
        return onnx.MapProto(key_type=8 if words else 7, values=h.from_list([np.array(v, np.float32 if isinstance(v, float) else None) for v in row.values()]), **keys)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        proto = onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=map(map_of, value))
    else:
        proto = h.from_optional(value) if kind[0] == "o" else map_of(value) if isinstance(value, dict) else h.from_list(value)
    with open(path + ".pb", "wb") as f:
        f.write(proto.SerializeToString())


def load(model, data, threads):
    import onnxruntime as ort
    idle = peak_mib()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    start = time.perf_counter()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    load_s = time.perf_counter() - start
    feed = {x.name: read(os.path.join(data, f"input_{k}"), x.type) for k, x in enumerate(session.get_inputs())}
    return session, feed, dict(name=f"onnxruntime {ort.__version__}", load_s=load_s), idle


def bound(session, feed):
    """Runs without copies where the types allow a binding."""
    try:
        binding = session.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, value)
        for y in session.get_outputs():
            binding.bind_output(y.name)
        run = lambda: session.run_with_iobinding(binding)
        run()
        return run
    except Exception:
        return lambda: session.run(None, feed)


def times(run, n):
    out = []
    for _ in range(n):
        start = time.perf_counter_ns()
        run()
        out.append(time.perf_counter_ns() - start)
    return " ".join(map(str, out))


def save(session, feed, folder):
    for k, (y, port) in enumerate(zip(session.run(None, feed), session.get_outputs())):
        write(os.path.join(folder, f"output_{k}"), y, port.type)
    return "ok"


def main(model, data, threads, unused=""):
    session, feed, facts, idle = load(model, data, int(threads) or os.cpu_count())
    start = time.perf_counter()
    session.run(None, feed)
    facts["first_ms"] = 1e3 * (time.perf_counter() - start)
    print(json.dumps(facts), flush=True)
    run = bound(session, feed)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        answer = times(run, int(rest)) if word == "run" else save(session, feed, rest) if word == "save" else str(peak_mib() - idle)
        print(answer, flush=True)


try:
    main(*sys.argv[1:])
except ModuleNotFoundError as e:
    print(f"error {sys.executable} has no package '{e.name}': TGRUN_PYTHON names another Python, ort:LIB a shared library", flush=True)
    sys.exit(1)
except Exception as e:
    print("error " + " ".join(f"{type(e).__name__}: {e}".split()), flush=True)
    sys.exit(1)
