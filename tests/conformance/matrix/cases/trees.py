"""Trees of scikit-learn, LightGBM, XGBoost and CatBoost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, fit_table, table_rows, target, with_missing
from sklearn import ensemble, tree

Trees = partial(Case, kind="trees")


def fit(estimator: Any, y: str, *, missing: bool = False, **options: Any) -> Callable[[], Any]:
    """Return a function that fits the estimator."""
    x = with_missing(fit_rows()) if missing else fit_rows()
    return lambda: estimator.fit(x, target(y), **options)


def averaged() -> Iterator[Case]:
    """Single trees and averages of trees."""
    families = {
        "tree.DecisionTree": partial(_make, tree, "DecisionTree", max_depth=6, random_state=0),
        "tree.ExtraTree": partial(_make, tree, "ExtraTree", max_depth=6, random_state=0),
        "ensemble.RandomForest": partial(
            _make, ensemble, "RandomForest", n_estimators=6, max_depth=5, random_state=0
        ),
        "ensemble.ExtraTrees": partial(
            _make, ensemble, "ExtraTrees", n_estimators=6, max_depth=5, random_state=0
        ),
    }
    for name, make in families.items():
        full = "sklearn." + name
        yield Trees(full + "Classifier", "three text", fit(make("Classifier"), "three_text"))
        yield Trees(full + "Classifier", "three labels a row", fit(make("Classifier"), "labels"))
        yield Trees(
            full + "Classifier",
            "two bool, missing values",
            fit(make("Classifier"), "two_bool", missing=True),
        )
        yield Trees(full + "Regressor", "one target", fit(make("Regressor"), "value"))
        yield Trees(
            full + "Regressor",
            "two targets, missing values",
            fit(make("Regressor"), "values", missing=True),
        )
        yield Trees(
            full + "Regressor", "one leaf", fit(make("Regressor", min_samples_leaf=200), "value")
        )
    yield Trees(
        "sklearn.tree.DecisionTreeClassifier", "entropy, weights", fit(make_entropy(), "two")
    )
    yield Trees(
        "sklearn.tree.DecisionTreeRegressor",
        "poisson",
        fit(tree.DecisionTreeRegressor(criterion="poisson", max_depth=4), "count"),
    )


def make_entropy() -> Any:
    """Return a tree with unequal class weights."""
    return tree.DecisionTreeClassifier(
        criterion="entropy", class_weight={3: 1.0, 7: 2.5}, max_depth=4, random_state=0
    )


def _make(module: Any, family: str, kind: str, **settings: Any) -> Any:
    return getattr(module, family + kind)(**settings)


def boosted() -> Iterator[Case]:
    """Gradient boosting of scikit-learn."""
    name = "sklearn.ensemble.{}".format
    classifier = partial(
        ensemble.GradientBoostingClassifier, n_estimators=5, max_depth=3, random_state=0
    )
    regressor = partial(
        ensemble.GradientBoostingRegressor, n_estimators=5, max_depth=3, random_state=0
    )
    case = partial(Trees, name("GradientBoostingClassifier"))
    yield case("two", fit(classifier(), "two"))
    yield case("three text", fit(classifier(), "three_text"))
    yield case("exponential", fit(classifier(loss="exponential"), "two"))
    yield case("start at zero", fit(classifier(init="zero"), "three"))
    yield case(
        "start from a forest",
        fit(
            classifier(init=ensemble.RandomForestClassifier(3, max_depth=3, random_state=0)),
            "three",
        ),
    )
    yield Trees(name("GradientBoostingRegressor"), "squared error", fit(regressor(), "value"))
    yield Trees(
        name("GradientBoostingRegressor"),
        "quantile",
        fit(regressor(loss="quantile", alpha=0.8), "value"),
    )
    yield Trees(
        name("GradientBoostingRegressor"), "start at zero", fit(regressor(init="zero"), "value")
    )
    classifier = partial(
        ensemble.HistGradientBoostingClassifier, max_iter=5, max_leaf_nodes=8, random_state=0
    )
    regressor = partial(
        ensemble.HistGradientBoostingRegressor, max_iter=5, max_leaf_nodes=8, random_state=0
    )
    yield Trees(name("HistGradientBoostingClassifier"), "two text", fit(classifier(), "two_text"))
    yield Trees(
        name("HistGradientBoostingClassifier"),
        "three, missing values",
        fit(classifier(), "three", missing=True),
    )
    yield Trees(
        name("HistGradientBoostingRegressor"),
        "squared error, missing values",
        fit(regressor(), "value", missing=True),
    )
    yield Trees(
        name("HistGradientBoostingRegressor"),
        "categories",
        fit(regressor(categorical_features=[0, 4]), "value", missing=True),
    )
    yield Trees(
        name("HistGradientBoostingRegressor"), "poisson", fit(regressor(loss="poisson"), "count")
    )
    yield Trees(
        name("HistGradientBoostingRegressor"), "gamma", fit(regressor(loss="gamma"), "positive")
    )


def lightgbm_models() -> Iterator[Case]:
    """LightGBM, as estimators and as a Booster."""
    small = {
        "n_estimators": 5,
        "num_leaves": 7,
        "min_child_samples": 5,
        "verbosity": -1,
        "n_jobs": 1,
        "random_state": 0,
    }
    classifier, regressor = (
        partial(lightgbm.LGBMClassifier, **small),
        partial(lightgbm.LGBMRegressor, **small),
    )
    yield Trees("lightgbm.LGBMClassifier", "two text", fit(classifier(), "two_text"))
    yield Trees(
        "lightgbm.LGBMClassifier",
        "three, missing values",
        fit(classifier(), "three_text", missing=True),
    )
    yield Trees("lightgbm.LGBMClassifier", "two", fit(classifier(), "two"))
    yield Trees(
        "lightgbm.LGBMClassifier",
        "one against the rest",
        fit(classifier(objective="multiclassova"), "three"),
    )
    yield Trees("lightgbm.LGBMRegressor", "missing values", fit(regressor(), "value", missing=True))
    for objective in ("poisson", "gamma", "tweedie", "quantile"):
        yield Trees(
            "lightgbm.LGBMRegressor", objective, fit(regressor(objective=objective), "positive")
        )
    yield Trees(
        "lightgbm.LGBMModel",
        "regression",
        fit(lightgbm.LGBMModel(objective="regression", **small), "value"),
    )
    yield Trees(
        "lightgbm.LGBMRanker",
        "default",
        fit(lightgbm.LGBMRanker(**small), "relevance", group=target("group")),
    )
    yield Trees("lightgbm.Booster", "binary", partial(_lightgbm_booster, "binary", "two_bool"))
    yield Trees(
        "lightgbm.Booster",
        "multiclass",
        partial(_lightgbm_booster, "multiclass", "three", num_class=3),
    )


def _lightgbm_booster(objective: str, y: str, **more: Any) -> Any:
    settings = {"objective": objective, "num_leaves": 7, "verbosity": -1, "num_threads": 1, **more}
    return lightgbm.train(
        settings, lightgbm.Dataset(fit_rows(), target(y).astype(np.float64)), num_boost_round=5
    )


def xgboost_models() -> Iterator[Case]:
    """XGBoost, as estimators and as a Booster."""
    small = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "random_state": 0}
    classifier, regressor = (
        partial(xgboost.XGBClassifier, **small),
        partial(xgboost.XGBRegressor, **small),
    )
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
    classifier, regressor = (
        partial(catboost.CatBoostClassifier, **small),
        partial(catboost.CatBoostRegressor, **small),
    )
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


CASES = (*averaged(), *boosted(), *lightgbm_models(), *xgboost_models(), *catboost_models())
