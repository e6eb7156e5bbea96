"""XGBoost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import Trees, fit


def xgboost_models() -> Iterator[Case]:
    """XGBoost, as estimators and as a Booster."""
    small = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "random_state": 0}
    classifier = partial(xgboost.XGBClassifier, **small)
    regressor = partial(xgboost.XGBRegressor, **small)
    yield Trees("xgboost.XGBClassifier", "two", fit(classifier(), "flag"))
    yield Trees(
        "xgboost.XGBClassifier", "three, missing values", fit(classifier(), "three", missing=True)
    )
    yield Trees("xgboost.XGBRegressor", "missing values", fit(regressor(), "value", missing=True))
    for objective in ("count:poisson", "reg:gamma", "reg:tweedie", "reg:logistic"):
        yield Trees(
            "xgboost.XGBRegressor",
            objective,
            fit(regressor(objective=objective), "share" if "logistic" in objective else "positive"),
        )
    yield Trees(
        "xgboost.XGBRanker",
        "default",
        fit(xgboost.XGBRanker(**small), "relevance", group=target("group")),
    )
    yield Trees(
        "xgboost.XGBRegressor",
        "several targets, vector leaves",
        fit(regressor(multi_strategy="multi_output_tree"), "values"),
    )
    yield Trees(
        "xgboost.XGBRegressor",
        "dart, another missing value",
        fit(regressor(booster="dart", rate_drop=0.5, missing=0.0), "value"),
    )
    yield Trees(
        "xgboost.XGBRegressor",
        "linear",
        fit(regressor(booster="gblinear"), "value"),
        methods=("predict", "raw_scores"),
    )
    yield Trees(
        "xgboost.XGBClassifier", "softmax", fit(classifier(objective="multi:softmax"), "three")
    )
    yield Trees("xgboost.XGBClassifier", "several labels", fit(classifier(), "labels"))
    yield Trees(
        "xgboost.XGBModel",
        "logistic",
        fit(xgboost.XGBModel(objective="binary:logistic", **small), "flag"),
    )
    yield Trees(
        "xgboost.Booster", "binary", partial(_xgboost_booster, "binary:logistic", "two_bool")
    )
    yield Trees(
        "xgboost.Booster",
        "multiclass",
        partial(_xgboost_booster, "multi:softprob", "three", num_class=3),
    )


def _xgboost_booster(objective: str, y: str, **more: Any) -> Any:
    settings = {"objective": objective, "max_depth": 3, "nthread": 1, **more}
    return xgboost.train(
        settings, xgboost.DMatrix(fit_rows(), target(y).astype(np.float64)), num_boost_round=5
    )


CASES = (*xgboost_models(),)
