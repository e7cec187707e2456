#!/usr/bin/env python3
"""What the installed onnx package defines, as rows of C: STANDARD(domain, name, since version, types of the first input as numbers of TensorProto.DataType and the words seq, optional, map,
how many of the package's own tests have a node of it). For frontend/ops.c, at build time.

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


def types(schema):
    if not schema.inputs:
        return ""
    first = schema.inputs[0].type_str
    allowed = " ".join({c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(first, [first]))
    elements = {TensorProto.DataType.Value(word.upper()) for word in re.findall(r"tensor\((\w+)\)", allowed)}
    return " ".join([*map(str, sorted(elements)), *(word for word in ("seq", "optional", "map") if f"{word}(" in allowed)])


warnings.filterwarnings("ignore")
used = tests()
rows = sorted((s.domain, s.name, s.since_version, types(s)) for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS and not s.deprecated)
with open(sys.argv[1], "w") as out:
    out.write(f"/* Made by scripts/standard_operators.py from onnx {onnx.__version__}. */\n")
    for domain, name, since, allowed in rows:
        out.write(f'STANDARD("{domain}", "{name}", {since}, "{allowed}", {used[domain, name, since]})\n')
