"""Gradient boosting of scikit-learn, exact and over histograms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import Trees, fit
from sklearn import ensemble


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


CASES = (
    *boosted(),
    *histogram_boosted(),
)
