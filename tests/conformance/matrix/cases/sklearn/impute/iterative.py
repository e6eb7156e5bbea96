"""Missing values predicted from the other columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, with_missing
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.tree import DecisionTreeRegressor


def some_missing(n: int) -> np.ndarray:
    """Rows with missing values in the odd columns."""
    return with_missing(rows(n, large=30.0))


def impute(**settings: Any) -> Callable[[], Any]:
    """Return a function that fits an iterative imputer."""
    return lambda: IterativeImputer(**{"max_iter": 3, "random_state": 0, **settings}).fit(
        with_missing(fit_rows())
    )


def imputers() -> Iterator[Case]:
    """Iterative imputers."""
    case = partial(Case, "sklearn.impute.IterativeImputer", rows=some_missing)
    yield case("ridge", impute())
    yield case(
        "bounds, indicator, neighbours",
        impute(
            min_value=-1,
            max_value=[2.0] * 8,
            add_indicator=True,
            n_nearest_features=3,
            skip_complete=True,
        ),
    )
    yield case(
        "trees",
        impute(
            estimator=DecisionTreeRegressor(max_depth=3),
            initial_strategy="median",
            imputation_order="random",
        ),
    )
    yield case("no rounds", impute(max_iter=0, initial_strategy="most_frequent"))
    yield case("an empty column, kept", lambda: fit_empty(keep_empty_features=True))
    yield case("an empty column", fit_empty)


def fit_empty(**settings: Any) -> Any:
    """Fit an iterative imputer on rows of which one column holds nothing."""
    x = with_missing(fit_rows())
    x[:, 2] = np.nan
    return IterativeImputer(max_iter=2, initial_strategy="median", **settings).fit(x)


CASES = (*imputers(),)
