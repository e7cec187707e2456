"""Types: the standard's node tests once more, one for each operator version and type that its schema allows for the
first input, with all inputs that must be of that type converted. The values are no longer those that the test expects,
so that only this is tested: does it import and run? To leave a case out: a row of OTHERWISE, with the reason."""
import shutil
import sys
import warnings

import numpy as np
import onnx.backend.test
from onnx import defs, helper, numpy_helper

import cases

OTHERWISE = {
    "Bernoulli": "without dtype the result is of the input's type",
    "EyeLike": "without dtype the result is of the input's type",
    "OptionalGetElement": "the result is of the input's type",
    "SplitToSequence": "the result is a sequence",
    "BitCast": "a type of the same size is requested",
    "LinearAttention": "the state's type is free where no past is given",
    "FlexAttention": "the subgraphs hold constants of the first type",
}
BODY = {"Scan": "Add"}           # whose subgraph has such a node, which must take the type as well
PLAIN = "float uint8 int8 uint16 int16 int32 int64 bool float16 double uint32 uint64 bfloat16".split()
# of which only a session knows
MOVED = "string complex64 complex128 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float4e2m1 int4 uint4 int2 uint2".split(
)
OTHER_TEXT = {
    "TfIdfVectorizer": "the pool is of the first type", "Col2Im": "strings have no sum", "GridSample":
    "strings are moved, where the mode is nearest"
}
PLAIN, MOVED = ({f"tensor({name})": onnx.TensorProto.DataType.Value(name.upper())
                 for name in names} for names in (PLAIN, MOVED))


def of_type(formals, names, type_str):
    """Those names whose formal parameter has that type parameter; the last one may stand for many."""
    return {name for k, name in enumerate(names) if formals and formals[min(k, len(formals) - 1)].type_str == type_str}


def of(value, elem_type):
    """The value as one of that type; whole numbers are 0 or 1, which all of them have."""
    if elem_type == onnx.TensorProto.STRING:
        return value.astype(object).astype(str).astype(object)
    name = onnx.TensorProto.DataType.Name(elem_type)
    return (np.abs(value.astype(np.float64)) % 2 if name.endswith(
        ("INT2", "INT4")) else value).astype(helper.tensor_dtype_to_np_dtype(elem_type))


def variants(case, types):
    """The case's model with its inputs, for each other of these types of its first input."""
    node, opset = case.model.graph.node[0], {o.domain: o.version for o in case.model.opset_import}
    schema = defs.get_schema(node.op_type, opset.get(node.domain, 1), node.domain)
    first = schema.inputs[0].type_str if schema.inputs else ""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(first, [])
    if node.op_type in BODY:
        allowed = [
            t for t in allowed
            if t in defs.get_schema(BODY[node.op_type], opset[""]).type_constraints[0].allowed_type_strs
        ]
    tied, tied_out = of_type(schema.inputs, node.input, first), of_type(schema.outputs, node.output, first)
    ports = {i.name: i for i in case.model.graph.input}
    if node.input[0] not in ports or not all(
            isinstance(v, np.ndarray) and v.dtype != object for v in case.data_sets[0][0]):
        return
    mine = ports[node.input[0]].type.tensor_type.elem_type
    for name in allowed:
        if types.get(name, mine) == mine or (name == "tensor(string)" and node.op_type in OTHER_TEXT):
            continue
        model, inputs = onnx.ModelProto(), []
        model.CopyFrom(case.model)
        for port, value in zip(model.graph.input, case.data_sets[0][0]):
            if port.name in tied and port.type.tensor_type.elem_type == mine:
                port.type.tensor_type.elem_type = types[name]
                value = of(value, types[name])
            inputs.append(value)
        for port in model.graph.output:
            if port.name in tied_out:
                port.type.tensor_type.elem_type = types[name]
        yield (node.op_type, schema.since_version, name[7:-1]), model, inputs


def write(top, types):
    made = set()
    for case in onnx.backend.test.loader.load_model_tests(kind="node"):
        if len(case.model.graph.node) > 1 or case.model.functions or not case.model.graph.node[
                0].input or case.model.graph.node[0].op_type in OTHERWISE:
            continue
        for key, model, inputs in variants(case, types):
            if key not in made:
                cases.write(top / "_".join(map(str, key)), model, inputs, [])
                made.add(key)
    return top


warnings.filterwarnings("ignore")
np.seterr(all="ignore")
shutil.rmtree(cases.build / "onnx_types", ignore_errors=True)
failed = cases.run(write(cases.build / "onnx_types" / "plain", PLAIN), devices=[[]])
failed |= cases.run(write(cases.build / "onnx_types" / "moved", MOVED), devices=[["-d", "reference"]])
sys.exit(failed)
