"""Data-dependent sizes: the standard's node tests, one for each operator, attributes, input and axis, with that axis
found by a Compress before the node, which keeps all of it, none, one slice, and all again in one session. What comes
out is what the node gives where such an axis is built in. One of the two may refuse what the other takes: windows over
nothing."""
import os
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "python")]
sys.dont_write_bytecode = True

import onnx.backend.test
import tgrun

from compare import RANDOM
from peers import of_tgrun
from sizes import OUR_OWN

DRAWN = RANDOM | {"Dropout"}


def from_data(model, k, axis, size):
    """Input k is what `kept` leaves of `more` along the axis."""
    out = onnx.ModelProto.FromString(model.SerializeToString())
    name, out.graph.input[k].name = out.graph.input[k].name, "more"
    out.graph.input.append(helper.make_tensor_value_info("kept", TensorProto.BOOL, [size]))
    out.graph.node.insert(0, helper.make_node("Compress", ["more", "kept"], [name], axis=axis))
    if not any(o.domain == "" for o in out.opset_import):
        out.opset_import.append(helper.make_opsetid("", 18))
    return out


def built_in(model, k, axis, size):
    out = onnx.ModelProto.FromString(model.SerializeToString())
    out.graph.input[k].type.tensor_type.shape.dim[axis].dim_value = size
    return out


def outcome(run):
    try:
        return run()
    except tgrun.Error as e:
        return e


def same(a, b):
    if not isinstance(a, np.ndarray) or a.shape != b.shape or a.dtype != b.dtype:
        return not isinstance(a, np.ndarray)
    return np.allclose(a, b, 1e-3, 1e-4, equal_nan=True) if a.dtype.kind == "f" else a.tolist() == b.tolist()


def variants():
    """One for each operator, attributes, input and axis: name, model, inputs, input, axis."""
    seen = set()
    for case in onnx.backend.test.loader.load_model_tests(kind="node"):
        model, operators = case.model, {n.op_type for n in case.model.graph.node}
        # of Compress
        if "_expanded" in case.name or not case.data_sets or operators & DRAWN or any(o.domain == "" and o.version < 9
                                                                                      for o in model.opset_import):
            continue
        for port in model.graph.output:
            if port.type.HasField("tensor_type"):
                port.ClearField("type")
        for k, (port, value) in enumerate(zip(model.graph.input, inputs := case.data_sets[0][0])):
            for axis in range(value.ndim if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and
                              port.type.HasField("tensor_type") else 0):
                key = *sorted(operators), k, axis, len(inputs), *sorted(a.name for n in model.graph.node
                                                                        for a in n.attribute)
                if value.shape[axis] and key not in seen:
                    seen.add(key)
                    yield f"{case.name}, input {k}, axis {axis}", model, inputs, k, axis


def check(name, model, inputs, k, axis):
    """What is wrong, a line each."""
    names, size = [port.name for port in model.graph.input], inputs[k].shape[axis]
    session = of_tgrun(from_data(model, k, axis, size), "reference")
    for kept in (np.ones(size, bool), np.zeros(size, bool), np.arange(size) == size // 2, np.ones(size, bool)):
        part, feed = np.compress(kept, inputs[k], axis), dict(zip(names, inputs))
        got = outcome(lambda: session.run(None, {n: v
                                                 for n, v in feed.items()
                                                 if n != names[k]} | {"more": inputs[k], "kept": kept}))
        want = outcome(lambda: of_tgrun(built_in(model, k, axis, part.shape[axis]), "reference").run(
            None, feed | {names[k]: part}))
        if isinstance(got, tgrun.Error):
            if got.status in OUR_OWN:
                yield f"{name}, {kept.sum()} of {size}: {got}"
        elif not isinstance(want, tgrun.Error) and not all(map(same, got, want)):
            yield f"{name}, {kept.sum()} of {size}: {[np.shape(y) for y in got]}, with its size built in {[np.shape(y) for y in want]}, or other values"


def main():
    warnings.filterwarnings("ignore")
    count = wrong = 0
    for variant in variants():
        lines = list(check(*variant))
        print(*lines, sep="\n", end="\n" * bool(lines))
        count, wrong = count + 1, wrong + bool(lines)
    print(f"{count - wrong} of {count} axes right")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
