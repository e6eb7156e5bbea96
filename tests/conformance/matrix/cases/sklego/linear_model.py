"""Linear regressors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from matrix.case import Case
from matrix.data import fit_rows, target
from sklego import linear_model


def _fit(kind: type, **options: Any) -> Callable[[], Any]:
    def fitted() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(**options).fit(fit_rows(), target("value"))

    return fitted


_NAME = "sklego.linear_model.{}".format
_PUNISHED = {"overestimation_punishment_factor": 3.0}

CASES = (
    Case(_NAME("LADRegression"), "plain", _fit(linear_model.LADRegression)),
    Case(
        _NAME("QuantileRegression"),
        "no intercept",
        _fit(linear_model.QuantileRegression, quantile=0.8, fit_intercept=False),
    ),
    Case(
        _NAME("ImbalancedLinearRegression"),
        "punished",
        _fit(linear_model.ImbalancedLinearRegression, **_PUNISHED),
    ),
    Case(_NAME("DeadZoneRegressor"), "plain", _fit(linear_model.DeadZoneRegressor)),
)
