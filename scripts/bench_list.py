#!/usr/bin/env python3
"""The bench list: kernels that every network is made of, by heuristics alone, on one thread, beside onnxruntime and the processor's peak.

    python scripts/bench_list.py [--tgbench build/tgbench] [--budget SECONDS] [--threads N] [NAME..]

Each row is a model of one or two nodes that tgbench times in blocks of runs, the engines in turn; shown is the least of the blocks. The peak is measured here: independent
multiply-adds of the widest vectors, by the C compiler. Needs the packages of scripts/requirements.txt. To add a kernel: a row in CASES.
"""
import argparse, json, os, subprocess, sys, tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PEAK = r"""
#include <stdio.h>
#include <time.h>
typedef float v __attribute__((vector_size(64)));
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(void)
{
    enum { N = 4000000, CHAINS = 12, LANES = 16 };
    double best = 1e9;
    for (int turn = 0; turn < 200; turn++) {
        v a[CHAINS] = { 0 }, b = 0.999f - (v){ 0 }, c = 1e-3f - (v){ 0 };
        double start = now();
        for (int i = 0; i < N / 10; i++)
            for (int k = 0; k < CHAINS; k++) a[k] = a[k] * b + c;
        double s = now() - start;
        for (int k = 0; k < CHAINS; k++) __asm__ volatile("" : : "m"(a[k]));
        if (s < best) best = s;
    }
    printf("%g\n", 2e-9 * CHAINS * LANES * (N / 10) / best);
}
"""

rng = np.random.default_rng(0)


def weight(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def gemm(m, k, n):
    return [("MatMul", ["x", "w"], {})], [m, k], {"w": weight(k, n)}, 2 * m * k * n


def conv(c, m, size, kernel, group=1):
    return [("Conv", ["x", "w"], {"pads": [kernel // 2] * 4, "group": group})], [1, c, size, size], {"w": weight(m, c // group, kernel, kernel)}, 2 * m * c // group * kernel * kernel * size * size


def layer_norm(rows, n):
    return [("LayerNormalization", ["x", "s", "b"], {"axis": -1})], [rows, n], {"s": weight(n), "b": weight(n)}, 0


def softmax(rows, n):
    return [("Softmax", ["x"], {"axis": -1})], [rows, n], {}, 0


def masked_softmax(rows, n):
    mask = np.where(np.arange(n)[None, :] > np.arange(rows)[:, None] % n, np.float32(-100), np.float32(0))
    return [("Add", ["x", "m"], {}), ("Softmax", ["t0"], {"axis": -1})], [rows, n], {"m": mask}, 0


CASES = [
    ("gemm 128x768x768", *gemm(128, 768, 768)), ("gemm 128x3072x768", *gemm(128, 3072, 768)), ("gemm 49x768x3072", *gemm(49, 768, 3072)), ("gemv 768x3072", *gemm(1, 768, 3072)),
    ("conv 3x3 64 at 56", *conv(64, 64, 56, 3)), ("conv 3x3 256 at 14", *conv(256, 256, 14, 3)), ("conv 1x1 64-256 at 56", *conv(64, 256, 56, 1)),
    ("depthwise 3x3 144 at 56", *conv(144, 144, 56, 3, 144)),
    *((f"{name} {rows}x{n}", *make(rows, n)) for name, make in (("layer norm", layer_norm), ("softmax", softmax)) for rows, n in ((512, 768), (1024, 1024), (512, 49), (512, 197), (512, 1000))),
    ("masked softmax 512x128", *masked_softmax(512, 128)), ("softmax 8x16 (a run's own cost)", *softmax(8, 16)),
]


def save(path, nodes, shape, constants):
    last = len(nodes) - 1
    made = [helper.make_node(op, inputs, ["y" if k == last else f"t{k}"], **attrs) for k, (op, inputs, attrs) in enumerate(nodes)]
    graph = helper.make_graph(made, "case", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(a, name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def measured_peak(folder):
    source, program = os.path.join(folder, "peak.c"), os.path.join(folder, "peak")
    with open(source, "w") as f:
        f.write(PEAK)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-march=native", "-funroll-loops", "-o", program, source], check=True)
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def bench(args, path):
    command = [args.tgbench, path, "--device", "cpu", "-t", str(args.threads), "--budget", str(args.budget), "--format", "json", "-q", "-i", "x=random:normal(0,1)"]
    done = subprocess.run(command, capture_output=True, text=True, env={"TGRUN_PYTHON": sys.executable, **os.environ})
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    engines = json.loads(done.stdout)["results"][0]["engines"]
    ours, theirs = engines[0], engines[1]
    return ours["min"], theirs["min"], theirs["agrees"], theirs["ratio"]["value"] if "ratio" in theirs else ours["ratio"]["value"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tgbench", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "tgbench"))
    p.add_argument("--budget", type=float, default=3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("names", nargs="*", help="only the rows that contain one of these")
    args = p.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        peak = measured_peak(folder) * args.threads
        print(f"peak {peak:.0f} GFLOP/s, {args.threads} thread(s)")
        print(f"{'kernel':34} {'tgrun us':>10} {'onnxruntime us':>15} {'ratio':>6} {'GFLOP/s':>8} {'of peak':>8}")
        for name, nodes, shape, constants, flops in CASES:
            if args.names and not any(n in name for n in args.names):
                continue
            path = os.path.join(folder, "case.onnx")
            save(path, nodes, shape, constants)
            ours, theirs, agrees, _ = bench(args, path)
            speed = flops / ours * 1e-6
            share = f"{speed:8.1f} {speed / peak:8.2f}" if flops else f"{'':8} {'':8}"
            print(f"{name:34} {1e3 * ours:10.2f} {1e3 * theirs:15.2f} {theirs / ours:6.2f} {share}{'' if agrees else '   OUTPUTS DIFFER'}", flush=True)
            wrong += not agrees
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
