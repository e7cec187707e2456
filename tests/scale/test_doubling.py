#!/usr/bin/env python3
"""A value that each iteration uses twice, 48 iterations deep, before and behind what kernels are made of: whoever walks
such a graph as a tree takes 2^48 steps. From model to source in seconds each."""
import os, subprocess, sys, tempfile
import onnx
from onnx import parser

ITERATIONS, SECONDS = 48, 20


def iterations(step, x, y):
    """y = step^ITERATIONS(x); {0} is the value before, {1} that behind, {2} a name of its own."""
    names = [x] + [f"{y}_{k}" for k in range(1, ITERATIONS)] + [y]
    return " ".join(step.format(names[k], names[k + 1], f"{y}t{k}") for k in range(ITERATIONS))


WAVE, FLIP = "{2} = Tanh({0}) {1} = Add({2}, {0})", "{2} = Not({0}) {1} = Xor({2}, {0})"
PLACE = "{2} = Add({0}, one) {2}m = Mul({2}, {0}) {1} = Mod({2}m, five)"
CASES = {                   # inputs, what makes y [a, b]
    "what is summed": ("float[8,8] x", iterations(WAVE, "x", "r") + " y = ReduceSumSquare<axes = [1]>(r)"),
    "random numbers that are summed": ("float[8,8] x", "y = RandomNormalLike<seed = 1.0>(x) y2 = ReduceSumSquare<axes = [1]>(y)"),
    "a product's operands": ("float[8,8] x", iterations(WAVE, "x", "r") + " q = Transpose(r) y = MatMul(r, q)"),
    "what follows a product": ("float[8,8] x", "q = MatMul(x, x) " + iterations(WAVE, "q", "y")),
    "row statistics": ("float[8,8] x", iterations(WAVE, "x", "r") + " y = Softmax<axis = 1>(r)"),
    "places": ("int64[6] i, float[8,8] x", iterations(PLACE, "i", "r") + " y = Gather(x, r)"),
    "what lies at places": ("int64[6] i, float[8,8] x", iterations(WAVE, "x", "r") + " y = Gather(r, i)"),
    "places that are written": ("int64[3,8] i, float[8,8] x, float[3,8] u", iterations(PLACE, "i", "r") + " y = ScatterElements(x, r, u)"),
    "conditions": ("bool[8,8] c, float[8,8] x", iterations(FLIP, "c", "r") + " n = Neg(x) y = Where(r, x, n)"),
    "a branch": ("bool c, float[8,8] x", iterations(WAVE, "x", "r") + " y = If(c)<then_branch = g1 () => (float[8,8] a) { a = Softmax(r) }, else_branch = g2 () => (float[8,8] b) { b = Neg(r) }>"),
    "a body": ("int64 m, float[8,8] x", "y = Loop(m, , x) <body = b (int64 it, bool ci, float[8,8] v) => (bool co, float[8,8] o) { co = Identity(ci) " + iterations(WAVE, "v", "o") + " }>"),
    "running sums": ("float[8,8] x", iterations(WAVE, "x", "r") + " y = CumSum(r, one)"),
    "a host function's argument": ("bool[8,8] c", iterations(FLIP, "c", "r") + " y0 = NonZero(r) y = Cast<to = 1>(y0)"),
    "quantised values": ("float[8,8] x, uint8[8,8] q", iterations(WAVE, "x", "r") + " s, scale, zero = DynamicQuantizeLinear(r) y0 = MatMulInteger(s, q) y = Cast<to = 1>(y0)"),
}


def check(folder, name, inputs, body):
    path, out = os.path.join(folder, "model.onnx"), "y2" if "y2 =" in body else "y"
    onnx.save(
        parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[a, b] {out}) <int64 one = {{1}}, int64 five = {{5}}> {{ {body} }}'
        ), path)
    try:
        p = subprocess.run([os.environ["TGRUN_PROGRAM"], "dump", path, "--stage", "source", "-d", "cpu"],
                           capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{name}: no end after {SECONDS} s")
        return False
    if p.returncode:
        print(f"{name}: {p.stderr.strip()[-300:]}")
    return not p.returncode


with tempfile.TemporaryDirectory() as folder:
    right = sum(check(folder, name, *case) for name, case in CASES.items())
print(f"{right} of {len(CASES)} graphs right")
sys.exit(right != len(CASES))
