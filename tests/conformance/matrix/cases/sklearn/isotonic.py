"""Isotonic regressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, target
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.isotonic import IsotonicRegression


def one_column(n: int) -> np.ndarray:
    """One hostile column, as IsotonicRegression takes it."""
    return rows(n)[:, 2:3]


def inside(n: int) -> np.ndarray:
    """The same, held to the range it was fitted on."""
    seen = fit_rows()[:, 2].astype(np.float32)
    return np.clip(one_column(n).astype(np.float32), seen.min(), seen.max()).astype(np.float64)


def isotonic(x_dtype: str = "float64", **settings: Any) -> Callable[[], Any]:
    """Return a function that fits an isotonic regression on one column."""
    return lambda: IsotonicRegression(**settings).fit(
        fit_rows()[:, 2].astype(x_dtype), target("value")
    )


def isotonics() -> Iterator[Case]:
    """Isotonic regressions: each rule for values out of bounds."""
    case = partial(Case, "sklearn.isotonic.IsotonicRegression", kind="elementwise", rows=one_column)
    yield case("clip", isotonic(out_of_bounds="clip"))
    yield case("missing", isotonic(out_of_bounds="nan", increasing=False))
    yield case("refused", isotonic("float32", out_of_bounds="raise"), rows=inside)
    yield case("float32", isotonic("float32", out_of_bounds="clip", y_min=-3.0))
    yield case("one threshold", lambda: IsotonicRegression().fit([1.0, 1.0], [2.0, 4.0]))


def counts(n: int) -> np.ndarray:
    """Two columns of whole numbers, some of them never seen."""
    return np.random.default_rng(n).integers(0, 9, (n, 2)).astype(np.float64)


def seen(n: int) -> np.ndarray:
    """One column of two whole numbers."""
    return counts(n)[:, :1] % 2


CASES = (*isotonics(),)
