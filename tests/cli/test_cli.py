#!/usr/bin/env python3
"""Runs every tests/cli/*.sh and compares what it prints (standard output and error) with the .txt beside it; --update
writes that file. A script runs in an empty folder; `t ARGS` is tgrun with its exit code after it, `b ARGS` tgbench. $M
holds the small models of models.py. Lines must not depend on the machine: use -q, and `keys` to show the shape of
JSON."""
import os, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PRELUDE = """
t() { "$TGRUN_PROGRAM" "$@" 2>&1; echo "exit $?"; }
b() { "$TGBENCH_PROGRAM" "$@" 2>&1; echo "exit $?"; }
keys() { "$PYTHON" -c 'import json, sys
def show(v, at):
    if isinstance(v, dict):
        for k in v: show(v[k], at + "." + k)
    elif isinstance(v, list): show(v[0], at + "[]") if v else print(at + "[] empty")
    else: print(at, type(v).__name__)
show(json.load(sys.stdin), "")'; }
"""


def run(script, models, cache):
    with tempfile.TemporaryDirectory() as cwd:
        env = {
            k: v
            for k, v in os.environ.items() if not k.startswith("TGRUN_") or k in ("TGRUN_PROGRAM", "TGRUN_PYTHON")
        }
        env.update(M=models, XDG_CACHE_HOME=cache, LC_ALL="C", PYTHON=os.environ.get("PYTHON", sys.executable),
                   TGRUN_PYTHON=os.environ.get("PYTHON", sys.executable))
        text = open(script).read()
        p = subprocess.run(["bash", "-c", PRELUDE + text], cwd=cwd, env=env, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=300)
        return p.stdout.decode(errors="backslashreplace").replace(models, "$M").replace(cwd, "$PWD")


def main(argv):
    if not os.environ.get("TGRUN_PROGRAM") or not os.environ.get("TGBENCH_PROGRAM"):
        sys.exit("TGRUN_PROGRAM and TGBENCH_PROGRAM name what is tested")
    update = "--update" in argv
    wanted = [a for a in argv if not a.startswith("-")]
    sys.path.insert(0, HERE)
    import models
    scripts = sorted(f for f in os.listdir(HERE) if f.endswith(".sh") and (not wanted or f[:-3] in wanted))
    bad = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        models.make(folder)
        for name in scripts:
            got = run(os.path.join(HERE, name), folder, cache)
            path = os.path.join(HERE, name[:-3] + ".txt")
            want = open(path).read() if os.path.exists(path) else ""
            if update:
                open(path, "w").write(got)
            elif got != want:
                bad += 1
                diff = subprocess.run(["diff", "-u", path, "-"], input=got.encode(),
                                      stdout=subprocess.PIPE).stdout.decode()
                print(f"{name}: differs from {os.path.basename(path)}\n{diff}")
    print(f"{len(scripts) - bad} of {len(scripts)} scripts print what was reviewed")
    return 1 if bad or not scripts else 0


sys.dont_write_bytecode = True
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
