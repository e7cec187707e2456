"""A graph that grows at random. Comes in: a seed and a version of the standard. Goes out: steps, each a node (or a few
that only make sense together), and all values.

Values are known while the graph grows, because a peer runs each step at once (grow.py): operators.py draws what follows
from types, shapes and values that are there."""
from dataclasses import dataclass, field
from itertools import count

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from saturate import fitting

SIZES = (1, 2, 3, 4, 5, 7)
ML, TRAINING, PREVIEW, MS = "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview", "com.microsoft"
WORDS = ["", "a", "b", "A bc", "ä", "x y z", "0.5", "the", "The", "a,b,,c"]
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e-40, 1e30, -1e30, 88.8, -104.0, 3.0)
COMMON = ("float32",) * 6 + ("int64", "int32")               # drawn more often than other types


class Unfit(Exception):
    """This operator finds nothing to do in this graph."""


@dataclass
class Step:
    nodes: list
    outputs: list
    fresh: list = field(default_factory=list)

    @property
    def op(self):
        return self.nodes[0].op_type

    @property
    def domain(self):
        return self.nodes[0].domain

    @property
    def name(self):
        return f"{self.domain}.{self.op}" if self.domain else self.op

    def has(self, op):
        return any(n.op_type == op for n in self.nodes)

    def attributes(self):
        return {a.name: helper.get_attribute_value(a) for n in self.nodes[:1] for a in n.attribute}

    def inputs(self):
        """Names that come from outside, those that bodies capture too."""
        made, used = set(), []

        def walk(nodes, inside):
            for n in nodes:
                used.extend(name for name in n.input if name and name not in inside and name not in used)
                for a in n.attribute:
                    if a.HasField("g"):
                        walk(a.g.node, inside | {v.name for v in a.g.input} | {v.name for v in a.g.initializer})
                inside = inside | set(n.output)

        walk(self.nodes, made)
        return used


def numpy_type(text):
    """`tensor(float)` as numpy's type; None: not a tensor."""
    if not text.startswith("tensor("):
        return None
    name = {"float": "FLOAT", "double": "DOUBLE", "string": "STRING"}.get(text[7:-1], text[7:-1].upper())
    return helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name))


def is_float(dtype):
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def is_plain(dtype):
    """A type that numpy brings itself."""
    return dtype.kind != "V" and dtype not in map(np.dtype,
                                                  (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2))


class Draw:
    def __init__(self, rng, opset, ml=5):
        self.rng, self.opset, self.ml = rng, opset, ml
        self.versions = {"": opset, ML: ml, TRAINING: 1, PREVIEW: 1, MS: 1}
        self.values, self.constants, self.inputs, self.steps, self.count = {}, set(), [], [], count()
        self.hostile = rng.random() < 0.4

    # ---- choices ----

    def chance(self, p=0.5):
        return self.rng.random() < p

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def some(self, value, p=0.5):
        """The value, or None: left out."""
        return value if self.chance(p) else None

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def size(self):
        return 0 if self.chance(0.02) else self.pick(*SIZES)

    def shape(self, low=0, high=4):
        return tuple(self.size() for _ in range(self.int(low, high)))

    def axis(self, rank, versions=11):
        """One that may be negative from this version on."""
        if rank == 0:
            raise Unfit
        return self.int(-rank if self.opset >= versions else 0, rank - 1)

    # ---- types ----

    def schema(self, op, domain=""):
        return onnx.defs.get_schema(op, self.versions[domain], domain)

    def types(self, op, k, domain="", output=False):
        s = self.schema(op, domain)
        formal = (s.outputs if output else s.inputs)[k]
        texts = {c.type_param_str: c.allowed_type_strs
                 for c in s.type_constraints}.get(formal.type_str, [formal.type_str])
        return [t for t in map(numpy_type, texts) if t is not None]

    def type(self, op, k=0, domain="", among=None):
        kinds = [t for t in self.types(op, k, domain) if among is None or among(t)]
        if not kinds:
            raise Unfit
        common = [np.dtype(t) for t in COMMON if np.dtype(t) in kinds]
        return self.pick(*common) if common and self.chance(0.6) else self.pick(*kinds)

    # ---- values ----

    def array(self, dtype, shape, low=None, high=None, calm=False):
        """Random values of a type: within low..high, else small, among them special ones where the graph is hostile and
        `calm` is not requested."""
        dtype, r = np.dtype(dtype), self.rng
        if dtype == object:
            return np.array([self.pick(*WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
        if dtype == bool:
            return r.random(shape) < 0.5
        if dtype.kind == "c":
            return (r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(dtype)
        if dtype.name == "float8_e8m0fnu":
            return np.exp2(r.integers(-3, 4, shape)).astype(dtype)
        if is_float(dtype):
            x = r.random(shape) * (high - low) + low if low is not None else np.round(
                r.standard_normal(shape) *
                4) / 2 if self.chance(0.2) else r.standard_normal(shape) * self.pick(1, 1, 3)
            if low is None and self.hostile and not calm:
                x = np.where(r.random(shape) < 0.3, r.choice(SPECIAL, shape), x)
            with np.errstate(all="ignore"):
                return np.asarray(x).astype(dtype)
        least, most = (ml_dtypes.iinfo if dtype.kind == "V" or not is_plain(dtype) else np.iinfo)(dtype).min, (
            ml_dtypes.iinfo if dtype.kind == "V" or not is_plain(dtype) else np.iinfo)(dtype).max
        least, most = int(least), int(most)
        x = r.integers(max(least, -5 if low is None else low), min(most, 9 if high is None else high) + 1, shape)
        if low is None and self.hostile and not calm:
            ends = np.array([least, most, most - 1, least + 1], object)
            x = np.where(
                r.random(shape) < 0.2, np.asarray(ends[r.integers(0, 4, shape)], object), np.asarray(x, object))
        return np.array(x).astype(dtype)

    def add(self, array, constant=None):
        """A new input, or a constant: an initializer."""
        name = f"x{len(self.values)}"
        self.values[name] = fitting(array)
        if self.chance(0.3) if constant is None else constant:
            self.constants.add(name)
        else:
            self.inputs.append(name)
        return name

    def new(self, dtype, shape, low=None, high=None, constant=None, calm=False):
        return self.add(self.array(dtype, shape, low, high, calm), constant)

    def index(self, values, dtype=np.int64):
        """What shapes follow from: mostly a constant."""
        return self.add(np.array(values, dtype), self.chance(0.75))

    def tensor(self, types, rank=(0, 4), shape=None, fits=None, calm=False, reuse=0.65, low=None, high=None):
        """One that is there, where there is one of such types and shape, or a new one. calm: finite, of moderate
        size."""
        types = [np.dtype(t) for t in (types if isinstance(types, (list, tuple)) else [types])]
        if self.chance(reuse) and low is None:
            found = [
                n for n, v in self.values.items() if v.dtype in types and rank[0] <= v.ndim <= rank[1] and
                (shape is None or v.shape == tuple(shape)) and (not calm or is_calm(v)) and (fits is None or fits(v))
            ]
            if found:
                return found[-1] if self.chance(0.4) else self.pick(*found)
        for _ in range(20):
            x = self.array(self.pick(*types), self.shape(*rank) if shape is None else shape, low, high, calm)
            if fits is None or fits(x):
                return self.add(x)
        raise Unfit

    def broadcast(self, name, types=None):
        """A second operand whose shape broadcasts with the first's."""
        x = self.values[name]
        types = [x.dtype] if types is None else types

        def fits(v):
            try:
                np.broadcast_shapes(v.shape, x.shape)
            except ValueError:
                return False
            return True

        if self.chance(0.4):
            return self.tensor(types, fits=fits)
        shape = [1 if self.chance(0.25) else n for n in x.shape][self.int(0, x.ndim) if self.chance(0.4) else 0:]
        if self.chance(0.1):
            shape = [self.pick(*SIZES)
                     for _ in range(self.int(1, 2))] + shape if len(shape) == x.ndim and x.ndim < 4 else shape
        return self.new(self.pick(*types), shape)

    # ---- nodes ----

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        """outputs: how many, or a list in which None is one that is left out."""
        wanted = [True] * outputs if isinstance(outputs, int) else outputs
        names = [f"y{len(self.values)}_{len(self.steps)}_{self.int(0, 10**9)}" if w else "" for w in wanted]
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        return helper.make_node(op, [name or "" for name in inputs], names, domain=domain,
                                name=f"n{len(self.steps)}_{next(self.count)}",
                                **{k: v
                                   for k, v in attributes.items() if v is not None})

    def step(self, op, inputs, outputs=1, domain="", **attributes):
        n = self.node(op, inputs, outputs, domain, **attributes)
        return Step([n], [name for name in n.output if name])


def is_calm(v):
    if v.dtype == object or v.dtype == bool:
        return True
    with np.errstate(all="ignore"):
        x = np.abs(v if v.dtype.kind == "c" else v.astype(np.float64))
        return bool(np.all(x < 1e4))


def model_of(versions, steps, values, constants, outputs, shapes=None):
    """A model of these steps, versions by domain; what they use and do not make becomes its inputs, in order. shapes:
    those that are declared otherwise."""
    made = {name for step in steps for n in step.nodes for name in n.output}
    used = list(dict.fromkeys(name for step in steps for name in step.inputs() if name not in made))
    initializers = [numpy_helper.from_array(values[name], name) for name in used if name in constants]
    inputs = [name for name in used if name not in constants]
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype),
                                      (shapes or {}).get(name, values[name].shape)) for name in inputs
    ]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([n for step in steps for n in step.nodes], "g", ports, ends, initializers)
    domains = dict.fromkeys(["", *(n.domain for step in steps for n in step.nodes)])
    ir = 14 if versions[""] > 27 else 13 if versions[""] > 24 else 11 if versions[""] > 22 else 10
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, versions[domain]) for domain in domains],
                             ir_version=ir), inputs
