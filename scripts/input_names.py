#!/usr/bin/env python3
"""Names for the inputs of all operators, as C constants: enum { Conv_X, Conv_W, Conv_B }; those of com.microsoft begin
with Ms. From the installed onnx package, the newest version of each operator, and from frontend/import/microsoft.def.

    input_names.py FILE MICROSOFT_DEF
"""
import re
import sys

from onnx import defs


def standard():
    """(operator, names of inputs by number); what only an older version has stands behind."""
    names = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        new, old = [formal.name for formal in schema.inputs], names.get(schema.name, [])
        names[schema.name] = new + [name for name in old[len(new):] if name not in new]
    return sorted(names.items())


def microsoft(path):
    with open(path) as f:
        for row in re.finditer(r"^MICROSOFT\((\w+),.*?INPUTS\((.*?)\),\s*ATTRIBUTES", f.read(), re.DOTALL | re.MULTILINE):
            yield "Ms" + row[1], re.findall(r"\bIN\((\w+),", row[2])


with open(sys.argv[1], "w") as f:
    f.write("/* Made by scripts/input_names.py. */\n#ifndef TG_INPUT_NAMES_H\n#define TG_INPUT_NAMES_H\n")
    for operator, names in [*standard(), *microsoft(sys.argv[2])]:
        if names:
            f.write(f"enum {{ {', '.join(f'{operator}_{name}' for name in names)} }};\n")
    f.write("#endif\n")
