#!/usr/bin/env python3
"""The bench list: kernels that every network is made of, by heuristics alone, on one thread, beside onnxruntime and the
processor's peak.

    python scripts/bench_list.py [--tgbench build/tgbench] [--budget SECONDS] [--threads N] [NAME..]
    python scripts/bench_list.py --operators ...

Each row is a model of one or two nodes that tgbench times in blocks of runs, the engines in turn; shown is the least of
the blocks. The peak is measured here: independent multiply-adds of the widest vectors, by the C compiler. With
--operators the rows are operators that are no arithmetic (they search, sort, pick, place, resample and move), at the
sizes that detectors and language models have; shown are medians, and the ratio's interval. Needs the packages of
scripts/requirements.txt. To add a row: one of KERNELS or OPERATORS.
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
    return [("Conv", ["x", "w"], {"pads": [kernel // 2] * 4, "group":
                                  group})], [1, c, size,
                                             size], {"w":
                                                     weight(m, c // group, kernel,
                                                            kernel)}, 2 * m * c // group * kernel * kernel * size * size


def layer_norm(rows, n):
    return [("LayerNormalization", ["x", "s", "b"], {"axis": -1})], [rows, n], {"s": weight(n), "b": weight(n)}, 0


def softmax(rows, n):
    return [("Softmax", ["x"], {"axis": -1})], [rows, n], {}, 0


def masked_softmax(rows, n):
    mask = np.where(np.arange(n)[None, :] > np.arange(rows)[:, None] % n, np.float32(-100), np.float32(0))
    return [("Add", ["x", "m"], {}), ("Softmax", ["t0"], {"axis": -1})], [rows, n], {"m": mask}, 0


KERNELS = [("gemm 128x768x768", *gemm(128, 768, 768)), ("gemm 128x3072x768", *gemm(128, 3072, 768)),
           ("gemm 450x12544x1024", *gemm(450, 12544, 1024)),
           ("gemm 49x768x3072", *gemm(49, 768, 3072)), ("gemv 768x3072", *gemm(1, 768, 3072)),
           ("conv 3x3 64 at 56", *conv(64, 64, 56, 3)), ("conv 3x3 256 at 14", *conv(256, 256, 14, 3)),
           ("conv 1x1 64-256 at 56", *conv(64, 256, 56, 1)), ("depthwise 3x3 144 at 56", *conv(144, 144, 56, 3, 144)),
           *((f"{name} {rows}x{n}", *make(rows, n)) for name, make in (("layer norm", layer_norm), ("softmax", softmax))
             for rows, n in ((512, 768), (1024, 1024), (512, 49), (512, 197), (512, 1000))),
           ("masked softmax 512x128", *masked_softmax(512, 128)), ("softmax 8x16 (a run's own cost)", *softmax(8, 16)),
           ]


def boxes(n, size=1000):
    """Boxes [n, 4] of a picture, as detectors propose them: many of one object."""
    centre, half = rng.integers(1, 20, (n, 2)) / 20 * size + rng.normal(0, size / 60, (n, 2)), np.exp(
        rng.normal(np.log(size / 16), 0.5, (n, 2)))
    return np.concatenate([centre - half, centre + half], 1).astype(np.float32)


def nms(n, classes, most):
    scores = (rng.random((1, classes, n)) ** 6).astype(np.float32)
    constants = {
        "most": np.array([most], np.int64), "overlap": np.array([0.5], np.float32), "least": np.array([0.05],
                                                                                                      np.float32)
    }
    return "NonMaxSuppression", ["b", "s", "most", "overlap", "least"], {}, {"b": boxes(n)[None], "s":
                                                                             scores}, constants, 1


def topk(shape, k, axis=-1, dtype=np.float32):
    return "TopK", ["x", "k"], {"axis":
                                axis}, {"x": (1000 * weight(*shape)).astype(dtype)}, {"k": np.array([k], np.int64)}, 2


def nonzero(shape, share, dtype=np.float32):
    return "NonZero", ["x"], {}, {"x": (rng.random(shape) < share).astype(dtype)}, {}, 1


def unique(n, values, dtype, results, **attrs):
    return "Unique", ["x"], attrs, {"x": rng.integers(0, values, n).astype(dtype)}, {}, results


def roi_align(n, c, size, ratio, stride=16, **attrs):
    inputs = {"x": weight(1, c, size, size), "r": boxes(n, size * stride), "i": np.zeros(n, np.int64)}
    return "RoiAlign", ["x", "r", "i"], {
        "output_height": 7, "output_width": 7, "sampling_ratio": ratio, "spatial_scale": 1 / stride, **attrs
    }, inputs, {}, 1


def resize(shape, to, **attrs):
    return "Resize", ["x", "", "", "to"], attrs, {"x": weight(*shape)}, {"to": np.array(to, np.int64)}, 1


def grid_sample(shape, to, mode):
    return "GridSample", ["x", "g"], {"mode": mode}, {
        "x": weight(*shape), "g": rng.uniform(-1.1, 1.1, (shape[0], *to, 2)).astype(np.float32)
    }, {}, 1


def cumsum(shape, axis, dtype=np.float32, **attrs):
    return "CumSum", ["x", "axis"], attrs, {"x": rng.integers(-9, 9,
                                                              shape).astype(dtype)}, {"axis": np.array(axis,
                                                                                                       np.int64)}, 1


def scatter_nd(shape, rows, **attrs):
    return "ScatterND", ["x", "i", "u"], attrs, {
        "x": weight(*shape), "i": rng.permutation(shape[0])[:rows, None], "u": weight(rows, *shape[1:])
    }, {}, 1


def scatter_cache(heads, length, width):
    """One position of all heads of a cache of keys or values."""
    at = np.array([[[[0, head, length // 2]] for head in range(heads)]], np.int64)
    return "ScatterND", ["x", "i",
                         "u"], {}, {"x": weight(1, heads, length, width), "i": at, "u": weight(1, heads, 1,
                                                                                               width)}, {}, 1


def scatter_points(n, count):
    return "ScatterND", ["x", "i",
                         "u"], {}, {"x": weight(n, n), "i": rng.integers(0, n, (count, 2)), "u": weight(count)}, {}, 1


def scatter_elements(shape, rows, **attrs):
    inputs = {"x": weight(*shape), "i": rng.integers(0, shape[0], (rows, *shape[1:])), "u": weight(rows, *shape[1:])}
    return "ScatterElements", ["x", "i", "u"], {"axis": 0, **attrs}, inputs, {}, 1


def transpose(shape, order, dtype=np.float32):
    return "Transpose", ["x"], {"perm": order}, {"x": (100 * weight(*shape)).astype(dtype)}, {}, 1


def pad(shape, begin, end, mode):
    return "Pad", ["x", "pads"], {"mode": mode}, {"x": weight(*shape)}, {"pads": np.array([*begin, *end], np.int64)}, 1


def tile(shape, times):
    return "Tile", ["x", "times"], {}, {"x": weight(*shape)}, {"times": np.array(times, np.int64)}, 1


def quantize(shape, axis):
    n = shape[axis]
    return "QuantizeLinear", ["x", "scale",
                              "zero"], {"axis": axis
                                        }, {"x": 100 * weight(*shape)
                                            }, {"scale": 1 + rng.random(n, np.float32), "zero": np.zeros(n, np.int8)}, 1


OPERATORS = [
    ("nms 1000 x 1", *nms(1000, 1, 100)), ("nms 1917 x 80", *nms(1917, 80, 100)),
    ("nms 8732 x 80", *nms(8732, 80, 200)), ("nms 10k x 1", *nms(10000, 1, 1000)),
    ("topk 1000 of 100k", *topk((1, 100000), 1000)), ("topk 5 of 1000, 1000 rows", *topk((1000, 1000), 5)),
    ("topk 1 of 1000, 1000 rows", *topk((1000, 1000), 1)), ("topk 50 of 50k", *topk((1, 50257), 50)),
    ("topk 5 of 1000, columns", *topk((1000, 1000), 5, 0)), ("topk 4000 of 4000", *topk((4, 4000), 4000)),
    ("topk 100 of 8400", *topk((1, 8400), 100)), ("topk 300 of 27k", *topk((1, 27300), 300)),
    ("topk 10 of 100, 1000 rows", *topk((1000, 100), 10)),
    ("topk 50 of 50k f16", *topk((1, 50257), 50, dtype=np.float16)),
    ("topk 50 of 50k i32", *topk((1, 50257), 50, dtype=np.int32)),
    ("topk 50 of 50k i64", *topk((1, 50257), 50, dtype=np.int64)),
    ("topk 50 of 50k f64", *topk((1, 50257), 50, dtype=np.float64)),
    ("topk 5 of 1000 i64, 1000 rows", *topk((1000, 1000), 5, dtype=np.int64)),
    ("nonzero 1M, 1 %", *nonzero((1000, 1000), 0.01)), ("nonzero 1M, 50 %", *nonzero((1000, 1000), 0.5)),
    ("nonzero 1M bool, 1 %", *nonzero((1000, 1000), 0.01, bool)),
    ("nonzero 1M bool, 50 %, 1 axis", *nonzero(1000000, 0.5, bool)),
    ("unique 1M of 1000 i64", *unique(1000000, 1000, np.int64, 1)),
    ("unique 1M of 1M i64, all results", *unique(1000000, 1000000, np.int64, 4)),
    ("unique 100k f32", *unique(100000, 5000, np.float32, 1)),
    ("unique 1M of 1M i64, by first sight", *unique(1000000, 1000000, np.int64, 4, sorted=0)),
    ("unique 25k rows of 4 i64, all results", *unique((25000, 4), 20, np.int64, 4, axis=0)),
    ("roi align 1000 x 256x50x50", *roi_align(1000, 256, 50, 2)),
    ("roi align 100, adaptive", *roi_align(100, 256, 50, 0)),
    ("roi align 300 x 64x200x200, adaptive", *roi_align(300, 64, 200, 0, 4)),
    ("roi align 100, adaptive, max", *roi_align(100, 256, 50, 0, mode="max")),
    ("roi align 100, max", *roi_align(100, 256, 50, 2, mode="max")), *((f"resize 1080p {mode}", *resize(
        (1, 3, 1080, 1920), (1, 3, 360, 640), mode=mode)) for mode in ("nearest", "linear", "cubic")),
    ("resize x2 64x56x56 nearest", *resize(
        (1, 64, 56, 56),
        (1, 64, 112, 112), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
    ("resize x2 256x50x50 nearest", *resize(
        (1, 256, 50, 50),
        (1, 256, 100, 100), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
    ("resize x2 64x56x56 linear", *resize((1, 64, 56, 56), (1, 64, 112, 112), mode="linear")),
    ("resize antialias 1080p", *resize((1, 3, 1080, 1920), (1, 3, 360, 640), mode="linear", antialias=1)),
    *((f"grid sample 64x112x112 {mode}", *grid_sample((1, 64, 112, 112), (112, 112), mode))
      for mode in ("nearest", "linear", "cubic")), ("cumsum 1000x1000 rows", *cumsum((1000, 1000), 1)),
    ("cumsum 1000x1000 columns", *cumsum((1000, 1000), 0)), ("cumsum 100k", *cumsum((1, 100000), 1)),
    ("cumsum 1M", *cumsum((1, 1000000), 1)), ("cumsum 1M i64", *cumsum((1, 1000000), 1, np.int64)),
    ("cumsum 997x1000 columns, from the end", *cumsum((997, 1000), 0, exclusive=1, reverse=1)),
    ("cumsum 64x128x256, second axis", *cumsum((64, 128, 256), 1)),
    ("cumsum 64x32768, first axis", *cumsum((64, 32768), 0)),
    ("cumsum 1000x1000 i32", *cumsum((1000, 1000), 1, np.int32)),
    ("scatter nd 1000 rows, 50k x 256", *scatter_nd((50000, 256), 1000)),
    ("scatter nd 64 rows, 1000 x 256", *scatter_nd((1000, 256), 64)),
    ("scatter nd add 1000, 50k x 256", *scatter_nd((50000, 256), 1000, reduction="add")),
    ("scatter nd cache 12x1024x64", *scatter_cache(12, 1024, 64)),
    ("scatter nd max 1000, 5k x 64", *scatter_nd((5000, 64), 1000, reduction="max")),
    ("scatter nd 10k points", *scatter_points(512, 10000)),
    ("scatter elements 1000, 50k x 256", *scatter_elements((50000, 256), 1000)),
    ("scatter elements add, 5k x 256", *scatter_elements((5000, 256), 1000, reduction="add")),
    ("transpose to NHWC 64x56x56", *transpose((1, 64, 56, 56), (0, 2, 3, 1))),
    ("transpose to NCHW 56x56x64", *transpose((1, 56, 56, 64), (0, 3, 1, 2))),
    ("transpose to NCHW 224x224x3 u8", *transpose((1, 224, 224, 3), (0, 3, 1, 2), np.uint8)),
    ("transpose heads 128x12x64", *transpose((1, 128, 12, 64), (0, 2, 1, 3))),
    ("transpose keys 128x12x64", *transpose((1, 128, 12, 64), (0, 2, 3, 1))),
    ("transpose 1024x1024", *transpose((1024, 1024), (1, 0))),
    ("transpose 1024x1024 f16", *transpose((1024, 1024), (1, 0), np.float16)), *((f"pad {mode} 64x64x64 by 1", *pad(
        (1, 64, 64, 64), (0, 0, 1, 1), (0, 0, 1, 1), mode)) for mode in ("constant", "reflect", "edge")),
    ("pad reflect 160k by 200", *pad((1, 160000), (0, 200), (0, 200), "reflect")),
    ("tile 100x100 by 4x4", *tile((100, 100), (4, 4))), ("tile 64x1 by 1x400", *tile((64, 1), (1, 400))),
    ("quantize 128x768 by column", *quantize((128, 768), 1)),
    ("quantize 64x56x56 by channel", *quantize((1, 64, 56, 56), 1)),
]


def save_model(path, nodes, inputs, outputs, constants):
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in inputs.items()
    ]
    graph = helper.make_graph(nodes, "case", types, [helper.make_empty_tensor_value_info(name) for name in outputs],
                              [numpy_helper.from_array(a, name) for name, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def save_kernel(path, nodes, shape, constants):
    last = len(nodes) - 1
    made = [
        helper.make_node(op, inputs, ["y" if k == last else f"t{k}"], **attrs)
        for k, (op, inputs, attrs) in enumerate(nodes)
    ]
    save_model(path, made, {"x": (np.float32, shape)}, ["y"], constants)
    return ["-i", "x=random:normal(0,1)"]


def save_operator(path, op, names, attrs, inputs, constants, results):
    outputs = [f"y{k}" for k in range(results)]
    save_model(path, [helper.make_node(op, names, outputs, **attrs)],
               {name: (a.dtype, a.shape)
                for name, a in inputs.items()}, outputs, constants)
    for name, a in inputs.items():
        np.save(f"{path}.{name}.npy", a)
    return [word for name in inputs for word in ("-i", f"{name}={path}.{name}.npy")]


def measured_peak(folder):
    source, program = os.path.join(folder, "peak.c"), os.path.join(folder, "peak")
    with open(source, "w") as f:
        f.write(PEAK)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-march=native", "-funroll-loops", "-o", program, source],
                   check=True)
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def bench(args, path, inputs):
    command = [
        args.tgbench, path, "--device", "cpu", "-t",
        str(args.threads), "--budget",
        str(args.budget), "--format", "json", "-q", *inputs
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={"TGRUN_PYTHON": sys.executable, **os.environ})
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["results"][0]["engines"]


def kernel_row(args, path, peak, name, nodes, shape, constants, flops):
    ours, theirs = bench(args, path, save_kernel(path, nodes, shape, constants))
    speed = flops / ours["min"] * 1e-6
    share = f"{speed:8.1f} {speed / peak:8.2f}" if flops else f"{'':8} {'':8}"
    print(
        f"{name:34} {1e3 * ours['min']:10.2f} {1e3 * theirs['min']:15.2f} {theirs['min'] / ours['min']:6.2f} {share}{'' if theirs['agrees'] else '   OUTPUTS DIFFER'}",
        flush=True)
    return theirs["agrees"]


def operator_row(args, path, _, name, *case):
    ours, theirs = bench(args, path, save_operator(path, *case))
    ratio = theirs["ratio"]
    print(
        f"{name:34} {1e3 * ours['median']:10.1f} {1e3 * theirs['median']:15.1f} {ratio['value']:6.2f}  {ratio['low']:.2f}-{ratio['high']:.2f}{'' if theirs['agrees'] else '   OUTPUTS DIFFER'}",
        flush=True)
    return theirs["agrees"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tgbench", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "tgbench"))
    p.add_argument("--budget", type=float, default=3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--operators", action="store_true")
    p.add_argument("names", nargs="*", help="only the rows that contain one of these")
    args = p.parse_args()
    rows, row, columns = (OPERATORS, operator_row, "  95 %") if args.operators else (KERNELS, kernel_row,
                                                                                     f" {'GFLOP/s':>8} {'of peak':>8}")
    wrong = peak = 0
    with tempfile.TemporaryDirectory() as folder:
        if not args.operators:
            peak = measured_peak(folder) * args.threads
            print(f"peak {peak:.0f} GFLOP/s, {args.threads} thread(s)")
        print(
            f"{'operator' if args.operators else 'kernel':34} {'tgrun us':>10} {'onnxruntime us':>15} {'ratio':>6}{columns}"
        )
        for name, *case in rows:
            if not args.names or any(n in name for n in args.names):
                wrong += not row(args, os.path.join(folder, "case.onnx"), peak, name, *case)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
