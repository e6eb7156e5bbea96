"""Products of a row and a constant matrix, distances, nearest points; reductions along an axis.

Donors are constant points that have a value which a row misses. A point's distance is the sum of
the squared differences over the features that neither side has missing, scaled up to all features.
It is NaN where they share none, and counts as NaN for a column that the point misses too, or that
the row has. NaN stands for what is missing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.types import FLOATS, INTS, NumpyArray, TensorType, TypeRule, require, same_dtype

__all__: list[str] = []


def infer_matmul(x: TensorType, w: TensorType) -> TensorType:
    """Type ``matmul(x, w)``: (n_rows, k) by constant (k, m), or batched.

    A batch is (n_rows, b, k) by constant (b, k, m).
    """
    same_dtype(x, w)
    require(x.rows and not w.rows, "matmul takes a value and a constant")
    require(len(w.shape) == len(x.shape) + 1 and len(x.shape) in (1, 2), f"matmul of {x} and {w}")
    require(x.shape[-1] == w.shape[-2] and x.shape[:-1] == w.shape[:-2], f"matmul of {x} and {w}")
    return TensorType(x.dtype, (*x.shape[:-1], w.shape[-1]))


def matmul(x: NumpyArray, w: NumpyArray) -> NumpyArray:
    """Multiply each row by a constant matrix."""
    # einsum, since numpy's @ would take the rows for the batch.
    return np.asarray(x @ w if x.ndim == 2 else np.einsum("rbk,bkm->rbm", x, w))


def infer_pairwise(x: TensorType, points: TensorType, kind: str, p: float) -> TensorType:
    """Type ``pairwise(x, points, kind, p)``: the terms of all features, folded in order.

    For each row of (n_rows, d) and each constant point of (m, d). By kind, the fold is

    - ``square``: the sum of ``(x - y)^2``
    - ``absolute``: the sum of ``|x - y|``
    - ``largest``: the largest ``|x - y|``
    - ``power``: the sum of ``|x - y|^p``
    - ``different``: the count of ``x != y``
    - ``canberra``: the sum of ``|x - y| / (|x| + |y|)``, 0 where both are 0
    - ``chi_square``: the sum of ``(x - y)^2 / (x + y)``, 0 where x + y is 0
    - ``present``: the sum of the squares of differences that are not NaN
    """
    same_dtype(x, points)
    require(x.dtype in FLOATS and kind in PAIRWISE, f"pairwise {kind} of {x}")
    fits = x.rows and not points.rows and len(x.shape) == 1 and points.shape[1:] == x.shape
    require(fits, f"pairwise of {x} and {points}")
    require(p > 0, f"power {p}")
    return TensorType(x.dtype, points.shape[:1])


def canberra_term(x: NumpyArray, y: NumpyArray, p: float) -> NumpyArray:  # noqa: ARG001
    """Compute ``|x - y| / (|x| + |y|)``, 0 where both are 0."""
    size = np.abs(x) + np.abs(y)
    # A size of 1 makes the quotient 0 where both are 0; 0 / 0 would be NaN.
    return np.asarray(np.abs(x - y) / np.where(size == 0, np.ones_like(size), size))


def chi_square_term(x: NumpyArray, y: NumpyArray, p: float) -> NumpyArray:  # noqa: ARG001
    """Compute ``(x - y)^2 / (x + y)``, 0 where x + y is 0."""
    size = x + y
    quotient = np.square(x - y) / np.where(size == 0, np.ones_like(size), size)
    return np.where(size == 0, np.zeros_like(size), quotient)


def present_term(x: NumpyArray, y: NumpyArray, p: float) -> NumpyArray:  # noqa: ARG001
    """Compute ``(x - y)^2``, 0 where it is NaN."""
    return np.where(np.isnan(x - y), np.zeros_like(x), np.square(x - y))


PAIRWISE: dict[str, Callable[[NumpyArray, NumpyArray, float], NumpyArray]] = {
    "square": lambda x, y, p: np.square(x - y),
    "absolute": lambda x, y, p: np.abs(x - y),
    "largest": lambda x, y, p: np.abs(x - y),
    "power": lambda x, y, p: np.abs(x - y) ** x.dtype.type(p),
    "different": lambda x, y, p: (x != y).astype(x.dtype),
    "canberra": canberra_term,
    "chi_square": chi_square_term,
    "present": present_term,
}
"""Term of one feature, by the kind of ``pairwise``."""


def pairwise(x: NumpyArray, points: NumpyArray, kind: str, p: float) -> NumpyArray:
    """Fold the terms, one feature after another."""
    total = np.zeros((len(x), len(points)), x.dtype)
    for feature, values in enumerate(points.T):
        term = PAIRWISE[kind](x[:, feature, None], values, p)
        total = np.maximum(total, term) if kind == "largest" else total + term
    return total


def infer_nearest(x: TensorType, points: TensorType, k: int) -> TensorType:
    """Type ``nearest(x, points, k)``: indices of the k constant points nearest to each row.

    The distance is the sum of squared differences. The nearest comes first; ties keep the order
    of the points.
    """
    return infer_topk(infer_pairwise(x, points, "square", 2.0), k)


def nearest(x: NumpyArray, points: NumpyArray, k: int) -> NumpyArray:
    """Find the nearest points."""
    return topk(pairwise(x, points, "square", 2.0), k)


def infer_embedding_sum(tokens: TensorType, weights: TensorType, table: TensorType) -> TensorType:
    """Type ``embedding_sum(tokens, weights, table)``: the weighted sum of rows of a table.

    The tokens are row numbers of the constant table; each has a weight at its position.
    """
    same_dtype(weights, table)
    require(
        tokens.rows and weights.rows and not table.rows,
        "embedding_sum takes two values and a constant",
    )
    fits = tokens.dtype == "int32" and len(tokens.shape) == 1 and tokens.shape == weights.shape
    require(fits, f"tokens {tokens} beside weights {weights}")
    fits = len(table.shape) == 2 and table.shape[0] > 0 and table.dtype in FLOATS
    require(fits, f"table {table}")
    return TensorType(table.dtype, (table.shape[1],))


def embedding_sum(tokens: NumpyArray, weights: NumpyArray, table: NumpyArray) -> NumpyArray:
    """Add one term after another."""
    total = np.zeros((len(tokens), table.shape[1]), table.dtype)
    for token, weight in zip(tokens.T, weights.T, strict=True):
        total = total + weight[:, None] * table[token]
    return total


define("matmul", infer_matmul, matmul, OpKind.PRODUCT)
define("pairwise", infer_pairwise, pairwise, OpKind.PRODUCT)
define("nearest", infer_nearest, nearest, OpKind.PRODUCT)
define("embedding_sum", infer_embedding_sum, embedding_sum, OpKind.PRODUCT)


NUMBERS = (*FLOATS, *INTS)


def reduction(dtypes: tuple[str, ...], result: str | None = None, least: int = 0) -> TypeRule:
    """Return the type rule of a primitive that removes one axis of at least so many entries."""

    def infer(x: TensorType, axis: int) -> TensorType:
        fits = x.rows and 0 <= axis < len(x.shape) and x.dtype in dtypes
        require(fits, f"reduction of {x} over axis {axis}")
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        filled = x.shape[axis] >= least or 0 in rest
        require(filled, f"reduction of {x} over axis {axis}, which is empty")
        return TensorType(result or x.dtype, rest)

    return infer


def reduce_sum(x: NumpyArray, axis: int) -> NumpyArray:
    """Add up, in any order."""
    return np.asarray(x.sum(axis=axis + 1, dtype=x.dtype))


def ordered_sum(x: NumpyArray, axis: int) -> NumpyArray:
    """Add up from the first entry to the last, one addition after another, in x's dtype."""
    moved = np.moveaxis(x, axis + 1, 0)
    # From 0.0, not from the first term: so the sum of -0.0 alone is 0.0, and of no terms zero.
    total = np.zeros(moved.shape[1:], x.dtype)
    for part in moved:
        total = total + part
    return total


def reduce_prod(x: NumpyArray, axis: int) -> NumpyArray:
    """Multiply."""
    return np.asarray(x.prod(axis=axis + 1, dtype=x.dtype))


def reduce_max(x: NumpyArray, axis: int) -> NumpyArray:
    """Find the largest, or NaN where there is one."""
    return np.asarray(x.max(axis=axis + 1))


def reduce_min(x: NumpyArray, axis: int) -> NumpyArray:
    """Find the smallest, or NaN where there is one."""
    return np.asarray(x.min(axis=axis + 1))


def reduce_any(x: NumpyArray, axis: int) -> NumpyArray:
    """Find whether any entry is True."""
    return np.asarray(x.any(axis=axis + 1))


def argmax(x: NumpyArray, axis: int) -> NumpyArray:
    """Find the position of the first NaN, or else of the first of the largest."""
    return np.asarray(x.argmax(axis=axis + 1).astype(np.int32))


def logsumexp(x: NumpyArray, axis: int) -> NumpyArray:
    """Compute ``log(sum(exp(x)))``, shifted by the maximum."""
    top = x.max(axis=axis + 1, keepdims=True)
    # inf - inf would be NaN, so a maximum that is not finite is not subtracted.
    shift = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - shift).sum(axis=axis + 1))
    return np.asarray(total + shift.squeeze(axis + 1), dtype=x.dtype)


def ordered_logsumexp(x: NumpyArray, axis: int) -> NumpyArray:
    """Compute ``log(sum(exp(x)))``, one term after another."""
    # Pair by pair, as scikit-learn's BaggingClassifier adds the logarithms of its members.
    return np.asarray(np.logaddexp.reduce(x, axis=axis + 1))


def infer_along(x: TensorType, axis: int) -> TensorType:
    """Type a primitive that works along one static axis and keeps the shape."""
    fits = x.rows and 0 <= axis < len(x.shape) and x.dtype in NUMBERS
    require(fits, f"axis {axis} of {x}")
    return x


def cumsum(x: NumpyArray, axis: int) -> NumpyArray:
    """Compute running sums."""
    return np.cumsum(x, axis=axis + 1, dtype=x.dtype)


def sort(x: NumpyArray, axis: int) -> NumpyArray:
    """Sort ascending, NaN last."""
    return np.sort(x, axis=axis + 1)


def infer_topk(x: TensorType, k: int) -> TensorType:
    """Type ``topk(x, k)``: indices of the k smallest entries of (n_rows, width).

    The smallest comes first; ties keep their order.
    """
    require(len(x.shape) == 1 and 0 < k <= x.shape[0], f"topk({k}) of {x}")
    return TensorType("int32", (k,))


def topk(x: NumpyArray, k: int) -> NumpyArray:
    """Sort, and take the first."""
    return np.argsort(x, axis=1, kind="stable")[:, :k].astype(np.int32)


define("reduce_sum", reduction(NUMBERS), reduce_sum, OpKind.REDUCTION)
define("ordered_sum", reduction(FLOATS), ordered_sum, OpKind.REDUCTION)
define("reduce_prod", reduction(NUMBERS), reduce_prod, OpKind.REDUCTION)
define("reduce_max", reduction(NUMBERS, least=1), reduce_max, OpKind.REDUCTION)
define("reduce_min", reduction(NUMBERS, least=1), reduce_min, OpKind.REDUCTION)
define("reduce_any", reduction(("bool",)), reduce_any, OpKind.REDUCTION)
define("argmax", reduction(NUMBERS, "int32", least=1), argmax, OpKind.REDUCTION)
define("logsumexp", reduction(FLOATS, least=1), logsumexp, OpKind.REDUCTION)
define("ordered_logsumexp", reduction(FLOATS, least=1), ordered_logsumexp, OpKind.REDUCTION)
define("cumsum", infer_along, cumsum, OpKind.REDUCTION)
define("sort", infer_along, sort, OpKind.REDUCTION)
define("topk", infer_topk, topk, OpKind.REDUCTION)


def infer_nearest_donors(x: TensorType, points: TensorType, k: int) -> TensorType:
    """Type ``nearest_donors(x, points, k)``: indices of the k nearest donors of each column.

    For each row of (n_rows, d) and each constant point of (m, d), the result is (n_rows, d, k). The
    nearest comes first, ties keep the order of the points, and NaN is last. A column that the row
    has holds zeros.
    """
    (count,) = infer_pairwise(x, points, "present", 2.0).shape
    require(0 < k <= count, f"nearest_donors({k}) of {count} points")
    return TensorType("int32", (*x.shape, k))


def nearest_donors(x: NumpyArray, points: NumpyArray, k: int) -> NumpyArray:
    """Rank the points by their distances."""
    shared = (~np.isnan(x)).astype(x.dtype) @ (~np.isnan(points)).T.astype(x.dtype)
    squares = pairwise(x, points, "present", 2.0) / shared * x.dtype.type(x.shape[1])
    return topk_donors(squares, x, points, k)


def infer_topk_donors(squares: TensorType, x: TensorType, points: TensorType, k: int) -> TensorType:
    """Type ``topk_donors(squares, x, points, k)``: what ``nearest_donors`` finds by given squares.

    There is a square for each point.
    """
    fits = squares == infer_pairwise(x, points, "present", 2.0)
    require(fits, f"squares {squares} of {x} and {points}")
    return infer_nearest_donors(x, points, k)


def topk_donors(squares: NumpyArray, x: NumpyArray, points: NumpyArray, k: int) -> NumpyArray:
    """Sort, column by column, and take the first."""
    has = ~np.isnan(points)
    found = np.zeros((*x.shape, k), np.int32)
    for column, missing in enumerate(np.isnan(x).T):
        found[missing, column] = topk(np.where(has[:, column], squares[missing], np.nan), k)
    return found


def infer_donor_distances(x: TensorType, positions: TensorType, points: TensorType) -> TensorType:
    """Type ``donor_distances(x, positions, points)``: distances to the points at the positions.

    The positions are int32 (n_rows, d, k), k of them for each column, and so is the result.
    """
    infer_pairwise(x, points, "present", 2.0)
    fits = positions.rows and positions.dtype == "int32" and positions.shape[:-1] == x.shape
    require(fits, f"donors at {positions} for {x}")
    return TensorType(x.dtype, positions.shape)


def donor_distances(x: NumpyArray, positions: NumpyArray, points: NumpyArray) -> NumpyArray:
    """Fold the terms, one feature after another."""
    total = np.zeros(positions.shape, x.dtype)
    shared = np.zeros(positions.shape, x.dtype)
    for values, others in zip(x.T, points.T, strict=True):
        apart = values[:, None, None] - others[positions]
        total = total + np.where(np.isnan(apart), x.dtype.type(0), np.square(apart))
        shared += ~np.isnan(values)[:, None, None] & ~np.isnan(others)[positions]
    columns = np.arange(x.shape[1])[:, None]
    counts = np.isnan(x)[:, :, None] & ~np.isnan(points[positions, columns])
    squares = total / shared * x.dtype.type(x.shape[1])
    return np.asarray(np.where(counts, squares, x.dtype.type(np.nan)))


define("nearest_donors", infer_nearest_donors, nearest_donors, OpKind.PRODUCT)
define("topk_donors", infer_topk_donors, topk_donors, OpKind.REDUCTION)
define("donor_distances", infer_donor_distances, donor_distances, OpKind.READ)
