"""Every version of every operator of the standard runs with values. Most versions take types more and mean the same:
here the standard's node tests run once more, at each other version of their operator whose schema takes their node and
its types. Then nothing may be left that neither these, nor the standard's own, nor the rows of test_meanings.py and
test_against_ort.py run."""
import collections
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx.backend.test
from onnx import TensorProto, defs, helper

import cases
import test_against_ort
import test_meanings

# of numpy, where the standard makes its cases; they come before the counts, of which the first lines are kept
warnings.filterwarnings("ignore")
EACH = 2                        # cases of a version
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
# What a version means otherwise: the rows of the other tests say how.
# flat from the axis on
OTHERWISE = {("Softmax", 1), ("Softmax", 11), ("LogSoftmax", 1), ("LogSoftmax", 11), ("Hardmax", 1), ("Hardmax", 11),
             # trains unless an input says not to
             ("Dropout", 1), ("Dropout", 6),
             # a slope a channel
             ("PRelu", 1), ("PRelu", 6),
             # an input that may be left out later
             ("OptionalHasElement", 15), ("Resize", 11),
             # in whose time Add took no integers
             ("Loop", 1)}
schemas = collections.defaultdict(dict)         # (domain, operator): { version: schema }
for s in defs.get_all_schemas_with_history():
    if s.domain in DOMAINS and not s.deprecated:
        schemas[s.domain, s.name][s.since_version] = s


def version_of(domain, op, opset):
    return max((v for v in schemas.get((domain, op), ()) if v <= opset), default=None)


def type_text(t):
    kind = t.WhichOneof("value")
    if kind == "tensor_type":
        name = TensorProto.DataType.Name(t.tensor_type.elem_type)
        return f"tensor({ {'FLOAT': 'float', 'DOUBLE': 'double'}.get(name, name.lower()) })"
    return f"{kind[:3] if kind == 'sequence_type' else 'optional'}({type_text(getattr(t, kind).elem_type)})"


def takes(schema, formals, names, types):
    """Are values of these types what the schema wants?"""
    allowed, bound = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}, {}
    for k, name in enumerate(names):
        if not name or name not in types:
            continue
        formal = formals[min(k, len(formals) - 1)]
        if types[name] not in allowed.get(formal.type_str, [formal.type_str]):
            return False
        if formal.is_homogeneous and formal.type_str in allowed and bound.setdefault(formal.type_str,
                                                                                     types[name]) != types[name]:
            return False
    return True


def fits(schema, node, types):
    named = {a.name: a.type for a in node.attribute}
    return (schema.min_input <= len(node.input) <= schema.max_input and
            schema.min_output <= len(node.output) <= schema.max_output and
            all(a in schema.attributes and int(schema.attributes[a].type.value) == t for a, t in named.items()) and
            not any(a.required and name not in named for name, a in schema.attributes.items()) and
            takes(schema, schema.inputs, node.input, types) and takes(schema, schema.outputs, node.output, types))


def bodies(node):
    return [n for a in node.attribute if a.HasField("g") for n in a.g.node]


def bodies_fit(node, opset):
    return all(
        fits(schemas["", n.op_type][version_of("", n.op_type, opset)], n, {}) and bodies_fit(n, opset)
        for n in bodies(node))


def keys_of(nodes, opsets):
    """(domain, operator, version) of what runs there."""
    for n in nodes:
        yield n.domain, n.op_type, version_of(n.domain, n.op_type, opsets.get(n.domain, 1))
        yield from keys_of(bodies(n), opsets)


def write(top):
    """The cases; how many of each (domain, operator, version), those that the standard's own tests run counted as
    well."""
    made = collections.Counter()
    carried = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for path in [
            *cases.node_folder().glob("*/model.onnx"), *(p
                                                         for name in ("simple", "pytorch-operator", "pytorch-converted")
                                                         for p in carried.glob(f"{name}/*/model.onnx"))
    ]:
        model = onnx.load(path)
        made.update({key: EACH for key in keys_of(model.graph.node, {o.domain: o.version for o in model.opset_import})})
    for path in sorted(cases.node_folder().glob("*/model.onnx")):
        model = onnx.load(path)
        node, opsets = model.graph.node[0], {o.domain: o for o in model.opset_import}
        if len(model.graph.node) > 1 or model.functions or (node.domain, node.op_type) not in schemas:
            continue
        types = {v.name: type_text(v.type) for v in (*model.graph.input, *model.graph.output)}
        for version, schema in schemas[node.domain, node.op_type].items():
            key = node.domain, node.op_type, version
            if (node.op_type, version) in OTHERWISE or made[key] >= EACH or not fits(
                    schema, node, types) or not bodies_fit(node, version):
                continue
            made[key] += 1
            opsets[node.domain].version = version
            folder = top / f"{node.op_type}_{version}_{path.parent.name}"
            folder.mkdir(parents=True)
            (folder / "model.onnx").write_bytes(model.SerializeToString())
            for data in path.parent.glob("test_data_set_*"):
                (folder / data.name).symlink_to(data.resolve())
    for version in schemas["", "Optional"]:
        made["", "Optional", version] += write_optional(top / f"Optional_{version}", version)
    return made


def write_optional(folder, version):
    """What an Optional is given, it has, and gives back."""
    x, value = np.array([1.5, -2], np.float32), helper.make_tensor_value_info
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("OptionalGetElement", ["o"], ["y"])
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2])],
        [value("has", TensorProto.BOOL, []), value("y", TensorProto.FLOAT, [2])])
    cases.write(folder, helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=14), [x],
                [np.array(True), x])
    return 1


def rows():
    """Versions that rows of the other tests run."""
    for op, domain, opset, *_ in test_meanings.CASES:
        yield domain, op, version_of(domain, op, opset)
    for op, opset, _, _, *more in test_against_ort.CASES:
        domain = more[1] if len(more) > 1 else ""
        yield domain, op, version_of(domain, op, opset)
    for op, opset in test_meanings.DRAWN:
        yield "", op, opset
    yield "", "OptionalHasElement", 15                          # write_optional
    for name in ("DictVectorizer", "CastMap", "ZipMap"):        # of maps: test_ports.py, test_meanings.maps
        yield "ai.onnx.ml", name, 1


def main():
    top = cases.build / "onnx_versions"
    shutil.rmtree(top, ignore_errors=True)
    run = set(write(top)) | set(rows())
    every = {(*key, version) for key, versions in schemas.items() for version in versions}
    left = sorted(every - run)
    print(f"{len(every) - len(left)} of {len(every)} versions of operators run",
          *(" ".join(map(str, key)).strip() for key in left), sep="\n", flush=True)
    return bool(left) | bool(cases.run(top, devices=[["-d", "reference"]]))


if __name__ == "__main__":
    sys.exit(main())
