#!/usr/bin/env python3
"""Ranks that mpirun starts give, byte by byte, what as many devices of one process do: over shared memory, and over two
network namespaces. What is wrong is one line of tgrun's and its exit code. A rank that is killed at a random moment
ends the others within ten seconds, and nothing of them stays. KILLS: how many, 4 unless given; the seed is the day's."""
import datetime, os, random, shutil, signal, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh

import test_devices

TGRUN = os.environ["TGRUN_PROGRAM"]
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def loop(folder):
    """As many iterations as an input says; and a row of a table by an index that may be wrong."""
    w = nh.from_array((np.random.default_rng(1).standard_normal((16, 16)) / 4).astype("f4"), "w")
    one = h.make_tensor_value_info
    body = h.make_graph([h.make_node("Identity", ["c"], ["d"]), h.make_node("MatMul", ["s", "w"], ["p"]),
                         h.make_node("Tanh", ["p"], ["t"]), h.make_node("ReduceSum", ["t"], ["r"], keepdims=0)], "body",
                        [one("i", 7, []), one("c", 9, []), one("s", 1, [4, 16])],
                        [one("d", 9, []), one("t", 1, [4, 16]), one("r", 1, [])])
    nodes = [h.make_node("Gather", ["w", "k"], ["x"]), h.make_node("Loop", ["n", "", "x"], ["y", "sums"], body=body)]
    graph = h.make_graph(nodes, "loop", [one("n", 7, []), one("k", 7, [4])], [one("y", 1, [4, 16]), one("sums", 1, None)], [w])
    path = os.path.join(folder, "loop.onnx")
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    for name, value in (("n", np.int64(5)), ("k", np.arange(4)), ("wrong", np.array([1, 2, 99, 3]))):
        np.save(os.path.join(folder, name + ".npy"), value)
    return path


def inputs(folder, k="k"):
    return ["-i", f"n={folder}/n.npy", "-i", f"k={folder}/{k}.npy"]


def mpirun(ranks, *command, before=(), **more):
    return subprocess.Popen([*before, "mpirun", "--oversubscribe", "-n", str(ranks), *command], env=ENV, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def outputs(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}


class Pair:
    """A model in one process, and in ranks."""
    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def same(self, path, ranks, *options, start=mpirun):
        alone, among = (os.path.join(self.folder, f"{name}{self.count}") for name in ("alone", "among"))
        common = [path, "--seed", "5", "--runs", "2", "-q", *options]
        subprocess.run([TGRUN, *common, "--device", f"cpu:0-{ranks - 1}", "--output-dir", alone], env=ENV, check=True)
        p = start(ranks, TGRUN, *common, "--output-dir", among)
        said = p.communicate(timeout=120)
        assert p.returncode == 0, f"{path}: {ranks} ranks: exit {p.returncode}: {said}"
        assert outputs(alone) == outputs(among), f"{path}: {ranks} ranks give other bytes"
        self.count += 1

    def refused(self, code, needle, *arguments):
        p = mpirun(3, TGRUN, *arguments)
        said = [line for line in p.communicate(timeout=60)[1].splitlines() if line.startswith("tgrun:")]
        assert p.returncode == code and len(said) == 1 and needle in said[0], (arguments, p.returncode, said)
        self.count += 1


def equal(pair, folder):
    for ranks in (2, 3, 4):
        for make in (test_devices.transformer, test_devices.network):
            for rows, shard in ((1, "weights"), (4, "auto")):
                pair.same(make(folder, rows), ranks, "--shard", shard)
        pair.same(loop(folder), ranks, "--shard", "weights", *inputs(folder))
    pair.same(test_devices.transformer(folder, 1), 2, "--shard", "auto", "--batch", "6")
    pair.same(test_devices.sharded(test_devices.transformer(folder, 4), 2, test_devices.MEGATRON), 2, "--shard", "model")


def wrong(pair, folder):
    path = loop(folder)
    pair.refused(4, "index 99", path, "--shard", "weights", *inputs(folder, "wrong"))
    pair.refused(4, "cannot be divided among 3 devices", test_devices.network(folder, 1), "--shard", "batch")
    pair.refused(3, "cannot be opened", os.path.join(folder, "none.onnx"), "--shard", "weights")
    pair.refused(5, "ranks do not search", "tune", path, "--shard", "weights", "--tune", "1", *inputs(folder))
    pair.refused(8, "among devices of the CPU only", path, "--shard", "weights", "-d", "c", *inputs(folder))
    pair.refused(124, "the time limit of 2 s is over", path, "--shard", "weights", "--runs", "1000000000", "--timeout", "2",
                 *inputs(folder))
    pair.refused(6, "the limit is", path, "--shard", "weights", "--max-memory", "100", *inputs(folder))


PROGRAM = """
import sys
import numpy as np, tgrun
rank, ranks = tgrun.ranks()
if rank:
    tgrun.serve_ranks()
else:
    options = tgrun.SessionOptions()
    options.shard = "weights"
    s = tgrun.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    x = np.load(sys.argv[2])
    assert ranks == 3 and s.run(None, {"x": x})[0].tobytes() == s.run(None, {"x": x})[0].tobytes()
    try:
        s.run(None, {"x": x[:, :, :5]})
    except tgrun.BadInput:
        np.save(sys.argv[3], s.run(None, {"x": x})[0])
    del s
tgrun.end_ranks()
"""


def program(pair, folder):
    """A program of rank 0's, which goes on after a call that fails."""
    path, x, y = test_devices.transformer(folder, 1), os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    np.save(x, np.random.default_rng(2).standard_normal((1, 24, 64)).astype("f4"))
    env = {"PYTHONPATH": os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")}
    p = mpirun(3, *(word for k, v in env.items() for word in ("-x", f"{k}={v}")), sys.executable, "-c", PROGRAM, path, x, y)
    said = p.communicate(timeout=120)
    assert p.returncode == 0, said
    want = test_devices.session(path).run(None, {"x": np.load(x)})[0]
    test_devices.near("a program over ranks", np.load(y), want)
    pair.count += 1


# ---- two machines ----

AGENT = """#!/bin/sh
host=${1##*.}
shift
exec ip netns exec tgrun$host unshare -u sh -c "hostname tgrun$host; $*"
"""


def shell(text):
    return subprocess.run(["sh", "-ec", text], capture_output=True, text=True)


def machines(pair, folder):
    """Two machines of two ranks each: namespaces of the network, with names of their own. Why not, where they cannot be."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "unshare"))):
        return "no namespaces: root, ip and unshare are wanted"
    made = shell("for k in 1 2; do ip netns add tgrun$k; ip -n tgrun$k link set lo up; done\n"
                 "ip link add tgv1 netns tgrun1 type veth peer name tgv2 netns tgrun2\n"
                 "for k in 1 2; do ip -n tgrun$k addr add 10.77.0.$k/24 dev tgv$k; ip -n tgrun$k link set tgv$k up; done")
    try:
        if made.returncode:
            return f"no namespaces: {made.stderr.strip()}"
        agent = os.path.join(folder, "agent.sh")
        with open(agent, "w") as f:
            f.write(AGENT)
        os.chmod(agent, 0o755)
        net = [word for name in ("btl", "oob") for word in ("--mca", f"{name}_tcp_if_include", "10.77.0.0/24")]
        hosts = ["--mca", "plm_rsh_agent", agent, *net, "--host", "10.77.0.1:2,10.77.0.2:2"]

        def start(ranks, *command):
            return mpirun(ranks, *hosts, *command, before=["ip", "netns", "exec", "tgrun1", "unshare", "-u", "sh", "-c",
                                                           'hostname tgrun1; exec "$@"', "sh"])
        pair.same(test_devices.transformer(folder, 4), 4, "--shard", "weights", start=start)
        pair.same(test_devices.network(folder, 4), 4, "--shard", "auto", start=start)
        return ""
    finally:
        shell("for k in 1 2; do ip netns del tgrun$k || true; done")


# ---- a rank that dies ----

def ranks_of(mark):
    """Processes of tgrun whose environment has that."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/stat") as s:
                words = f.read().split(b"\0"), s.read()
        except OSError:
            continue
        state = words[1].rpartition(")")[2].split()[0]
        if mark in words[0] and any(w.startswith(b"OMPI_COMM_WORLD_RANK=") for w in words[0]) and state not in "ZX":
            found.append(int(pid))
    return found


def left_behind(tmp):
    return {name for name in os.listdir("/dev/shm") if name.startswith("vader")} | set(os.listdir(tmp))


def goes_on(p, mark, tmp, before):
    """Open MPI's mpirun can wait for a lock of its own at its end, for ever, where a rank dies before it has joined: all
    ranks have ended then, which is what counts, and what is left is mpirun's."""
    there = ranks_of(mark.encode())
    p.kill()
    p.communicate()
    for name in left_behind(tmp) - before:
        shutil.rmtree(os.path.join(tmp, name), ignore_errors=True)
        if name.startswith("vader"):
            os.unlink(os.path.join("/dev/shm", name))
    print(f"mpirun goes on, {len(there)} of its ranks do")
    return f"mpirun and {there} go on" if there else ""


def kill(folder, path, dice, number):
    """What is wrong after one."""
    tmp = os.path.join(folder, f"tmp{number}")
    os.mkdir(tmp)
    mark = f"TGRUN_TEST_MARK={number}.{os.getpid()}"
    env = {**ENV, "TMPDIR": tmp, **dict([mark.split("=")])}
    before = left_behind(tmp)
    p = subprocess.Popen(["mpirun", "--oversubscribe", "-n", "4", TGRUN, path, "--shard", "weights", "--runs", "1000000", "-q"],
                         env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(dice.uniform(0.05, 2))
    there = ranks_of(mark.encode())
    if there:
        try:
            os.kill(dice.choice(there), signal.SIGKILL)
        except ProcessLookupError:
            pass
    else:
        p.terminate()
    start = time.time()
    try:
        said = p.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        return goes_on(p, mark, tmp, before)
    took = time.time() - start
    lines = [line for line in said.splitlines() if line.startswith("tgrun:")]
    for _ in range(20):
        if not ranks_of(mark.encode()) and left_behind(tmp) <= before:
            break
        time.sleep(0.1)
    if took > 10 or len(lines) > 1:
        return f"{took:.1f} s, {lines}"
    if ranks_of(mark.encode()) or not left_behind(tmp) <= before:
        return f"left: {ranks_of(mark.encode())} {left_behind(tmp) - before}"
    return ""


def kills(folder):
    count, seed = int(os.environ.get("KILLS", 4)), int(os.environ.get("KILL_SEED", datetime.date.today().toordinal()))
    dice, path, wrong = random.Random(seed), test_devices.transformer(folder, 4), 0
    for k in range(count):
        said = kill(folder, path, dice, k)
        wrong += said != ""
        if said:
            print(f"kill {k} of seed {seed}: {said}")
    print(f"{count - wrong} of {count} kills end all ranks")
    return wrong


def main():
    if not shutil.which("mpirun"):
        print("skipped: no mpirun (the package openmpi-bin)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(folder)
        equal(pair, folder)
        wrong(pair, folder)
        program(pair, folder)
        why = machines(pair, folder)
        if why:
            print(f"skipped: {why}")
        print(f"{pair.count} of {pair.count} runs of ranks are as they should be")
        return kills(folder) > 0


if __name__ == "__main__":
    sys.exit(main())
