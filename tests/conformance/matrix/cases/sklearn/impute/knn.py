"""Missing values filled from neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, with_missing
from matrix.fitting import NEAR
from sklearn.impute import KNNImputer


def gaps(n: int) -> np.ndarray:
    """Rows with missing values, the last of nothing else."""
    x = with_missing(NEAR(n))
    x[8:][-1:] = np.nan
    return x


def fit_gaps(estimator: Any, dtype: str = "float64", missing: float = np.nan) -> Callable[[], Any]:
    """Return a function that fits the estimator on rows of which the second column is all
    missing.
    """
    x = with_missing(fit_rows()).astype(dtype)
    x[:, 1] = np.nan
    return lambda: estimator.fit(np.where(np.isnan(x), np.array(missing, dtype), x))


def imputers() -> Iterator[Case]:
    """Means of neighbours."""
    case = partial(Case, "sklearn.impute.KNNImputer", rows=gaps)
    yield case("default", fit_gaps(KNNImputer()))
    yield case(
        "distance, empty columns",
        fit_gaps(KNNImputer(weights="distance", n_neighbors=3, keep_empty_features=True)),
    )
    yield case(
        "indicator, all donors, float32",
        fit_gaps(KNNImputer(n_neighbors=1000, add_indicator=True), "float32"),
    )
    yield case(
        "number",
        fit_gaps(KNNImputer(missing_values=-1), missing=-1.0),
        rows=lambda n: np.where(np.isnan(gaps(n)), -1.0, gaps(n)),
    )


CASES = (*imputers(),)
