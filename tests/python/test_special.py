"""Inf, NaN and signed zeros in the inputs of the standard's node tests: every device gives them where the interpreter
does.

    test_special.py                    one draw of each case
    test_special.py --draws 20         more, of other places: --seed N

A value that is finite in the interpreter and overflows elsewhere would differ by rights (it sums in double precision),
so no large numbers are mixed in."""
import argparse
import os
import sys
import warnings

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "python")]
sys.dont_write_bytecode = True
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0]
RANDOM = ("random", "bernoulli", "dropout", "training")     # what these give is drawn


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # of the package's own making
        import onnx.backend.test.case.node

        for case in onnx.backend.test.case.node.collect_testcases(None):
            sets, ports = case.data_sets, case.model.graph.input
            if not sets or any(word in case.name
                               for word in RANDOM) or any(p.type.WhichOneof("value") != "tensor_type" for p in ports):
                continue
            inputs = [np.array(x) if isinstance(x, np.ndarray) else None for x in sets[0][0]]
            if all(x is not None for x in inputs) and any(x.dtype == np.float32 and x.size for x in inputs):
                yield case.name, case.model.SerializeToString(), [p.name for p in ports], inputs


def mixed(inputs, rng):
    """A copy with up to three special values in most of the float inputs."""
    inputs = [x.copy() for x in inputs]
    for x in inputs:
        for _ in range(int(rng.integers(1, 4)) if x.dtype == np.float32 and x.size and rng.random() < 0.7 else 0):
            x.flat[int(rng.integers(x.size))] = rng.choice(SPECIAL)
    return inputs


def differs(a, b):
    """How many values are special in one and not, or otherwise, in the other."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return 0
    nan, inf = np.isnan(a) != np.isnan(b), np.isinf(a) | np.isinf(b)
    return int((nan | (inf & ~np.isnan(a) & ~np.isnan(b) & (a != b))).sum())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--draws", type=int, default=1)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu")
    p.add_argument("--only", default="", help="part of a case's name")
    args = p.parse_args()
    ran = failed = refused = 0
    for name, model, ports, inputs in cases():
        if args.only not in name:
            continue
        rng = np.random.default_rng([args.seed, *name.encode()])
        try:
            sessions = [tgrun.InferenceSession(model, device=d) for d in ("reference", args.device)]
            for _ in range(args.draws):
                feed = dict(zip(ports, mixed(inputs, rng)))
                want, got = (s.run(None, feed) for s in sessions)
                ran += 1
                for k, (a, b) in enumerate(zip(want, got)):
                    if n := differs(a, b):
                        failed += 1
                        print(f"{name}: output {k}: {n} of {a.size} values are special on one device alone")
        except tgrun.Error:
            refused += 1                                    # a special value that no size or index can be
    print(f"{refused} cases refuse the values")
    print(f"{ran - failed} of {ran} draws give what the interpreter gives")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
