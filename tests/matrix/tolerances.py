"""How far an answer may lie from the source's: one table, by dtype and by what is computed.

Two correct programs differ by rounding alone where they add in another order, or where a fused rule removes a rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["TOLERANCES", "allowed", "precision"]

TOLERANCES: dict[tuple[str, str], float] = {
    # Sums of a few hundred products in another order: 1e-16 each, some 1e4 times the smallest terms.
    ("linear", "float64"): 1e-10,
    # The same with 6e-8 each, and float32 features folded into a following product before they were rounded.
    ("linear", "float32"): 2e-5,
    # One or a few operations on each entry, each rounded once: some units in the last place.
    ("elementwise", "float64"): 1e-12,
    ("elementwise", "float32"): 1e-6,
    # Leaves are exact and are added in the source's order; only a link (exp, sigmoid, softmax) may round otherwise.
    ("trees", "float64"): 1e-12,
    ("trees", "float32"): 1e-6,
    # XGBoost answers in float32 whatever the rows are, and what is computed from that in float64 keeps its roundings.
    ("float32 inside", "float64"): 2e-6,
    ("float32 inside", "float32"): 2e-6,
}
"""Relative to the largest entry of the row (and to the largest input of the row, for linear algebra)."""


def precision(x: Any, want: np.ndarray) -> str:
    """Return the narrower dtype of the input's numbers and of the answer."""
    dtypes = {d.name for d in x.dtypes} if hasattr(x, "columns") else {_dtype(x).name}
    return "float32" if "float32" in dtypes or want.dtype == np.float32 else "float64"


def allowed(kind: str, dtype: str, x: Any, want: np.ndarray) -> np.ndarray:
    """Return the largest difference that rounding explains, for each entry of the answer."""
    tolerance, rows = TOLERANCES[kind, dtype], want.reshape(len(want), -1)
    if kind != "linear":
        return np.asarray(tolerance * np.maximum(1.0, np.abs(finite(rows)))).reshape(want.shape)
    scale = np.maximum(1.0, np.abs(finite(rows)).max(axis=1, initial=0.0)) * largest(x)
    return np.broadcast_to(tolerance * scale[:, None], rows.shape).reshape(want.shape)


def largest(x: Any) -> np.ndarray:
    """Return the largest number of each row, at least 1; of texts, 1."""
    if not hasattr(x, "columns") and _dtype(x).kind == "O":
        return np.ones(len(x))
    numbers = x.select_dtypes("number").to_numpy() if hasattr(x, "columns") else x
    return np.maximum(1.0, np.abs(finite(np.asarray(numbers, dtype=np.float64))).max(axis=1, initial=0.0))


def _dtype(x: Any) -> np.dtype[Any]:
    """Dtype of an array; of a list of texts or mappings, that of objects."""
    return np.dtype(getattr(x, "dtype", object))


def finite(x: np.ndarray) -> np.ndarray:
    """Return x with 0 for what is not finite: such entries are compared exactly."""
    return np.where(np.isfinite(x), x, 0.0)
