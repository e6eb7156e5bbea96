"""Frozen estimators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import fit
from matrix.members import LIGHT, LOGISTIC
from sklearn import (
    clone,
    ensemble,
    frozen,
)


def frozen_estimators() -> Iterator[Case]:
    """Frozen estimators."""
    case = partial(Case, "sklearn.frozen.FrozenEstimator")
    yield case("logistic", lambda: frozen.FrozenEstimator(fit(clone(LOGISTIC), "three_text")()))
    yield case(
        "forest",
        lambda: frozen.FrozenEstimator(
            fit(ensemble.RandomForestClassifier(3, max_depth=3, random_state=0), "three")()
        ),
        kind="trees",
    )
    yield case("lightgbm", lambda: frozen.FrozenEstimator(fit(LIGHT(), "two_text")()), kind="trees")


CASES = (*frozen_estimators(),)
