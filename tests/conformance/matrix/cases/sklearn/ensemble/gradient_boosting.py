"""Gradient boosting of scikit-learn."""

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


CASES = (*boosted(),)
