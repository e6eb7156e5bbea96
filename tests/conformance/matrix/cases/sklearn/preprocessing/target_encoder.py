"""Categories encoded by the mean target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import fit_rows, fit_table, table_rows, target
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    TargetEncoder,
)


def counts(n: int) -> np.ndarray:
    """Two columns of whole numbers, some of them never seen."""
    return np.random.default_rng(n).integers(0, 9, (n, 2)).astype(np.float64)


def fit_colours(y: str, **settings: Any) -> Callable[[], Any]:
    """Return a function that fits a target encoder on two text columns, one of them with
    missing values.
    """
    return lambda: TargetEncoder(random_state=0, **settings).fit(colours(fit_table()), target(y))


def colours(table: pd.DataFrame) -> pd.DataFrame:
    """Two text columns."""
    return table[["colour", "size"]].replace("S", None)


def colour_rows(n: int) -> pd.DataFrame:
    """New rows of two text columns."""
    return colours(table_rows(n))


def target_encoders() -> Iterator[Case]:
    """Encoders by the mean target."""
    case = partial(Case, "sklearn.preprocessing.TargetEncoder", kind="elementwise")
    yield case(
        "regression",
        lambda: TargetEncoder(random_state=0).fit(fit_rows()[:, [0, 4]], target("value")),
        rows=counts,
    )
    yield case("binary, missing values", fit_colours("two_text"), rows=colour_rows)
    yield case("classes, smooth", fit_colours("three_text", smooth=3.0), rows=colour_rows)


CASES = (*target_encoders(),)
