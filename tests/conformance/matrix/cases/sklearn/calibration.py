"""Calibrated classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import fit
from matrix.members import LIGHT, LOGISTIC, XGB
from sklearn import (
    calibration,
    clone,
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
    yield case("frozen", lambda: _fit_frozen(make))


def _fit_frozen(make: Callable[..., Any]) -> Any:
    """Calibrate a model that stays as it is; scikit-learn 1.5 freezes none."""
    from sklearn.frozen import FrozenEstimator

    held = FrozenEstimator(clone(LOGISTIC).fit(fit_rows(), target("two")))
    return fit(make(held), "two")()


CASES = (*calibrations(),)
