"""Does `tgbench --require` catch a slowdown of 3 %, and how often does it cry wolf?

    gate.py MODEL [--runs 20] [--budget 60] [--slower 1.03] [--least 0.985]

Each run sets tgrun (this script as an engine: bench/peer.h) against itself, in turn with every run of the first engine
made --slower times as long and with equal engines. It passes if the gate stops at least nine of ten slower ones and at
most one of twenty equal ones. TGBENCH_PROGRAM names tgbench; PYTHONPATH and TGRUN_LIBRARY find the library."""
import argparse
import json
import os
import shlex
import subprocess
import sys
import time


def engine(model, factor):
    import numpy as np
    import tgrun
    options = tgrun.SessionOptions()
    options.intra_op_num_threads = int(os.environ["THREADS"])
    start = time.perf_counter()
    session = tgrun.InferenceSession(model, options)
    names = [x.name for x in session.get_inputs()]

    def read(folder):
        return {name: np.load(os.path.join(folder, f"input_{k}.npy")) for k, name in enumerate(names)}

    def save(values, folder):
        for k, value in enumerate(values):
            np.save(os.path.join(folder, f"output_{k}.npy"), value)
        return "ok"
    load_s = time.perf_counter() - start
    sets, turn, made = [read(os.environ["DATA"])], 0, None
    first = session.run(None, sets[0])
    facts = dict(name=f"tgrun x {factor}", load_s=load_s, first_ms=1.0, sets=True, device="cpu",
                 threads=options.intra_op_num_threads)
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "run":
            out = []
            for _ in range(int(rest)):
                feed = sets[turn % len(sets)]
                turn += 1
                start = time.perf_counter_ns()
                made = session.run(None, feed)
                end = start + factor * (time.perf_counter_ns() - start)
                while factor > 1 and time.perf_counter_ns() < end:
                    pass
                out.append(time.perf_counter_ns() - start)
            answer = " ".join(map(str, out))
        elif word in ("save", "kept"):
            answer = save(first if word == "save" else made, rest)
        elif word == "inputs":
            turn = len(sets)
            sets.append(read(rest))
            answer = "ok"
        else:
            answer = "nan"
        print(answer, flush=True)


def trial(args, factor):
    """(did the gate stop it, the line of the ratio)"""
    one = [sys.executable, os.path.abspath(__file__), args.model, "--engine"]
    command = [
        os.environ.get("TGBENCH_PROGRAM", "tgbench"), args.model, "--budget", str(args.budget), "--format", "json",
        "--require", f"ratio >= {args.least}", "--engine", "cmd:" + shlex.join([*one, str(factor)]), "--engine",
        "cmd:" + shlex.join([*one, "1"])
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"gate.py: {shlex.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.returncode == 1, next((x for x in done.stderr.splitlines() if "gate" in x), ""), done.stdout


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("model")
    parse.add_argument("--runs", type=int, default=20)
    parse.add_argument("--budget", type=float, default=60)
    parse.add_argument("--slower", type=float, default=1.03)
    parse.add_argument("--least", type=float, default=0.985)
    parse.add_argument("--engine", type=float, help=argparse.SUPPRESS)
    args = parse.parse_args()
    if args.engine:
        return engine(args.model, args.engine)
    caught = wolf = 0
    for k in range(args.runs):
        for factor in (args.slower, 1.0):
            start = time.time()
            stopped, why, report = trial(args, factor)
            caught += stopped and factor > 1
            wolf += stopped and factor == 1
            print(f"{k + 1:3d} x {factor:5.3f} {time.time() - start:6.1f} s {'stopped' if stopped else 'passed '} {why}",
                  flush=True)
            if os.environ.get("GATE_REPORTS"):
                with open(os.path.join(os.environ["GATE_REPORTS"], f"{k}_{factor}.json"), "w") as f:
                    f.write(report)
    print(f"{caught} of {args.runs} runs that take {args.slower} times as long were stopped, "
          f"{wolf} of {args.runs} equal ones")
    sys.exit(caught < 0.9 * args.runs or wolf > 0.05 * args.runs)


if __name__ == "__main__":
    main()
