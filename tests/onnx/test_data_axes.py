"""Sizes that are not known when a model is imported: the standard's node tests once more, one for each operator, input
and axis, with that axis found by a Compress before the node (depend on data its size), and one for each operator and
number of inputs with every size a variable of a range. All of them must run, with the values of the standard."""
import dataclasses
import shutil
import sys
import warnings

import numpy as np
import onnx.backend.test
from onnx import TensorProto, helper

import cases
import program

LARGEST = 64


def opset(model, domain=""):
    return next((o for o in model.opset_import if o.domain == domain), None)


def from_data(case):
    """The case with one axis of one input data-dependent, each as (input, axis), model, inputs. One slice more than the
    node takes comes in, and what Compress keeps is an input."""
    if opset(case.model) and opset(case.model).version < 9:            # of Compress
        return
    for k, (port, value) in enumerate(zip(case.model.graph.input, case.data_sets[0][0])):
        for axis in range(value.ndim if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and
                          port.type.HasField("tensor_type") else 0):
            model, size = onnx.ModelProto.FromString(case.model.SerializeToString()), value.shape[axis]
            kept = np.arange(size + 1) != size // 2
            more = np.insert(value, size // 2, value.take([0], axis).squeeze(axis) if size else 0, axis)
            if not opset(model):
                model.opset_import.append(helper.make_opsetid("", 18))
            model.graph.input[k].CopyFrom(
                helper.make_tensor_value_info("more", port.type.tensor_type.elem_type, more.shape))
            model.graph.input.append(helper.make_tensor_value_info("kept", TensorProto.BOOL, kept.shape))
            model.graph.node.insert(0, helper.make_node("Compress", ["more", "kept"], [port.name], axis=axis))
            inputs = list(case.data_sets[0][0])
            inputs[k] = more
            yield f"{k}.{axis}", model, [*inputs, kept]


def symbolic(case):
    """The case with a symbol for every size."""
    inputs, model, count = case.data_sets[0][0], onnx.ModelProto.FromString(case.model.SerializeToString()), 0
    for port, value in zip(model.graph.input, inputs):
        if not isinstance(value, np.ndarray) or not port.type.HasField("tensor_type") or max(value.shape,
                                                                                             default=0) > LARGEST:
            return
        for size, dim in zip(value.shape, port.type.tensor_type.shape.dim):
            if size:
                dim.Clear()
                dim.dim_param = f"n{(count := count + 1)}"
    if count:
        yield "symbolic", model, inputs


def write(top, variants):
    made = set()
    for case in program.todays(onnx.backend.test.loader.load_model_tests(kind="node")):
        if "_expanded" in case.name or not case.data_sets:
            continue
        operators = {n.op_type for n in case.model.graph.node}
        for what, model, inputs in variants(case):
            key = (*sorted(operators), what, len(inputs))
            if key not in made:
                cases.write_case(top / f"{case.name}_{what}",
                                 dataclasses.replace(case, model=model, data_sets=[(inputs, case.data_sets[0][1])]))
                made.add(key)
    return top


warnings.filterwarnings("ignore")
shutil.rmtree(cases.build / "onnx_data_axes", ignore_errors=True)
failed = cases.run(write(cases.build / "onnx_data_axes" / "from_data", from_data), devices=[["-d", "reference"]])
failed |= cases.run(write(cases.build / "onnx_data_axes" / "symbolic", symbolic), "-s", f"*=1..{LARGEST}",
                    devices=[["-d", "reference"]])
sys.exit(failed)
