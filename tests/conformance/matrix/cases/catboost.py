"""CatBoost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import catboost
import numpy as np
from matrix.case import Case
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Trees, fit


def catboost_models() -> Iterator[Case]:
    """CatBoost, as estimators and as the plain model."""
    small = {
        "iterations": 5,
        "depth": 3,
        "verbose": 0,
        "allow_writing_files": False,
        "thread_count": 1,
        "random_seed": 0,
    }
    classifier = partial(catboost.CatBoostClassifier, **small)
    regressor = partial(catboost.CatBoostRegressor, **small)
    yield Trees("catboost.CatBoostClassifier", "two text", fit(classifier(), "two_text"))
    yield Trees(
        "catboost.CatBoostClassifier",
        "two bool, missing values",
        fit(classifier(grow_policy="Depthwise"), "two_bool", missing=True),
    )
    yield Trees("catboost.CatBoostClassifier", "three", fit(classifier(), "three_text"))
    yield Trees(
        "catboost.CatBoostClassifier",
        "one against the rest",
        fit(classifier(loss_function="MultiClassOneVsAll"), "three"),
    )
    yield Trees(
        "catboost.CatBoostClassifier",
        "several labels",
        fit(classifier(loss_function="MultiLogloss"), "labels"),
    )
    yield Trees(
        "catboost.CatBoostRegressor",
        "missing values",
        fit(regressor(nan_mode="Max"), "value", missing=True),
    )
    yield Trees(
        "catboost.CatBoostRegressor",
        "leaf by leaf",
        fit(regressor(grow_policy="Lossguide", max_leaves=6), "value"),
    )
    yield Trees(
        "catboost.CatBoostRegressor",
        "several targets",
        fit(regressor(loss_function="MultiRMSE"), "values"),
    )
    for loss in (
        "Poisson",
        "Tweedie:variance_power=1.5",
        "RMSEWithUncertainty",
        "Quantile:alpha=0.8",
    ):
        yield Trees(
            "catboost.CatBoostRegressor",
            loss.partition(":")[0],
            fit(regressor(loss_function=loss), "positive"),
        )
    listed = regressor(cat_features=["colour", "size"], one_hot_max_size=10)
    yield Trees(
        "catboost.CatBoostRegressor",
        "categories",
        lambda: listed.fit(fit_table(), target("value")),
        rows=table_rows,
    )
    counted = classifier(cat_features=["colour", "size"], one_hot_max_size=2, max_ctr_complexity=2)
    yield Trees(
        "catboost.CatBoostClassifier",
        "statistics of categories",
        lambda: counted.fit(fit_table(), target("two_text")),
        rows=table_rows,
    )
    groups = np.repeat(np.arange(len(target("group"))), target("group"))
    yield Trees(
        "catboost.CatBoostRanker",
        "default",
        fit(catboost.CatBoostRanker(**small), "relevance", group_id=groups),
    )
    yield Trees(
        "catboost.CatBoost",
        "binary",
        fit(catboost.CatBoost({"loss_function": "Logloss", **small}), "two"),
    )


CASES = (*catboost_models(),)
