"""A graph that grew -> differences between us and the peers.

We run the whole graph once, all values being outputs. Then every step is judged alone: its peers get our own values of
what enters, so that roundings do not add up and what differs is found where it arises. A second run, in which only the
graph's ends are outputs, must give the same: there our kernels are larger."""
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import tgrun

from compare import differences, is_float
from disagreements import explain, remaining, sides_with
from draw import model_of
from grow import run_peers
from plant import faults
from peers import PEERS, fits, of_tgrun, ports_of
from table import EACH
from terms import Terms
from waiver import INFERENCE, Case


PLANTED = 40                    # faults for one row, in one process
planted = Counter()


@dataclass
class Difference:
    step: object
    kind: str                   # refused, port, shape, type, value, ends, sizes
    peer: str
    text: str
    values: dict                # what entered the step
    plan: object = None         # how sizes varied (sizes.py)

    def signature(self):
        """What stays while a graph is reduced: of an error its words."""
        words = re.sub("'[^']*'|[0-9]+", "", self.text.split(": ", 3)[-1]) if self.kind == "refused" else ""
        return self.kind, self.peer, words


def bits_equal(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and (a.tolist() == b.tolist()
                                                          if a.dtype == object else a.tobytes() == b.tobytes())


def check_step(versions, step, values, constants, got, seen=None, said=None, used=None):
    """The first difference that no row of disagreements.py explains. seen: what peers made of the same values; used gets
    (output, row, the elements that it explained)."""
    said = Counter() if said is None else said
    given = {name: values[name] for name in step.inputs() if name in values}
    inputs = [values[name] if name else None for name in step.nodes[0].input if not name or name in values]
    numbers = [v for v in inputs if v is not None]
    for k, (g, port) in enumerate(zip(got, ports_of(model_of(versions, [step], values, constants, step.outputs)[0]))):
        row = fits(g, port) or explain(
            Case(step, versions, step.attributes(), inputs, given, got, got, INFERENCE, k, "none"), None)
        if row and row is not True:
            said["explained", str(row[0])] += 1
        if not row:
            return Difference(step, "port", "",
                              f"output {k}: we {g.dtype}{list(g.shape)}, the standard infers {port[0]}{port[1]}", given)
    results = seen if seen is not None else run_peers(versions, step, values, constants)
    spread = Terms(versions, step, given, constants)
    for peer, arrays in results.items():
        said["compared", step.name] += 1
        said.update(("within", n.op_type) for n in step.nodes[1:])
        for k, (g, w) in enumerate(zip(got, arrays)):

            def terms(peer=peer, arrays=arrays, k=k):
                return spread.of(PEERS[peer], arrays, k)

            wrong = differences(step.name, step.name in EACH, numbers, g, w, terms)
            if wrong is not None and not wrong.any():
                continue
            third = next((a[k] for p, a in results.items() if p != peer), None)

            def case_of(left, peer=peer, arrays=arrays, k=k, g=g, w=w, third=third, terms=terms):
                return Case(step, versions, step.attributes(), inputs, given, got, arrays, peer, k,
                            sides_with(step, numbers, g, w, third, left, terms), terms)

            explained = []
            wrong = remaining(wrong, case_of, said, explained)
            if used is not None:
                used.extend((k, *row) for row in explained)
            if wrong is not None and not wrong.any():
                continue
            kind = "value" if wrong is not None else "type" if g.dtype != w.dtype else "shape"
            where = tuple(np.argwhere(wrong)[0]) if wrong is not None else ()
            text = f"output {k}, the other peer with {case_of(wrong).other}: we {g.dtype}{list(g.shape)}, {peer} {w.dtype}{list(w.shape)}"
            if wrong is not None:
                text += f"; at {list(map(int, where))}: {g[where]!r} and {w[where]!r}, {int(wrong.sum())} differ"
            return Difference(step, kind, peer, text, given)
    return None


def run(versions, steps, values, constants, outputs, device):
    model, inputs = model_of(versions, steps, values, constants, outputs)
    return dict(zip(outputs, of_tgrun(model, device).run(None, {name: values[name] for name in inputs})))


def without(steps, bad):
    """The steps that need nothing of what `bad` makes."""
    lost, out = set(bad.outputs), []
    for step in steps:
        if step is bad or lost & set(step.inputs()):
            lost |= set(step.outputs)
        else:
            out.append(step)
    return out


def misgrown(d, step, device):
    """The step if its peer's sizes, with which the graph grew on, are not ours."""
    try:
        got = run(d.versions, [step], d.values, d.constants, step.outputs, device)
    except tgrun.Error:
        return None
    return step if any(got[name].shape != d.values[name].shape for name in step.outputs) else None


def refused(error, steps, values):
    step = next((s for s in steps if error.node in [n.name for n in s.nodes]), steps[-1])
    return Difference(step, "refused", "", f"{type(error).__name__} {error.status}: {error}",
                      {name: values[name]
                       for name in step.inputs() if name in values})


def plant_faults(versions, step, values, constants, got, used, said):
    """Faults where a row explained something: each must be a difference. said counts them, and those that were not
    found."""
    theirs = run_peers(versions, step, values, constants) if used else {}
    for k, row, covers in used:
        if row.free or planted[str(row)] >= PLANTED:
            continue
        inputs = [values[n] for n in step.inputs() if n in values]
        for kind, fault in faults(step, inputs, got[k], covers, [arrays[k] for arrays in theirs.values()]):
            found = check_step(versions, step, values, constants, [*got[:k], fault, *got[k + 1:]], theirs,
                               used=(rows := []))
            if not found and not rows:
                continue                                        # a peer has that fault itself: no row is needed
            planted[str(row)] += 1
            said["planted", str(row)] += 1
            if not found:
                said["not found", f"{kind}: {row}, by {'; '.join(sorted({str(r) for _, r, _ in rows}))}"] += 1


def check(d, device="reference", ends=False, said=None, plant=False):
    """The first unexplained difference of a graph, or None. said counts what was compared, explained, and not covered
    by us; plant: also whether faults are found where a row explained something."""
    said = Counter() if said is None else said
    steps = list(d.steps)
    given = {name: d.values[name] for name in d.values if not any(name in s.outputs for s in steps)}
    while steps:
        try:
            got = run(d.versions, steps, d.values, d.constants, [name for s in steps for name in s.outputs], device)
            break
        except tgrun.Unsupported as e:
            said["not covered", str(e).split(": ", 1)[-1]] += 1
            steps = without(steps, refused(e, steps, d.values).step)
        except tgrun.Error as e:
            found, bad = refused(e, steps, d.values), None
            for step in steps[:steps.index(found.step)] if found.step in steps else []:
                bad = bad or misgrown(d, step, device)
            if not bad:
                return found
            said["not covered", "a peer gave other sizes"] += 1
            steps = without(steps, bad)
    if not steps:
        return None
    values = given | got
    for step in steps:
        seen = d.results[d.steps.index(step)] if all(
            bits_equal(values[name], step.seen[name]) for name in step.inputs()) else None
        ours, used = [got[name] for name in step.outputs], []
        found = check_step(d.versions, step, values, d.constants, ours, seen, said, used)
        if found:
            return found
        if plant:
            plant_faults(d.versions, step, values, d.constants, ours, used, said)
    return check_ends(d, steps, got, device, said) if ends else None


def check_ends(d, steps, got, device, said):
    used = {name for s in steps for name in s.inputs()}
    last = [name for s in steps for name in s.outputs if name not in used]
    try:
        alone = run(d.versions, steps, d.values, d.constants, last, device)
    except tgrun.Error as e:
        return refused(e, steps, d.values)
    said["ends compared"] += 1
    for name in last:
        if not bits_equal(alone[name], got[name]) and (alone[name].shape != got[name].shape or alone[name].dtype
                                                       != got[name].dtype or not is_float(got[name].dtype) or
                                                       not np.allclose(alone[name].astype(np.float64), got[name].astype(
                                                           np.float64), 1e-2, 1e-2, equal_nan=True)):
            step = next(s for s in steps if name in s.outputs)
            return Difference(
                step, "ends", "",
                f"{name}: {got[name].ravel()[:8]} where all values are outputs, {alone[name].ravel()[:8]} where only the ends are",
                {})
    return None
