"""Hostile forms of a model, whose last node is tried: each is the model and its inputs, changed in one place. The same
ones every time. To add a kind: a generator in KINDS."""
import itertools

import numpy as np
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

INTS = [-1, 0, 1, 2, 7, -7, 33, 2**31, 2**32 + 1, 2**62, 2**63 - 1, -2**63]
FLOATS = [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 0.5, 3e38]
WORDS = [b"", b"nonsense", b"\xff\xfe%n\n", b"SAME_UPPER"]
TYPES = [
    TensorProto.DataType.Value(t)
    for t in "FLOAT INT64 INT32 UINT8 BOOL FLOAT16 DOUBLE BFLOAT16 STRING FLOAT8E4M3FN INT4 COMPLEX64".split()
]
A = AttributeProto


def attribute(name, kind, value):
    field = {
        A.INT: "i", A.FLOAT: "f", A.STRING: "s", A.TENSOR: "t", A.GRAPH: "g", A.INTS: "ints", A.FLOATS: "floats",
        A.STRINGS: "strings", A.TENSORS: "tensors"
    }[kind]
    a = A(name=name, type=kind)
    if isinstance(value, list):
        getattr(a, field).extend(value)
    elif isinstance(value, (int, float, bytes)):
        setattr(a, field, value)
    else:
        getattr(a, field).CopyFrom(value)
    return a


def lists(now, values):
    """Too long, too short, and each value in the first and last place."""
    yield from ([], now + now[-1:], now[:-1], now[::-1], (now or values[:1]) * 70)
    for v in values:
        yield [v] + now[1:]
        yield now[:-1] + [v]


def tensors(now):
    """An attribute's tensor of other values, type or shape."""
    a = numpy_helper.to_array(now)
    yield from (numpy_helper.from_array(v, now.name)
                for _, v in itertools.chain(other_shapes(a), other_values(a), other_types(a, TYPES[:6])))
    yield TensorProto(name=now.name, data_type=now.data_type, dims=[2**40, 2**40])


def graphs(now):
    for field in ("input", "output", "node"):
        g = type(now)()
        g.CopyFrom(now)
        g.ClearField(field)
        yield g


def hostile_values(kind, now):
    """Values of an attribute; now: that of the model, or None."""
    if kind == A.INT:
        return INTS + list(range(3, 30))
    if kind == A.FLOAT:
        return FLOATS
    if kind == A.STRING:
        return WORDS + ([now.s.swapcase(), now.s[:-1], now.s + b"x"] if now else [])
    if kind == A.INTS:
        return lists(list(now.ints) if now else [1, 1], INTS)
    if kind == A.FLOATS:
        return lists(list(now.floats) if now else [1.0], FLOATS)
    if kind == A.STRINGS:
        return lists(list(now.strings) if now else [b"a"], WORDS)
    if kind == A.TENSOR:
        return tensors(now.t) if now else []
    return graphs(now.g) if kind == A.GRAPH and now else []


WRONG = [(A.INT, 1), (A.FLOAT, 1.0), (A.STRING, b"1"), (A.INTS, [1, 1]), (A.FLOATS, [1.0]), (A.STRINGS, [b"1"]),
         (A.TENSOR, numpy_helper.from_array(np.ones(2, np.float32)))]


# ---- arrays ----

def other_shapes(a):
    yield "rank up", a[None]
    if a.ndim:
        yield "rank down", a.reshape(-1) if a.ndim > 1 else np.array(
            a.reshape(-1)[0] if a.size else "" if a.dtype == object else 0, a.dtype)
        yield "first of axis 0", np.asarray(a[0], a.dtype) if len(a) else a
    for k, size in enumerate(a.shape):
        yield f"axis {k} + 1", np.concatenate([a, np.take(a, [0], k)], k) if size else a
        yield f"axis {k} of 0", np.take(a, [], k)
        yield f"axis {k} of 1", np.take(a, [0], k) if size else a


def other_values(a):
    if a.dtype == object:
        values = ["", "\xff%s\n", "nan", "x" * 3000]
    elif a.dtype.kind in "iu":
        values = [np.iinfo(a.dtype).min, np.iinfo(a.dtype).max, -1 if a.dtype.kind == "i" else 200, 0, 1, 33]
    elif a.dtype.kind == "f":
        values = FLOATS
    else:
        return
    for v in values:
        yield f"all {v}"[:40], np.full_like(a, v)
        if a.size > 1:
            b = a.copy()
            b.reshape(-1)[a.size // 2] = v
            yield f"one {v}"[:40], b


def of_type(a, number):
    if number == TensorProto.STRING:
        return np.array([str(v) for v in a.reshape(-1)], object).reshape(a.shape)
    return np.zeros(a.shape, helper.tensor_dtype_to_np_dtype(number)) if a.dtype == object else a.astype(
        helper.tensor_dtype_to_np_dtype(number))


def type_of(a):
    return TensorProto.STRING if a.dtype == object else helper.np_dtype_to_tensor_dtype(a.dtype)


def other_types(a, types):
    for number in types:
        if number != type_of(a):
            yield f"of type {number}", of_type(a, number)


# ---- models ----

def tried(model):
    """The node that is changed; those before it make what it wants."""
    return model.graph.node[-1]


class Form:
    """A copy of a case to change."""

    def __init__(self, case):
        self.model, self.feed = type(case.model)(), dict(case.feed)
        self.model.CopyFrom(case.model)
        self.node, self.graph = tried(self.model), self.model.graph

    def put(self, a):
        self.drop(a.name)
        self.node.attribute.append(a)
        return self

    def drop(self, name):
        kept = [a for a in self.node.attribute if a.name != name]
        del self.node.attribute[:]
        self.node.attribute.extend(kept)
        return self

    def port(self, name):
        return next(i for i in self.graph.input if i.name == name)

    def feeds(self, name, a):
        """An input becomes this array, as its declaration says."""
        self.feed[name] = a
        self.port(name).CopyFrom(helper.make_tensor_value_info(name, type_of(a), a.shape))
        self.anything_goes()
        return self

    def anything_goes(self):
        """Outputs that are tensors may be of any shape and type."""
        for o in self.graph.output:
            if o.type.HasField("tensor_type"):
                o.ClearField("type")

    def fix(self, name, a):
        """An input becomes an initializer."""
        del self.feed[name]
        self.graph.input.remove(self.port(name))
        self.graph.initializer.append(numpy_helper.from_array(a, name))
        self.anything_goes()
        return self


def arrays(case):
    plain = {i.name for i in case.model.graph.input if i.type.HasField("tensor_type")}
    return [(name, v) for name, v in case.feed.items() if name in plain]


def schema_of(model, node):
    version = {o.domain: o.version for o in model.opset_import}
    return defs.get_schema(node.op_type, version.get(node.domain, 1), node.domain) if defs.has(
        node.op_type, node.domain) else None


def attributes_of(case, node, form):
    """form: makes one whose node is a copy of this."""
    present, schema = {a.name: a for a in node.attribute}, schema_of(case.model, node)
    kinds = {name: a.type.value
             for name, a in schema.attributes.items()} if schema else {a.name: a.type
                                                                       for a in present.values()}
    for name, kind in kinds.items():
        if kind not in (A.SPARSE_TENSOR, A.TYPE_PROTO, A.GRAPHS):
            for k, v in enumerate(hostile_values(kind, present.get(name))):
                f = form().put(attribute(name, kind, v))
                f.anything_goes()
                yield f"{name} = {v}"[:60] if kind not in (A.TENSOR, A.GRAPH) else f"{name}, form {k}", f
        for other, v in WRONG:
            if other != kind:
                yield f"{name} of type {other}", form().put(attribute(name, other, v))
        if name in present:
            yield f"no {name}", form().drop(name)
    yield "an unknown attribute", form().put(attribute("alphabet", A.INT, 1))


def of_attributes(case):
    """Hostile values, another type, none at all; one that no operator has."""
    yield from attributes_of(case, tried(case.model), lambda: Form(case))


def of_inputs(case):
    """Other shapes, types and values, at run time and as constants."""
    for name, a in arrays(case):
        for what, b in itertools.chain(other_shapes(a), other_types(a, TYPES), other_values(a)):
            yield f"{name} {what}", Form(case).feeds(name, b)
        if a.size < 100 and type_of(a) in (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.STRING):
            for what, b in itertools.chain(other_shapes(a), other_values(a)):
                yield f"constant {name} {what}", Form(case).fix(name, b)
    form = Form(case)
    for name, a in arrays(case):
        form.fix(name, a)
    yield "all constant", form


def of_arity(case):
    node = tried(case.model)
    for k, name in enumerate(node.input):
        form = Form(case)
        form.node.input[k] = ""
        yield f"input {k} absent", form
        form = Form(case)
        del form.node.input[k:]
        yield f"{k} inputs", form
    if node.input:
        form = Form(case)
        form.node.input.extend([node.input[-1]] * 9)
        yield "9 inputs more", form
    for k, name in enumerate(node.output):
        form = Form(case)
        form.node.output[k] = ""
        kept = [o for o in form.graph.output if o.name != name]
        del form.graph.output[:]
        form.graph.output.extend(kept)
        if kept:
            yield f"output {k} absent", form
    for n in (1, 9):
        form = Form(case)
        form.node.output.extend(f"more{k}" for k in range(n))
        yield f"{n} outputs more", form


def of_declarations(case):
    """Ports that say something else than what is there, or nothing."""
    for name, a in arrays(case):
        for number in TYPES[:4]:
            if number != type_of(a):
                form = Form(case)
                form.port(name).type.tensor_type.elem_type = number
                yield f"{name} declared as {number}", form
        for k in range(a.ndim):
            form = Form(case)
            form.port(name).type.tensor_type.shape.dim[k].dim_value = a.shape[k] + 1
            yield f"{name} declared larger on axis {k}", form
    for k, o in enumerate(case.model.graph.output):
        if o.type.HasField("tensor_type"):
            form = Form(case)
            whole = o.type.tensor_type.elem_type == TensorProto.INT64
            form.graph.output[k].type.tensor_type.elem_type = TensorProto.FLOAT if whole else TensorProto.INT64
            yield f"{o.name} declared of another type", form


def of_free_sizes(case):
    """Sizes that the model leaves open, and inputs that contradict each other there."""
    def free(form, rank):
        for name, a in arrays(case):
            t = form.port(name).type.tensor_type
            t.ClearField("shape")
            for k in range(a.ndim if rank else 0):
                t.shape.dim.add().dim_param = f"{name}_{k}"
            if rank and not a.ndim:
                t.shape.SetInParent()
        form.anything_goes()
        return form
    yield "free sizes", free(Form(case), True)
    yield "free ranks", free(Form(case), False)
    for name, a in arrays(case):
        for what, b in other_shapes(a):
            form = free(Form(case), False)
            form.feed[name] = b
            yield f"free ranks, {name} {what}", form


def of_versions(case):
    """Older opsets, which had other inputs and attributes."""
    node = tried(case.model)
    for s in defs.get_all_schemas_with_history():
        if (s.name, s.domain) == (node.op_type, node.domain):
            form = Form(case)
            for o in form.model.opset_import:
                if o.domain == node.domain and o.version > s.since_version:
                    o.version = s.since_version
                    yield f"opset {s.since_version}", form


def of_bodies(case):
    """Bodies whose ports, results and captured values are others than the operator wants."""
    for a, attr in enumerate(tried(case.model).attribute):
        if attr.type != A.GRAPH:
            continue

        def form():
            f = Form(case)
            f.anything_goes()
            return f, f.node.attribute[a].g

        g = attr.g
        inner, outer = [i.name for i in g.input] + [o for n in g.node
                                                    for o in n.output if o], [n for n in tried(case.model).input if n]
        for field in ("input", "output"):
            for k, port in enumerate(getattr(g, field)):
                for number in (*TYPES[:5], TensorProto.STRING):
                    f, b = form()
                    getattr(b, field)[k].type.CopyFrom(helper.make_tensor_type_proto(number, None))
                    yield f"{attr.name}: {field} {k} declared as {number}", f
                for what, t in (("a row", helper.make_tensor_type_proto(TensorProto.FLOAT, [1])),
                                ("a sequence",
                                 helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT,
                                                                                               None)))):
                    f, b = form()
                    getattr(b, field)[k].type.CopyFrom(t)
                    yield f"{attr.name}: {field} {k} declared as {what}", f
                f, b = form()
                del getattr(b, field)[k]
                yield f"{attr.name}: no {field} {k}", f
                f, b = form()
                getattr(b, field).append(port)
                yield f"{attr.name}: {field} {k} twice", f
            f, b = form()
            ports = list(getattr(b, field))[::-1]
            b.ClearField(field)
            getattr(b, field).extend(ports)
            yield f"{attr.name}: {field}s in reverse", f
        for k, port in enumerate(g.output):
            for name in dict.fromkeys([*inner, *outer, "nowhere"]):
                if name != port.name:
                    f, b = form()
                    b.output[k].CopyFrom(helper.make_empty_tensor_value_info(name))
                    yield f"{attr.name}: output {k} is {name}", f
            for what, nodes in CHANGES.items():
                f, b = form()
                b.output[k].CopyFrom(helper.make_empty_tensor_value_info("changed"))
                b.node.extend(nodes(port.name))
                yield f"{attr.name}: output {k} {what}", f
        for j, node in enumerate(g.node):
            def at(j=j):
                f, b = form()
                f.node = b.node[j]
                return f

            for what, f in attributes_of(case, node, at):
                yield f"{attr.name}: node {j}, {what}", f
            f, b = form()
            del b.node[j]
            yield f"{attr.name}: no node {j}", f
            for i, name in enumerate(node.input):
                for other in dict.fromkeys([*inner, *outer, "", "nowhere"]):
                    if other != name:
                        f, b = form()
                        b.node[j].input[i] = other
                        yield f"{attr.name}: input {i} of node {j} is {other}", f


CHANGES = {
    "as another type": lambda x: [helper.make_node("Cast", [x], ["changed"], to=TensorProto.INT32)],
    "of a larger rank": lambda x: [helper.make_node("Constant", [], ["new axis"], value_ints=[0]), helper.make_node("Unsqueeze", [x, "new axis"], ["changed"])],
    "of rank 0": lambda x: [helper.make_node("Constant", [], ["no axes"], value=TensorProto(data_type=TensorProto.INT64, dims=[0])), helper.make_node("ReduceMax", [x], ["changed"], keepdims=0)],
    "twice as long": lambda x: [helper.make_node("Concat", [x, x], ["changed"], axis=0)],
    "as its shape": lambda x: [helper.make_node("Shape", [x], ["changed"])],
    "as what is not zero": lambda x: [helper.make_node("NonZero", [x], ["changed"])],
    "as a sequence": lambda x: [helper.make_node("SequenceConstruct", [x], ["changed"])],
    "as an optional": lambda x: [helper.make_node("Optional", [x], ["changed"])],
    "as a list of nothing": lambda x: [helper.make_node("Constant", [], ["changed"], value=TensorProto(data_type=TensorProto.FLOAT, dims=[0]))],
}


def of_sequences(case):
    """Sequences and optionals of other elements, of none, and within each other."""
    plain = dict(arrays(case))
    for name, v in case.feed.items():
        if name not in plain:
            some = [a for a in (v if isinstance(v, list) else [v]) if isinstance(a, np.ndarray)
                    ] or [np.ones((2, 3), np.float32)]
            lists = {
                "none": None, "an empty list": [], "an array": some[0], "one": some[:1], "many": some * 50,
                "a list of lists": [some], "a hole": [*some, None]
            }
            lists |= {
                f"another {what}": [*some, b]
                for what, b in itertools.chain(other_shapes(some[-1]), other_types(some[-1], TYPES[:6]))
            }
            for what, w in lists.items():
                form = Form(case)
                form.feed[name] = w
                yield f"{name} with {what}"[:60], form


KINDS = [of_attributes, of_inputs, of_arity, of_declarations, of_free_sizes, of_versions, of_bodies, of_sequences]


def forms(case):
    """(what is changed, the changed model, its inputs)."""
    for kind in KINDS:
        for what, form in kind(case):
            yield what, form.model, form.feed
