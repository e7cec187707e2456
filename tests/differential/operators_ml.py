"""Operators of ai.onnx.ml."""
import functools

import numpy as np
from onnx import numpy_helper

from draw import ML, is_plain
from table import operator

operator = functools.partial(operator, domain=ML)


def ml(d, op, inputs, outputs=1, **attributes):
    return d.step(op, inputs, outputs, ML, **attributes)


def features(d, op, rank=(2, 2)):
    return d.tensor(d.type(op, 0, ML, is_plain), rank, calm=True, fits=lambda v: v.size)


@operator("ArrayFeatureExtractor")
def array_feature_extractor(d, op):
    x = d.tensor(d.type(op, 0, ML), (1, 3), fits=lambda v: v.size)
    return ml(d, op, [x, d.new(np.int64, (d.int(1, 3),), 0, d.values[x].shape[-1] - 1)])


@operator("Binarizer")
def binarizer(d, op):
    return ml(d, op, [d.tensor(d.type(op, 0, ML))], threshold=d.some(0.5))


@operator("Normalizer")
def normalizer(d, op):
    return ml(d, op, [features(d, op)], norm=d.some(d.pick("MAX", "L1", "L2")))


@operator("Scaler")
def scaler(d, op):
    x = features(d, op)
    n = d.values[x].shape[-1] if d.chance() else 1
    return ml(d, op, [x], offset=[0.5 * k for k in range(n)], scale=[1.5 + k for k in range(n)])


@operator("Imputer")
def imputer(d, op):
    t = d.type(op, 0, ML)
    x = d.new(t, (d.pick(1, 3), d.pick(1, 2, 4)), calm=True)
    n = d.values[x].shape[-1] if d.chance() else 1
    if t.kind == "i":
        return ml(d, op, [x], imputed_value_int64s=list(range(n)), replaced_value_int64=d.int(0, 2))
    d.values[x] = np.where(d.rng.random(d.values[x].shape) < 0.4, t.type(np.nan), d.values[x])
    return ml(d, op, [x], imputed_value_floats=[0.5 * k for k in range(n)], replaced_value_float=float("nan"))


@operator("FeatureVectorizer")
def feature_vectorizer(d, op):
    t, n, widths = d.type(op, 0, ML), d.pick(1, 3), [d.pick(1, 2, 3) for _ in range(d.int(1, 3))]
    return ml(d, op, [d.new(t, (n, w), calm=True) for w in widths], inputdimensions=widths)


@operator("OneHotEncoder")
def one_hot_encoder(d, op):
    if d.chance(0.3):
        return ml(d, op, [d.new(object, d.shape(1, 2))], cats_strings=["a", "the", ""], zeros=d.some(1))
    x = d.new(d.type(op, 0, ML, lambda t: t != object), d.shape(1, 2), 0, 3)
    d.values[x] = np.floor(d.values[x]).astype(d.values[x].dtype)
    return ml(d, op, [x], cats_int64s=[0, 2, 3, 1], zeros=d.some(1))


@operator("LabelEncoder")
def label_encoder(d, op):
    kinds = {"strings": ["a", "b", "the"], "int64s": [0, 2, 4], "floats": [0.5, 1.0, 2.0]}
    types, other = {"strings": object, "int64s": np.int64, "floats":
                    np.float32}, {"strings": "none", "int64s": 9, "floats": 7.5}
    if d.ml == 1:
        x = d.new(d.pick(object, np.int64), d.shape(1, 2), 0, 3)
        return ml(d, op, [x], classes_strings=["a", "b", "the"], default_int64=d.some(9), default_string=d.some("none"))
    source, target = d.pick(*kinds), d.pick(*kinds)
    if d.ml >= 4 and d.chance(0.4):
        a, b = (d.type(op, 0, ML, lambda t: t != object) for _ in range(2))
        tensor = lambda v, t: numpy_helper.from_array(np.array(v, t), "t")
        return ml(d, op, [d.new(a, d.shape(1, 2), 0, 4)], keys_tensor=tensor([0, 2, 4], a),
                  values_tensor=tensor([3, 1, 2], b), default_tensor=tensor([9], b))
    x = d.new(types[source], d.shape(1, 2), *([] if source == "strings" else [0, 4]))
    return ml(
        d, op, [x], **{
            f"keys_{source}": kinds[source], f"values_{target}": kinds[target], f"default_{target[:-1]}":
            d.some(other[target])
        })


@operator("CategoryMapper")
def category_mapper(d, op):
    x = d.new(object, d.shape(1, 2)) if d.chance() else d.new(np.int64, d.shape(1, 2), 0, 4)
    return ml(d, op, [x], cats_strings=["a", "b", "the"], cats_int64s=[1, 2, 4], default_string=d.some("none"),
              default_int64=d.some(-7))


def classes(d, n):
    return dict(classlabels_ints=[7 * k for k in range(n)]) if d.chance() else dict(
        classlabels_strings=[f"c{k}" for k in range(n)])


POST = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


@operator("LinearRegressor")
def linear_regressor(d, op):
    x = features(d, op)
    n, k = d.pick(1, 2), d.values[x].shape[1]
    return ml(d, op, [x], coefficients=numbers(d, n * k), intercepts=d.some([0.5] * n), targets=n,
              post_transform=d.some("NONE"))


@operator("LinearClassifier")
def linear_classifier(d, op):
    x = features(d, op)
    n, k = d.pick(3, 4), d.values[x].shape[1]
    return ml(d, op, [x], 2, coefficients=numbers(d, n * k), intercepts=[0.25 * j for j in range(n)],
              post_transform=d.some(d.pick(*POST)), multi_class=d.some(d.int(0, 1), 0.3), **classes(d, n))


@operator("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def trees(d, op):
    x = d.new(d.type(op, 0, ML, is_plain), (d.pick(1, 2, 5), 3), calm=True)
    kind = "class" if op.endswith("Classifier") else "target"
    targets, count = d.pick(1, 2) if kind == "target" else 3, d.pick(1, 2, 3)
    a = {
        f"nodes_{k}": []
        for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    } | {f"{kind}_{k}": []
         for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        for node in range(7):
            leaf = node > 2
            mode = "LEAF" if leaf else d.pick("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ",
                                              "BRANCH_NEQ") if d.chance(0.3) else "BRANCH_LEQ"
            row = (tree, node, 0 if leaf else d.int(0, 2), 0.0 if leaf else float(d.rng.standard_normal()), mode,
                   0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2)
            for k, v in zip(("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"),
                            row):
                a[f"nodes_{k}"].append(v)
            for target in range(targets if leaf else 0):
                for k, v in zip(("treeids", "nodeids", "ids", "weights"), (tree, node, target, float(d.rng.random()))):
                    a[f"{kind}_{k}"].append(v)
    if kind == "target":
        return ml(d, op, [x], n_targets=targets, aggregate_function=d.some(d.pick("SUM", "AVERAGE", "MIN", "MAX")),
                  base_values=d.some([0.5] * targets), **a)
    labels = dict(classlabels_int64s=[4, 5, 6]) if d.chance() else dict(classlabels_strings=["a", "b", "c"])
    return ml(d, op, [x], 2, post_transform=d.some(d.pick(*POST)), **labels, **a)


def numbers(d, *shape):
    return [float(v) for v in d.rng.standard_normal(shape).ravel()]


def kernel(d):
    kind = d.pick("LINEAR", "POLY", "RBF", "SIGMOID")
    return dict(kernel_type=d.some(kind) if kind == "LINEAR" else kind, kernel_params=[0.4, 0.3, 2.0])


@operator("SVMRegressor")
def svm_regressor(d, op):
    x, n = d.new(d.type(op, 0, ML, is_plain), (d.pick(1, 5), 3), calm=True), d.pick(0, 2, 3)
    if n == 0:
        return ml(d, op, [x], n_supports=0, coefficients=numbers(d, 3), rho=[0.3],
                  **kernel(d) | dict(kernel_type="LINEAR"))
    return ml(d, op, [x], n_supports=n, support_vectors=numbers(d, n, 3), coefficients=numbers(d, n), rho=[0.3],
              one_class=d.some(d.int(0, 1), 0.3), post_transform=d.some("NONE"), **kernel(d))


@operator("SVMClassifier")
def svm_classifier(d, op):
    x, n, each = d.new(d.type(op, 0, ML, is_plain), (d.pick(1, 5), 3), calm=True), d.pick(2, 3), d.pick(1, 2)
    pairs = n * (n - 1) // 2
    chances = dict(prob_a=[-1.0 - k / 4
                           for k in range(pairs)], prob_b=[0.25 * k for k in range(pairs)]) if d.chance(0.3) else {}
    return ml(d, op, [x], 2, vectors_per_class=[each] * n, support_vectors=numbers(d, n * each, 3),
              coefficients=numbers(d, n - 1, n * each), rho=numbers(d, pairs),
              post_transform=d.some(d.pick(*POST), 0.3), **chances, **kernel(d), **classes(d, n))


@operator("TreeEnsemble")
def tree_ensemble(d, op):
    t, targets, trees = d.type(op, 0, ML), d.pick(1, 2), d.pick(1, 2)
    tensor = lambda v: numpy_helper.from_array(np.array(v, t), "t")
    # 6: is the feature one of a list?
    modes = np.array([d.pick(0, 0, 0, 1, 2, 3, 6) for _ in range(3 * trees)], np.uint8)
    lists = [
        v for _ in range(int((modes == 6).sum()))
        for v in (*[float(d.int(-2, 2)) for _ in range(d.int(1, 3))], float("nan"))
    ]
    missing = d.chance(0.3)
    leaves = 4 * trees
    shape = dict(nodes_truenodeids=[v for k in range(trees)
                                    for v in (3 * k + 1, 4 * k, 4 * k + 2)], nodes_trueleafs=[0, 1, 1] * trees,
                 nodes_falsenodeids=[v for k in range(trees) for v in (3 * k + 2, 4 * k + 1, 4 * k + 3)],
                 nodes_falseleafs=[0, 1, 1] * trees)
    x = d.new(t, (d.pick(1, 2, 5), 3), calm=True)
    v = d.values[x] = np.round(d.values[x]) if lists else d.values[x]
    d.values[x] = np.where(d.rng.random(v.shape) < 0.3, t.type(np.nan), v) if missing else v
    more = dict(nodes_missing_value_tracks_true=[d.int(0, 1) for _ in modes] if missing and d.chance() else None,
                membership_values=tensor(lists) if lists else None)
    return ml(d, op, [x], n_targets=targets, tree_roots=[3 * k for k in range(trees)],
              nodes_featureids=[d.int(0, 2) for _ in modes], nodes_modes=numpy_helper.from_array(modes, "m"),
              nodes_splits=tensor(numbers(d, len(modes))),
              leaf_targetids=[d.int(0, targets - 1) for _ in range(leaves)], leaf_weights=tensor(numbers(d, leaves)),
              aggregate_function=d.some(d.pick(0, 1, 2, 3)), post_transform=d.some(0), **shape, **more)
