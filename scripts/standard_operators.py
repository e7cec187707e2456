#!/usr/bin/env python3
"""What the installed onnx package defines, as rows of C: STANDARD(domain, name, since version, how many of the
package's own tests have a node of it, least and most inputs and outputs, INPUTS(...), ATTRIBUTES(...)). For
frontend/import/standard.c, at build time.

    standard_operators.py FILE
"""
import collections
import re
import sys
import warnings

import onnx
import onnx.backend.test
from onnx import TensorProto, defs

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for sub in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from nodes(sub)


def tests():
    """How many tests use each operator version."""
    count = collections.Counter()
    for kind in KINDS:
        for case in onnx.backend.test.loader.load_model_tests(kind=kind):
            model = case.model if case.model else onnx.load(f"{case.model_dir}/model.onnx")
            opset = {o.domain: o.version for o in model.opset_import}
            used = {(n.domain, n.op_type) for n in nodes(model.graph)}
            for domain, name in used:
                if defs.has(name, opset.get(domain, 1), domain):
                    count[domain, name, defs.get_schema(name, opset.get(domain, 1), domain).since_version] += 1
    return count


def elements(types, outside):
    """The set, as a number, of the element types of those types that begin with a word, or have it inside."""
    found = {
        TensorProto.DataType.Value(word.upper())
        for t in types if outside in t for word in re.findall(r"tensor\((\w+)\)", t)
    }
    return sum(1 << number for number in found)


def formals(schema):
    """Its inputs as frontend/import/standard.c has them."""
    variables = {c.type_param_str: (number, c.allowed_type_strs) for number, c in enumerate(schema.type_constraints, 1)}
    for f in schema.inputs:
        variable, types = variables.get(f.type_str, (0, [f.type_str]))
        many = f.option == defs.OpSchema.FormalParameterOption.Variadic
        presence = "MANY" if many else "OPTIONAL" if f.option == defs.OpSchema.FormalParameterOption.Optional else "REQUIRED"
        tensors = elements([t for t in types if t.startswith("tensor(")], "")
        sets = f"{tensors:#x}, {elements(types, 'seq('):#x}, {elements(types, 'optional('):#x}, {int(any('map(' in t for t in types))}"
        yield f'{{ "{f.name}", {variable if f.is_homogeneous or not many else 0}, {presence}, {sets} }}'


def attributes(schema):
    for a in schema.attributes.values():
        yield f'{{ "{a.name}", {a.type.value}, {int(a.required)} }}'


warnings.filterwarnings("ignore")
used = tests()
schemas = sorted((s for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS and not s.deprecated),
                 key=lambda s: (s.domain, s.name, s.since_version))
with open(sys.argv[1], "w") as out:
    out.write(f"/* Made by scripts/standard_operators.py from onnx {onnx.__version__}. */\n")
    for s in schemas:
        key = s.domain, s.name, s.since_version
        out.write(
            f'STANDARD("{s.domain}", "{s.name}", {s.since_version}, {used[key]}, {s.min_input}, {s.max_input}, {s.min_output}, {s.max_output}, '
            f'INPUTS({", ".join(formals(s))}), ATTRIBUTES({", ".join(attributes(s))}))\n')
