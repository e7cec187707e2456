"""torch as an engine of tgbench, by the onnx2torch package: torch.py MODEL DATA_DIR THREADS [compile]. bench/peer.h
says what it must answer."""
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
    count = sum(x.name not in known for x in graph.graph.input)
    read = lambda folder: [torch.from_numpy(np.load(os.path.join(folder, f"input_{k}.npy"))) for k in range(count)]
    sets, turn = [read(data)], 0
    load_s = time.perf_counter() - start
    with torch.inference_mode():
        start = time.perf_counter()
        net(*sets[0])
        first = 1e3 * (time.perf_counter() - start)
        print(
            json.dumps(
                dict(name=f"torch {torch.__version__}" + (" compiled" if mode else ""), load_s=load_s, first_ms=first,
                     sets=True, once=True, device="cpu", precision="f32", threads=torch.get_num_threads())), flush=True)
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "run":
                out = []
                for _ in range(int(rest)):
                    feed = sets[turn % len(sets)]
                    turn += 1
                    start = time.perf_counter_ns()
                    y = net(*feed)
                    out.append(time.perf_counter_ns() - start)
                answer = " ".join(map(str, out))
            elif word in ("save", "kept", "once"):
                if word != "kept":
                    y = net(*(sets[0] if word == "save" else read(rest)))
                for k, t in enumerate(y if isinstance(y, (tuple, list)) else [y]):
                    np.save(os.path.join(rest, f"output_{k}.npy"), t.numpy())
                answer = "ok"
            elif word == "inputs":
                turn = len(sets)
                sets.append(read(rest))
                answer = "ok"
            else:
                answer = str(peak_mib() - idle)
            print(answer, flush=True)


try:
    main(*sys.argv[1:])
except Exception as e:
    print("error " + " ".join(f"{type(e).__name__}: {e}".split()), flush=True)
    sys.exit(1)
