"""Pipelines whose printed forms are kept. Numbers that a solver made are rounded, so that they
print alike everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold, chi2
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

__all__ = ["PIPELINES", "fitted"]

SIZE = 120


def matrix() -> np.ndarray:
    """Six columns of whole and half numbers; the target follows columns 0 and 3."""
    return np.random.default_rng(0).integers(-8, 9, (SIZE, 6)) / 2.0


def table() -> pd.DataFrame:
    """Two columns of numbers, one with missing values, and two of text."""
    rng, x = np.random.default_rng(1), matrix()
    fare = np.where(rng.random(SIZE) < 0.2, np.nan, x[:, 1])
    return pd.DataFrame(
        {
            "age": x[:, 0],
            "fare": fare,
            "carrier": rng.choice(["AA", "BA", "LH"], SIZE),
            "class": rng.choice(["eco", "first"], SIZE),
        }
    ).astype({"carrier": object, "class": object})


def target(kind: str) -> np.ndarray:
    """Return the target: "two", "three", "text" or "value"."""
    value = 2 * matrix()[:, 0] - matrix()[:, 3]
    if kind == "value":
        return value
    labels = np.digitize(value, [-3, 3] if kind == "three" else [0])
    return np.array(["no", "yes"])[labels] if kind == "text" else labels


def columns(numbers: Any) -> ColumnTransformer:
    """Return a transformer of the table: numbers, and one-hot text."""
    return ColumnTransformer(
        [
            ("num", numbers, ["age", "fare"]),
            ("cat", OneHotEncoder(handle_unknown="ignore"), ["carrier", "class"]),
        ]
    )


def positive() -> np.ndarray:
    """Return the matrix as whole numbers from 0 to 16."""
    return matrix() * 2 + 8


L1 = {"solver": "liblinear", "l1_ratio": 1, "random_state": 0}
BOOSTER = {"n_estimators": 4, "num_leaves": 5, "verbosity": -1, "n_jobs": 1, "deterministic": True}

PIPELINES: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "scale_logistic": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        matrix,
        "three",
    ),
    "robust_ridge": (
        lambda: make_pipeline(SimpleImputer(), RobustScaler(), Ridge()),
        matrix,
        "value",
    ),
    "scale_select_logistic": (
        lambda: make_pipeline(StandardScaler(), SelectKBest(k=2), LogisticRegression()),
        matrix,
        "text",
    ),
    "select_scale_select_logistic": (
        lambda: make_pipeline(
            VarianceThreshold(),
            MinMaxScaler(),
            SelectPercentile(percentile=50),
            LogisticRegression(),
        ),
        matrix,
        "two",
    ),
    "one_hot_select_logistic": (
        lambda: make_pipeline(OneHotEncoder(), SelectKBest(chi2, k=5), LogisticRegression()),
        positive,
        "two",
    ),
    "polynomial_select_ridge": (
        lambda: make_pipeline(PolynomialFeatures(2), SelectKBest(k=4), Ridge()),
        matrix,
        "two",
    ),
    "normalize_select_svc": (
        lambda: make_pipeline(Normalizer(), SelectKBest(k=2), LinearSVC(random_state=0)),
        matrix,
        "two",
    ),
    "l1_logistic": (lambda: LogisticRegression(C=0.05, **L1), matrix, "two"),
    "scale_l1_logistic": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.05, **L1)),
        matrix,
        "two",
    ),
    "polynomial_lasso": (
        lambda: make_pipeline(StandardScaler(), PolynomialFeatures(2), Lasso(alpha=0.5)),
        matrix,
        "value",
    ),
    "pca_logistic": (
        lambda: make_pipeline(StandardScaler(), PCA(2, random_state=0), LogisticRegression()),
        matrix,
        "two",
    ),
    "union_svc": (
        lambda: make_pipeline(
            FeatureUnion([("pca", PCA(2, random_state=0)), ("scale", StandardScaler())]),
            LinearSVC(random_state=0),
        ),
        matrix,
        "three",
    ),
    "bins_ridge": (
        lambda: make_pipeline(KBinsDiscretizer(3, strategy="uniform"), Ridge()),
        matrix,
        "value",
    ),
    "scale_mlp": (
        lambda: make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=5, random_state=0)),
        matrix,
        "text",
    ),
    "sgd_huber": (
        lambda: make_pipeline(
            MinMaxScaler(clip=True), SGDClassifier(loss="modified_huber", random_state=0)
        ),
        matrix,
        "three",
    ),
    "search_ridge": (
        lambda: GridSearchCV(
            make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [1.0]}, cv=2
        ),
        matrix,
        "value",
    ),
    "scale_forest": (
        lambda: make_pipeline(
            StandardScaler(), RandomForestClassifier(3, max_depth=3, random_state=0)
        ),
        matrix,
        "text",
    ),
    "select_hist_boosting": (
        lambda: make_pipeline(
            SelectKBest(k=3), HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=4)
        ),
        matrix,
        "two",
    ),
    "impute_xgboost": (
        lambda: make_pipeline(
            SimpleImputer(), xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1)
        ),
        matrix,
        "two",
    ),
    "columns_logistic": (
        lambda: make_pipeline(
            columns(make_pipeline(SimpleImputer(), StandardScaler())), LogisticRegression()
        ),
        table,
        "text",
    ),
    "columns_lightgbm": (
        lambda: make_pipeline(
            columns(SimpleImputer(strategy="median")), lightgbm.LGBMClassifier(**BOOSTER)
        ),
        table,
        "two",
    ),
    "columns_select_logistic": (
        lambda: make_pipeline(
            columns(make_pipeline(SimpleImputer(), StandardScaler())),
            SelectKBest(k=3),
            LogisticRegression(),
        ),
        table,
        "two",
    ),
    "columns_l1_logistic": (
        lambda: make_pipeline(columns(SimpleImputer()), LogisticRegression(C=0.1, **L1)),
        table,
        "two",
    ),
    "ordinal_forest": (
        lambda: make_pipeline(
            ColumnTransformer(
                [("cat", OrdinalEncoder(), ["carrier", "class"])], remainder=SimpleImputer()
            ),
            RandomForestClassifier(3, max_depth=3, random_state=0),
        ),
        table,
        "two",
    ),
}
"""Name: how to make it, rows to fit on, target."""


def fitted(name: str) -> Any:
    """Fit a pipeline and round what its linear steps learned to two decimals."""
    make, rows, kind = PIPELINES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few steps of a solver are enough here
        pipeline = make().fit(rows(), target(kind))
    _round(pipeline)
    return pipeline


def _round(estimator: Any) -> None:
    for inner in _inner(estimator):
        _round(inner)
    for attribute, value in vars(estimator).items() if hasattr(estimator, "__dict__") else ():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and attribute.endswith("_"):
            setattr(estimator, attribute, value.round(2))
    for layers in (getattr(estimator, "coefs_", []), getattr(estimator, "intercepts_", [])):
        layers[:] = [layer.round(2) for layer in layers]


def _inner(estimator: Any) -> list[Any]:
    steps = (
        getattr(estimator, "steps", None)
        or getattr(estimator, "transformers_", None)
        or getattr(estimator, "transformer_list", None)
        or []
    )
    best = getattr(estimator, "best_estimator_", None)
    return [step[1] for step in steps if not isinstance(step[1], str)] + (
        [] if best is None else [best]
    )
