#!/usr/bin/env python3
"""A program that the cache kept gives the bytes of one that is made: the light models of the onnx package with seeded
weights, then ten of those below the folders that TGRUN_MODELS names (DIR[:DIR..]), or FOLDER... What makes another
program, damage and failures: tests/python/test_kept.py."""
import itertools, json, os, sys, tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_compiled import outputs, run
from test_models import folders_below, light_models


def look(folder, work):
    """What is wrong, "" when nothing is; how many of how many programs were kept."""
    arguments = [os.path.join(folder, "model.onnx"), "--test-data", os.path.join(folder, "test_data_set_0"), "-d", "cpu",
                 "--compiler", "own", "--runs", "1", "--rtol", "1e9", "--atol", "1e9"]
    cache, said = ["--cache-dir", os.path.join(work, "cache")], os.path.join(work, "said.json")
    places = [os.path.join(work, name) for name in ("made", "kept")]
    for place in places:
        wrong = run([*arguments, *cache, f"--json={said}", "--output-dir", place])
        if wrong:
            return wrong, ""
    with open(said) as f:
        report = json.load(f)
    made, kept = map(outputs, places)
    different = [name for name in made if made[name] != kept.get(name)]
    return f"outputs differ: {different}" if different or not made else "", (
        f"{report['programs_kept']} of {report['programs']} programs kept")


def main(folders):
    more = [f for top in os.environ.get("TGRUN_MODELS", "").split(":") if top for f in folders_below(top)]
    light = (f for f in light_models() if os.path.basename(f).startswith("light_"))
    right = count = 0
    for folder in folders or itertools.chain(light, more[:10]):
        with tempfile.TemporaryDirectory() as work:
            wrong, kept = look(folder, work)
        print(f"{os.path.basename(folder):28} {wrong or kept}", flush=True)
        right += not wrong
        count += 1
    print(f"{right} of {count} models give the same bytes")
    return right != count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
