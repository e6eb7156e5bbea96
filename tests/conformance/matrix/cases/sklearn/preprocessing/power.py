"""Powers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows
from matrix.fitting import MODERATE, fit
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    PowerTransformer,
)


def powers() -> Iterator[Case]:
    """Powers."""
    case = partial(Case, "sklearn.preprocessing.PowerTransformer", rows=MODERATE)
    yield case("yeo-johnson", fit(PowerTransformer()))
    yield case("not scaled", fit(PowerTransformer(standardize=False)))
    yield case("powers of 0 and 2", fit_lambdas([0.0, 2.0, 1e-17, 2 - 1e-17, 1.0, -1.5, 3.0, 0.5]))
    yield case("box-cox", fit_positive(PowerTransformer(method="box-cox")), rows=positive)
    yield case(
        "box-cox, not scaled",
        fit_positive(PowerTransformer(method="box-cox", standardize=False)),
        rows=positive,
    )


def positive(n: int) -> np.ndarray:
    """Rows of positive numbers."""
    return np.abs(rows(n, large=30.0)) + 0.5


def fit_positive(estimator: Any) -> Callable[[], Any]:
    """Return a function that fits the estimator on positive numbers."""
    return lambda: estimator.fit(np.abs(fit_rows()) + 0.5)


def fit_lambdas(lambdas: list[float]) -> Callable[[], Any]:
    """Return a function that makes a transformer of the given powers."""

    def make() -> Any:
        estimator = PowerTransformer(standardize=False).fit(fit_rows())
        estimator.lambdas_ = np.array(lambdas)
        return estimator

    return make


CASES = (*powers(),)
