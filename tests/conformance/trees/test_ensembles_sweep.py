"""Every constructor parameter of scikit-learn's ensembles of estimators: the converted model
answers to the last bit.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from trees.battery import FEW, check, hostile_rows

from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 5))
VALUE = X[:, 0] - X[:, 1] + 0.3 * RNG.standard_normal(120)
LABELS = np.array(["ash", "birch", "cedar"])[np.digitize(VALUE, [-1, 1])]

STATES = [0, 7, np.random.RandomState(3)]
CLASSIFIERS = [
    None,
    DecisionTreeClassifier(max_depth=4),
    ExtraTreeClassifier(max_features=1),
    RandomForestClassifier(3, max_depth=3),
]
REGRESSORS = [
    None,
    DecisionTreeRegressor(criterion="absolute_error", max_depth=4),
    ExtraTreeRegressor(),
    RandomForestRegressor(3, max_depth=3),
]

BAGGING: dict[str, list[Any]] = {
    "n_estimators": [1, 2, 13],
    "max_samples": [None, 0.3, 1.0, 2, 40],
    "max_features": [1.0, 0.5, 1, 3, 5],
    "bootstrap": [True, False],
    "bootstrap_features": [False, True],
    "oob_score": [False, True],
    "warm_start": [False, True],
    "n_jobs": [
        None,
        1,
    ],  # With more jobs the source adds up the sums of each, so that its own answers hang on their number.
    "random_state": STATES,
    "verbose": [0],
}

SWEEP: dict[type, dict[str, list[Any]]] = {
    IsolationForest: {
        "n_estimators": [1, 2, 30],
        "max_samples": ["auto", 1, 2, 7, 0.2, 1.0],
        "contamination": ["auto", 0.01, 0.25, 0.5],
        "max_features": [1.0, 0.5, 1, 3, 5],
        "bootstrap": [False, True],
        "n_jobs": [None, 1],
        "random_state": STATES,
        "verbose": [0],
        "warm_start": [False, True],
    },
    AdaBoostClassifier: {
        "estimator": CLASSIFIERS,
        "n_estimators": [1, 2, 20],
        "learning_rate": [0.01, 1.0, 3.0],
        "random_state": STATES,
    },
    AdaBoostRegressor: {
        "estimator": REGRESSORS,
        "n_estimators": [1, 2, 20],
        "learning_rate": [0.01, 1.0, 3.0],
        "loss": ["linear", "square", "exponential"],
        "random_state": STATES,
    },
    BaggingClassifier: {"estimator": CLASSIFIERS, **BAGGING},
    BaggingRegressor: {"estimator": REGRESSORS, **BAGGING},
    RandomTreesEmbedding: {
        "n_estimators": [1, 2, 13],
        "max_depth": [5, 1, None],
        "min_samples_split": [2, 20, 0.3],
        "min_samples_leaf": [1, 100, 0.1],
        "min_weight_fraction_leaf": [0.0, 0.2],
        "max_leaf_nodes": [None, 2, 9],
        "min_impurity_decrease": [0.0, 0.01],
        "sparse_output": [True, False],
        "n_jobs": [None, 1],
        "random_state": STATES,
        "verbose": [0],
        "warm_start": [False, True],
    },
}


@pytest.mark.parametrize("cls", SWEEP, ids=lambda cls: cls.__name__)
def test_no_parameter_is_left_out(cls):
    assert set(SWEEP[cls]) == set(cls().get_params(deep=False))


@pytest.mark.parametrize(
    ("cls", "parameter", "value"),
    [
        pytest.param(cls, p, v, id=f"{cls.__name__}-{p}-{i}")
        for cls, settings in SWEEP.items()
        for p, values in settings.items()
        for i, v in enumerate(values)
    ],
)
@pytest.mark.share("sweep")
def test_answers_as_the_source(cls, parameter, value):
    model = cls(**{"n_estimators": 12, "random_state": 0, parameter: value})
    target = LABELS if cls in (AdaBoostClassifier, BaggingClassifier) else VALUE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Some rows are in no bag.
        model.fit(X, target)
    if parameter == "warm_start" and value:
        model.set_params(n_estimators=15).fit(X, target)
    graph, finite = parse(model), cls in (AdaBoostClassifier, AdaBoostRegressor)
    rows = [
        hostile_rows(
            graph, RNG, 150, dtype, plain=X, nan=not finite, infinite=cls is IsolationForest
        )
        for dtype in ("float64", "float32")
    ]
    powers = (
        {
            "transformed": ("score_samples", "decision_function"),
            "largest": {"decision_function": model.offset_},
        }
        if cls is IsolationForest
        else {}
    )
    check(model, rows, backends=FEW, **powers)
