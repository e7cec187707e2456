#!/usr/bin/env python3
"""Functions of C that are there twice: bodies that are equal when names of up to four letters that are not called are
numbered in the order in which they come. The library and the programs, which see its public header alone, are looked at
each by itself. Prints a line for each pair.

    duplicates.py FILE...
"""
import re
import sys

LEAST = 24          # tokens of a body that is worth a place of its own
FUNCTION = re.compile(r"^(?:static |inline )*[A-Za-z][\w *]*?\b(\w+)\(([^;{}]*?)\)\s*\{(.*?)(?:^\}| \}$)",
                      re.DOTALL | re.MULTILINE)
KEYWORDS = {"if", "for", "do", "int", "else", "case", "bool", "void", "char", "true", "long", "g"}


def plain(text):
    """The body's tokens, short names by number, and how many tokens it has."""
    numbers, out = {}, []
    for token, call in re.findall(r"(\w+|\S)(\s*\()?", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)):
        token += call
        if re.fullmatch(r"[a-z]\w{0,3}", token) and token not in KEYWORDS:
            token = numbers.setdefault(token, f"v{len(numbers)}")
        out.append(token)
    return " ".join(out), len(out)


found = {}
for path in sys.argv[1:]:
    with open(path) as f:
        text = f.read()
    for m in FUNCTION.finditer(text):
        body, n = plain(m[2] + "|" + m[3])
        if n >= LEAST:
            place = f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m[1]}"
            found.setdefault((path.startswith("bench/"), body), []).append(place)
for places in found.values():
    if len(places) > 1:
        print(", ".join(places))
