"""Every constructor parameter of XGBoost's estimators, at a few values: the converted model is
exact.
"""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from trees.battery import FEW, check, hostile_rows
from trees.test_xgboost_battery import ask

from hbconv.parse import parse

CLASSES = (
    xgb.XGBModel,
    xgb.XGBRegressor,
    xgb.XGBClassifier,
    xgb.XGBRanker,
    xgb.XGBRFRegressor,
    xgb.XGBRFClassifier,
)
REGRESSORS = ("XGBModel", "XGBRegressor", "XGBRFRegressor")

VALUES: dict[str, list[Any]] = {
    "base_score": [0.3, 0.7],
    "booster": ["gbtree", "dart", "gblinear"],
    "callbacks": [[xgb.callback.LearningRateScheduler(lambda iteration: 0.5 / (iteration + 1))]],
    "colsample_bylevel": [0.5],
    "colsample_bynode": [0.5],
    "colsample_bytree": [0.5],
    "device": ["cpu"],
    "early_stopping_rounds": [1],
    "enable_categorical": [True],
    "eval_metric": ["mae", ["mae", "rmse"]],
    "feature_types": [["q", "float", "int", "c"]],
    "feature_weights": [np.array([0.1, 1.0, 2.0, 3.0])],
    "gamma": [0.5, 1e9],
    "grow_policy": ["depthwise", "lossguide"],
    "importance_type": ["weight"],
    "interaction_constraints": ["[[0, 1], [2, 3]]"],
    "learning_rate": [0.01, 1.0],
    "max_bin": [3, 64],
    "max_cat_threshold": [2],
    "max_cat_to_onehot": [1, 10],
    "max_delta_step": [0.3],
    "max_depth": [0, 1, 7],
    "max_leaves": [2, 9],
    "min_child_weight": [0.0, 30.0],
    "missing": [np.nan, 0.0, -1.0, 2.5, np.inf],
    "monotone_constraints": [(1, -1, 0, 0), "(0,1,0,0)"],
    "multi_strategy": ["one_output_per_tree", "multi_output_tree"],
    "n_estimators": [0, 1, 12],
    "n_jobs": [1],
    "num_parallel_tree": [1, 4],
    "objective": [
        "reg:squarederror",
        "binary:logistic",
        "multi:softprob",
        "multi:softmax",
        "rank:ndcg",
    ],
    "random_state": [3],
    "reg_alpha": [0.5],
    "reg_lambda": [0.0, 9.0],
    "sampling_method": ["uniform"],
    "scale_pos_weight": [3.0],
    "subsample": [0.5],
    "tree_method": ["exact", "approx", "hist"],
    "validate_parameters": [True],
    "verbosity": [0],
}

UNFIT = {
    **{("objective", objective, "XGBRanker"): "please use XGBRanker" for objective in VALUES["objective"][:-1]},
    **{(parameter, value, cls): words for cls in ("XGBRFRegressor", "XGBRFClassifier") for parameter, value, words in (
        ("callbacks", str(VALUES["callbacks"][0]), "are not implemented"),
        ("early_stopping_rounds", "1", "are not implemented"),
        ("n_estimators", "0", "num_parallel_tree should be greater equal to 1"),
        ("tree_method", "exact", "column sample by node is not yet supported"),
    )},
}  # fmt: skip
"""What the source itself refuses, with its words."""


@cache
def data() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows with whole numbers and holes, and a target for each kind of estimator."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((240, 4))
    x[:, 2], x[:, 3] = rng.integers(-3, 4, 240), rng.integers(0, 5, 240)
    x[rng.random((240, 4)) < 0.1] = np.nan
    value = np.nan_to_num(x[:, 0]) + (np.nan_to_num(x[:, 3]) % 2) + 0.3 * rng.standard_normal(240)
    return x, {
        "regressor": value,
        "binary": (value > 0.5).astype(int),
        "three": np.digitize(value, [0, 1]),
    }


def fit(cls: Any, parameters: dict[str, Any]) -> Any:
    """Fit with what the parameters call for: validation rows, no missing values, groups,
    several targets.
    """
    x, targets = data()
    objective = parameters.get("objective", "")
    kind = (
        "three"
        if objective.startswith("multi")
        else "regressor"
        if cls.__name__ in REGRESSORS
        else "binary"
    )
    y = targets["binary" if objective in ("binary:logistic", "rank:ndcg") else kind]
    settings = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1, **parameters}
    if objective.startswith("multi"):
        settings |= {"num_class": 3}
    if (
        "feature_types" in parameters
        or "max_cat_threshold" in parameters
        or "max_cat_to_onehot" in parameters
    ):
        settings |= {"enable_categorical": True, "feature_types": ["q", "q", "q", "c"]}
    if "multi_strategy" in parameters and cls is not xgb.XGBRanker:
        y = np.stack([y, y[::-1]], axis=1)
    if np.isinf(parameters.get("missing", 0)):
        x = np.where(np.isnan(x), np.inf, x)
    more: dict[str, Any] = (
        {"eval_set": [(x, y)], "verbose": False}
        if "early_stopping_rounds" in parameters or "eval_metric" in parameters
        else {}
    )
    if cls is xgb.XGBRanker:
        more |= {"group": [100, 140]} | ({"eval_group": [[100, 140]]} if more else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**settings).fit(x, y, **more)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_parameter_is_left_out(cls):
    """Neither of those that the estimator shows, nor of those that its constructors take."""
    named = {
        name
        for base in cls.__mro__
        if base.__module__.startswith("xgboost")
        for name in inspect.signature(base).parameters
    }
    assert set(cls().get_params()) | named - {"kwargs"} == set(VALUES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize(
    ("parameter", "value"),
    [(p, v) for p, values in VALUES.items() for v in values],
    ids=lambda v: str(v)[:20],
)
@pytest.mark.share("sweep")
def test_every_value_is_exact(cls, parameter, value):
    """Leaves, raw scores and predictions, with hostile rows."""
    refused = UNFIT.get((parameter, str(value), cls.__name__))
    if refused:
        with pytest.raises((NotImplementedError, ValueError), match=refused):
            fit(cls, {parameter: value})
        return
    model = fit(cls, {parameter: value})
    rng = np.random.default_rng(1)
    infinite = model.booster != "gblinear"
    rows = [
        hostile_rows(parse(model), rng, 60, dtype, plain=data()[0], infinite=infinite)
        for dtype in ("float64", "float32")
    ]
    # multi:softmax: the wrapper takes the softmax in numpy's float32, whose exponential is good to
    # 2 units.
    check(
        model, rows, backends=FEW, ask=ask, loose=2.0 if model.objective == "multi:softmax" else 1.0
    )
