"""Primitives that combine or sort the entries along one static axis."""

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.types import FLOATS, INTS, NumpyArray, TensorType, TypeRule, require

__all__ = ["infer_topk", "topk"]

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
    shift = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - shift).sum(axis=axis + 1))
    return np.asarray(total + shift.squeeze(axis + 1), dtype=x.dtype)


def ordered_logsumexp(x: NumpyArray, axis: int) -> NumpyArray:
    """Compute ``log(sum(exp(x)))``, one term after another."""
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

    The smallest stands first; ties keep their order.
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
