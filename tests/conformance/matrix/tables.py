"""Tables of numbers and text, and a transformer of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matrix.data import fit_table, target
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.preprocessing import (
    OneHotEncoder,
)

__all__ = ["encode", "fit_mixed"]


def fit_mixed(estimator: Any, y: str | None = None) -> Callable[[], Any]:
    """Return a function that fits the estimator on numbers and text."""
    return lambda: estimator.fit(fit_table(), None if y is None else target(y))


def encode(numbers: Any) -> ColumnTransformer:
    """Return a transformer of number columns and one-hot text columns."""
    text = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [
            ("numbers", numbers, ["count", "decimal", "normal", "skewed"]),
            ("text", text, ["colour", "size"]),
        ]
    )
