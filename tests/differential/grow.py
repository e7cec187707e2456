"""A seed -> a random graph of 1 to 8 steps. Each step is run by a peer as soon as it is drawn: what all peers refuse
does not enter, so a graph is one that somebody runs."""
from collections import Counter

import numpy as np
import onnx

from draw import Draw, Unfit, model_of
from operators import TABLE
from peers import PEERS, fits, ports_of

LARGEST = 20000                 # elements of a value
NEWEST = onnx.defs.onnx_opset_version()
NEWEST_ML = 5
OLDEST = 7


def split_name(full):
    """(domain, operator)"""
    domain, _, op = full.rpartition(".")
    return domain, op


def operators_of(d, only=None):
    """Names that are operators in the graph's versions. Those that the standard does not have at all are others'
    own."""
    out = []
    for name in TABLE:
        domain, op = split_name(name)
        if onnx.defs.has(op, domain):
            try:
                if d.schema(op, domain).deprecated:
                    continue
            except onnx.defs.SchemaError:
                continue
        if only is None or name in only:
            out.append(name)
    return out


def run_peers(versions, step, values, constants):
    """{peer: arrays} of those that run this step alone on these values."""
    model, inputs = model_of(versions, [step], values, constants, step.outputs)
    feed = {name: values[name] for name in inputs}
    results = {}
    for name, run in PEERS.items():
        arrays = run(model, feed)
        if arrays is not None and all(isinstance(a, np.ndarray) for a in arrays):
            results[name] = arrays
    return results


def believed(d, step, results):
    """A peer's arrays whose sizes are those that the standard infers, or those of all peers; else none."""
    ports = ports_of(model_of(d.versions, [step], d.values, d.constants, step.outputs)[0])
    alike = len(results) > 1 and len({tuple(a.shape for a in arrays) for arrays in results.values()}) == 1
    return next((arrays for arrays in results.values() if alike or all(map(fits, arrays, ports))), [])


def grow(seed, number, only=None, said=None):
    """Graph `number` of a seed. said counts operators that were drawn and those that peers refused."""
    rng = np.random.default_rng([seed, number])
    said = Counter() if said is None else said
    opset, ml = int(rng.integers(OLDEST, NEWEST + 1)), int(rng.integers(1, NEWEST_ML + 1))
    d = Draw(rng, opset, ml)
    names, wanted = operators_of(d, only), int(rng.integers(1, 9))
    d.results = []
    for _ in range(3 * wanted):
        if len(d.steps) == wanted or not names:
            break
        name = d.pick(*names)
        before = len(d.inputs), set(d.values), set(d.constants)
        results = {}
        try:
            step = TABLE[name](d, split_name(name)[1])
            results = run_peers(d.versions, step, d.values, d.constants)
            said["drawn", name] += 1
            said["refused", name] += not results
        except (Unfit, IndexError, ValueError) as e:
            said["unfit", name] += 1
            if not isinstance(e, Unfit):
                said["error", f"{name}: {type(e).__name__} {e}"[:150]] += 1
        arrays = believed(d, step, results) if results else []
        if not arrays or any(a.size > LARGEST for a in arrays):
            d.inputs, d.constants = d.inputs[:before[0]], before[2]
            d.values = {name: d.values[name] for name in d.values if name in before[1]}
            continue
        step.seen = {name: d.values[name] for name in step.inputs()}
        d.values |= dict(zip(step.outputs, arrays))
        d.steps.append(step)
        d.results.append(results)
    return d
