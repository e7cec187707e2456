#!/usr/bin/env python3
"""kill -9 at random moments of compiles and searches: what is left of the cache, the database and temporary folders
harms no later run, and no process lives on. KILLS: how many, 16 unless given; the seed is the day's."""
import datetime, os, random, shutil, signal, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models

TGRUN = os.environ["TGRUN_PROGRAM"]


def cached(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def living(cache):
    """Processes whose cache folder that is: the compiler's, workers."""
    mark, found = f"XDG_CACHE_HOME={cache}".encode(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/stat") as s:
                if mark in f.read().split(b"\0") and s.read().rpartition(")")[2].split()[0] not in "ZX":
                    found.append(pid)
        except OSError:
            pass
    return found


class Kills:
    def __init__(self, folder, seed):
        self.cache, self.tmp = os.path.join(folder, "cache"), os.path.join(folder, "tmp")
        os.mkdir(self.tmp)
        self.env = {**os.environ, "XDG_CACHE_HOME": self.cache, "TMPDIR": self.tmp}
        model, data = (os.path.join(folder, "layers" + end) for end in (".onnx", "_data"))
        self.ways = {
            "run": [TGRUN, model, "--test-data", data, "-d", "cpu", "--compiler", "cc", "--runs", "1", "-q"],
            "auto": [TGRUN, model, "--test-data", data, "-d", "cpu", "--compiler", "auto", "--runs", "1", "-q"],
            "tune": [TGRUN, "tune", model, "--test-data", data, "-d", "cpu", "--tune", "1", "-q"],
        }
        self.random, self.seconds = random.Random(seed), {}
        for way, command in self.ways.items():
            shutil.rmtree(self.cache, ignore_errors=True)
            start = time.time()
            self.run(command)
            self.seconds[way] = time.time() - start

    def run(self, command):
        p = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120)
        if p.returncode:
            raise AssertionError(f"exit {p.returncode}: {p.stderr.strip()} {p.stdout.strip()}")

    def forget(self):
        """Some of the cache goes, so that there is something to make; now and then the database, or all. The secret goes
        with all, since no entry is good without it."""
        keep = self.random.choice((0, 0.3, 0.7))
        for path in cached(self.cache):
            if self.random.random() > keep and (not keep or os.path.basename(path) != "secret"):
                os.unlink(path)

    def kill(self):
        """What is wrong after one."""
        way = self.random.choice(list(self.ways))
        self.forget()
        p = subprocess.Popen(self.ways[way], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.random.uniform(0, 1.1 * self.seconds[way]))
        p.send_signal(signal.SIGKILL)
        p.wait()
        try:
            for command in self.ways["run"], [TGRUN, "cache", "verify"], self.ways["tune"][:-3] + ["--tune", "0.1", "-q"]:
                self.run(command)
        except AssertionError as e:
            return f"{way}: {e}"
        return ""


def main():
    count, seed = int(os.environ.get("KILLS", 16)), int(os.environ.get("KILL_SEED", datetime.date.today().toordinal()))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        models.make(folder)
        kills = Kills(folder, seed)
        for k in range(count):
            said = kills.kill()
            wrong += said != ""
            if said:
                print(f"kill {k} of seed {seed}, {said}")
        end = time.time() + 20
        while living(kills.cache) and time.time() < end:
            time.sleep(0.2)
        left = [path for path in cached(kills.cache) if "." in os.path.basename(path) and "/tune" not in path]
        if living(kills.cache):
            print(f"live on: {living(kills.cache)}")
    print(f"{count - wrong} of {count} kills harm nothing; {len(left)} parts of files are left in the cache")
    return wrong > 0 or bool(living(kills.cache))


if __name__ == "__main__":
    sys.exit(main())
