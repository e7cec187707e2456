"""The registry against the installed onnx package: every operator version of the standard is covered, with the types
that its schema lists, and some test of this folder has it. What is not covered is named here with the reason, and must
not be covered in secret."""
import json
import os
import pathlib
import re
import subprocess
import sys

from onnx import TensorProto, defs

LACKING = {}
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")

listed = json.loads(
    subprocess.run([os.environ["TGRUN_PROGRAM"], "ops", "--json"], capture_output=True, check=True).stdout)["operators"]
ours = {
    (o["domain"].replace("ai.onnx", "", 1) if o["domain"] == "ai.onnx" else o["domain"], o["name"], o["since_version"]):
    o
    for o in listed if o["standard"]
}
schemas = {(s.domain, s.name, s.since_version): s
           for s in defs.get_all_schemas_with_history() if s.domain in DOMAINS and not s.deprecated}
texts = "".join(p.read_text() for p in pathlib.Path(__file__).parent.parent.glob("*/*.py")
                if p.name != "test_operators.py")
tested = {o["name"]
          for o in listed if o["tests"]} | set(re.findall(r'"(?:[\w.]+\.)?(\w+)"', texts)) | set(
              re.findall(r"ai\.onnx\.ml\.(\w+)<", texts))
wrong = []


def check(ok, key, what):
    if not ok:
        wrong.append(f"{'.'.join(filter(None, key[:2]))} {key[2]}: {what}")


def elements(schema):
    """The numbers of element types that its first input may have."""
    if not schema.inputs:
        return set()
    first = schema.inputs[0].type_str
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(first, [first])
    return {TensorProto.DataType.Value(word.upper()) for word in re.findall(r"tensor\((\w+)\)", " ".join(allowed))}


for key, schema in schemas.items():
    o = ours.get(key)
    check(o is not None, key, "is not in the list that the build took from this package")
    if o is None:
        continue
    check(o["covered"] != (key[:2] in LACKING), key,
          "is covered, and named here as lacking" if o["covered"] else "is not covered")
    check(
        len(o["types"]) + len(o["types_lacking"]) == len(elements(schema)), key,
        f"{len(o['types'])} types and {len(o['types_lacking'])} lacking of {len(elements(schema))}")
    check(not o["types_lacking"], key, f"does not take {o['types_lacking']}")
for key in ours.keys() - schemas.keys():
    check(False, key, "is listed as the standard's, which this package does not have")
for o in listed:
    check(o["name"] in tested or not o["covered"], (o["domain"], o["name"], o["since_version"]), "has no test")
print(*wrong,
      f"{len(schemas)} operator versions of the standard, {len(listed) - len(ours)} others, {len(wrong)} things wrong",
      sep="\n")
sys.exit(bool(wrong))
