"""How far an answer may lie from the source's: each promise of docs/fidelity.md once, for all
tests.

Comparisons, additions and products of two numbers are rounded alike by every processor: leaves,
labels and sums of trees are equal. Exponentials, logarithms and powers are each library's own,
which takes other instructions on other processors: they are within units in the last place.
Products of matrices, and distances made of them, are added in an order of the BLAS's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "FUNCTION", "OPERATOR", "ORDERED", "OWN", "OWN_SIGMOID", "TOLERANCES", "ULP", "allowed",
    "assert_units", "brute_force", "precision", "units",
]  # fmt: skip

ORDERED = ("reference", "tvm")
"""Backends that add in the source's order, without contraction."""

ULP = {("raw", True): 0, ("raw", False): 4, ("transformed", True): 3, ("transformed", False): 8}
"""Units in the last place of the answer's dtype that answers of trees are allowed, by what is
compared and whether the backend is ORDERED.

After the sums, 3 for functions that round otherwise, above and below the line, and the division
that follows; 8 where also the sum does, which an exponential magnifies by the size of its
argument.
"""

FUNCTION = ULP["transformed", True]
"""Units that are allowed to what a function makes of equal sums."""

OPERATOR = 6
"""Units between one function of a backend and numpy's, whose vector code errs by up to 4,
libraries of functions by 1 or 2.
"""

OWN, OWN_SIGMOID = 2, 3
"""Units between the tile compiler's own functions and the true values; a sigmoid rounds twice
more than the power is off.
"""

TOLERANCES: dict[tuple[str, str], float] = {
    # Sums of a few hundred products in another order: 1e-16 each, some 1e4 times the smallest
    # terms.
    ("linear", "float64"): 1e-10,
    # The same with 6e-8 each, and float32 features folded into a following product before they
    # were rounded.
    ("linear", "float32"): 2e-5,
    # One or a few operations on each entry, each rounded once: some units in the last place.
    ("elementwise", "float64"): 1e-12,
    ("elementwise", "float32"): 1e-6,
    # Leaves are exact and are added in the source's order; only a link (exp, sigmoid, softmax) may
    # round otherwise.
    ("trees", "float64"): 1e-12,
    ("trees", "float32"): 1e-6,
    # XGBoost answers in float32 whatever the rows are, and what is computed from that in float64
    # keeps its roundings.
    ("float32 inside", "float64"): 2e-6,
    ("float32 inside", "float32"): 2e-6,
}
"""Relative to the largest entry of the row (and to the largest input of the row, for linear
algebra).
"""


def units(
    method: str, got: npt.NDArray[Any], want: npt.NDArray[Any], least: float = 0.0
) -> npt.NDArray[np.float64]:
    """Distance in units in the last place of what was wanted, or of ``least``; infinite where only
    one of the two is finite.

    The first of two probabilities is one less the other, so it is held to the unit of the larger;
    a logarithm to that of one at least.
    """
    size = np.maximum(np.abs(want), want.dtype.type(least))
    if method.endswith("log_proba"):
        size = np.maximum(size, 1)
    elif method.endswith("predict_proba") and want.ndim == 2 and want.shape[1] % 2 == 0:
        size[:, 0::2] = np.maximum(size[:, 0::2], size[:, 1::2])
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        distance = np.abs(got.astype(np.float64) - want.astype(np.float64)) / np.spacing(
            size
        ).astype(np.float64)
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))


def assert_units(
    method: str,
    got: npt.NDArray[Any],
    want: npt.NDArray[Any],
    limit: float = 0.0,
    least: float = 0.0,
) -> None:
    """Assert an answer of the same shape and dtype: equal, or where it is of floats within so
    many units.
    """
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        f"{method}: {got.shape} {got.dtype} for {want.shape} {want.dtype}"
    )
    if limit == 0 or want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=method)
        return
    apart = units(method, got, want, least)
    far = apart > limit
    assert not far.any(), (
        f"{method}: {far.sum()} of {far.size} beyond {limit} units (largest {apart.max()}), such as {got[far][:3]} for {want[far][:3]}"
    )


def brute_force(x: npt.NDArray[Any], points: npt.NDArray[Any]) -> float:
    """How far a distance that the source takes from products of matrices, ``|x|^2 - 2 x y +
    |y|^2``, may lie from the true one.

    The squares cancel where rows are near: each is off by some units of the largest, of which the
    distance is the root.
    """
    squares = max(
        float((np.asarray(values, np.float64) ** 2).sum(axis=1).max(initial=0.0))
        for values in (x, points)
    )
    return float(np.sqrt(4 * (x.shape[1] + 2) * np.finfo(np.float64).eps * squares))


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
    return np.maximum(
        1.0, np.abs(finite(np.asarray(numbers, dtype=np.float64))).max(axis=1, initial=0.0)
    )


def _dtype(x: Any) -> np.dtype[Any]:
    """Dtype of an array; of a list of texts or mappings, that of objects."""
    return np.dtype(getattr(x, "dtype", object))


def finite(x: np.ndarray) -> np.ndarray:
    """Return x with 0 for what is not finite: such entries are compared exactly."""
    return np.where(np.isfinite(x), x, 0.0)
