"""Splines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows
from matrix.fitting import MODERATE, fit
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    SplineTransformer,
)


def within(n: int) -> np.ndarray:
    """Rows well within those fitted on."""
    return 0.9 * fit_rows()[np.arange(n) % 200] + 0.1 * fit_rows().mean(axis=0)


def splines() -> Iterator[Case]:
    """Splines: each rule for values beyond the knots."""
    case = partial(Case, "sklearn.preprocessing.SplineTransformer")
    yield case("constant", fit(SplineTransformer()))
    yield case(
        "linear, quantiles", fit(SplineTransformer(4, extrapolation="linear", knots="quantile"))
    )
    yield case(
        "linear, of degree 2", fit(SplineTransformer(4, 2, extrapolation="linear", order="F"))
    )
    yield case(
        "continue",
        fit(SplineTransformer(extrapolation="continue", include_bias=False)),
        rows=MODERATE,
    )
    yield case("periodic", fit(SplineTransformer(6, extrapolation="periodic")))
    yield case(
        "periodic, sparse",
        fit(SplineTransformer(6, 2, extrapolation="periodic", sparse_output=True)),
    )
    yield case(
        "two knots", fit(SplineTransformer(2, 2, knots=np.linspace(-1, 1, 2)[:, None].repeat(8, 1)))
    )
    yield case("missing values", fit(SplineTransformer(handle_missing="zeros")))
    yield case("steps", fit(SplineTransformer(5, 0, extrapolation="continue", sparse_output=True)))
    yield case("refused", fit(SplineTransformer(extrapolation="error")), rows=within)


CASES = (*splines(),)
