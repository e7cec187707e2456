#!/usr/bin/env python3
"""Models divided by weights among 2 and 4 devices of the CPU give the outputs of their test data: light models of the
onnx package with seeded weights, then a few of those below the folders that TGRUN_MODELS names (DIR[:DIR..]), or
FOLDER... TGRUN_DEVICES (default 0-1:0-3) says how many devices."""
import itertools, os, subprocess, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIGHT = ("light_shufflenet", "light_squeezenet")
SOME = ("minilm_l6", "mobilenet_v3_small")


def look(folder, devices):
    p = subprocess.run([os.environ["TGRUN_PROGRAM"], "test", folder, "-q", "-d", "cpu:" + devices, "--shard", "weights",
                        "--cache-dir", os.path.join(os.environ["BUILD_DIR"], "cache")], capture_output=True, text=True,
                       timeout=900)
    return (p.stdout.strip() + p.stderr.strip() or f"exit {p.returncode}") if p.returncode else ""


def main(folders):
    from test_models import folders_below, light_models
    more = [f for top in os.environ.get("TGRUN_MODELS", "").split(":") if top for f in folders_below(top)]
    light = (f for f in light_models() if os.path.basename(f) in LIGHT)
    right = count = 0
    for folder in folders or itertools.chain(light, (f for f in more if os.path.basename(f) in SOME)):
        for devices in os.environ.get("TGRUN_DEVICES", "0-1:0-3").split(":"):
            wrong = look(folder, devices)
            print(f"{os.path.basename(folder):28} cpu:{devices} {wrong or 'right'}", flush=True)
            right += not wrong
            count += 1
    print(f"{right} of {count}: models divided by weights give their outputs")
    return int(right != count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
