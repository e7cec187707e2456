#!/usr/bin/env python3
"""docs/api.md: the reference of the C library, from include/tgrun.h, and of the Python package, from its docstrings.
Prints the page; with --check what it lacks: functions and classes without a docstring.

    api_reference.py >docs/api.md
"""
import ast
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "tgrun"
missing = []


def wrapped(text):
    """Paragraphs of at most 120 columns; lines that are indented stay as they are."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.split("\n")
        code = all(line.startswith("    ") for line in lines)
        out.append(paragraph if code else "\n".join(textwrap.wrap(" ".join(line.strip() for line in lines), 120)))
    return "\n\n".join(out)


def comment_text(comment):
    return wrapped(re.sub(r"^[ *]+", "", comment.strip()[3:-2], flags=re.MULTILINE).strip())


def code(text):
    return textwrap.indent(text.rstrip(), "    ")


def header():
    """The header's declarations in their order: a heading, what its docstring says, the declaration."""
    text = (ROOT / "include" / "tgrun.h").read_text()
    first = re.match(r"/\*\*.*?\*/", text, re.DOTALL)
    yield comment_text(first[0])
    body = text[text.index("extern \"C\" {"):]
    declaration = re.compile(r"(?P<doc>/\*\*(?:(?!\*/).)*\*/\n)?(?P<code>^(?:typedef (?:enum|struct)[^;{]*\{(?:[^}\n]*|.*?^)\} \w+;"
                             r"|typedef [^{;]*?;|TG_API [^;]*;)(?P<after>[ ]*/\*\*<(?:(?!\*/).)*\*/)?)",
                             re.DOTALL | re.MULTILINE)
    last = ""
    for m in declaration.finditer(body):
        function = m["code"].startswith("TG_API")
        name = re.search(r"(\w+)\(", m["code"]) if function else re.search(r"(\w+);", m["code"].split("}")[-1])
        doc = comment_text(m["doc"]) if m["doc"] else ""
        # a docstring before several declarations is of all that follow it without a blank line
        same = not doc and body[:m.start()].endswith(";\n")
        if function and not (doc or m["after"] or same):
            missing.append(f"include/tgrun.h: {name[1]}")
        plain = m["code"].replace("TG_API ", "").replace("\n" + " " * len("TG_API "), "\n") if function else m["code"]
        if same and last:
            yield code(plain)
        else:
            yield f"### {name[1]}"
            if doc:
                yield doc
            yield code(plain)
        last = name[1]


def signature(node):
    arguments = ast.unparse(node.args)
    return f"{node.name}({re.sub(r'^self(, )?', '', arguments)})"


def documented(node, where):
    doc = ast.get_docstring(node)
    if not doc:
        missing.append(f"python/tgrun: {where}")
    return wrapped(doc) if doc else ""


def package():
    """The names that the package exports, module by module."""
    init = ast.parse((PACKAGE / "__init__.py").read_text())
    for imported in (n for n in init.body if isinstance(n, ast.ImportFrom) and n.level):
        tree = ast.parse((PACKAGE / f"{imported.module}.py").read_text())
        names = {a.name for a in imported.names}
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name not in names - {"lib", "text"}:
                continue
            yield f"### tgrun.{node.name}"
            doc = documented(node, node.name)
            if doc:
                yield doc
            if isinstance(node, ast.FunctionDef):
                yield code(signature(node))
                continue
            rows = []
            for m in node.body:
                if not isinstance(m, ast.FunctionDef) or (m.name[0] == "_" and m.name != "__init__"):
                    continue
                text = ast.get_docstring(m)
                rows.append(f"    {node.name if m.name == '__init__' else m.name}{signature(m)[len(m.name):]}")
                if text:
                    rows.append(textwrap.indent(textwrap.fill(" ".join(text.split()), 104), "        "))
            if rows:
                yield "\n".join(rows)


page = "\n\n".join(["# Reference", "Made by `scripts/api_reference.py`.", "## C: `tgrun.h`", *header(),
                    "## Python: `tgrun`", *package()]) + "\n"
if sys.argv[1:] == ["--check"]:
    print("\n".join(missing))
else:
    sys.stdout.write(page)
