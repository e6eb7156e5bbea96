"""Ensembles of estimators of scikit-learn: over trees and over others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.cases.trees import Trees, fit
from matrix.data import fit_rows, with_missing
from sklearn import ensemble, linear_model, tree

__all__ = ["CASES"]


def of_trees() -> Iterator[Case]:
    """Ensembles that become one forest."""
    name = "sklearn.ensemble.{}".format
    isolation = partial(ensemble.IsolationForest, n_estimators=8, random_state=0)
    yield Trees(name("IsolationForest"), "default", lambda: isolation().fit(fit_rows()))
    yield Trees(
        name("IsolationForest"),
        "some columns",
        lambda: isolation(max_features=3, max_samples=40).fit(fit_rows()),
    )
    yield Trees(
        name("IsolationForest"),
        "contamination, missing values",
        lambda: isolation(contamination=0.2).fit(with_missing(fit_rows())),
    )
    yield Trees(
        name("RandomTreesEmbedding"),
        "sparse",
        lambda: ensemble.RandomTreesEmbedding(6, max_depth=3, random_state=0).fit(fit_rows()),
    )
    yield Trees(
        name("RandomTreesEmbedding"),
        "dense",
        lambda: ensemble.RandomTreesEmbedding(4, sparse_output=False, random_state=0).fit(
            fit_rows()
        ),
    )
    yield Trees(
        name("AdaBoostClassifier"),
        "three text",
        fit(ensemble.AdaBoostClassifier(n_estimators=8, random_state=0), "three_text"),
    )
    yield Trees(
        name("AdaBoostClassifier"),
        "two bool",
        fit(ensemble.AdaBoostClassifier(n_estimators=8, random_state=0), "two_bool"),
    )
    yield Trees(
        name("AdaBoostRegressor"),
        "default",
        fit(ensemble.AdaBoostRegressor(n_estimators=8, random_state=0), "value"),
    )
    bagged = {"n_estimators": 5, "max_features": 0.6, "bootstrap_features": True, "random_state": 0}
    yield Trees(
        name("BaggingClassifier"),
        "three text",
        fit(ensemble.BaggingClassifier(**bagged), "three_text"),
    )
    few = ensemble.BaggingClassifier(
        tree.DecisionTreeClassifier(max_depth=2), max_samples=4, random_state=0
    )
    yield Trees(
        name("BaggingClassifier"), "members that know some classes", fit(few, "three", missing=True)
    )
    yield Trees(
        name("BaggingRegressor"), "one target", fit(ensemble.BaggingRegressor(**bagged), "value")
    )
    yield Trees(
        name("BaggingRegressor"),
        "two targets, missing values",
        fit(ensemble.BaggingRegressor(n_estimators=5, random_state=0), "values", missing=True),
    )


def of_others() -> Iterator[Case]:
    """Ensembles read member by member."""
    name = "sklearn.ensemble.{}".format
    logistic, ridge = linear_model.LogisticRegression(max_iter=50), linear_model.Ridge()
    some = {"n_estimators": 4, "max_features": 0.5, "random_state": 0}
    yield Case(
        name("AdaBoostClassifier"),
        "linear members",
        fit(ensemble.AdaBoostClassifier(logistic, n_estimators=4, random_state=0), "three_text"),
    )
    yield Case(
        name("AdaBoostRegressor"),
        "linear members",
        fit(ensemble.AdaBoostRegressor(ridge, n_estimators=4, random_state=0), "value"),
    )
    yield Case(
        name("BaggingClassifier"),
        "linear members",
        fit(ensemble.BaggingClassifier(logistic, **some), "three_text"),
    )
    yield Case(
        name("BaggingClassifier"),
        "votes",
        fit(ensemble.BaggingClassifier(linear_model.RidgeClassifier(), **some), "two_text"),
    )
    yield Case(
        name("BaggingClassifier"),
        "few rows",
        fit(ensemble.BaggingClassifier(logistic, max_samples=5, random_state=1), "three_text"),
    )
    yield Case(
        name("BaggingRegressor"),
        "linear members",
        fit(ensemble.BaggingRegressor(ridge, **some), "values"),
    )


CASES = (*of_trees(), *of_others())
