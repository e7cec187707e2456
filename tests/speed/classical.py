"""Classical models (scikit-learn, LightGBM, XGBoost) beside onnxruntime: same labels, how fast at 1, 1,000 and 100,000
rows, and how long the first run takes with an empty cache.

    classical.py --make DIR             trains all models and writes DIR/NAME.onnx (needs scikit-learn, skl2onnx,
                                        onnxmltools, lightgbm, xgboost)
    classical.py DIR [NAME ..]          one line a model: ratios of onnxruntime's time over ours, milliseconds, first
                                        run; then geometric means
         --rows 1,1000,100000 --threads 2 --seconds 0.2

Both engines run in this process on the same inputs with the same threads, alternating; a time is the least of the
samples' medians. Labels may differ only where onnxruntime's two best scores are equal but for the rounding of
float32."""
import argparse
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "python")]
FEATURES, CLASSES = 20, 3


def estimators():
    """(name, estimator, task); task: class, value, count (inputs not negative), none (a transformer), text
    (categories)."""
    import sklearn.ensemble as e
    import sklearn.linear_model as lin
    import sklearn.naive_bayes as bayes
    import sklearn.neighbors as nb
    import sklearn.preprocessing as pre
    import sklearn.svm as svm
    import sklearn.decomposition as dec
    import sklearn.cluster as cl
    import sklearn.mixture as mix
    import sklearn.neural_network as nn
    import sklearn.discriminant_analysis as da
    import sklearn.gaussian_process as gp
    import sklearn.tree as tree
    import sklearn.multiclass as multi
    import sklearn.feature_selection as fs
    import sklearn.impute as imp
    import sklearn.cross_decomposition as cd
    import lightgbm, xgboost
    t = tree.DecisionTreeClassifier(max_depth=4, random_state=0)
    classes = [
        ("AdaBoostClassifier", e.AdaBoostClassifier(random_state=0)), ("BaggingClassifier", e.BaggingClassifier(random_state=0)), ("BernoulliNB", bayes.BernoulliNB()),
        ("DecisionTreeClassifier", tree.DecisionTreeClassifier(random_state=0)), ("ExtraTreesClassifier", e.ExtraTreesClassifier(random_state=0)), ("GaussianNB", bayes.GaussianNB()),
        ("GradientBoostingClassifier", e.GradientBoostingClassifier(random_state=0)),
        ("KNeighborsClassifier", nb.KNeighborsClassifier()), ("LinearDiscriminantAnalysis", da.LinearDiscriminantAnalysis()), ("LinearSVC", svm.LinearSVC(random_state=0)),
        ("LogisticRegression", lin.LogisticRegression()), ("MLPClassifier", nn.MLPClassifier(random_state=0, max_iter=60)), ("NuSVC", svm.NuSVC(nu=0.3)),
        ("OneVsRestClassifier", multi.OneVsRestClassifier(lin.LogisticRegression())), ("QuadraticDiscriminantAnalysis", da.QuadraticDiscriminantAnalysis()),
        ("RandomForestClassifier", e.RandomForestClassifier(random_state=0)), ("RidgeClassifier", lin.RidgeClassifier()), ("SGDClassifier", lin.SGDClassifier(random_state=0)), ("SVC", svm.SVC()),
        ("StackingClassifier", e.StackingClassifier([("a", t), ("b", lin.LogisticRegression())])), ("VotingClassifier", e.VotingClassifier([("a", t), ("b", lin.LogisticRegression())], voting="soft", flatten_transform=False)),
        ("LGBMClassifier", lightgbm.LGBMClassifier(verbose=-1, random_state=0)), ("XGBClassifier", xgboost.XGBClassifier(random_state=0)),
    ]
    values = [
        ("AdaBoostRegressor", e.AdaBoostRegressor(random_state=0)), ("BaggingRegressor", e.BaggingRegressor(random_state=0)), ("BayesianRidge", lin.BayesianRidge()),
        ("DecisionTreeRegressor", tree.DecisionTreeRegressor(random_state=0)), ("ElasticNet", lin.ElasticNet(alpha=0.01)), ("ExtraTreesRegressor", e.ExtraTreesRegressor(random_state=0)),
        ("GaussianProcessRegressor", gp.GaussianProcessRegressor()), ("GradientBoostingRegressor", e.GradientBoostingRegressor(random_state=0)),
        ("HuberRegressor", lin.HuberRegressor(max_iter=1000)), ("KNeighborsRegressor", nb.KNeighborsRegressor()),
        ("Lasso", lin.Lasso(alpha=0.01)), ("LinearRegression", lin.LinearRegression()), ("LinearSVR", svm.LinearSVR(random_state=0)), ("MLPRegressor", nn.MLPRegressor(random_state=0, max_iter=60)),
        ("NuSVR", svm.NuSVR()), ("PLSRegression", cd.PLSRegression(5)), ("RandomForestRegressor", e.RandomForestRegressor(random_state=0)), ("Ridge", lin.Ridge()), ("SVR", svm.SVR()),
        ("LGBMRegressor", lightgbm.LGBMRegressor(verbose=-1, random_state=0)), ("XGBRegressor", xgboost.XGBRegressor(random_state=0)),
    ]
    counts = [("ComplementNB", bayes.ComplementNB()), ("MultinomialNB", bayes.MultinomialNB())]
    none = [
        ("GaussianMixture", mix.GaussianMixture(3, random_state=0)), ("IsolationForest", e.IsolationForest(random_state=0)), ("KMeans", cl.KMeans(8, random_state=0, n_init=1)),
        ("LocalOutlierFactor", nb.LocalOutlierFactor(novelty=True)), ("MaxAbsScaler", pre.MaxAbsScaler()), ("MinMaxScaler", pre.MinMaxScaler()), ("Normalizer", pre.Normalizer()),
        ("OneClassSVM", svm.OneClassSVM()), ("PCA", dec.PCA(5)), ("PolynomialFeatures", pre.PolynomialFeatures()), ("RobustScaler", pre.RobustScaler()), ("SimpleImputer", imp.SimpleImputer()),
        ("StandardScaler", pre.StandardScaler()), ("TruncatedSVD", dec.TruncatedSVD(5, random_state=0)), ("VarianceThreshold", fs.VarianceThreshold()), ("KBinsDiscretizer", pre.KBinsDiscretizer(encode="ordinal")),
    ]
    text = [("OneHotEncoder", pre.OneHotEncoder(handle_unknown="ignore")), ("OrdinalEncoder", pre.OrdinalEncoder())]
    for task, rows in (("class", classes), ("value", values), ("count", counts), ("none", none), ("text", text)):
        yield from ((name, estimator, task) for name, estimator in rows)


def rows_of(task, n, seed):
    rng = np.random.default_rng(seed)
    if task == "text":
        return np.array([f"category {k}" for k in range(12)], dtype=object)[rng.integers(0, 12, (n, 2))]
    x = rng.standard_normal((n, FEATURES)).astype("f4")
    return np.abs(x) if task == "count" else x


def target_of(task, x):
    if task == "value":
        return x[:, 0] * 2 + np.sin(x[:, 1] * 3) + x[:, 2] * x[:, 3]
    if task == "none" or task == "text":
        return None
    score = np.stack([x[:, k] + x[:, k + 3] * x[:, k + 6] for k in range(CLASSES)])
    return np.argmax(score + np.random.default_rng(3).standard_normal(score.shape) * 0.3, axis=0)


def convert(name, estimator, task):
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType
    if name.startswith("LGBM"):
        return onnxmltools.convert_lightgbm(estimator, initial_types=[("X", FloatTensorType([None, FEATURES]))],
                                            zipmap=False, target_opset=15)
    if name.startswith("XGB"):
        return onnxmltools.convert_xgboost(estimator, initial_types=[("X", FloatTensorType([None, FEATURES]))],
                                           target_opset=15)
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    options = {id(estimator): {"zipmap": False}} if task in ("class", "count") and name != "LinearSVC" else None
    kind = StringTensorType([None, 2]) if task == "text" else FloatTensorType([None, FEATURES])
    return skl2onnx.convert_sklearn(estimator, initial_types=[("X", kind)], options=options,
                                    target_opset={"": 18, "ai.onnx.ml": 3})


def make(folder):
    warnings.simplefilter("ignore")
    for name, estimator, task in estimators():
        x = rows_of(task, 1000, 1)
        y = target_of(task, x)
        try:
            estimator.fit(x) if y is None else estimator.fit(x, y)
            (folder / f"{name}.{task}.onnx").write_bytes(convert(name, estimator, task).SerializeToString())
        except Exception as e:
            print(f"{name}: not converted: {type(e).__name__}: {str(e).splitlines()[0][:120]}", flush=True)


def median_of(run, seconds):
    times, end = [], time.perf_counter() + seconds
    while not times or (time.perf_counter() < end and len(times) < 20000):
        t = time.perf_counter()
        run()
        times.append(time.perf_counter() - t)
    return statistics.median(times)


def beside(ours, theirs, seconds):
    """Least medians of three samples each."""
    samples = [(median_of(ours, seconds / 3), median_of(theirs, seconds / 3)) for _ in range(3)]
    return min(t[0] for t in samples), min(t[1] for t in samples)


def agree(ours, theirs):
    """None, or what differs. Labels may differ where the two best scores are one number but for rounding."""
    for k, (a, b) in enumerate(zip(ours, theirs)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return f"output {k}: shape {a.shape}, onnxruntime {b.shape}"
        if b.dtype.kind in "fc":
            scale = max(1.0, float(np.nanmax(np.abs(b)))) if b.size else 1.0
            bad = ~np.isclose(a, b, rtol=2e-3, atol=1e-4 * scale, equal_nan=True)
            if bad.any():
                return f"output {k}: {int(bad.sum())} of {b.size} differ, {a[bad][0]} for {b[bad][0]}"
        elif (a != b).any():
            rows = np.nonzero((a != b).reshape(len(a), -1).any(axis=1))[0]
            scores = np.asarray(theirs[1],
                                "f4") if len(theirs) > 1 and np.asarray(theirs[1]).dtype.kind == "f" else None
            best = np.sort(scores,
                           axis=-1)[rows] if scores is not None and scores.ndim == 2 and scores.shape[1] > 1 else None
            if best is None or (best[:, -1] - best[:, -2] > 1e-4 * np.abs(best[:, -1])).any():
                return f"output {k}: {len(rows)} labels differ"
    return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", nargs="?", type=pathlib.Path)
    p.add_argument("names", nargs="*")
    p.add_argument("--make", type=pathlib.Path)
    p.add_argument("--rows", default="1,1000,100000")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.2)
    o = p.parse_args()
    if o.make:
        o.make.mkdir(parents=True, exist_ok=True)
        return make(o.make)
    import onnxruntime
    import tgrun
    counts, ratios, wrong, first = [int(n) for n in o.rows.split(",")], {}, [], []
    for path in sorted(o.folder.glob("*.onnx")):
        name, task = path.name.split(".")[:2]
        if o.names and name not in o.names:
            continue
        with tempfile.TemporaryDirectory() as cache:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = o.threads
            theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            mine = tgrun.SessionOptions()
            mine.intra_op_num_threads, mine.cache_dir = o.threads, cache
            line, begin = [f"{name:30}"], time.perf_counter()
            try:
                ours = tgrun.InferenceSession(str(path), mine)
                ours.run(None, {"X": rows_of(task, 1, 5)})
                first.append(time.perf_counter() - begin)
                for n in counts:
                    x = {"X": rows_of(task, n, 7)}
                    why = agree(ours.run(None, x), theirs.run(None, x))
                    if why:
                        wrong.append(f"{name}, {n} rows: {why}")
                    a, b = beside(lambda: ours.run(None, x), lambda: theirs.run(None, x), o.seconds)
                    ratios.setdefault(n, []).append(b / a)
                    line.append(f"{n:7} rows {b / a:6.2f} ({a * 1e3:9.4f} ms)" + (" WRONG" if why else ""))
                line.append(f"first run {first[-1]:6.2f} s")
            except Exception as e:
                wrong.append(f"{name}: {type(e).__name__}: {e}")
                line.append(str(e)[:100])
            print("  ".join(line), flush=True)
    for n, r in ratios.items():
        print(
            f"{n} rows: geometric mean {math.exp(statistics.fmean(map(math.log, r))):.2f} over {len(r)} models, least {min(r):.2f}, below 0.7: {sum(v < 0.7 for v in r)}"
        )
    print(f"first run: median {statistics.median(first):.2f} s, most {max(first):.2f} s")
    for w in wrong:
        print("wrong:", w)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
