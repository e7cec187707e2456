"""Random small graphs: do we, onnxruntime and the standard's reference evaluator agree? A difference that no row of
disagreements.py explains is reduced to its smallest form and fails.

    test_graphs.py                         the short run: fixed seeds, some graphs on the CPU
    graphs.py --count 20000 --seed 8       a long one; --only Resize,Pad and --graph 123 look closer, --device cpu,
                                           --table counts per operator and per row of disagreements.py
    graphs.py --sizes                      the same graphs at several sizes in one session (sizes.py)

Graphs are grown and run in a child: one that crashes or hangs is a finding, and the next graphs follow in another
child."""
import argparse
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
from collections import Counter

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "python")]
sys.dont_write_bytecode = True

from check import check
from disagreements import ROWS
from grow import grow
from operators import TABLE, not_drawn
from shrink import shrink, written
from sizes import check_sizes

LIMIT_S = 60                    # of one graph, processor time


def judge(args, seed, number, tell):
    """One graph: what was counted, and a difference as text."""
    said = Counter()
    tell(("grows", number))
    d = grow(seed, number, args.only, said)
    device = "cpu" if args.cpu_every and number % args.cpu_every == 0 else args.device
    tell(("runs", number))
    found = check_sizes(d, device, np.random.default_rng([seed, number, 1]), said) if args.sizes else check(
        d, device, number % 4 == 0, said, args.plant)
    text = ""
    if found:
        tell(("is reduced", number))
        text = written(*((d, found) if args.whole else shrink(d, found, device)),
                       pathlib.Path(args.keep) / f"seed{seed}_graph{number}" if args.keep else None)
    return said, text


def work(args, seed, first, last, pipe):
    for number in range(first, last):
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        pipe.send(("done", number, *judge(args, seed, number, pipe.send)))


def children(args, seed):
    """(number, what was counted, text of a difference or of a crash) of every graph of a seed."""
    first, last = (args.graph, args.graph + 1) if args.graph is not None else (args.first, args.first + args.count)
    while first < last:
        mine, its = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(target=work,
                                                            args=(args, seed, first, min(last, first + 1000), its))
        child.start()
        its.close()
        doing = "starts"
        try:
            while True:
                message = mine.recv()
                doing = message[0]
                if doing == "done":
                    yield message[1:]
                    first = message[1] + 1
        except EOFError:
            child.join()
        if child.exitcode:
            end = f"graph {first} {doing}: ended by {signal.Signals(-child.exitcode).name if child.exitcode < 0 else child.exitcode}"
            yield first, Counter({
                ("not covered", "a peer crashed"): 1
            }) if doing == "grows" else Counter(), "" if doing == "grows" and child.exitcode < 0 else end
            first += 1


def arguments(words):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--count", type=int, default=1200, help="graphs of each seed")
    p.add_argument("--seed", type=int, nargs="+", default=[1])
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--graph", type=int)
    p.add_argument("--device", default="reference")
    p.add_argument("--cpu-every", type=int, default=0, help="every N-th graph on the CPU instead")
    p.add_argument("--only", type=lambda s: set(s.split(",")), help="operators, other domains' with the domain before: com.microsoft.Gelu")
    p.add_argument("--keep", help="folder for models and data of differences, as `tgrun MODEL --test-data` takes them")
    p.add_argument("--sizes", action="store_true", help="the same graphs at several sizes, with variables and without, instead of the peers")
    p.add_argument("--whole", action="store_true", help="differences are not reduced")
    p.add_argument("--plant", action="store_true", help="also faults where a row explained something: each must be found")
    p.add_argument("--table", action="store_true")
    return p.parse_args(words)


def report(args, said, graphs, wrong):
    if args.table:
        for what in ("drawn", "refused", "unfit", "error", "compared", "explained", "not covered"):
            print(f"{what}:\n" + "\n".join(f"  {n:6d} {key[1]}"
                                           for key, n in said.most_common() if key[0] == what and n))
        print("rows that explained nothing:\n" + "\n".join(f"         {row}" for row in ROWS if not said["explained", str(row)]))
        print("operators that were never compared: " + " ".join(name for name in TABLE if not said["compared", name] + said["within", name]))
    if args.plant:
        faults = lambda what: sum(n for key, n in said.items() if key[0] == what)
        print("".join(f"fault not found: {n} {key[1]}\n" for key, n in said.most_common() if key[0] == "not found") +
              f"{faults('planted')} faults planted for {sum(1 for key in said if key[0] == 'planted')} rows, {faults('not found')} not found")
    if args.sizes:
        print(
            f"{said['at other sizes']} runs at other sizes compared, {said['at its sizes']} at the first, {said['errors of both']} refused with sizes built in, too"
        )
    total = lambda what: sum(n for key, n in said.items() if key[0] == what)
    seen = sum(1 for name in TABLE if said["compared", name] + said["within", name])
    if not args.sizes:
        print(
            f"{total('compared')} results of {seen} operators compared, {total('explained')} differences explained, {total('not covered')} graphs with what is not covered yet"
        )
    print(f"{graphs - wrong} of {graphs} graphs right")


def main(words=None):
    args, said, graphs, wrong = arguments(words), Counter(), 0, 0
    if not_drawn():
        print("operators with neither a function that draws them nor a reason: " + " ".join(not_drawn()))
        return 1
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for seed in args.seed:
            for number, counted, text in children(args, seed):
                said += counted
                graphs += 1
                wrong += bool(text)
                if text:
                    print(f"--seed {seed} --graph {number}: {text}", flush=True)
    report(args, said, graphs, wrong)
    return int(wrong > 0 or any(key[0] == "not found" for key in said))


if __name__ == "__main__":
    sys.exit(main())
