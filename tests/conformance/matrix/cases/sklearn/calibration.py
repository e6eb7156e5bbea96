"""Calibrated classifiers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import fit
from matrix.members import LIGHT, LOGISTIC, XGB
from sklearn import (
    calibration,
    clone,
    frozen,
    svm,
)


def calibrations() -> Iterator[Case]:
    """Every method, of scores and of probabilities, in two and three classes."""
    case = partial(Case, "sklearn.calibration.CalibratedClassifierCV")
    make = partial(calibration.CalibratedClassifierCV, cv=2)
    for method in ("sigmoid", "isotonic", "temperature"):
        yield case(f"{method}, scores, three", fit(make(LOGISTIC, method=method), "three_text"))
        yield case(
            f"{method}, probabilities, two",
            fit(make(LIGHT(), method=method), "two_text"),
            kind="trees",
        )
        yield case(
            f"{method}, scores, two",
            fit(make(svm.LinearSVC(), method=method, ensemble=False), "two_bool"),
        )
        yield case(
            f"{method}, probabilities, three, float32",
            fit(make(XGB(), method=method, ensemble=False), "three"),
            kind="float32 inside",
        )
    held = frozen.FrozenEstimator(clone(LOGISTIC).fit(fit_rows(), target("two")))
    yield case("frozen", fit(make(held), "two"))


CASES = (*calibrations(),)
