"""Forests of random trees, all comparisons mixed, NaN, infinities and the splits themselves among the rows: each row
gets the sum of the leaves that a walk by hand reaches.

Shapes beside the usual: trees of unlike depths, a tree that is one leaf, a chain deeper than what is unrolled, more
features and nodes than one word of a table holds, a branch whose sides are one node."""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun

MODES = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal, "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal
}
VALUES = [0.0, 0.5, -1.25, 1e-3, 3.0, np.inf, -np.inf, 0.1, 1e300]


def random_tree(rng, depth, features, modes, chain=False):
    """Nodes in any order but the root first: (mode, feature, split, yes, no, missing, weight)."""
    nodes = []

    def grow(level):
        at = len(nodes)
        nodes.append(None)
        if level == depth or (not chain and level and rng.random() < 0.25):
            nodes[at] = ("LEAF", 0, 0.0, 0, 0, 0, round(float(rng.standard_normal()), 3))
            return at
        yes = grow(level + 1)
        no = yes if rng.random() < 0.05 else grow(depth if chain else level + 1)
        nodes[at] = (str(rng.choice(modes)), int(rng.integers(features)), float(rng.choice(VALUES)), yes, no,
                     int(rng.random() < 0.3), 0.0)
        return at
    grow(0)
    return nodes


def model_of(trees, features, missing, wide):
    a = {
        f"nodes_{k}": []
        for k in ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids",
                  "missing_value_tracks_true")
    }
    split, t = [], {f"target_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for k, nodes in enumerate(trees):
        for n, (mode, feature, value, yes, no, nan, weight) in enumerate(nodes):
            for name, v in zip(a, (k, n, feature, mode, yes, no, nan)):
                a[name].append(v)
            split.append(value)
            if mode == "LEAF":
                for name, v in zip(t, (k, n, 0, weight)):
                    t[name].append(v)
    if not missing:
        del a["nodes_missing_value_tracks_true"]
    a |= {"nodes_values_as_tensor": numpy_helper.from_array(np.array(split, "f8"), "")
          } if wide else {"nodes_values": np.array(split, "f4").tolist()}
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **a, **t)
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE if wide else TensorProto.FLOAT, ["n", features])
    graph = helper.make_graph([node], "trees", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20),
                                                   helper.make_opsetid("ai.onnx.ml", 3)]).SerializeToString()


def walked(trees, x, missing):
    out = np.zeros((len(x), 1))
    for nodes in trees:
        for r, row in enumerate(x):
            at = 0
            while nodes[at][0] != "LEAF":
                mode, feature, value, yes, no, nan, _ = nodes[at]
                v = row[feature]
                go = MODES[mode](v, np.asarray(value).astype(x.dtype)) or (missing and nan and np.isnan(v))
                at = yes if go else no
            out[r] += nodes[at][6]
    return out


def cases():
    every = list(MODES)
    for seed, (count, depth, features, modes, missing, wide, chain) in enumerate([
            (1, 0, 3, every, False, False, False), (1, 4, 3, every, True, False, False), (7, 6, 5, every, True, False, False), (20, 5, 4, every, False, False, False), (3, 5, 4, every, True, True, False),
            (30, 5, 6, ["BRANCH_LEQ"], False, False, False), (30, 5, 6, ["BRANCH_LEQ"], True, False, False), (9, 4, 4, ["BRANCH_GT"], False, False, False), (9, 4, 4, ["BRANCH_LT"], True, True, False),
            (60, [2, 3, 7], 6, ["BRANCH_LEQ"], True, False, False), (2, 90, 3, every, True, False, True), (1, 15, 70000, ["BRANCH_LEQ", "BRANCH_GTE"], True, False, False)]):
        rng = np.random.default_rng(seed)
        yield rng, [
            random_tree(rng, depth if isinstance(depth, int) else depth[k % len(depth)], features, modes, chain)
            for k in range(count)
        ], features, missing, wide


def main():
    right = total = 0
    np.seterr(all="ignore")
    for rng, trees, features, missing, wide in cases():
        session = tgrun.InferenceSession(model_of(trees, features, missing, wide))
        for rows in (1, 37) if features < 1000 else (3,):
            x = rng.choice(np.array([*VALUES, np.nan, 0.7, -3.0]), (rows, features)).astype("f8" if wide else "f4")
            want, got = walked(trees, x, missing), session.run(None, {"x": x})[0]
            total += 1
            right += np.allclose(got, want, rtol=1e-5, atol=1e-5)
            if not np.allclose(got, want, rtol=1e-5, atol=1e-5):
                print(
                    f"{len(trees)} trees, {features} features, {rows} rows, missing {missing}, double {wide}: {(abs(got - want) > 1e-5).sum()} rows differ"
                )
    print(f"{right} of {total} draws of rows end at the leaves of a walk by hand")
    return right < total


if __name__ == "__main__":
    sys.exit(main())
