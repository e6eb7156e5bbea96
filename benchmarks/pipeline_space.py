"""Pipelines of scikit-learn, drawn from a seed: what ``pipelines.py`` times.

Every model takes its turn. The steps before it are drawn: an imputer, a scaler, then polynomial
terms, a selector or a projection. One pipeline in three reads a pandas table with columns of text,
through a ColumnTransformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn import (
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    kernel_approximation,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.pipeline import Pipeline, make_pipeline

__all__ = ["Case", "cases"]

TRAINING_ROWS = 2000
Factory = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A pipeline, not yet fitted, with rows to fit it on and rows to score."""

    name: str
    pipeline: Pipeline
    X: Any
    y: Any
    rows: Any


CLASSIFIERS: dict[str, Factory] = {
    "LogisticRegression": lambda: linear_model.LogisticRegression(max_iter=200),
    "LinearSVC": lambda: svm.LinearSVC(max_iter=200),
    "SGDClassifier": lambda: linear_model.SGDClassifier(
        loss="log_loss", max_iter=50, random_state=0
    ),
    "RidgeClassifier": linear_model.RidgeClassifier,
    "Perceptron": lambda: linear_model.Perceptron(random_state=0),
    "DecisionTreeClassifier": lambda: tree.DecisionTreeClassifier(max_depth=10, random_state=0),
    "RandomForestClassifier": lambda: ensemble.RandomForestClassifier(50, random_state=0),
    "ExtraTreesClassifier": lambda: ensemble.ExtraTreesClassifier(50, max_depth=10, random_state=0),
    "GradientBoostingClassifier": lambda: ensemble.GradientBoostingClassifier(
        n_estimators=50, random_state=0
    ),
    "HistGradientBoostingClassifier": lambda: ensemble.HistGradientBoostingClassifier(
        max_iter=50, random_state=0
    ),
    "AdaBoostClassifier": lambda: ensemble.AdaBoostClassifier(n_estimators=30, random_state=0),
    "SVC rbf": svm.SVC,
    "SVC poly": lambda: svm.SVC(kernel="poly"),
    "KNeighborsClassifier": neighbors.KNeighborsClassifier,
    "GaussianNB": naive_bayes.GaussianNB,
    "BernoulliNB": naive_bayes.BernoulliNB,
    "MLPClassifier": lambda: neural_network.MLPClassifier(
        hidden_layer_sizes=(64, 32), max_iter=20, random_state=0
    ),
    "LinearDiscriminantAnalysis": discriminant_analysis.LinearDiscriminantAnalysis,
    "QuadraticDiscriminantAnalysis": lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(
        reg_param=0.1
    ),
}
REGRESSORS: dict[str, Factory] = {
    "Ridge": linear_model.Ridge,
    "ElasticNet": lambda: linear_model.ElasticNet(alpha=0.1),
    "SGDRegressor": lambda: linear_model.SGDRegressor(max_iter=20, random_state=0),
    "DecisionTreeRegressor": lambda: tree.DecisionTreeRegressor(random_state=0),
    "RandomForestRegressor": lambda: ensemble.RandomForestRegressor(30, random_state=0),
    "GradientBoostingRegressor": lambda: ensemble.GradientBoostingRegressor(
        n_estimators=100, random_state=0
    ),
    "HistGradientBoostingRegressor": lambda: ensemble.HistGradientBoostingRegressor(
        max_iter=100, random_state=0
    ),
    "SVR rbf": svm.SVR,
    "LinearSVR": lambda: svm.LinearSVR(max_iter=200),
    "KNeighborsRegressor": lambda: neighbors.KNeighborsRegressor(weights="distance"),
    "MLPRegressor": lambda: neural_network.MLPRegressor(
        hidden_layer_sizes=(100,), max_iter=20, random_state=0
    ),
}
OTHERS: dict[str, Factory] = {
    "KMeans": lambda: cluster.KMeans(8, n_init=1, random_state=0),
    "IsolationForest": lambda: ensemble.IsolationForest(n_estimators=50, random_state=0),
    "no model": lambda: "passthrough",
}
IMPUTERS: dict[str, Factory] = {
    "mean": impute.SimpleImputer,
    "median": lambda: impute.SimpleImputer(strategy="median"),
    "median, indicator": lambda: impute.SimpleImputer(strategy="median", add_indicator=True),
    "constant": lambda: impute.SimpleImputer(strategy="constant", fill_value=0.0),
    "iterative": lambda: impute.IterativeImputer(max_iter=3, n_nearest_features=5, random_state=0),
}
SCALERS: dict[str, Factory] = {
    "StandardScaler": preprocessing.StandardScaler,
    "MinMaxScaler": preprocessing.MinMaxScaler,
    "RobustScaler": preprocessing.RobustScaler,
    "MaxAbsScaler": preprocessing.MaxAbsScaler,
    "Normalizer": preprocessing.Normalizer,
    "PowerTransformer": preprocessing.PowerTransformer,
    "QuantileTransformer": lambda: preprocessing.QuantileTransformer(
        n_quantiles=100, output_distribution="normal", random_state=0
    ),
    "KBinsDiscretizer": lambda: preprocessing.KBinsDiscretizer(
        encode="onehot-dense", quantile_method="averaged_inverted_cdf"
    ),
    "SplineTransformer": preprocessing.SplineTransformer,
}
MIDDLES: dict[str, Factory] = {
    "PolynomialFeatures": preprocessing.PolynomialFeatures,
    "SelectKBest": lambda: feature_selection.SelectKBest(k=6),
    "SelectPercentile": lambda: feature_selection.SelectPercentile(percentile=40),
    "VarianceThreshold": feature_selection.VarianceThreshold,
    "PCA": lambda: decomposition.PCA(0.9, svd_solver="full"),
    "PCA whiten": lambda: decomposition.PCA(6, whiten=True),
    "Nystroem": lambda: kernel_approximation.Nystroem(gamma=0.05, n_components=50, random_state=0),
}
ENCODERS: dict[str, Factory] = {
    "OneHotEncoder": lambda: preprocessing.OneHotEncoder(
        handle_unknown="ignore", sparse_output=False
    ),
    "OrdinalEncoder": lambda: preprocessing.OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1
    ),
    "TargetEncoder": lambda: preprocessing.TargetEncoder(random_state=0),
}
WIDE = frozenset({"KBinsDiscretizer", "SplineTransformer"})
"""Scalers that make many columns of one: they get few columns, and no polynomial terms follow."""


def cases(count: int, rows: int, seed: int = 0) -> Iterator[Case]:
    """Draw pipelines, and for each a table of its own.

    Parameters
    ----------
    count : int
    rows : int
        Rows to score.
    seed : int
        The same pipelines and tables for the same seed.
    """
    models = _with_lightgbm()
    names = list(models)
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        name = names[number % len(names)]
        yield _case(f"{number:03d}", name, models[name], rows, rng)


def _with_lightgbm() -> dict[str, Factory]:
    """All models; those of LightGBM too, where it is installed."""
    models = CLASSIFIERS | REGRESSORS | OTHERS
    try:
        from lightgbm import LGBMClassifier, LGBMRegressor
    except ImportError:
        return models
    shared = {"n_estimators": 50, "n_jobs": 1, "verbose": -1}
    return models | {
        "LGBMClassifier": lambda: LGBMClassifier(**shared),
        "LGBMRegressor": lambda: LGBMRegressor(**shared),
    }


def _case(number: str, name: str, model: Factory, rows: int, rng: np.random.Generator) -> Case:
    task = (
        "classifier"
        if "Classifier" in name or name in CLASSIFIERS or name == "KMeans"
        else "regressor"
    )
    imputer = _drawn(IMPUTERS, rng, 0.5)
    scaler = _drawn(SCALERS, rng, 1.0 if name == "no model" else 0.8)
    middle = _drawn(
        {k: f for k, f in MIDDLES.items() if scaler not in WIDE or k != "PolynomialFeatures"},
        rng,
        0.5,
    )
    width = int(
        rng.choice(
            (8, 12) if middle == "PolynomialFeatures" or scaler in WIDE else (8, 16, 28, 54, 100)
        )
    )
    dtype = str(rng.choice(("float64", "float64", "float32")))
    X, y = _numbers(TRAINING_ROWS + rows, width, dtype, task, missing=bool(imputer), rng=rng)
    steps = [pool[key]() for pool, key in ((IMPUTERS, imputer), (SCALERS, scaler)) if key]
    encoder = _drawn(ENCODERS, rng, 1 / 3)
    if encoder:
        X, texts = _table(X, y, rng)
        numbers = make_pipeline(*steps) if steps else "passthrough"
        steps = [
            compose.ColumnTransformer(
                [
                    ("numbers", numbers, [c for c in X if c not in texts]),
                    ("texts", ENCODERS[encoder](), texts),
                ]
            )
        ]
    steps += [MIDDLES[middle]()] if middle else []
    about = [
        f"{X.shape[1]} columns",
        dtype,
        "table" if encoder else "",
        f"{len(set(y))} classes" if task == "classifier" else "",
    ]
    parts = " + ".join(filter(None, (imputer, scaler, encoder, middle, name)))
    made = f"{number} {parts} ({', '.join(filter(None, about))})"
    return Case(
        made,
        make_pipeline(*steps, model()),
        X[:TRAINING_ROWS],
        y[:TRAINING_ROWS],
        X[TRAINING_ROWS:],
    )


def _drawn(pool: dict[str, Factory], rng: np.random.Generator, share: float) -> str:
    """Return one of the names with probability ``share``, else an empty text."""
    chosen = str(rng.choice(list(pool)))
    return chosen if rng.random() < share else ""


def _numbers(
    rows: int, width: int, dtype: str, task: str, *, missing: bool, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Draw correlated columns of different scales, every fourth skewed, and a target."""
    hidden = rng.standard_normal((rows, 5))
    x = hidden @ rng.standard_normal((5, width)) + rng.standard_normal((rows, width))
    score = x[:, :5] @ rng.standard_normal(5) + x[:, 0] * x[:, 1] + rng.standard_normal(rows)
    x[:, ::4] = np.exp(x[:, ::4] / 3)
    x *= 10.0 ** rng.integers(-1, 2, width)
    if missing:
        x[rng.random(x.shape) < 0.05] = np.nan
    if task == "regressor":
        return x.astype(dtype), score / score.std()
    classes = int(rng.choice((2, 2, 3, 5)))
    return x.astype(dtype), np.searchsorted(
        np.quantile(score, np.arange(1, classes) / classes), score
    )


def _table(x: Any, y: Any, rng: np.random.Generator) -> tuple[pd.DataFrame, list[str]]:
    """Return a table of the columns and three text columns, as objects or pandas categories."""
    table = pd.DataFrame(x, columns=[f"number_{i}" for i in range(x.shape[1])])
    dtype = str(rng.choice(("object", "category")))
    for size in (4, 20, 150):
        codes = (rng.integers(0, size, len(x)) + (y > np.median(y))) % size
        table[f"text_{size}"] = pd.Series(
            np.array([f"value {i}" for i in range(size)], object)[codes], dtype=dtype
        )
    return table, [f"text_{size}" for size in (4, 20, 150)]
