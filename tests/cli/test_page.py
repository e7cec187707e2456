#!/usr/bin/env python3
"""The page of tgbench: its numbers are those of the JSON, its drawings are well-formed XML with finite numbers inside of
their frames, and nothing in it comes from a network. In headless Chromium, where there is one: no two words overlap, none
leaves its drawing, the console says nothing, and the picture of the page is not empty. FILE.html FILE.json: that page."""
import html, json, math, os, re, shutil, struct, subprocess, sys, tempfile, zlib
import xml.etree.ElementTree as tree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
ENGINE = """
import os, sys, time, numpy as np
print('{"name": "sleeper <1> & more, with a name that is long", "load_s": 0.5, "first_ms": 3.0}', flush=True)
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "run":
        print(*(int(1e6 * (2 + 0.01 * (k % 7))) for k in range(int(rest))), flush=True)
    elif word == "save":
        import shutil
        shutil.copy(os.environ["EXPECTED"], os.path.join(rest, "output_0.npy"))
        print("ok", flush=True)
    else:
        print("10.0", flush=True)
"""
# Words of drawings whose boxes meet, or that lie outside of their drawing; an own element of the page takes the answer.
LOOK = """<script>
const bad = [];
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect(), words = [...svg.querySelectorAll('text')];
  const box = words.map(w => w.getBoundingClientRect());
  box.forEach((a, i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      bad.push('outside: ' + words[i].textContent);
    box.slice(i + 1).forEach((b, k) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
        bad.push('overlap: ' + words[i].textContent + ' | ' + words[i + 1 + k].textContent);
    });
  });
}
if (document.documentElement.scrollWidth > innerWidth) bad.push('wider than the window');
document.body.insertAdjacentHTML('beforeend', '<pre id="verdict"></pre>');
document.getElementById('verdict').textContent = 'looked ' + JSON.stringify(bad);
</script></body>"""


def rows(page, first):
    """Cells of the tables whose first head is that."""
    out = []
    for table in re.findall(r"<table>(.*?)</table>", page, re.S):
        lines = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", r, re.S) for r in re.findall(r"<tr>(.*?)</tr>", table, re.S)]
        if lines and lines[0][0] == first:
            out.append([[html.unescape(re.sub("<[^>]*>", "", c)) for c in r] for r in lines[1:]])
    return out


def same(text, value):
    """Does the text say the number, as exactly as its digits go?"""
    if value is None:
        return text == "n/a"
    digits = re.match(r"-?\d+(?:\.(\d+))?", text)
    return bool(digits) and abs(float(digits.group()) - value) <= 0.51 * 10**-len(digits.group(1) or "")


def numbers(page, j):
    bad = []
    for result, table in zip([r for r in j["results"] if not r["exit"]], rows(page, "engine")):
        for e, r in zip(result["engines"], table):
            for text, value in ((r[1], e["min"]), (r[2], e["median"]), (r[3], e["p90"]), (r[5], e["runs"]),
                                (r[9], e["ratio"]["value"]), (r[10].split("-")[0], e["ratio"]["low"]),
                                (r[10].split("-")[1], e["ratio"]["high"])):
                if not same(text, value):
                    bad.append(f"{e['name']}: the page says {text}, the JSON {value}")
            if r[0] != e["name"]:
                bad.append(f"{r[0]} is {e['name']} in the JSON")
    kernels = [k for r in j["results"] for e in r.get("engines", []) if "profile" in e for k in e["profile"]["kernels"][:15]]
    shown = [r for table in rows(page, "kernel") for r in table]
    if len(kernels) != len(shown) or not kernels:
        bad.append(f"{len(shown)} kernels are shown, the JSON has {len(kernels)}")
    for k, r in zip(kernels, shown):
        if r[0] != k["name"] or not same(r[2], 1e3 * k["run_seconds"]) or not same(r[6], k["roof"] and 100 * k["roof"]):
            bad.append(f"kernel {r} is {k['name']}, {k['run_seconds']} s, {k['roof']}")
    for result in j["results"]:
        times = {e["engine"]: e["samples_ms"] for e in result.get("engines", [])}
        if any(sum(b["runs"] for b in result["blocks"] if b["engine"] == e) != len(t) for e, t in times.items()):
            bad.append("blocks have not as many runs as there are samples")
    return bad


def drawings(page):
    bad = []
    if re.search(r"<script|https?://|@import|src=", page):
        bad.append("something is loaded or runs")
    for k, svg in enumerate(re.findall(r"<svg.*?</svg>", page, re.S)):
        root = tree.fromstring(svg)
        width, height = (float(v) for v in root.get("viewBox").split()[2:])
        for e in root.iter():
            for name in ("x", "x1", "x2", "cx", "y", "y1", "y2", "cy", "width", "height"):
                v = float(e.get(name, 0))
                if not math.isfinite(v) or not -1 <= v <= (width if "x" in name or name == "width" else height) + 1:
                    bad.append(f"drawing {k}: {e.tag} has {name} = {v}")
    return bad


def picture(file):
    """Width, height and number of colours of a PNG of 8 bits a channel."""
    data = open(file, "rb").read()
    width, height, _, kind = struct.unpack(">IIBB", data[16:26])
    at, body, channels = 8, b"", 4 if kind == 6 else 3
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        body += data[at + 8:at + 8 + size] if data[at + 4:at + 8] == b"IDAT" else b""
        at += size + 12
    raw, line = zlib.decompress(body), width * channels + 1
    return width, height, len({raw[k:k + 60] for k in range(0, len(raw) - line, 997)})


def browser():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chromium(program, page, folder):
    bad, copy, shot = [], os.path.join(folder, "looked.html"), os.path.join(folder, "shot.png")
    with open(copy, "w") as f:
        f.write(page.replace("</body>", LOOK))
    for width in (1250, 420):
        flags = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},3000",
                 f"--user-data-dir={folder}/profile", "--enable-logging=stderr", "--virtual-time-budget=2000"]
        p = subprocess.run([*flags, "--dump-dom", "file://" + copy], capture_output=True, text=True, timeout=120)
        found = re.search(r'id="verdict">looked (.*?)</pre>', p.stdout, re.S)
        if not found:
            return [f"the page was not looked at: {p.stderr[-300:]}"]
        bad += [f"{width} pixels wide: {b}" for b in json.loads(html.unescape(found.group(1)))]
        bad += [line for line in p.stderr.splitlines() if "CONSOLE" in line]
    subprocess.run([*flags[:5], "--window-size=1250,3000", f"--screenshot={shot}", "file://" + copy], capture_output=True,
                   timeout=120)
    width, height, colours = picture(shot)
    if (width, height) != (1250, 3000) or colours < 50:
        bad.append(f"the picture has {width} x {height} points and {colours} patterns")
    return bad


def make(folder):
    import numpy as np, onnx
    from test_bisect import small
    model, data = os.path.join(folder, "small.onnx"), os.path.join(folder, "test_data_set_0")
    onnx.save(small(np.random.default_rng(1), 1), model)
    engine, page = os.path.join(folder, "engine.py"), os.path.join(folder, "page.html")
    with open(engine, "w") as f:
        f.write(ENGINE)
    run = [os.environ["TGRUN_PROGRAM"], model, "-q", "--runs", "1", "--output-dir", data, "-d", "cpu"]
    subprocess.run(run, check=True, timeout=300)
    output = os.path.join(data, os.listdir(data)[0])
    p = subprocess.run([os.environ["TGBENCH_PROGRAM"], "-q", model, "-d", "cpu", "--engine", "tgrun", "--engine",
                        f"cmd:exec {sys.executable} {engine}", "--engine", "tgrun:--no-cache", "--budget", "1", "--report",
                        page, "--format", "json"], capture_output=True, text=True, timeout=300,
                       env={**os.environ, "EXPECTED": output})
    if p.returncode:
        sys.exit(f"0 of 1 pages\n{p.stderr}")
    return open(page).read(), json.loads(p.stdout)


def main(files):
    with tempfile.TemporaryDirectory() as folder:
        page, j = (open(files[0]).read(), json.load(open(files[1]))) if files else make(folder)
        looks = [("numbers are those of the JSON", numbers(page, j)), ("drawings are well-formed", drawings(page))]
        program = browser()
        if program:
            looks.append(("Chromium shows it as it should be", chromium(program, page, folder)))
        else:
            print("skipped: Chromium is not here")
        for name, bad in looks:
            print(f"{int(not bad)} of 1 pages: {name}")
            for line in bad[:10]:
                print(f"  {line}")
        return 1 if any(bad for _, bad in looks) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
