#!/usr/bin/env python3
"""docs/suite.schema.json is what `tgbench --help suite` prints, and what it says of keys and types is what a suite is
refused for."""
import json, os, pathlib, subprocess, sys, tempfile

TGBENCH = os.environ["TGBENCH_PROGRAM"]
SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "suite.schema.json"
GOOD = {"string": "x", "number": 1}


def said(suite, folder):
    path = pathlib.Path(folder, "suite.json")
    path.write_text(json.dumps(suite))
    p = subprocess.run([TGBENCH, "--suite", path, "--budget", "0.1"], capture_output=True, text=True)
    return p.stderr


def main():
    printed = subprocess.run([TGBENCH, "--help", "suite"], capture_output=True, text=True, check=True).stdout
    row = json.loads(SCHEMA.read_text())["properties"]["models"]["items"]
    cases = {"it is printed": printed == SCHEMA.read_text()}
    with tempfile.TemporaryDirectory() as folder:
        for key, kind in row["properties"].items():
            full = {"model": "nosuch.onnx", **({} if key == "model" else {key: GOOD[kind["type"]]})}
            cases[f"{key} is taken"] = "--suite" not in said({"models": [full]}, folder)
            full[key] = [1]
            cases[f"{key} must be a {kind['type']}"] = "--suite" in said({"models": [full]}, folder)
        cases["other keys are refused"] = "'weight' is no key" in said({"models": [{"model": "x", "weight": 1}]}, folder)
        cases["a model is wanted"] = "'model' is missing" in said({"models": [{}]}, folder)
        cases["models are wanted"] = "'models' is missing" in said({}, folder)
    for name, good in cases.items():
        if not good:
            print(f"wrong: {name}")
    print(f"{sum(cases.values())} of {len(cases)} facts of the schema hold")
    return not all(cases.values())


sys.exit(main())
