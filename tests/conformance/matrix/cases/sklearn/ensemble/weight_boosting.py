"""Adaptive boosting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import Trees, fit
from sklearn import ensemble, linear_model


def ada_boosts() -> Iterator[Case]:
    """Adaptive boosting of trees, which become one forest, and of others."""
    classifier = "sklearn.ensemble.AdaBoostClassifier"
    regressor = "sklearn.ensemble.AdaBoostRegressor"
    make = partial(ensemble.AdaBoostClassifier, n_estimators=8, random_state=0)
    yield Trees(classifier, "three text", fit(make(), "three_text"))
    yield Trees(classifier, "two bool", fit(make(), "two_bool"))
    trees = ensemble.AdaBoostRegressor(n_estimators=8, random_state=0)
    yield Trees(regressor, "default", fit(trees, "value"))
    logistic = linear_model.LogisticRegression(max_iter=50)
    few = {"n_estimators": 4, "random_state": 0}
    linear = ensemble.AdaBoostClassifier(logistic, **few)
    yield Case(classifier, "linear members", fit(linear, "three_text"))
    ridges = ensemble.AdaBoostRegressor(linear_model.Ridge(), **few)
    yield Case(regressor, "linear members", fit(ridges, "value"))


CASES = (*ada_boosts(),)
