"""Control flow, sequences, optionals and text. Sequences live inside a step of several nodes: between steps there are
tensors."""
import numpy as np
from onnx import helper, numpy_helper

from draw import Step, Unfit, is_plain
from table import operator, proto_type


# ---- control flow, sequences ----

def body(nodes, inputs, outputs, initializers=()):
    port = lambda p: helper.make_tensor_value_info(p[0], proto_type(p[1]), p[2])
    return helper.make_graph(nodes, "body", [port(p) for p in inputs], [port(p) for p in outputs], list(initializers))


def arithmetic(d, t):
    return d.pick("Add", "Mul", "Sub", *["Max", "Min"] * (d.opset >= 12)) if t.kind in "fiu" else "Or"


PLAIN = (np.float32, np.float64, np.int64)


def turned(d, t, other):
    """Nodes of a body: the next state, and what is seen of it; of plain numbers by arithmetic."""
    if t in PLAIN:
        return [
            helper.make_node(arithmetic(d, t), ["state", other], ["next"], name="b0"),
            helper.make_node("Neg", ["next"], ["seen"], name="b2")
        ]
    return [
        helper.make_node("Identity", [other], ["next"], name="b0"),
        helper.make_node("Identity", ["state"], ["seen"], name="b2")
    ]


@operator("If")
def if_(d, op):
    x = d.tensor([np.float32, np.float64, np.int32, np.int64])
    y = d.broadcast(x)
    t = d.values[x].dtype
    arms = [body([d.node(arithmetic(d, t), [x, y] if d.chance() else [y, x])], [], []) for _ in range(2)]
    if d.chance(0.2):                                           # of another shape
        arms[1] = body([d.node("Neg", [x])], [], [])
    if d.chance(0.2):                                           # a branch in a branch
        inner = if_node(d, d.tensor(bool, shape=()), t, *arms)
        arms = [body([inner], [], []), body([d.node("Neg", [x])], [], [])]
    n = if_node(d, d.tensor(bool, shape=()), t, *arms)
    return Step([n], list(n.output))


@operator("Loop")
def loop(d, op):
    x = d.tensor(d.types(op, 2) if d.chance(0.3) else PLAIN, (0, 3), calm=True)
    v = d.values[x]
    step = d.array(v.dtype, (), calm=True)
    fixed = [
        helper.make_node("Cast", ["turn"], ["number"], name="b3", to=proto_type(np.float32)),
        helper.make_node("Less", ["number", "last"], ["again"], name="b1")
    ]
    constants = [
        numpy_helper.from_array(step, "step"),
        numpy_helper.from_array(np.array(d.int(0, 4), np.float32), "last")
    ]
    often, go = d.index(d.int(0, 4)), d.some(d.add(np.array(d.chance(0.8))))
    head = [("turn", np.int64, ()), ("go", bool, ())]
    # the state grows; a value of outside is seen inside
    if v.ndim and v.dtype in d.types("Concat", 0) and d.chance(0.2):
        nodes = [helper.make_node("Concat", ["state", x], ["next"], name="b0", axis=d.int(0, v.ndim - 1)), *fixed]
        inner = body(nodes, head + [("state", v.dtype, [None] * v.ndim)], [("again", bool, ()),
                                                                           ("next", v.dtype, [None] * v.ndim)],
                     constants)
        return d.step(op, [often, go, x], 1, body=inner)
    constants[0] = constants[0] if v.dtype in PLAIN else numpy_helper.from_array(d.array(v.dtype, v.shape), "step")
    nodes = [*turned(d, v.dtype, "step"), *fixed]
    inner = body(nodes, head + [("state", v.dtype, v.shape)], [("again", bool, ()), ("next", v.dtype, v.shape),
                                                               ("seen", v.dtype, v.shape)], constants)
    return d.step(op, [often, go, x], 2, body=inner)


@operator("Scan")
def scan(d, op):
    t = np.dtype(d.pick(*d.types(op, -1)) if d.chance(0.3) else d.pick(*PLAIN))
    n, shape = d.pick(1, 2, 5), d.shape(0, 2)
    nodes = turned(d, t, "row")
    inner = body(nodes, [("state", t, shape), ("row", t, shape)], [("next", t, shape), ("seen", t, shape)])
    if d.opset < 9:                                             # with a batch, and lengths before the rest
        b = d.pick(1, 2)
        lengths = d.some(d.new(np.int64, (b,), 1, n))
        return d.step(op, [lengths, d.new(t, (b, *shape), calm=True),
                           d.new(t, (b, n, *shape), calm=True)], 2, body=inner, num_scan_inputs=1,
                      directions=d.some([d.int(0, 1)]))
    into, out = (d.int(-1 - len(shape) if d.opset >= 11 else 0, len(shape)) if d.chance(0.3) else 0 for _ in range(2))
    rows = np.moveaxis(d.array(t, (n, *shape), calm=True), 0, into)
    ways = dict(scan_input_directions=d.some([d.int(0, 1)]), scan_output_directions=d.some([d.int(0, 1)]),
                scan_input_axes=[into] if into else d.some([0]), scan_output_axes=[out] if out else d.some([0]))
    return d.step(op, [d.new(t, shape, calm=True), d.add(np.ascontiguousarray(rows))], 2, body=inner, num_scan_inputs=1,
                  **ways)


def chain(d, nodes):
    return Step(nodes, list(nodes[-1].output))


@operator("SequenceConstruct", "SequenceEmpty")
def sequence(d, op):
    t, shape = d.type("SequenceConstruct", among=is_plain), d.shape(1, 3)
    n = d.int(1, 3) if op == "SequenceConstruct" else 0
    nodes = [
        d.node(op, [d.new(t, shape) for _ in range(n)],
               dtype=None if n else proto_type(t) if t != np.float32 else d.some(proto_type(t)))
    ]
    for _ in range(d.int(0 if n else 1, 2)):
        nodes.append(d.node("SequenceInsert", [nodes[-1].output[0], d.new(t, shape), d.some(d.index(d.int(-n, n)))]))
        n += 1
    if d.chance(0.3) and n > 1:
        nodes.append(d.node("SequenceErase", [nodes[-1].output[0], d.some(d.index(d.int(-n, n - 1)))]))
        n -= 1
    if d.opset >= 17 and t.kind == "f" and d.chance(0.4):
        each = helper.make_graph([helper.make_node(d.pick("Neg", "Abs", "Ceil"), ["one"], ["made"])], "body",
                                 [helper.make_tensor_value_info("one", proto_type(t), None)],
                                 [helper.make_tensor_value_info("made", proto_type(t), None)])
        nodes.append(d.node("SequenceMap", [nodes[-1].output[0]], body=each))
    if d.opset >= 16 and d.chance(0.2):
        nodes.append(d.node("Optional", [nodes[-1].output[0]]))
        nodes.append(d.node("OptionalGetElement", [nodes[-1].output[0]]))
    now, how = nodes[-1].output[0], d.pick("SequenceAt", "ConcatFromSequence", "SequenceLength")
    if how == "SequenceAt":
        nodes.append(d.node(how, [now, d.index(d.int(-n, n - 1))]))
    elif how == "SequenceLength":
        nodes.append(d.node(how, [now]))
    else:
        new = d.int(0, 1)
        nodes.append(d.node(how, [now], axis=d.int(-len(shape) - new, len(shape) - 1 + new), new_axis=new or d.some(0)))
    return chain(d, nodes)


@operator("SplitToSequence")
def split_to_sequence(d, op):
    x = d.tensor(d.type(op, among=lambda t: t in d.types("SequenceConstruct", 0)), (1, 3), fits=lambda v: v.size)
    axis = d.axis(d.values[x].ndim)
    n = d.values[x].shape[axis]
    cut, kind = d.int(0, n), d.pick(np.int32, np.int64)
    how = d.pick(None, d.index(d.int(1, n), kind), d.index([cut, n - cut], kind))
    first = d.node(op, [x, how], axis=axis if axis else d.some(axis),
                   keepdims=d.some(d.int(0, 1)) if how is None else None)
    return chain(d, [first, d.node("SequenceAt", [first.output[0], d.index(d.pick(0, -1))])])


@operator("Optional")
def optional(d, op):
    x = d.tensor(d.type(op))
    first = d.node(op, [x])
    return chain(d, [first, d.node(d.pick("OptionalGetElement", "OptionalHasElement"), [first.output[0]])])


# ---- text ----

@operator("StringNormalizer")
def string_normalizer(d, op):
    n = d.pick(1, 3, 5)
    x = d.new(object, (1, n) if d.chance(0.3) else (n,))
    return d.step(op, [x], case_change_action=d.some(d.pick("LOWER", "UPPER", "NONE")),
                  is_case_sensitive=d.some(d.int(0, 1)), stopwords=d.some(["a", "the"]))


@operator("StringSplit")
def string_split(d, op):
    return d.step(op, [d.tensor(object, (0, 2))], 2, delimiter=d.some(d.pick(",", " ", "b")),
                  maxsplit=d.some(d.int(0, 3)))


@operator("RegexFullMatch")
def regex(d, op):
    return d.step(op, [d.tensor(object)], pattern=d.pick("[a-z]*", ".", "(a|b)+", "[0-9.]+", "A.*"))


@operator("TfIdfVectorizer")
def tfidf(d, op):
    t = d.type(op)
    x = d.new(t, d.shape(1, 2), *([] if t == object else [0, 4]))
    if 0 in d.values[x].shape:
        raise Unfit
    n = d.int(1, 2)
    pool = dict(pool_strings=["a", "the", "", "a", "b", "b", "The"]) if t == object else dict(
        pool_int64s=[0, 1, 3, 0, 1, 2, 3])
    return d.step(op, [x], mode=d.pick("TF", "IDF", "TFIDF"), min_gram_length=d.int(1, n), max_gram_length=n,
                  max_skip_count=d.int(0, 2), ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4],
                  weights=d.some([0.5, 1.0, 2.0, 3.0, 0.25]), **pool)


def if_node(d, condition, t, *arms):
    for arm in arms:
        arm.output.append(helper.make_tensor_value_info(arm.node[0].output[0], proto_type(t), None))
    return d.node("If", [condition], then_branch=arms[0], else_branch=arms[1])
