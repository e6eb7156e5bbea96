"""Gradient boosting over histograms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import Trees, fit
from sklearn import ensemble


def histogram_boosted() -> Iterator[Case]:
    """Gradient boosting over histograms."""
    name = "sklearn.ensemble.{}".format
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


CASES = (*histogram_boosted(),)
