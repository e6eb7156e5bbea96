"""Quantiles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, with_missing
from matrix.fitting import fit
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    QuantileTransformer,
)


def quantiles() -> Iterator[Case]:
    """Quantiles."""
    case = partial(Case, "sklearn.preprocessing.QuantileTransformer", kind="elementwise")
    yield case("uniform", fit(QuantileTransformer(n_quantiles=20)))
    yield case("normal", fit(QuantileTransformer(n_quantiles=200, output_distribution="normal")))
    yield case(
        "normal, few quantiles",
        fit(QuantileTransformer(n_quantiles=3, output_distribution="normal")),
    )
    yield case(
        "missing values", lambda: QuantileTransformer(n_quantiles=50).fit(with_missing(fit_rows()))
    )
    yield case("constant columns", lambda: QuantileTransformer(n_quantiles=5).fit(np.zeros((9, 8))))


CASES = (*quantiles(),)
