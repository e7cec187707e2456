"""Is every operator safe from bad models? The standard's node tests, those of test_against_ort.py and hostile_cases.py,
each changed in one place (hostile.py): attributes, shapes, types, values, what is missing or too much. Right is: a
result, the same on the CPU, or exit 3, 4, 5 or 6 with one line that names node, tensor or field. Wrong: a signal, no
end, our own error, several lines.

    test_hostile.py [--every N] [--first N] [--cpu N] [--only TEXT] [--cases N] [--no-peers] [--explained] [--list]

Every N-th form of all is taken, from the first on (the default takes about 20 s), of those that run every N-th also on
the CPU; of each operator at most so many cases that have the same attributes and inputs. Where onnxruntime is installed
(--no-peers leaves it out): not both of it and the standard's evaluator may refuse what ran here, or give something
else, but for the rows of hostile_reasons.py, whose proofs must hold (--explained prints their forms), and of
differential/disagreements.py."""
import argparse
import collections
import importlib.util
import itertools
import os
import pathlib
import pickle
import re
import select
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "differential"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
import cases
import compare
import disagreements
import hostile
import hostile_cases
import hostile_reasons
import test_against_ort
import waiver
from draw import Step
from table import EACH

TIME_MAX = 30                   # seconds of one form
# their values are their own
RANDOM = {
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"
}
Case = collections.namedtuple("Case", "name model feed")


class Worker:
    """A process that answers; one that died or does not end is replaced."""

    def __init__(self):
        self.process = None

    def start(self):
        libraries = subprocess.run(["ldd", os.environ["TGRUN_LIBRARY"]], capture_output=True, text=True).stdout
        asan = re.search(r"\S*/libasan\S*", libraries)          # it must be the first library of a process
        path = os.pathsep.join(
            filter(None, [str(pathlib.Path(__file__).parents[2] / "python"),
                          os.environ.get("PYTHONPATH")]))
        env = os.environ | {
            "PYTHONPATH": path, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "LD_PRELOAD":
            asan[0] if asan else ""
        }
        self.said = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name("hostile_worker.py")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.said, env=env)

    def ask(self, *job):
        """What it answers, or why there is no answer."""
        if not self.process:
            self.start()
        try:
            pickle.dump(job, self.process.stdin)
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], TIME_MAX)[0]:
                return self.stop("no end")
            return pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError):
            return self.stop("it died")

    def stop(self, why):
        self.process.kill()
        code = self.process.wait()
        self.said.seek(0)
        text = self.said.read().decode(errors="replace")
        error = re.search(r"(ERROR: AddressSanitizer.*|\S*runtime error.*)(\n.*){0,12}", text)
        self.process = None
        return f"{why} ({code}) {error[0] if error else text[-300:]}"


# ---- what is right ----

def named(reply):
    """Whether a refusal is one line that names a place: a node, or a tensor in quotes. Too much memory may be nobody's
    fault."""
    status, line, node, _ = reply
    return status in (3, 4, 5, 6) and "\n" not in line and len(line) < 700 and bool(node or status == 6 or
                                                                                    re.search("'[^']+'", line))


def flat(value):
    """Arrays inside lists and dicts."""
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flat(v)]
    if isinstance(value, dict):
        return flat(np.array(list(value))) + flat(np.array(list(value.values())))
    return [np.asarray(value)] if value is not None else []


def same(model, feed, got, want, peer, others):
    """Whether results agree, or a row of disagreements.py says why they do not. Where NaN or infinities enter, only
    types and shapes are compared: tests/differential is for them."""
    node, *before = [*model.graph.node][::-1]
    step, versions = Step([node, *before],
                          list(node.output)), {"": 1} | {o.domain: o.version
                                                         for o in model.opset_import}
    values = {name: v
              for name, v in feed.items() if isinstance(v, np.ndarray)
              } | {t.name: hostile.numpy_helper.to_array(t)
                   for t in model.graph.initializer}
    got, want, others, inputs = flat(got), flat(want), [flat(o)
                                                        for o in others], [values.get(name) for name in node.input]
    numbers = [v for v in values.values() if v.dtype != object]
    special = any(v.dtype.kind == "f" and not np.isfinite(v).all() for v in [*values.values(), *got, *want])

    def left(k):
        """What of output k differs and is not explained."""
        def case_of(wrong):
            third = next((o[k] for o in others if len(o) == len(got)), None)
            return waiver.Case(step, versions, step.attributes(), inputs, values, got, want, peer, k,
                                      disagreements.sides_with(step, numbers, got[k], want[k], third, wrong))

        wrong = compare.differences(step.name, step.name in EACH, numbers, got[k], want[k],
                                    compare.by_largest(numbers, got[k], want[k]))
        if wrong is not None and (special or step.op in RANDOM):
            return np.zeros(())
        try:
            return disagreements.remaining(wrong, case_of, collections.Counter())
        # a row that requests what a hostile form lacks
        except (IndexError, TypeError, AttributeError, ValueError):
            return wrong

    return len(got) == len(want) and all(wrong is not None and not wrong.any() for wrong in map(left, range(len(got))))


# ---- the run ----

class Run:
    def __init__(self, cpu, peers, explained):
        self.explained = explained
        self.ours, self.peers, self.cpu = Worker(), {"onnxruntime": Worker(), "reference": Worker()
                                                     } if peers else {}, cpu
        self.count = collections.Counter()

    def check(self, case, model, feed, number):
        """(kind, text) of what is wrong, or None."""
        data = model.SerializeToString()
        reply = self.ours.ask("ours", data, feed, "reference")
        if isinstance(reply, str):
            return "died", reply
        if isinstance(reply, tuple):
            self.count[f"refused with {reply[0]}"] += 1
            return None if named(reply) else ("line", str(reply))
        self.count["ran"] += 1
        found = self.ask_peers(case, model, data, feed, reply) if self.peers else None
        if found:
            return found
        if self.cpu and number % self.cpu == 0:
            self.count["ran on the CPU"] += 1
            other = self.ours.ask("ours", data, feed, "cpu")
            cut = re.match("Resize|Upsample|GridSample", hostile.tried(model).op_type) and isinstance(other, list)
            # integers cut from sums that differ in their last bit
            if not (cut and all(hostile_reasons.near(a, b, whole=1.0) for a, b in zip(flat(other), flat(reply)))) and (
                    not isinstance(other, list) or not same(model, feed, other, reply, "reference", [])):
                return "cpu", f"{brief(other)}; reference {brief(reply)}"
        return None

    def ask_peers(self, case, model, data, feed, reply):
        """(kind, text) of what is refused by both, or different from both, without a reason."""
        results, found = self.results(data, feed), None
        # else they do not know the case at all
        if not results and self.results(case.model.SerializeToString(), case.feed):
            found = "refused by both peers", brief(reply)
        elif results and not any(
                same(model, feed, reply, r, name, [o for n, o in results.items() if n != name])
                for name, r in results.items()):
            found = "different from the peers", f"we {brief(reply)}; " + "; ".join(f"{name} {brief(r)}"
                                                                                   for name, r in results.items())
        row = hostile_reasons.reason(hostile.tried(model).op_type, self.what) if found else None
        if row and not self.holds(row, self.proved(case, model, feed, reply, results)):
            return f"{found[0]}, and the proof fails", f"{row.why}; {found[1]}"
        if row:
            self.count[f"{found[0]} for a reason"] += 1
            self.tell_reason(row, case, model, found)
            return None
        return found

    def holds(self, row, proved):
        try:
            return row.proof(proved)
        # of a form that lacks what the proof looks at
        except (IndexError, KeyError, StopIteration, TypeError, ValueError):
            return False

    def proved(self, case, model, feed, reply, results):
        """What a proof may request."""
        def ours(other, values):
            given = self.ours.ask("ours", other.SerializeToString(), values, "reference")
            return dict(zip([o.name for o in other.graph.output], given)) if isinstance(given, list) else None

        return hostile_reasons.Proved(case, model, feed, dict(zip([o.name for o in model.graph.output],
                                                                  reply)), results, ours,
                                      lambda other, values: self.results(other.SerializeToString(), values))

    def tell_reason(self, row, case, model, found):
        if self.explained:
            print(
                f"{found[0]}: {case.name} ({hostile.tried(model).op_type}), {self.what}: {row.why}: {found[1]}"
                .encode(errors="backslashreplace").decode(), flush=True)

    def results(self, data, feed):
        """Those of the peers that run it."""
        results = {name: worker.ask("peer", data, feed, name) for name, worker in self.peers.items()}
        return {name: r for name, r in results.items() if isinstance(r, list)}

    def tell(self, kind, case, text):
        self.count[kind] += 1
        print(
            f"{kind}: {case.name} ({hostile.tried(case.model).op_type}), {self.what}: {text}".encode(
                errors="backslashreplace").decode(), flush=True)


def brief(reply):
    return " ".join(f"{a.dtype}{list(a.shape)} {a.ravel()[:4]}"
                    for a in flat(reply)[:3])[:300] if isinstance(reply, list) else str(reply)[:1500]


def all_cases(most):
    """Single nodes, of those with the same attributes, types and ranks the first ones; and the graphs of
    hostile_cases.py."""
    # a new row changes the names of no other operator's
    seen, of_op = collections.Counter(), collections.defaultdict(itertools.count)
    rows = [(f"{row[0]} {next(of_op[row[0]])}", *test_against_ort.build_model(row)) for row in test_against_ort.CASES]
    yield from (Case(f"{op} of a graph {next(of_op[op, 'graph'])}", model, feed)
                for op, model, feed in hostile_cases.models())
    for name, model, feed in [*cases.node_cases(), *rows]:
        node = model.graph.node[0]
        key = node.domain, node.op_type, tuple(sorted(
            (a.name, a.s) for a in node.attribute)), tuple(bool(n) for n in node.input), len(node.output)
        seen[key] += 1
        if len(model.graph.node) == 1 and not model.functions and seen[key] <= most:
            yield Case(name, model, feed)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--every", type=int, default=97)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--cpu", type=int, default=10)
    p.add_argument("--only", default="")
    p.add_argument("--cases", type=int, default=1)
    p.add_argument("--peers", action=argparse.BooleanOptionalAction, default=importlib.util.find_spec("onnxruntime") is not None)
    p.add_argument("--explained", action="store_true")
    p.add_argument("--list", action="store_true")
    a = p.parse_args()
    run, wrong, total = Run(a.cpu, a.peers, a.explained), 0, 0
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for case in all_cases(a.cases):
        if not re.search(a.only, case.name):
            continue
        for what, model, feed in hostile.forms(case):
            number = zlib.crc32(f"{case.name} {what}".encode(errors="backslashreplace"))
            if number % a.every != a.first:
                continue
            total += 1
            if a.list:
                print(case.name, what)
                continue
            run.what = what
            found = run.check(case, model, feed, number // a.every)
            if found:
                wrong += 1
                run.tell(found[0], case, found[1])
    print(", ".join(f"{n} {what}" for what, n in sorted(run.count.items())))
    print(f"{total - wrong} of {total} hostile forms right")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
