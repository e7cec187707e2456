"""A seed -> a random graph of 1 to 8 steps. Each step is run by a peer as soon as it is drawn: what all peers refuse does not enter, so a graph is one that somebody runs."""
from collections import Counter

import numpy as np
import onnx

from draw import Draw, Unfit, model_of
from operators import ML, TABLE
from peers import PEERS

LARGEST = 20000                 # elements of a value
NEWEST = onnx.defs.onnx_opset_version()
OLDEST = 7


def operators_of(opset, only=None):
    """Names that are operators in this version."""
    out = []
    for name in TABLE:
        domain = "" if onnx.defs.has(name, "") else ML
        try:
            schema = onnx.defs.get_schema(name, 4 if domain else opset, domain)
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated and (only is None or name in only):
            out.append(name)
    return out


def run_peers(opset, step, values, constants):
    """{peer: arrays} of those that run this step alone on these values."""
    model, inputs = model_of(opset, [step], values, constants, step.outputs)
    feed = {name: values[name] for name in inputs}
    results = {}
    for name, run in PEERS.items():
        arrays = run(model, feed)
        if arrays is not None and all(isinstance(a, np.ndarray) for a in arrays):
            results[name] = arrays
    return results


def schema_types(d, step, arrays):
    """A peer's arrays in the type of the first input, where the schema says so: the reference evaluator's are wider at times."""
    schema = d.schema(step.op, step.domain)
    if len(step.nodes) > 1 or not schema.inputs or not step.nodes[0].input[0]:
        return arrays
    like = d.values[step.nodes[0].input[0]].dtype
    return [a.astype(like) if formal.type_str == schema.inputs[0].type_str and a.dtype != like else a for a, formal in zip(arrays, [*schema.outputs, *schema.outputs[-1:] * len(arrays)])]


def grow(seed, number, only=None, said=None):
    """Graph `number` of a seed. said counts operators that were drawn and those that peers refused."""
    rng = np.random.default_rng([seed, number])
    said = Counter() if said is None else said
    opset = int(rng.integers(OLDEST, NEWEST + 1))
    d, names, wanted = Draw(rng, opset), operators_of(opset, only), int(rng.integers(1, 9))
    d.results = []
    for _ in range(3 * wanted):
        if len(d.steps) == wanted or not names:
            break
        op = d.pick(*names)
        before = len(d.inputs), set(d.values), set(d.constants)
        results = {}
        try:
            step = TABLE[op](d, op)
            results = run_peers(opset, step, d.values, d.constants)
            said["drawn", op] += 1
            said["refused", op] += not results
        except (Unfit, IndexError, ValueError) as e:
            said["unfit", op] += 1
            if not isinstance(e, Unfit):
                said["error", f"{op}: {type(e).__name__} {e}"[:150]] += 1
        arrays = schema_types(d, step, next(iter(results.values()))) if results else []
        if not results or any(a.size > LARGEST for a in arrays):
            d.inputs, d.constants = d.inputs[:before[0]], before[2]
            d.values = {name: d.values[name] for name in d.values if name in before[1]}
            continue
        step.seen = {name: d.values[name] for name in step.inputs()}
        d.values |= dict(zip(step.outputs, arrays))
        d.steps.append(step)
        d.results.append(results)
    return d
