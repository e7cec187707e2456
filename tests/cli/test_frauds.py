#!/usr/bin/env python3
"""tgbench against engines that cheat: each must be refused, be distinguished by its outputs, or be named in the report.
One honest engine shows that nothing is said of it. The engines are this script: `test_frauds.py KIND` adds two tensors
and spins for 5 ms a run; bench/peer.h is what they speak."""
import hashlib, json, os, subprocess, sys, tempfile, threading, time


# ---- an engine

def spin(ms, threads=1):
    def work():
        end = time.perf_counter() + ms / 1e3
        while time.perf_counter() < end:
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1500)          # lets other threads run
    more = [threading.Thread(target=work) for _ in range(threads - 1)]
    for t in more:
        t.start()
    work()
    for t in more:
        t.join()


def engine(kind):
    import numpy as np
    read = lambda folder: [np.load(os.path.join(folder, f"input_{k}.npy")) for k in (0, 1)]
    truth = lambda x: x[0] + x[1]
    sets, turn, made = [read(os.environ["DATA"])], 0, None
    first = truth(sets[0])
    known = [id(sets[0])]
    kept = [0.0, 0.0]           # seconds of a processor, seconds that passed: of all runs
    facts = {
        "name": kind, "load_s": 0.1, "first_ms": 5.0, "sets": True, "device": "cuda" if kind == "device" else "cpu",
        "threads": 1
    }
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "run":
            out = []
            begun = time.process_time(), time.perf_counter()
            for _ in range(int(rest)):
                x = sets[turn % len(sets)]
                turn += 1
                start = time.perf_counter_ns()
                fresh = id(x) not in known
                spin(80 if kind == "load" and fresh else 5, 4 if kind == "threads" else 1)
                known.append(id(x))
                made = first if kind == "cached" else truth(x)
                if kind == "precision":
                    made = (made.view(np.uint32) & np.uint32(0xffff0000)).view(np.float32)
                out.append(time.perf_counter_ns() - start)
            kept[0] += time.process_time() - begun[0]
            kept[1] += time.perf_counter() - begun[1]
            with open(os.environ["FRAUD_KEPT"] + kind, "w") as f:
                f.write(str(kept[0] / kept[1]))
            answer = " ".join(map(str, out))
        elif word in ("save", "kept"):
            y = truth(sets[0]) if word == "save" else made
            np.save(os.path.join(rest, "output_0.npy"), y)
            answer = "ok"
        elif word == "inputs":
            turn = len(sets)
            sets.append(read(rest))
            answer = "ok"
        else:
            answer = "10.0"
        print(answer, flush=True)


# ---- the trials

PROCESSORS_SURE = 1.4       # tgbench speaks from 1.25 on; an engine that counted so many itself must be named

TRIALS = [      # kind, what standard output or error must hold, exit code
    ("honest", None, 0),
    ("cached", "not comparable, their outputs differ", 1),
    ("device", "runs on cuda", 2),
    ("threads", "processors busy; 1 thread was given", 0),
    ("precision", "not comparable, their outputs differ", 1),
    ("load", "for inputs that it has not seen", 0),
]


def model(path):
    import onnx
    from onnx import helper as h
    port = lambda name: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1000])
    graph = h.make_graph([h.make_node("Add", ["x", "y"], ["z"])], "g", [port("x"), port("y")], [port("z")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def main():
    bad = passed = 0
    command = lambda kind: f"cmd:{sys.executable} {os.path.abspath(__file__)} {kind}"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "add.onnx")
        model(path)
        for kind, wanted, code in TRIALS:
            if kind == "threads" and len(os.sched_getaffinity(0)) < 2:
                print("skipped: threads, a second processor is needed")
                continue
            args = [
                os.environ["TGBENCH_PROGRAM"], path, "--engine",
                command("honest"), "--engine",
                command(kind), "--pairs", "3", "--block", "6", "-t", "1", "--require", "ratio >= 0.01"
            ]
            kept = os.path.join(folder, "kept_")
            # where others work, an engine may have been kept waiting, or may have got no more than one processor
            for _ in range(4):
                p = subprocess.run(args, capture_output=True, text=True, timeout=300, env={**os.environ, "FRAUD_KEPT": kept})
                said = p.stdout + p.stderr
                fair = p.returncode == code and (wanted in said if wanted else "note: honest" not in said)
                if fair or kind not in ("threads", "honest", "load"):
                    break
            passed += fair
            if not fair and kind == "threads" and float(open(kept + kind).read()) < PROCESSORS_SURE:
                print("skipped: threads, other programs leave too little of a second processor")
            elif not fair:
                bad += 1
                print(f"{kind}: exit {p.returncode}, {code} is wanted, with: {wanted}\n{said}")
    print(f"{passed} of {passed + bad} engines are seen through, or not accused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(engine(sys.argv[1]) if len(sys.argv) > 1 else main())
