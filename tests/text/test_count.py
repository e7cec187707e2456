#!/usr/bin/env python3
"""What scripts/count_tests.py makes of programs' outputs: cases, failures, what was skipped and why, what is missing."""
import pathlib, subprocess, sys, tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "count_tests.py"
CASE = '<testcase name="{}" status="{}"><system-out>{}</system-out></testcase>'
CASES = [
    ("unit", "run", "[       OK ] a\n[       OK ] b\n[  SKIPPED ] c\n[  SKIPPED ] c\n"),
    ("script", "run", "7 of 7 things are right\nskipped: no processor is free\n"),
    ("silent", "run", ""),
]
MISSING = ("peer", "run", "skipped: onnxruntime is not installed\n")
BAD = ("bad", "fail", "[  FAILED  ] x\n[  FAILED  ] x\n3 of 5 things\n")


def counted(cases, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as f:
        f.write("<testsuite>" + "".join(CASE.format(*c) for c in cases) + "</testsuite>")
        f.flush()
        p = subprocess.run([sys.executable, SCRIPT, f.name, *more], capture_output=True, text=True)
        return p.returncode, p.stdout.strip().split("\n")


good = "10 passed, 0 failed, 2 skipped (unit: c; script: no processor is free)"
checks = {
    "what passed": counted(CASES) == (0, [good]),
    "what may be missing": counted(CASES + [MISSING])[1][0].startswith("10 passed, 0 failed, 3 skipped"),
    "what must be there": counted(CASES + [MISSING], "--installed") ==
    (1, ["failed: peer: onnxruntime is not installed", good.replace("0 failed", "1 failed")]),
    "what failed": counted([BAD]) == (0, ["bad: [  FAILED  ] x"] * 2 + ["bad: 3 of 5 things", "3 passed, 3 failed"]),
}
for name, right in checks.items():
    if not right:
        print(f"wrong: {name}")
print(f"{sum(checks.values())} of {len(checks)} counts are right")
sys.exit(not all(checks.values()))
