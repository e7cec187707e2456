"""Lines that hold more than one statement, or a struct of more than four fields: `file:line: what`, one a line.

    statements.py FILES

Rows of tables may hold several: those of a `case` and of macros that are tables. `(void)x;` is no statement."""
import re
import sys


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def ends(line: str) -> int:
    """How many semicolons stand outside of parentheses."""
    depth = count = 0
    for c in line:
        depth += (c == "(") - (c == ")")
        count += c == ";" and depth <= 0
    return count


for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        n = ends(re.sub(r"\(void\)\w+;", "", line))
        if n < 2 or re.match(r"\s*(case\b.*|default\s*):|\s*#", line) or line.rstrip().endswith("\\"):
            continue
        if re.search(r"\b(struct|union)\b.*\{", line):
            if n > 5:
                print(f"{name}:{number}: more than four fields on a line")
        else:
            print(f"{name}:{number}: more than one statement on a line")
