"""A graph at other sizes: one session runs it at its own sizes, which are built in, at others, for which a program of
variables is made, at third ones and at its own once more. A session of its own for each of these inputs, which builds
all sizes in, says what is right: a result, or an error. Peers do not run: what a graph with its sizes built in gives is
compared with them by check.py."""
import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import tgrun

from check import Difference, refused, without
from compare import RANDOM, by_largest, differences, is_float
from draw import model_of
from peers import of_tgrun
from table import EACH

MOST = 64
RANGE = f"*=1..{MOST}"
# sums of floats may become integers here: one or the next
ROUNDED = r".*(QLinear|Quant).*|Reduce(Log.*|L2|Mean)"
OUR_OWN = (7, 9)                # statuses that no model and no input should get
LARGEST = 4000                  # elements of an input
OTHERS = ([3, 1], [1, 5], [1, 2], [-1, 4], [-1, 1], [14, 29])           # what two runs add to a size


@dataclass
class Plan:
    what: str                   # which sizes vary
    axes: dict                  # input -> sizes, those that vary by their symbol's name
    adds: list                  # to a size, run by run
    raised: str = ""            # an input whose values are raised as well
    dims: str | None = None     # the range requested from the start

    def array(self, name, v, run):
        """An input in a run: what is more comes from its beginning again."""
        add = self.adds[run]
        for axis, size in enumerate(self.axes.get(name, ())):
            if isinstance(size, str):
                v = v.take(np.arange(max(v.shape[axis] + add, 1)) % v.shape[axis], axis)
        most = np.iinfo(v.dtype).max if name == self.raised else 0
        return np.array([min(int(e) + add, most) if e > 0 else e
                         for e in v.ravel()], v.dtype).reshape(v.shape) if name == self.raised else v


def free(values, names, varies):
    """The axes of these inputs whose sizes are variables. varies: (name, axis, size) -> truth value; sizes that are
    equal share a symbol."""
    axes = {
        name: [f"n{n}" if n and varies(name, k, n) else n for k, n in enumerate(values[name].shape)]
        for name in names
    }
    return {name: sizes for name, sizes in axes.items() if any(isinstance(n, str) for n in sizes)}


def plans(d, steps):
    """All ways to vary this graph's sizes, what two runs add left open. Numbers that nobody declared to be a size's may
    be constants; here they are inputs."""
    used = dict.fromkeys(name for s in steps for name in s.inputs()
                         if name in d.values and not any(name in t.outputs for t in steps))
    inputs = [name for name in used if name not in d.constants]
    arrays = inputs + [name for name in used if name in d.constants and is_float(d.values[name].dtype)]
    sizes = sorted({n for name in inputs for n in d.values[name].shape if n})
    for names, those in ((inputs, "inputs"), (arrays, "inputs and constants")):
        yield Plan(f"all sizes of {those}", free(d.values, names, lambda name, k, n: n > 1), [])
        for size in sizes:
            yield Plan(f"a size of {those}", free(d.values, names, lambda name, k, n: n == size), [])
    for name in inputs:
        v = d.values[name]
        for axis in range(v.ndim):
            yield Plan("an axis", free(d.values, [name], lambda name, k, n: k == axis), [])
        if v.dtype.kind in "iu" and (v > 0).any() and v.size <= 8 and v.ndim < 2:
            yield Plan("values", {}, [], name)


def possible(d, steps):
    seen = []
    for p in plans(d, steps):
        if (p.axes or p.raised) and (p.axes, p.raised) not in seen:
            seen.append((p.axes, p.raised))
            yield p


def drawn(d, steps, rng):
    """A plan, or None where no size can vary."""
    found = list(possible(d, steps))
    if not found:
        return None
    plan = found[rng.integers(len(found))]
    adds = [[0, *pair, 0] for pair in OTHERS]
    small = [
        a for a in adds if all(
            replace(plan, adds=[max(a)]).array(name, d.values[name], 0).size <= LARGEST for name in plan.axes)
    ]
    plan, ranged = replace(plan, adds=small[rng.integers(len(small))] if small else adds[0]), rng.random() < 0.3
    most = max((size for name in plan.axes for run in range(len(plan.adds))
                for size in plan.array(name, d.values[name], run).shape), default=0)
    return replace(plan, dims=RANGE if plan.axes and ranged and most <= MOST else None)


def outcome(model, feed, device, names, session=None):
    """What a run gives, by name, or the error. session: the one to use, or None."""
    try:
        return dict(zip(names, (session or of_tgrun(model, device)).run(None, feed)))
    except tgrun.Error as e:
        return e


def judged(step, values, got, want, alone):
    """The difference of two results of a step, or None. alone: they were computed from the same values, else roundings
    add up."""
    for name in (n for n in step.outputs if n in want):
        g, w = got[name], want[name]
        numbers = [values[n] for n in step.inputs() if n in values]
        wrong = differences(step.name, step.name in EACH, numbers, g, w, by_largest(numbers, g, w))
        if wrong is not None and wrong.any() and w.dtype != object and (re.fullmatch(ROUNDED, step.name) if w.dtype.kind
                                                                        in "iu" else not alone and is_float(w.dtype)):
            wrong &= ~np.isclose(g.astype(np.float64), w.astype(np.float64), 1e-2, 1 if w.dtype.kind in "iu" else 1e-2,
                                 equal_nan=True)
        if wrong is not None and is_float(w.dtype) and step.name == "com.microsoft.Inverse":
            wrong &= np.isfinite(g) | np.isfinite(w)            # of a singular matrix, by the order of what is summed
        if wrong is None or wrong.any():
            where = tuple(np.argwhere(wrong)[0]) if wrong is not None else ()
            return f"we {g.dtype}{list(g.shape)}, with its sizes built in {w.dtype}{list(w.shape)}" + (
                f"; at {list(map(int, where))}: {g[where]!r} and {w[where]!r}, {int(wrong.sum())} differ"
                if where or wrong is not None else "")
    return None


def determined(steps):
    """Without what is somebody's draw."""
    for step in list(steps):
        if any(n.op_type in RANDOM or n.op_type == "Dropout" for n in step.nodes):
            steps = without(steps, step)
    return steps


def vary(d, steps, plan, device, whole, said):
    """The first difference of the runs of a plan. whole: all values are outputs."""
    used = {name for s in steps for name in s.inputs()}
    names = [name for s in steps for name in s.outputs if whole or name not in used]
    constants = d.constants - plan.axes.keys()
    model, inputs = model_of(d.versions, steps, d.values, constants, names, plan.axes)
    try:
        session = of_tgrun(model, device, plan.dims)
    except tgrun.Error as e:
        return refused(e, steps, d.values)
    right = {}                  # by what is added
    for run, add in enumerate(plan.adds):
        feed = {name: plan.array(name, d.values[name], run) for name in inputs}
        if add not in right:
            right[add] = outcome(model_of(d.versions, steps, d.values | feed, constants, names)[0], feed, device, names)
        want, got = right[add], outcome(model, feed, device, names, session)
        text = f"{plan.what} vary by {plan.adds}{', a range from the start' if plan.dims else ''}, run {run}: "
        errors = [e for e in (got, want) if isinstance(e, tgrun.Error)]
        if errors:
            said["errors of both"] += len(errors) == 2
            if len(errors) == 1 or any(e.status in OUR_OWN for e in errors):
                found = refused(errors[0], steps, d.values)
                return replace(
                    found, plan=plan, text=
                    f"{text}{'' if len(errors) == 2 else 'only with variables: ' if errors[0] is got else 'only with sizes built in: '}{found.text}"
                )
            continue
        said["at other sizes" if add else "at its sizes"] += 1
        for step in steps:
            wrong = judged(step, d.values | feed | want, got, want, len(steps) == 1)
            if wrong:
                return Difference(step, "sizes", "", text + wrong,
                                  {name: d.values[name]
                                   for name in step.inputs() if name in d.values}, plan)
    return None


def check_sizes(d, device, rng, said):
    """The first difference of a graph whose sizes vary, or None."""
    steps = determined(d.steps)
    plan = drawn(d, steps, rng) if steps else None
    return vary(d, steps, plan, device, rng.random() < 0.5, said) if plan else None


def check_alike(d, like, device):
    """The same of a graph that was reduced, by the plans that its own is one of."""
    steps = determined(d.steps)
    tries = (vary(d, steps, replace(plan, adds=like.plan.adds, dims=like.plan.dims), device, whole, Counter())
             for plan in possible(d, steps) if plan.what == like.plan.what for whole in (True, False))
    return next((found for found in tries if found and found.signature() == like.signature()), None)
