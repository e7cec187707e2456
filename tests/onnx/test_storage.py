"""Element types as they are stored: every type of the standard's TensorProto, as an input (npy and pb), an initializer
(raw and by the typed field) and a Constant, through operators that move it (Identity, If by data, Concat, Reshape,
Gather, a sequence), as an output (npy and pb); then Cast between every two of them that the standard allows, compared
with its own evaluator. To add a type: a row of NAMES."""
import os
import pathlib
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference.ops.op_cast import cast_to

import program

OPSET = onnx.defs.onnx_opset_version()
DEVICES = ("reference", "cpu", "cuda")
NAMES = [name for name, number in TensorProto.DataType.items() if number]
EDGES = [
    0, 1, 2, 3, -1, -2, 0.5, 0.25, 1.5, 2.5, 3.5, 0.0625, 0.03125, 5, 6, 7, 7.25, 7.5, 7.75, 28, 30, 100, 448, 1e-3,
    -0.0, 57344, 1e30, -1e30, np.inf, -np.inf, np.nan, 1 / 3
]
COMPLEX, TEXT = ("COMPLEX64", "COMPLEX128"), "STRING"
FLOAT8 = [n for n in NAMES if n.startswith("FLOAT8")]


def dtype_of(name): return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)))


def bits_of(name):
    return {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2":
            6}.get(name, 8 * dtype_of(name).itemsize)


def is_float(name): return name.startswith(("FLOAT", "BFLOAT", "DOUBLE"))


def some(name, n=7):
    """n different values."""
    if name == TEXT:
        return np.array([f"w{k} €" for k in range(n)], object)
    if name in COMPLEX:
        return (np.arange(n) - 1j * np.arange(n) / 2).astype(dtype_of(name))
    if name == "BOOL":
        return np.arange(n) % 3 == 1
    if bits_of(name) < 8 and not is_float(name):
        return (np.arange(n) % (1 << bits_of(name) - 1)).astype(dtype_of(name))
    return (np.arange(n) / (2 if is_float(name) else 1)).astype(np.float32).astype(dtype_of(name))


def as_codes(a):
    """What numpy alone can write: types that it lacks as their bytes."""
    return a if a.dtype.kind != "V" and a.dtype.isbuiltin == 1 or a.dtype == object else a.view(
        np.int8 if a.dtype.name in ("int4", "int2") else np.uint16 if a.dtype.itemsize == 2 else np.uint8)


def typed(name, a, label):
    """A tensor by its typed field."""
    t = helper.make_tensor(label, TensorProto.DataType.Value(name), a.shape,
                           a.reshape(-1).tolist() if name == TEXT else a.reshape(-1))
    assert not t.raw_data
    return t


def raw(name, a, label):
    if name == TEXT:
        return typed(name, a, label)
    t = numpy_helper.from_array(a, label)
    assert t.raw_data
    return t


def moves(name):
    """A model that moves values of that type about, what it makes, and the type of that."""
    kind, x = TensorProto.DataType.Value(name), some(name)
    value = helper.make_tensor_value_info
    if name.startswith("FLOAT6"):                       # which only Cast, QuantizeLinear and DequantizeLinear take
        nodes = [
            helper.make_node("Cast", [i], [o], to=TensorProto.FLOAT)
            for i, o in (("x", "same"), ("kept", "raw"), ("listed", "typed"))
        ]
        graph = helper.make_graph(
            nodes, "g", [value("x", kind, [7]), value("p", 1, [50])],
            [value(o, TensorProto.FLOAT, None) for n in nodes for o in n.output],
            [raw(name, x[::-1].copy(), "kept"), typed(name, x, "listed")])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=14), {
            "same": x.astype(np.float32), "raw": x[::-1].astype(np.float32), "typed": x.astype(np.float32)
        }, "FLOAT"
    branches = {
        f"{b}_branch":
        helper.make_graph([helper.make_node("Identity", [v], [f"{b}_y"])], b, [], [value(f"{b}_y", kind, [7])])
        for b, v in (("then", "x"), ("else", "kept"))
    }
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Identity", ["kept"], ["raw"]),
        helper.make_node("Identity", ["listed"], ["typed"]),
        helper.make_node("Constant", [], ["constant"], value=raw(name, x, "c")),
        helper.make_node("ReduceSum", ["p"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "least"], ["which"]),
        helper.make_node("If", ["which"], ["chosen"], **branches),
        helper.make_node("Concat", ["x", "kept"], ["both"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["column"]),
        helper.make_node("Gather", ["x", "order"], ["picked"]),
        helper.make_node("SplitToSequence", ["x"], ["pieces"]),
        helper.make_node("SequenceAt", ["pieces", "two"], ["piece"])
    ]
    if name == TEXT or name in COMPLEX or bits_of(name) < 8 or name in FLOAT8:
        nodes = [
            n for n in nodes
            if n.op_type not in ("Gather", "SplitToSequence", "SequenceAt", "Concat") or name == TEXT or name in COMPLEX
        ]
    if name == "BFLOAT16":                            # of which there are no sequences
        nodes = nodes[:-2]
    names = [o for n in nodes for o in n.output if o not in ("sum", "which", "pieces")]
    inits = [
        raw(name, x[::-1].copy(), "kept"),
        typed(name, x, "listed"),
        numpy_helper.from_array(np.array(0, np.float32), "least"),
        numpy_helper.from_array(np.array([7, 1]), "shape"),
        numpy_helper.from_array(np.array([6, 0, 3]), "order"),
        numpy_helper.from_array(np.array(2), "two")
    ]
    graph = helper.make_graph(nodes, "g", [value("x", kind, [7]), value("p", 1, [50])],
                              [value(o, kind, None) for o in names], inits)
    want = {
        "same": x, "raw": x[::-1], "typed": x, "constant": x, "chosen": x, "both": np.concatenate([x, x[::-1]]),
        "column": x.reshape(7, 1), "picked": x[[6, 0, 3]], "piece": x[2:3]
    }
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                             ir_version=14), {n: want[n]
                                              for n in names}, name


def allowed(name):
    return {
        t[7:-1].upper()
        for c in onnx.defs.get_schema("Cast", OPSET).type_constraints if c.type_param_str == name
        for t in c.allowed_type_strs
    }


def casts(name, to):
    """Values near every edge of the target that both types have."""
    x = np.array(EDGES, np.float32)
    with np.errstate(all="ignore"):
        if name == TEXT:
            x = np.array(["0", "1", "2", "3.0" if is_float(to) else "1"], object)
        elif not is_float(name) and name != "BOOL":
            low, high = (-(1 << bits_of(name) - 1),
                         (1 << bits_of(name) - 1) - 1) if name.startswith("INT") else (0, (1 << bits_of(name)) - 1)
            x = np.array([v for v in (0, 1, 2, 3, 5, 7, 9, 100, 127, 448, -1, -2, -8) if low <= v <= high])
        elif not is_float(to):
            x = np.array([0, 1, 1.5, 2.75] + ([] if to.startswith("U") or to == "BOOL" else [-1, -1.5]))
        elif to == "FLOAT8E8M0":
            # of infinity it says NaN, where the standard's text has the largest
            x = np.abs(x[np.abs(x) < 65504])
        if not is_float(to) and name != TEXT and to != TEXT and to != "BOOL" and is_float(name):
            x = x[np.abs(x) < (1 << bits_of(to) - 1)]
        if name == "FLOAT8E8M0":
            x = x[x > 0]                                # it has neither a zero nor a sign
        return x if name == TEXT else x.astype(dtype_of(name))


def cast_model(name, targets):
    kind, value = TensorProto.DataType.Value(name), helper.make_tensor_value_info
    nodes = [helper.make_node("Cast", [f"x{to}"], [f"y{to}"], to=TensorProto.DataType.Value(to)) for to in targets]
    graph = helper.make_graph(nodes, "g", [value(f"x{to}", kind,
                                                 casts(name, to).shape) for to in targets],
                              [value(f"y{to}", TensorProto.DataType.Value(to), None) for to in targets])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=14)


def expected_casts(name, targets, inputs):
    with np.errstate(all="ignore"):
        if name == TEXT:
            return {
                to:
                cast_to(np.array([float(v)
                                  for v in inputs[f"x{to}"]], np.float32), TensorProto.DataType.Value(to), True)
                for to in targets
            }
        # ml_dtypes has not all pairs
        wide = {
            to:
            inputs[f"x{to}"].astype(np.float32 if is_float(name) else np.int32)
            if bits_of(name) < 8 or name in FLOAT8 else inputs[f"x{to}"]
            for to in targets
        }
        return {to: cast_to(x, TensorProto.DataType.Value(to), True) for to, x in wide.items()}


def save(folder, model):
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def load(path, name, suffix):
    """An output as an array of its type."""
    if suffix == "pb":
        return numpy_helper.to_array(TensorProto.FromString(path.with_suffix(".pb").read_bytes()))
    a = np.load(path.with_suffix(".npy"))
    return a if name == TEXT or a.dtype == dtype_of(name) else a.view(dtype_of(name))


def same(got, want, name):
    if got.shape != want.shape:
        return False
    if name == TEXT or want.dtype == object:
        return [str(v)
                for v in got.reshape(-1)] == [v.decode() if isinstance(v, bytes) else str(v) for v in want.reshape(-1)]
    if is_float(name):
        got, want = got.astype(np.float64), want.astype(np.float64)
    return bool(np.array_equal(got, want, equal_nan=is_float(name)))


def run(folder, model, inputs, device, suffix):
    """inputs: arrays by name, given in files of that kind; outputs come in such files too."""
    args = []
    for k, a in inputs.items():
        path = folder / f"{k}.{suffix}"
        if suffix == "pb":
            path.write_bytes(
                (typed("STRING", a, k) if a.dtype == object else numpy_helper.from_array(a, k)).SerializeToString())
        else:
            np.save(path, as_codes(a) if a.dtype != object else a.astype(str))
        args += ["-i", f"{k}={path}"]
    names = [o.name for o in model.graph.output]
    args += [part for o in names for part in ("-o", f"{o}={folder / 'out' / o}.{suffix}")]
    (folder / "out").mkdir(exist_ok=True)
    return program.run(save(folder, model), folder, {}, device, *args, "--runs", "2", "-q")


wrong = total = 0


def check(what, code, said, got, want, name):
    global wrong, total
    total += 1
    if code or not same(got(), want, name):
        wrong += 1
        print(f"{what}: {said if code else (got().tolist(), want.tolist())}")


with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    for device in DEVICES:
        for name in NAMES:
            model, want, made = moves(name)
            for suffix in ("npy", "pb"):
                code, _, said = run(folder, model, {"x": some(name), "p": np.ones(50, np.float32)}, device, suffix)
                for o in want:
                    check(f"{name} {o} {suffix} on {device}", code, said,
                          lambda: load(folder / "out" / o, made, suffix), want[o], made)
    for device in DEVICES[:2]:
        for name in [n for n in NAMES if n in allowed("T1")]:
            targets = [
                to for to in NAMES
                if to in allowed("T2") and to != name and not (name in FLOAT8 + ["FLOAT4E2M1"] and to == "FLOAT8E8M0")
            ]
            # another matter: "True", "1e-05"
            targets = [
                to for to in targets if not (name == TEXT and to in ("BOOL", )) and
                not (to == TEXT and (is_float(name) or name == "BOOL" or bits_of(name) < 8))
            ]
            model, inputs = cast_model(name, targets), {f"x{to}": casts(name, to) for to in targets}
            want = expected_casts(name, targets, inputs)
            code, _, said = run(folder, model, inputs, device, "pb")
            for to in targets:
                check(f"{name} to {to} on {device}", code, said, lambda: load(folder / "out" / f"y{to}", to, "pb"),
                      want[to], to)
print(f"{total - wrong} of {total} values right")
sys.exit(wrong > 0)
