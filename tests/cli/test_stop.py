#!/usr/bin/env python3
"""A program that is interrupted, or whose time is over, leaves nothing behind: no compiler, no engine, no temporary
folder; its exit code says why."""
import os, signal, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
SLOW = """#!/bin/sh
echo $$ >> {pids}
exec sleep 60
"""


def alive(pid):
    """Not as a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def look(command, folder, how, code):
    """What is wrong. how: the signal, or None where the program ends by itself."""
    tmp, pids = tempfile.mkdtemp(dir=folder), os.path.join(tempfile.mkdtemp(dir=folder), "pids")
    slow = os.path.join(os.path.dirname(pids), "slow")
    with open(slow, "w") as f:
        f.write(SLOW.format(pids=pids))
    os.chmod(slow, 0o755)
    env = {**os.environ, "CC": slow, "TMPDIR": tmp, "SLOW": slow, "TGRUN_SANDBOX": "off"}
    p = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(200):
        if os.path.exists(pids) and open(pids).read():
            break
        time.sleep(0.05)
    else:
        p.kill()
        return f"no child was started: {p.communicate()[1]}"
    started = os.listdir(tmp)
    if how:
        p.send_signal(how)
    said = p.communicate(timeout=30)[1]
    time.sleep(0.2)
    bad = []
    if p.returncode != code:
        bad.append(f"exit {p.returncode}, {code} is wanted: {said.strip()}")
    if not started:
        bad.append("it made no temporary folder")
    if os.listdir(tmp):
        bad.append(f"left in TMPDIR: {os.listdir(tmp)}")
    bad += [f"process {pid} lives on" for pid in open(pids).read().split() if alive(pid)]
    return "; ".join(bad)


def main():
    import models
    tgrun, tgbench = os.environ["TGRUN_PROGRAM"], os.environ["TGBENCH_PROGRAM"]
    with tempfile.TemporaryDirectory() as folder:
        models.make(folder)
        add = os.path.join(folder, "add.onnx")
        run = [tgrun, add, "--no-cache", "-d", "cpu"]
        cases = {
            "SIGINT while it compiles": (run, signal.SIGINT, 130),
            "SIGTERM while it compiles": (run, signal.SIGTERM, 143),
            "a time limit while it compiles": ([*run, "--timeout", "2"], None, 124),
            "SIGINT while an engine starts": ([tgbench, add, "--engine", "cmd:exec $SLOW"], signal.SIGINT, 130),
            "SIGINT while tgrun as an engine compiles": ([tgbench, add, "--engine", "tgrun:--no-cache -d cpu"],
                                                         signal.SIGINT, 130),
        }
        right = 0
        for name, (command, how, code) in cases.items():
            wrong = look(command, folder, how, code)
            right += not wrong
            print(f"{name}: {wrong or 'nothing is left'}")
    print(f"{right} of {len(cases)} ends leave nothing behind")
    return right != len(cases)


if __name__ == "__main__":
    sys.exit(main())
