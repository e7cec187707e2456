"""OpenVINO as an engine of tgbench (bench/peer.h says what it must answer): ov.py MODEL DATA_DIR THREADS [DEVICE].
Numbers are f32 in f32 models (INFERENCE_PRECISION_HINT), latency is what it works for, inputs are given without a
copy."""
import json, os, sys, time


def peak_mib():
    """Of this process alone: what getrusage tells starts at the highest of the process that started it."""
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) / 1024


def compiled_model(model, threads, device):
    import openvino as ov
    core = ov.Core()
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    if device == "CPU":
        hints["INFERENCE_NUM_THREADS"] = threads
    start = time.perf_counter()
    net = core.compile_model(model, device, hints)
    return net, dict(name=f"OpenVINO {ov.__version__.split('-')[0]}", load_s=time.perf_counter() - start, sets=True, once=True,
                     device="cpu" if device == "CPU" else device.lower(), provider=device, precision="f32",
                     threads=threads)


def overhead_ms():
    """What a run takes in which nothing is computed: of each time, that much is the way into the engine and back."""
    import numpy as np
    import openvino as ov
    x = ov.opset8.parameter([1], np.float32)
    request = ov.Core().compile_model(ov.Model([ov.opset8.result(x)], [x]), "CPU").create_infer_request()
    values, times = [np.zeros(1, np.float32)], []
    for _ in range(200):
        start = time.perf_counter_ns()
        request.infer(values, share_inputs=True, share_outputs=True)
        times.append(time.perf_counter_ns() - start)
    return 1e-6 * sorted(times)[100]


def read(net, folder):
    import numpy as np
    return [np.load(os.path.join(folder, f"input_{k}.npy")) for k in range(len(net.inputs))]


def save(request, net, folder):
    import numpy as np
    for k in range(len(net.outputs)):
        np.save(os.path.join(folder, f"output_{k}.npy"), request.get_output_tensor(k).data)
    return "ok"


def main(model, data, threads, device=""):
    idle = peak_mib()
    net, facts = compiled_model(model, int(threads) or os.cpu_count(), device or "CPU")
    request, sets, turn = net.create_infer_request(), [read(net, data)], 0
    infer = lambda values: request.infer(values, share_inputs=True, share_outputs=True)
    start = time.perf_counter()
    infer(sets[0])
    facts["first_ms"] = 1e3 * (time.perf_counter() - start)
    facts["overhead_ms"] = overhead_ms()
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "run":
            out = []
            for _ in range(int(rest)):
                values = sets[turn % len(sets)]
                turn += 1
                start = time.perf_counter_ns()
                infer(values)
                out.append(time.perf_counter_ns() - start)
            answer = " ".join(map(str, out))
        elif word == "save":
            infer(sets[0])
            answer = save(request, net, rest)
        elif word == "once":
            infer(read(net, rest))
            answer = save(request, net, rest)
        elif word == "kept":
            answer = save(request, net, rest)
        elif word == "inputs":
            turn = len(sets)
            sets.append(read(net, rest))
            answer = "ok"
        else:
            answer = str(peak_mib() - idle)
        print(answer, flush=True)


try:
    main(*sys.argv[1:])
except ModuleNotFoundError as e:
    print(f"error {sys.executable} has no package '{e.name}': TGRUN_PYTHON names another Python", flush=True)
    sys.exit(1)
except Exception as e:
    print("error " + " ".join(f"{type(e).__name__}: {e}".split()), flush=True)
    sys.exit(1)
