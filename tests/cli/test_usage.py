#!/usr/bin/env python3
"""Wrong command lines, made from the rows of bench/options.def: a value that is none of its kind, a value left out, one
too many, a verb that does not look at the option. Each must end with exit code 2 and one line that names the option."""
import os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WRONG = {
    "COUNT": ["x", "-1", "1.5", ""], "REAL": ["x", "-1", "nan", "1s"], "NAMED": ["x", "-1", ":1"], "BYTES":
    ["12Q", "-1", "1.5G"], "CHOICE": ["zzz", ""], "TEXT": [""], "TASK": ["zzz", "top1:2", "cosine:x", "=top1", "auto:1", ""]
}
VERBS = "run info check tune compile profile bisect eval dump test ops env".split()


def rows():
    text = open(os.path.join(ROOT, "bench/options.def")).read()
    quoted = r'(?:NULL|"(?:[^"\\]|\\.)*")'
    for m in re.finditer(rf"^OPTION\((\w+), +('.'|0), +(\w+), +({quoted}), +(RB|R|B), +({quoted})", text, re.M):
        name, _, kind, _, programs, verbs = m.groups()
        yield "--" + name.replace("_", "-"), kind, programs, None if verbs == "NULL" else verbs.strip('"').split()


def lines():
    """(program, arguments, option)"""
    for option, kind, programs, verbs in rows():
        for program in [p for p, letter in (("TGRUN_PROGRAM", "R"), ("TGBENCH_PROGRAM", "B")) if letter in programs]:
            for value in WRONG.get(kind, []):
                yield program, ["model.onnx", f"{option}={value}"], option
            if kind == "FLAG":
                yield program, ["model.onnx", f"{option}=1"], option
            elif kind != "MAYBE":
                yield program, ["model.onnx", option], option
        good = {"COUNT": "2", "REAL": "1", "NAMED": "1", "BYTES": "1G", "CHOICE": "auto", "TASK": "auto", "TEXT": "x"}.get(kind)
        for verb in VERBS if verbs and good else []:
            if verb not in verbs:
                yield "TGRUN_PROGRAM", [verb] + ([] if verb in ("ops", "env") else ["model.onnx"]) + [option, good
                                                                                                      ], option


def main():
    bad, all_lines = 0, list(lines())
    env = {k: v for k, v in os.environ.items() if not k.startswith("TGRUN_") or k == "TGRUN_PROGRAM"}
    for program, arguments, option in all_lines:
        p = subprocess.run([os.environ[program], *arguments], capture_output=True, text=True, env=env, timeout=60)
        said = p.stdout + p.stderr
        if p.returncode != 2 or option not in said or said.count("\n") != 1:
            bad += 1
            print(f"{' '.join(arguments)}: exit {p.returncode}: {said.strip()[:200]}")
    print(f"{len(all_lines) - bad} of {len(all_lines)} wrong command lines are refused by name")
    return 1 if bad or len(all_lines) < 60 else 0


if __name__ == "__main__":
    sys.exit(main())
