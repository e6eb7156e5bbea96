"""Files that skl2onnx and onnxmltools write of many estimators, and rows to ask them with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn import (
    cluster,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    mixture,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    random_projection,
    svm,
    tree,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline, make_union

__all__ = ["CASES", "REFUSED", "Case", "exported", "rows_of"]

N_FEATURES = 6


@dataclass(frozen=True, eq=False)
class Case:
    """An estimator to fit and export.

    Parameters
    ----------
    name : str
    make : callable
        Returns the estimator.
    data : str
        Which rows and target it is fitted on.
    options : dict
        Options of skl2onnx.
    """

    name: str
    make: Callable[[], Any]
    data: str
    options: dict[str, Any] = field(default_factory=dict)


@cache
def table(data: str) -> tuple[Any, Any]:
    """Return rows and target."""
    classes = 3 if data in ("three", "texts") else 2
    x, y = make_classification(240, N_FEATURES, n_informative=4, n_classes=classes, random_state=3)
    x = x.astype(np.float32)
    if data == "texts":
        return x, np.array(["ash", "elm", "oak"])[y]
    if data in ("number", "positive", "ones"):
        x = np.abs(x) if data != "number" else x
        return x, (x[:, 0] * 3 + np.sin(x[:, 1]) + (data == "ones") * 2).astype(np.float64)
    if data == "numbers":
        return x, np.stack([x[:, 0] - x[:, 1], x[:, 2] ** 2], axis=1)
    if data == "labels":
        return x, np.stack([y, 1 - y, x[:, 0] > 0], axis=1).astype(np.int64)
    if data == "missing":
        x = x.copy()
        x[::7, 1] = np.nan
        x[::5, 3] = np.nan
        return x, y
    if data == "mixed":
        return _mixed(x), y
    return x, y


def _mixed(x: Any) -> pd.DataFrame:
    colours = np.array(["red", "green", "blue", ""])[(np.abs(x[:, 0]) * 10).astype(int) % 4]
    sizes = (np.abs(x[:, 1]) * 10).astype(np.int64) % 4
    columns = {"a": x[:, 2], "b": x[:, 3], "colour": colours, "size": sizes}
    return pd.DataFrame(columns)


def rows_of(case: Case) -> Any:
    """Return rows to ask with: those of fitting, then the same with small changes and extremes."""
    x, _ = table(case.data)
    if case.data == "mixed":
        return x.iloc[:60].reset_index(drop=True)
    near = np.nextafter(x[:20], np.float32(np.inf))
    far = x[20:30] * np.float32(30)
    zeros = np.zeros((2, x.shape[1]), np.float32)
    zeros[1] = -0.0
    rows = np.concatenate([x[:60], near, far, zeros])
    return np.abs(rows) if case.data in ("positive", "ones") else rows


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "LogisticRegression": linear_model.LogisticRegression,
    "QuantilesLogistic": lambda: make_pipeline(
        preprocessing.QuantileTransformer(n_quantiles=12), linear_model.LogisticRegression()
    ),
    "LogisticRegressionCV": lambda: linear_model.LogisticRegressionCV(
        cv=2, Cs=2, use_legacy_attributes=False, l1_ratios=(0,)
    ),
    "SGDClassifier": lambda: linear_model.SGDClassifier(loss="log_loss", random_state=0),
    "SGDHuber": lambda: linear_model.SGDClassifier(loss="modified_huber", random_state=0),
    "Perceptron": lambda: linear_model.Perceptron(random_state=0),
    "RidgeClassifier": linear_model.RidgeClassifier,
    "SVC": svm.SVC,
    "SVCProbabilities": lambda: svm.SVC(probability=True, random_state=0),
    "SVCPoly": lambda: svm.SVC(kernel="poly"),
    "NuSVC": lambda: svm.NuSVC(nu=0.3),
    "DecisionTree": lambda: tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    "RandomForest": lambda: ensemble.RandomForestClassifier(8, max_depth=5, random_state=0),
    "ExtraTrees": lambda: ensemble.ExtraTreesClassifier(8, max_depth=5, random_state=0),
    "GradientBoosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=6),
    "AdaBoost": lambda: ensemble.AdaBoostClassifier(n_estimators=5, random_state=0),
    "Bagging": lambda: ensemble.BaggingClassifier(n_estimators=4, random_state=0),
    "Voting": lambda: ensemble.VotingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())],
        voting="soft",
        flatten_transform=False,
    ),
    "VotingHard": lambda: ensemble.VotingClassifier(
        [
            ("a", linear_model.LogisticRegression()),
            ("b", naive_bayes.GaussianNB()),
            ("c", tree.DecisionTreeClassifier(max_depth=3)),
        ],
        flatten_transform=False,
    ),
    "Stacking": lambda: ensemble.StackingClassifier(
        [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))],
        cv=2,
    ),
    "Calibrated": lambda: CalibratedClassifierCV(linear_model.LogisticRegression(), cv=2),
    # Scores of trees: those of a sum of logarithms lie beside steps, by the order of its additions.
    "CalibratedIsotonic": lambda: CalibratedClassifierCV(
        tree.DecisionTreeClassifier(max_depth=4, random_state=0), cv=2, method="isotonic"
    ),
    "OneVsRest": lambda: multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "GaussianNB": naive_bayes.GaussianNB,
    "BernoulliNB": naive_bayes.BernoulliNB,
    "MLP": lambda: neural_network.MLPClassifier((8,), max_iter=30, random_state=0),
    "KNN": lambda: neighbors.KNeighborsClassifier(3),
    "KNNMinkowski": lambda: neighbors.KNeighborsClassifier(3, p=3),
    "KNNDistance": lambda: neighbors.KNeighborsClassifier(3, weights="distance"),
    "LDA": discriminant_analysis.LinearDiscriminantAnalysis,
    "QDA": lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
    "ScaledTree": lambda: make_pipeline(
        preprocessing.StandardScaler(), tree.DecisionTreeClassifier(max_depth=4, random_state=0)
    ),
}

REGRESSORS: dict[str, Callable[[], Any]] = {
    "LinearRegression": linear_model.LinearRegression,
    "Ridge": linear_model.Ridge,
    "Lasso": lambda: linear_model.Lasso(alpha=0.1),
    "Huber": linear_model.HuberRegressor,
    "BayesianRidge": linear_model.BayesianRidge,
    "SVR": svm.SVR,
    "NuSVR": lambda: svm.NuSVR(kernel="sigmoid"),
    "LinearSVR": svm.LinearSVR,
    "DecisionTree": lambda: tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    "RandomForest": lambda: ensemble.RandomForestRegressor(8, max_depth=5, random_state=0),
    "ExtraTrees": lambda: ensemble.ExtraTreesRegressor(8, max_depth=5, random_state=0),
    "GradientBoosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=6),
    "AdaBoost": lambda: ensemble.AdaBoostRegressor(n_estimators=4, random_state=0),
    "Bagging": lambda: ensemble.BaggingRegressor(n_estimators=4, random_state=0),
    "Voting": lambda: ensemble.VotingRegressor(
        [("a", linear_model.LinearRegression()), ("b", tree.DecisionTreeRegressor(max_depth=3))]
    ),
    "Stacking": lambda: ensemble.StackingRegressor(
        [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))], cv=2
    ),
    "MLP": lambda: neural_network.MLPRegressor(
        hidden_layer_sizes=(8,), max_iter=30, random_state=0
    ),
    "KNN": lambda: neighbors.KNeighborsRegressor(3),
    "KNNManhattan": lambda: neighbors.KNeighborsRegressor(3, metric="manhattan"),
    "GaussianProcess": gaussian_process.GaussianProcessRegressor,
    "PLS": lambda: cross_decomposition.PLSRegression(2),
    "ScaledRidge": lambda: make_pipeline(preprocessing.MinMaxScaler(), linear_model.Ridge()),
    "Quantile": lambda: linear_model.QuantileRegressor(solver="highs"),
}

POSITIVE: dict[str, Callable[[], Any]] = {
    "Poisson": linear_model.PoissonRegressor,
    "Gamma": linear_model.GammaRegressor,
    "Tweedie": lambda: linear_model.TweedieRegressor(power=1.5),
}

SEVERAL: dict[str, Callable[[], Any]] = {
    "Linear": linear_model.LinearRegression,
    "DecisionTree": lambda: tree.DecisionTreeRegressor(max_depth=4, random_state=0),
    "RandomForest": lambda: ensemble.RandomForestRegressor(5, max_depth=4, random_state=0),
    "MultiOutput": lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()),
    "KNN": lambda: neighbors.KNeighborsRegressor(3),
}

TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "StandardScaler": preprocessing.StandardScaler,
    "MinMaxScaler": lambda: preprocessing.MinMaxScaler(clip=True),
    "MaxAbsScaler": preprocessing.MaxAbsScaler,
    "RobustScaler": preprocessing.RobustScaler,
    "Normalizer": preprocessing.Normalizer,
    "NormalizerL1": lambda: preprocessing.Normalizer("l1"),
    "NormalizerMax": lambda: preprocessing.Normalizer("max"),
    "Binarizer": lambda: preprocessing.Binarizer(threshold=0.3),
    "PolynomialFeatures": lambda: preprocessing.PolynomialFeatures(2),
    "KBins": lambda: preprocessing.KBinsDiscretizer(
        4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"
    ),
    "KBinsOrdinal": lambda: preprocessing.KBinsDiscretizer(
        4, encode="ordinal", quantile_method="averaged_inverted_cdf"
    ),
    "PowerTransformer": preprocessing.PowerTransformer,
    "QuantileTransformer": lambda: preprocessing.QuantileTransformer(n_quantiles=20),
    "PCA": lambda: decomposition.PCA(3),
    "Whitened": lambda: decomposition.PCA(3, whiten=True),
    "TruncatedSVD": lambda: decomposition.TruncatedSVD(3),
    "IncrementalPCA": lambda: decomposition.IncrementalPCA(3),
    "KernelPCA": lambda: decomposition.KernelPCA(3, kernel="rbf"),
    "RandomProjection": lambda: random_projection.GaussianRandomProjection(3, random_state=0),
    "VarianceThreshold": lambda: feature_selection.VarianceThreshold(0.5),
    "SelectKBest": lambda: feature_selection.SelectKBest(k=3),
    "SelectFromModel": lambda: feature_selection.SelectFromModel(linear_model.LogisticRegression()),
    "RFE": lambda: feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=3),
    "Union": lambda: make_union(preprocessing.StandardScaler(), decomposition.PCA(2)),
    "NCA": lambda: neighbors.NeighborhoodComponentsAnalysis(2, random_state=0, max_iter=5),
}

OTHERS: dict[str, Callable[[], Any]] = {
    "KMeans": lambda: cluster.KMeans(3, n_init=1, random_state=0),
    "MiniBatchKMeans": lambda: cluster.MiniBatchKMeans(3, n_init=1, random_state=0),
    "IsolationForest": lambda: ensemble.IsolationForest(n_estimators=6, random_state=0),
    "OneClassSVM": svm.OneClassSVM,
    "SGDOneClassSVM": lambda: linear_model.SGDOneClassSVM(random_state=0),
    "GaussianMixture": lambda: mixture.GaussianMixture(2, reg_covar=0.1, random_state=0),
    "MixtureDiag": lambda: mixture.GaussianMixture(
        2, reg_covar=0.1, covariance_type="diag", random_state=0
    ),
    "BayesianMixture": lambda: mixture.BayesianGaussianMixture(
        n_components=2, reg_covar=0.1, random_state=0
    ),
    "LOF": lambda: neighbors.LocalOutlierFactor(5, novelty=True),
}


def _mixed_pipeline(last: Any) -> Any:
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore")
    parts = [
        ("numbers", preprocessing.StandardScaler(), ["a", "b"]),
        ("texts", encoder, ["colour"]),
        ("sizes", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["size"]),
    ]
    return make_pipeline(ColumnTransformer(parts), last)


def _filled_pipeline(last: Any) -> Any:
    """Fill empty texts with the most frequent one, and encode known categories alone."""
    filler = impute.SimpleImputer(missing_values="", strategy="most_frequent")
    parts = [
        ("numbers", preprocessing.StandardScaler(), ["a", "b"]),
        ("texts", make_pipeline(filler, preprocessing.OneHotEncoder()), ["colour"]),
        ("sizes", preprocessing.OneHotEncoder(), ["size"]),
    ]
    return make_pipeline(ColumnTransformer(parts), last)


def _ordinal_pipeline() -> Any:
    encoder = preprocessing.OrdinalEncoder()
    parts = [("numbers", "passthrough", ["a", "b"]), ("texts", encoder, ["colour"])]
    return make_pipeline(
        ColumnTransformer(parts), tree.DecisionTreeClassifier(max_depth=4, random_state=0)
    )


MIXED: dict[str, Callable[[], Any]] = {
    "Logistic": lambda: _mixed_pipeline(linear_model.LogisticRegression()),
    "Forest": lambda: _mixed_pipeline(
        ensemble.RandomForestClassifier(5, max_depth=4, random_state=0)
    ),
    "Ordinal": _ordinal_pipeline,
    "Filled": lambda: _filled_pipeline(linear_model.LogisticRegression()),
}

MISSING: dict[str, Callable[[], Any]] = {
    "Imputer": impute.SimpleImputer,
    "ImputedLogistic": lambda: make_pipeline(
        impute.SimpleImputer(strategy="median"), linear_model.LogisticRegression()
    ),
    "KNNImputer": lambda: impute.KNNImputer(n_neighbors=3),
}

PLAIN = {"zipmap": False}
LEAF = {"decision_leaf": True, "decision_path": True}


def _cases() -> Iterator[Case]:
    for name, make in CLASSIFIERS.items():
        yield Case(f"{name}-two", make, "two", PLAIN)
        yield Case(f"{name}-texts", make, "texts", PLAIN)
    for name in ("LogisticRegression", "RandomForest", "GaussianNB", "MLP"):
        yield Case(f"{name}-zipmap", CLASSIFIERS[name], "texts")
    yield Case("DecisionTree-leaf", CLASSIFIERS["DecisionTree"], "three", PLAIN | LEAF)
    yield Case("RandomForest-leaf", CLASSIFIERS["RandomForest"], "texts", PLAIN | LEAF)
    yield Case("RandomForest-ints", CLASSIFIERS["RandomForest"], "three")
    raw = {"zipmap": False, "raw_scores": True}
    for name in ("LogisticRegression", "SVC", "GradientBoosting"):
        yield Case(f"{name}-raw", CLASSIFIERS[name], "three", raw)
    for data in ("two", "three"):
        yield Case(f"LinearSVC-{data}", svm.LinearSVC, data)
        yield Case(f"KNNcdist-{data}", CLASSIFIERS["KNN"], data, PLAIN | {"optim": "cdist"})
    for data, makers in (
        ("number", REGRESSORS), ("ones", POSITIVE), ("numbers", SEVERAL), ("two", TRANSFORMERS),
        ("two", OTHERS), ("mixed", MIXED), ("missing", MISSING),
    ):  # fmt: skip
        for name, make in makers.items():
            yield Case(f"{name}-{data}-{_kind(makers)}", make, data)
    yield Case("MultinomialNB", naive_bayes.MultinomialNB, "positive")
    yield Case("ComplementNB", naive_bayes.ComplementNB, "positive")
    linear = multioutput.MultiOutputClassifier(linear_model.LogisticRegression())
    yield Case("LogisticLabels", lambda: linear, "labels", PLAIN)
    yield Case("KNNLabels", CLASSIFIERS["KNN"], "labels", PLAIN)
    yield Case("ForestLabels", CLASSIFIERS["RandomForest"], "labels", PLAIN)


def _kind(makers: dict[str, Any]) -> str:
    names = ((REGRESSORS, "regressor"), (POSITIVE, "positive"), (SEVERAL, "several"),
             (TRANSFORMERS, "transformer"), (OTHERS, "other"), (MIXED, "mixed"))  # fmt: skip
    return next((name for known, name in names if known is makers), "missing")


_REFUSED = ("KNNImputer", "ForestLabels")
"""Estimators whose files compute with the number of rows, or with operators that are not read."""

CASES = tuple(case for case in _cases() if not case.name.startswith(_REFUSED))
REFUSED = tuple(case for case in _cases() if case.name.startswith(_REFUSED))


@cache
def exported(case: Case) -> Any:
    """Fit the estimator and return its ONNX model."""
    from skl2onnx import to_onnx

    x, y = table(case.data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = case.make().fit(
            x, np.digitize(y, [1.0, 3.0]) if "NB" in case.name and y.dtype.kind == "f" else y
        )
        last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        options = {id(last): case.options} if case.options else None
        return to_onnx(estimator, x[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})
