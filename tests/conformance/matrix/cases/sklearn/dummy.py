"""Estimators that answer without looking."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import fit
from sklearn import (
    dummy,
)


def dummies() -> Iterator[Case]:
    """Estimators that answer without looking."""
    case = partial(Case, "sklearn.dummy.DummyClassifier", kind="elementwise")
    both = np.stack([target("three"), target("two")], axis=1)
    for strategy in ("prior", "most_frequent"):
        yield case(strategy, fit(dummy.DummyClassifier(strategy=strategy), "three_text"))
        yield case(
            f"{strategy}, two targets",
            lambda strategy=strategy: dummy.DummyClassifier(strategy=strategy).fit(
                fit_rows(), both
            ),
        )
    yield case(
        "constant", fit(dummy.DummyClassifier(strategy="constant", constant="low"), "three_text")
    )
    yield case(
        "constant, two targets",
        lambda: dummy.DummyClassifier(strategy="constant", constant=[2, 3]).fit(fit_rows(), both),
    )
    case = partial(Case, "sklearn.dummy.DummyRegressor", kind="elementwise")
    yield case("mean", fit(dummy.DummyRegressor(), "value"))
    yield case(
        "quantile, two targets",
        fit(dummy.DummyRegressor(strategy="quantile", quantile=0.2), "values"),
    )
    yield case(
        "constant, whole", fit(dummy.DummyRegressor(strategy="constant", constant=3), "value")
    )


CASES = (*dummies(),)
