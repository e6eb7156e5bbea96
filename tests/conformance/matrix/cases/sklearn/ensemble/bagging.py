"""Bagging."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.fitting import Trees, fit
from sklearn import ensemble, linear_model, tree


def bags() -> Iterator[Case]:
    """Bagging of trees, which become one forest, and of others."""
    classifier = "sklearn.ensemble.BaggingClassifier"
    regressor = "sklearn.ensemble.BaggingRegressor"
    make = ensemble.BaggingClassifier
    bagged = {"n_estimators": 5, "max_features": 0.6, "bootstrap_features": True, "random_state": 0}
    yield Trees(classifier, "three text", fit(make(**bagged), "three_text"))
    few = make(tree.DecisionTreeClassifier(max_depth=2), max_samples=4, random_state=0)
    yield Trees(classifier, "members that know some classes", fit(few, "three", missing=True))
    yield Trees(regressor, "one target", fit(ensemble.BaggingRegressor(**bagged), "value"))
    trees = ensemble.BaggingRegressor(n_estimators=5, random_state=0)
    yield Trees(regressor, "two targets, missing values", fit(trees, "values", missing=True))
    logistic = linear_model.LogisticRegression(max_iter=50)
    some = {"n_estimators": 4, "max_features": 0.5, "random_state": 0}
    yield Case(classifier, "linear members", fit(make(logistic, **some), "three_text"))
    yield Case(classifier, "votes", fit(make(linear_model.RidgeClassifier(), **some), "two_text"))
    yield Case(
        classifier, "few rows", fit(make(logistic, max_samples=5, random_state=1), "three_text")
    )
    ridges = ensemble.BaggingRegressor(linear_model.Ridge(), **some)
    yield Case(regressor, "linear members", fit(ridges, "values"))


CASES = (*bags(),)
