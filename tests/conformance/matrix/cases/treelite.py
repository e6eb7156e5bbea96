"""Treelite models that come from other libraries, asked through its own inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import treelite
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, rows, target, with_missing
from sklearn import ensemble


def _ask(model: Any, method: str, x: Any) -> Any:
    calls = {
        "predict": treelite.gtil.predict,
        "raw_scores": partial(treelite.gtil.predict, pred_margin=True),
        "apply": treelite.gtil.predict_leaf,
    }
    return calls[method](model, np.asarray(x), nthread=1)


def _missing_rows(n: int) -> np.ndarray:
    return with_missing(rows(n))


def _lightgbm(y: str, **options: Any) -> Callable[[], Any]:
    small = {"num_leaves": 6, "verbose": -1, "min_data_in_leaf": 5} | options
    categories = options.get("categorical_feature", "auto")
    data = lightgbm.Dataset(with_missing(fit_rows()), target(y), categorical_feature=categories)
    return lambda: treelite.frontend.from_lightgbm(lightgbm.train(small, data, 5))


def _xgboost(y: str, **options: Any) -> Callable[[], Any]:
    data = xgboost.DMatrix(with_missing(fit_rows()), target(y))
    return lambda: treelite.frontend.from_xgboost(
        xgboost.train({"max_depth": 3} | options, data, 4)
    )


def _sklearn(model: Any, y: str) -> Callable[[], Any]:
    return lambda: treelite.sklearn.import_model(model.fit(fit_rows(), target(y)))


def models() -> Iterator[Case]:
    """Links, classes, averages, categories, both dtypes."""
    case = partial(
        Case,
        "treelite.Model",
        kind="trees",
        ask=_ask,
        rows=_missing_rows,
        methods=("predict", "raw_scores", "apply"),
    )
    yield case("LightGBM, two classes", _lightgbm("flag", objective="binary"))
    yield case("LightGBM, counts", _lightgbm("count", objective="poisson"))
    one_vs_all = {"objective": "multiclassova", "num_class": 3}
    yield case("LightGBM, one against all", _lightgbm("three", **one_vs_all))
    categories = {"categorical_feature": [0, 4], "min_data_per_group": 5, "cat_smooth": 1}
    yield case("LightGBM, categories", _lightgbm("value", **categories))
    yield case("XGBoost, three classes", _xgboost("three", objective="multi:softprob", num_class=3))
    yield case("XGBoost, hinge", _xgboost("flag", objective="binary:hinge"))
    few = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
    plain = partial(case, rows=rows)
    yield plain("forest of classes", _sklearn(ensemble.RandomForestClassifier(**few), "three"))
    yield plain("forest of numbers", _sklearn(ensemble.RandomForestRegressor(**few), "value"))
    boosting = ensemble.GradientBoostingClassifier(**few)
    yield plain("gradient boosting", _sklearn(boosting, "three"))
    isolation = ensemble.IsolationForest(n_estimators=4, random_state=0)
    yield plain("isolation forest", _sklearn(isolation, "value"))


CASES = (*models(),)
