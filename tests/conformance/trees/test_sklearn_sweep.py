"""Every constructor parameter of scikit-learn's trees, forests and boosting: the converted
model is exact, or refused by name.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import ensemble, tree
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from trees.battery import FEW, check, hostile_rows

from hbconv.errors import UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 4))
X[:, 3] = RNG.integers(0, 6, 150)
VALUE = X[:, 0] + np.isin(X[:, 3], [1, 4]) + 0.2 * RNG.standard_normal(150)
POSITIVE = np.abs(VALUE) + 0.01
TWO = VALUE > 0

ASIDE = {
    "n_jobs": [None, 1], "verbose": [0, 1], "warm_start": [False, True],
    "random_state": [None, 0, 7], "oob_score": [False, True],
}  # fmt: skip
"""Parameters of the fit alone."""

GROWTH = {
    "max_depth": [None, 1, 5],
    "min_samples_split": [2, 0.3],
    "min_samples_leaf": [1, 0.1, 200],
    "min_weight_fraction_leaf": [0.0, 0.2],
    "max_features": [None, "sqrt", "log2", 0.5, 2],
    "max_leaf_nodes": [None, 2, 9],
    "min_impurity_decrease": [0.0, 0.05],
    "ccp_alpha": [0.0, 0.02, 10.0],
}
SINGLE = GROWTH | {
    "splitter": ["best", "random"],
    "monotonic_cst": [None, [1, 0, -1, 0]],
    "random_state": [None, 0],
}
FOREST = (
    GROWTH
    | ASIDE
    | {
        "n_estimators": [1, 9],
        "bootstrap": [True, False],
        "max_samples": [None, 0.5, 20],
        "monotonic_cst": [None, [1, 0, -1, 0]],
    }
)
CLASSES = {
    "criterion": ["gini", "entropy", "log_loss"],
    "class_weight": [None, "balanced", {False: 1.0, True: 3.5}],
}
VALUES = {"criterion": ["squared_error", "absolute_error", "poisson"]}
BOOSTED = GROWTH | {
    "n_estimators": [1, 9],
    "learning_rate": [0.01, 1.0],
    "subsample": [1.0, 0.5],
    "validation_fraction": [0.1, 0.4],
    "n_iter_no_change": [None, 1],
    "tol": [1e-4, 10.0],
    "criterion": ["deprecated", "friedman_mse"],
    **{name: ASIDE[name] for name in ("verbose", "warm_start", "random_state")},
}
HISTOGRAM = {
    "learning_rate": [0.01, 1.0],
    "max_iter": [1, 9],
    "max_leaf_nodes": [None, 2, 9],
    "max_depth": [None, 2],
    "min_samples_leaf": [1, 20, 200],
    "l2_regularization": [0.0, 10.0],
    "max_features": [0.3, 1.0],
    "max_bins": [6, 255],
    "categorical_features": [None, "from_dtype", [3], [False, False, False, True]],
    "monotonic_cst": [None, [1, -1, 0, 0]],
    "interaction_cst": [None, "pairwise", "no_interactions", [{0, 1}]],
    "early_stopping": ["auto", True, False],
    "scoring": ["loss", None],
    "validation_fraction": [0.1, None, 30],
    "n_iter_no_change": [1, 10],
    "tol": [1e-7, 10.0],
    **{name: ASIDE[name] for name in ("verbose", "warm_start", "random_state")},
}
SWEEP: dict[type, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    tree.DecisionTreeClassifier: ({}, SINGLE | CLASSES),
    tree.DecisionTreeRegressor: ({}, SINGLE | VALUES),
    tree.ExtraTreeClassifier: ({}, SINGLE | CLASSES),
    tree.ExtraTreeRegressor: ({}, SINGLE | VALUES),
    ensemble.RandomForestClassifier: (
        {"n_estimators": 4},
        FOREST | CLASSES | {"class_weight": [None, "balanced", "balanced_subsample"]},
    ),
    ensemble.RandomForestRegressor: ({"n_estimators": 4}, FOREST | VALUES),
    ensemble.ExtraTreesClassifier: (
        {"n_estimators": 4},
        FOREST | CLASSES | {"class_weight": [None, "balanced", "balanced_subsample"]},
    ),
    ensemble.ExtraTreesRegressor: ({"n_estimators": 4}, FOREST | VALUES),
    ensemble.GradientBoostingClassifier: (
        {"n_estimators": 4},
        BOOSTED
        | {
            "loss": ["log_loss", "exponential"],
            "init": [
                None,
                "zero",
                DummyClassifier(strategy="stratified"),
                DecisionTreeClassifier(max_depth=2),
            ],
        },
    ),
    ensemble.GradientBoostingRegressor: (
        {"n_estimators": 4},
        BOOSTED
        | {"loss": ["squared_error", "absolute_error", "huber", "quantile"], "alpha": [0.2, 0.9]}
        | {
            "init": [
                None,
                "zero",
                DummyRegressor(strategy="median"),
                DecisionTreeRegressor(max_depth=2),
            ]
        },
    ),
    ensemble.HistGradientBoostingClassifier: (
        {"max_iter": 4},
        HISTOGRAM | {"loss": ["log_loss"], "class_weight": [None, "balanced", {False: 1, True: 3}]},
    ),
    ensemble.HistGradientBoostingRegressor: (
        {"max_iter": 4, "quantile": 0.5},
        HISTOGRAM
        | {
            "loss": ["squared_error", "absolute_error", "gamma", "poisson", "quantile"],
            "quantile": [0.1, 0.7],
        },
    ),
}
"""By class: what all its models share, and the values tried of each parameter."""

NEEDED = {
    "max_samples": {"bootstrap": True},
    "oob_score": {"bootstrap": True},
    "alpha": {"loss": "quantile"},
    "quantile": {"loss": "quantile"},
}
"""What a parameter needs to have an effect."""

REFUSED = {"init=DummyClassifier(strategy='stratified')"}
"""What a prediction draws at random."""


def tried() -> list[Any]:
    """One model for each value."""
    return [
        pytest.param(
            cls, name, value, id=f"{cls.__name__}-{name}={str(value).partition(' at ')[0]}"
        )
        for cls, (_, values) in SWEEP.items()
        for name, some in values.items()
        for value in some
    ]


@pytest.mark.parametrize("cls", SWEEP, ids=lambda cls: cls.__name__)
def test_no_parameter_is_left_out(cls):
    assert set(cls().get_params()) == set(SWEEP[cls][1])


@pytest.mark.share("light")
@pytest.mark.parametrize(("cls", "name", "value"), tried())
@pytest.mark.filterwarnings("ignore")
def test_exact_or_refused(cls, name, value):
    model = cls(**{"random_state": 0} | SWEEP[cls][0] | NEEDED.get(name, {}) | {name: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, TWO if hasattr(cls, "predict_proba") else POSITIVE)
    if f"{name}={value}" in REFUSED:
        with pytest.raises(UnsupportedError, match=f"{cls.__name__} with {name}="):
            parse(model)
        return
    rows = (
        X + 0.5
        if name == "categorical_features"
        else hostile_rows(
            parse(model), np.random.default_rng(1), 120, plain=X, nan=False, infinite=False
        )
    )
    check(model, [X, rows], backends=FEW[:1])
