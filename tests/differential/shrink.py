"""A graph with a difference -> the smallest that still has it: fewer nodes, fewer attributes, smaller shapes, plainer
values; each change stays when the same kind of difference remains."""
import copy

import numpy as np
import onnx
from onnx import numpy_helper

from check import check
from draw import model_of
from grow import run_peers
from sizes import check_alike


class Small:
    """What check wants of a graph."""

    def __init__(self, versions, steps, values, constants):
        self.versions, self.steps, self.values, self.constants = versions, steps, dict(values), constants
        self.results = []
        for step in steps:
            step.seen = {name: self.values[name] for name in step.inputs()}
            self.results.append(run_peers(versions, step, self.values, constants))
            # StopIteration: all peers refuse
            self.values |= dict(zip(step.outputs, next(iter(self.results[-1].values()))))


def difference(d, like, device):
    """The difference of a graph if it is of the same kind."""
    found = check_alike(d, like, device) if like.plan else check(d, device, like.kind == "ends")
    return found if found and found.signature() == like.signature() and found.step.op == like.step.op else None


def attempt(make, like, device):
    """(graph, difference) of what make() gives, or None."""
    try:
        d = make()
        found = difference(d, like, device)
    except (StopIteration, ValueError, IndexError, KeyError, TypeError):
        return None
    return (d, found) if found else None


def given_values(d):
    made = {name for step in d.steps for n in step.nodes for name in n.output}
    used = {name for step in d.steps for name in step.inputs()}
    return {name: v for name, v in d.values.items() if name in used and name not in made}


def fewer_steps(d, found):
    if len(d.steps) > 1:
        if found.values:
            step = next(s for s in d.steps if s.outputs == found.step.outputs)
            yield lambda: Small(d.versions, [copy.deepcopy(step)], found.values, d.constants)
        for k in range(len(d.steps)):
            rest = d.steps[:k] + d.steps[k + 1:]
            yield lambda rest=rest: Small(d.versions, copy.deepcopy(rest), d.values, d.constants)


def fewer_attributes(d, found):
    for k, step in enumerate(d.steps):
        for a in step.nodes[0].attribute:
            def make(k=k, name=a.name):
                steps = copy.deepcopy(d.steps)
                attributes = steps[k].nodes[0].attribute
                attributes.remove(next(a for a in attributes if a.name == name))
                return Small(d.versions, steps, given_values(d), d.constants)
            yield make


def smaller_shapes(d, found):
    given = given_values(d)
    for size in sorted({n for v in given.values() for n in v.shape if n > 1}, reverse=True):
        for to in sorted({1, size // 2, size - 1}):
            yield lambda: Small(d.versions, copy.deepcopy(d.steps), {
                name: v[tuple(slice(to if n == size else None) for n in v.shape)]
                for name, v in given.items()
            }, d.constants)
    for name, v in given.items():
        for axis, n in enumerate(v.shape):
            if n > 1:
                yield lambda name=name, v=v, axis=axis: Small(d.versions, copy.deepcopy(d.steps), given |
                                                              {name: v.take([0], axis)}, d.constants)


def plainer_values(d, found):
    given = given_values(d)
    for name, v in given.items():
        if v.size and v.dtype != object:
            for plain in (np.zeros_like(v), np.ones_like(v),
                          np.round(v.astype(np.float64)).astype(v.dtype) if v.dtype.kind == "f" else v):
                if plain.tobytes() != v.tobytes():
                    yield lambda name=name, plain=plain: Small(d.versions, copy.deepcopy(d.steps), given |
                                                               {name: plain}, d.constants)
    if d.constants & set(given):
        yield lambda: Small(d.versions, copy.deepcopy(d.steps), given, set())


def shrink(d, found, device):
    """The reduced graph and its difference."""
    for _ in range(40):
        tries = (attempt(make, found, device)
                 for changes in (fewer_steps, fewer_attributes, smaller_shapes, plainer_values)
                 for make in changes(d, found))
        better = next((t for t in tries if t), None)
        if not better:
            break
        d, found = better
    return d, found


def written(d, found, folder=None):
    """The difference, the model and its inputs as text; in a folder too, as tests have them."""
    outputs = [name for s in d.steps for name in s.outputs]
    model, inputs = model_of(d.versions, d.steps, d.values, d.constants, outputs)
    if folder:
        (folder / "test_data_set_0").mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        for k, name in enumerate(inputs):
            (folder / "test_data_set_0" / f"input_{k}.pb").write_bytes(numpy_helper.from_array(d.values[name], name).SerializeToString())
    values = "\n".join(
        f"    {name} = {d.values[name].dtype}{list(d.values[name].shape)} {np.array2string(d.values[name], threshold=40, separator=', ')}"
        for name in inputs)
    return f"{found.step.name} ({found.kind}): {found.text}\n{onnx.printer.to_text(model.graph)}\n{values}"
