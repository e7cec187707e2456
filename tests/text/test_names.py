#!/usr/bin/env python3
"""No name of an ONNX operator stands below frontend/: a kernel is fast because rewrites and OptOps made it so, never
because somebody looked which operator it was. In code (but comments) of graph/, sched/, beam/ and backends/ no word is
an operator's name as ONNX writes it, and of sched/, beam/ and backends/ no part of a name is one in small letters;
graph/ has builders with such names, which frontend/ calls. The names come from frontend/ops/ops.def. Words that a
compiler needs for its own things are listed in OURS."""
import os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = set("""Abs Add And Cast Ceil Clip Concat Constant Cos Div Equal Exp Expand Floor Greater Identity If Less Log Loop Max Mean Min Mod Mul Neg Not Optional Or Pad Pow Range Reciprocal Round Scan
Shape Sign Sin Size Slice Split Sqrt Sub Sum Tile Unique Where Xor Dropout Gather Scatter Reshape Squeeze Transpose Compress Hash Trunc Swish Flatten Resize Shrink IsNaN IsInf BitCast NonZero""".split())


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def sources(folder):
    for at, _, names in os.walk(os.path.join(ROOT, folder)):
        yield from (os.path.join(at, n) for n in sorted(names) if n.endswith((".c", ".h", ".def")))


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def found(path, words):
    for number, line in enumerate(without_comments(open(path).read()).splitlines(), 1):
        for word in re.findall(r"[A-Za-z][A-Za-z0-9_]*", line):
            parts = {word} | set(word.split("_"))
            for hit in parts & words:
                yield f"{os.path.relpath(path, ROOT)}:{number}: '{word}' has the name of an ONNX operator ({hit})"


operators = set()
for file, row in (("ops/ops.def", r'^OPERATOR\("[^"]*",\s*"(\w+)"'), ("import/microsoft.def", r"^MICROSOFT\((\w+),")):
    operators |= set(re.findall(row, open(os.path.join(ROOT, "frontend", file)).read(), flags=re.M))
if len(operators) < 100:
    sys.exit("frontend/ops/ops.def could not be read")
names = operators - OURS
small = {n.lower() for n in names} | {snake(n) for n in names}
problems = [p for path in sources("graph") for p in found(path, names)]
problems += [
    p for folder in ("sched", "beam", "backends") for path in sources(folder) for p in found(path, names | small)
]
print("\n".join(problems) or f"none of {len(names)} operators' names below frontend/")
sys.exit(1 if problems else 0)
