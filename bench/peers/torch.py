"""torch as an engine of tgbench, by the onnx2torch package: torch.py MODEL DATA_DIR THREADS [compile]. bench/peer.h says what it must answer."""
import json, os, sys, time


def peak_mib():
    """Of this process alone: what getrusage tells starts at the highest of the process that started it."""
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) / 1024


def main(model, data, threads, mode=""):
    import numpy as np, onnx, onnx2torch, torch
    idle = peak_mib()
    torch.set_num_threads(int(threads) or os.cpu_count())
    start = time.perf_counter()
    graph = onnx.load(model)
    net = onnx2torch.convert(graph).eval()
    if mode == "compile":
        net = torch.compile(net)
    known = {t.name for t in graph.graph.initializer}
    feed = [torch.from_numpy(np.load(os.path.join(data, f"input_{k}.npy"))) for k, _ in enumerate(x for x in graph.graph.input if x.name not in known)]
    load_s = time.perf_counter() - start
    with torch.inference_mode():
        start = time.perf_counter()
        net(*feed)
        first = 1e3 * (time.perf_counter() - start)
        print(json.dumps(dict(name=f"torch {torch.__version__}" + (" compiled" if mode else ""), load_s=load_s, first_ms=first)), flush=True)
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "run":
                out = []
                for _ in range(int(rest)):
                    start = time.perf_counter_ns()
                    net(*feed)
                    out.append(time.perf_counter_ns() - start)
                answer = " ".join(map(str, out))
            elif word == "save":
                y = net(*feed)
                for k, t in enumerate(y if isinstance(y, (tuple, list)) else [y]):
                    np.save(os.path.join(rest, f"output_{k}.npy"), t.numpy())
                answer = "ok"
            else:
                answer = str(peak_mib() - idle)
            print(answer, flush=True)


try:
    main(*sys.argv[1:])
except Exception as e:
    print("error " + " ".join(f"{type(e).__name__}: {e}".split()), flush=True)
    sys.exit(1)
