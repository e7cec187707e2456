"""onnxruntime as an engine of tgbench (bench/peer.h says what it must answer): ort.py MODEL DATA_DIR THREADS."""
import glob, json, os, sys, time


def peak_mib():
    """Of this process alone: what getrusage tells starts at the highest of the process that started it."""
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) / 1024


def load(model, data, threads):
    import numpy as np, onnxruntime as ort
    idle = peak_mib()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    start = time.perf_counter()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    load_s = time.perf_counter() - start
    feed = {x.name: np.load(os.path.join(data, f"input_{k}.npy")) for k, x in enumerate(session.get_inputs())}
    feed = {name: a.astype(object) if a.dtype.kind == "U" else a for name, a in feed.items()}
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
    import numpy as np
    for k, y in enumerate(session.run(None, feed)):
        np.save(os.path.join(folder, f"output_{k}.npy"), y)
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
