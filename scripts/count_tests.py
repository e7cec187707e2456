#!/usr/bin/env python3
"""Counts the cases in JUnit files of ctest, those inside each test program too, and prints `N passed, N failed`, and
how many were skipped.
A program names its own cases in its output: cmocka as `[       OK ] name` and `[  FAILED  ] name`, our scripts as
`N of M ..`. One that names none is one case."""
import re, sys
import xml.etree.ElementTree as tree


def count(case):
    text = (case.findtext("system-out") or "")
    failed = case.get("status") not in ("run",) or case.find("failure") is not None
    good = len(re.findall(r"^\[ +OK +\]", text, re.M))
    # once as it happens, once in the list at the end
    bad = len(re.findall(r"^\[  FAILED  \] \S+$", text, re.M)) // 2
    for a, b in re.findall(r"^(\d+) of (\d+) \S", text, re.M):
        good += int(a)
        bad += int(b) - int(a)
    skipped = len(re.findall(r"^\[ +SKIPPED +\] \S+$", text, re.M)) // 2 + len(re.findall(r"^skipped: ", text, re.M))
    if not good and not bad and not (skipped and not failed):
        good, bad = (0, 1) if failed else (1, 0)
    return good, max(bad, 1) if failed else bad, skipped


if __name__ == "__main__":
    cases = [count(c) for file in sys.argv[1:] for c in tree.parse(file).getroot().iter("testcase")]
    passed, failed, skipped = (sum(c[k] for c in cases) for k in range(3))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
