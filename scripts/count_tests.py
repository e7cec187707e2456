#!/usr/bin/env python3
"""Counts the cases in JUnit files of ctest, those inside each test program too, and prints the end of what each failed
test printed, then `N passed, N failed`, and how many were skipped and why. --installed: what was skipped because a
package is missing that scripts/test should have installed has failed; the exit code says whether that is so.
A program names its own cases in its output: cmocka as `[       OK ] name` and `[  FAILED  ] name`, our scripts as
`N of M ..` and `skipped: WHY`. One that names none is one case."""
import re, sys
import xml.etree.ElementTree as tree

MISSING = "is not installed"
LAST_LINES = 15


def has_failed(case):
    return case.get("status") not in ("run",) or case.find("failure") is not None


def end_of(case):
    lines = [line for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
    return [f"{case.get('name')}: {line}" for line in lines[-LAST_LINES:]]


def count(case):
    text = (case.findtext("system-out") or "")
    failed = has_failed(case)
    good = len(re.findall(r"^\[ +OK +\]", text, re.M))
    # once as it happens, once in the list at the end
    bad = len(re.findall(r"^\[  FAILED  \] \S+$", text, re.M)) // 2
    for a, b in re.findall(r"^(\d+) of (\d+) \S", text, re.M):
        good += int(a)
        bad += int(b) - int(a)
    names = list(dict.fromkeys(re.findall(r"^\[ +SKIPPED +\] (\S+)$", text, re.M)))
    why = [f"{case.get('name')}: {w}" for w in names + re.findall(r"^skipped: (.*)", text, re.M)]
    if not good and not bad and not (why and not failed):
        good, bad = (0, 1) if failed else (1, 0)
    return good, max(bad, 1) if failed else bad, why


def main(arguments):
    strict = "--installed" in arguments
    files = [a for a in arguments if not a.startswith("--")]
    tests = [c for file in files for c in tree.parse(file).getroot().iter("testcase")]
    for line in (line for c in tests if has_failed(c) for line in end_of(c)):
        print(line)
    cases = [count(c) for c in tests]
    why = [w for c in cases for w in c[2]]
    missing = [w for w in why if MISSING in w] if strict else []
    passed, failed, skipped = sum(c[0] for c in cases), sum(c[1] for c in cases) + len(missing), len(why) - len(missing)
    for w in missing:
        print(f"failed: {w}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped ({'; '.join(w for w in why if w not in missing)})"
                                                 if skipped else ""))
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
