"""Distances as sums of terms, one of each feature, as scikit-learn rounds them: to the last bit.

Its search takes the difference of two float32 numbers in float32, sums terms up in float64, and
compares the sums in float32. Powers and sines are those of the C library, whose last bit is not
that of numpy or of a backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.formula import Formula, Rows, is_searched_by_heap
from hbconv.containers.product_distances import RootProducts

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TermDistances"]

Terms = npt.NDArray[np.float64]

_COMMON = ("absolute", "largest", "square", "canberra")
"""Kinds whose terms of float64 every backend rounds alike."""


@dataclass(frozen=True)
class TermDistances(Formula):
    """Sums of ``weight * term(x, y)`` over the features.

    Parameters
    ----------
    kind : str
        ``absolute``: ``|x - y|``. ``largest``: the same, of which the largest is taken.
        ``square``: ``(x - y)^2``.
        ``canberra``: ``|x - y| / (|x| + |y|)``, 0 where both are 0. ``power``: ``|x - y|^p``.
        ``standard``: ``(x - y)^2`` divided by the weight. ``haversine``: the square of the sine of
        half the angle between two places, of which latitude and longitude are the columns.
    p : float
        The power, of the kind ``power``.
    weights : Array, shape (width,), optional
        1 where it is None.
    sparse : bool
        The rows or the points are a sparse matrix: float32 sums of the kind ``absolute`` are then
        rounded term after term.
    """

    kind: str = "absolute"
    p: float = 1.0
    weights: Array | None = None
    sparse: bool = False

    def misfit(self, entries: int, width: int) -> str | None:
        if self.kind not in (*_TERMS, "haversine") or not self.p > 0:
            return f"terms {self.kind!r} of power {self.p}"
        if self.weights is not None and self.weights.shape != (width,):
            return f"weights of {self.weights.shape} for {width} columns"
        if self.kind == "haversine" and width != 2:
            return f"places of {width} columns"
        return super().misfit(entries, width)

    def for_dtype(self, dtype: str) -> Formula | None:
        if not is_searched_by_heap(dtype, self.points):
            return self._partitioned()
        return None if self.kind in _COMMON and not self.is_narrow(dtype) else self

    def _partitioned(self) -> Formula | None:
        """Return the formula of distances that are partitioned: SciPy squares where p is 2."""
        if self.kind == "square":
            return RootProducts(self.points, self.of)
        if self.kind == "power" and self.p == 2:
            return replace(self, kind="square")
        return None if self.kind in _COMMON else self

    def entries(self, rows: Rows, batch: int) -> Rows:  # noqa: ARG002
        """Compute the sums: in float32 where rows and points are of it.

        Values that repeat are computed once: equally near points come of them.
        """
        dtype = "float32" if self.is_narrow(rows.dtype.name) else "float64"
        x, y = rows.astype(dtype), self.points.data.astype(dtype)
        total = self._haversine(x, y) if self.kind == "haversine" else self._sums(x, y)
        if self.kind in _ROOTS and not is_searched_by_heap(rows.dtype.name, self.points):
            total = _ROOTS[self.kind](total, self.p)
        return total.astype(dtype)

    def _sums(self, x: Rows, y: Rows) -> Terms:
        term = _TERMS[self.kind]
        weights = np.ones(x.shape[1]) if self.weights is None else self.weights.data
        total = np.zeros((len(x), len(y)))
        for a, b, weight in zip(x.T, y.T, weights.astype(np.float64), strict=True):
            terms = _of_pairs(lambda a, b, w=weight: term(a, b, self.p, w), a, b)
            total = np.maximum(total, terms) if self.kind == "largest" else total + terms
            if self.sparse and self.kind == "absolute":
                total = total.astype(x.dtype).astype(np.float64)
        return total

    def _haversine(self, x: Rows, y: Rows) -> Terms:
        if self.sparse:
            x, y = x.astype(np.float64), y.astype(np.float64)
        north, east = (_of_pairs(_sine_of_half, a, b) for a, b in zip(x.T, y.T, strict=True))
        widths = _of_pairs(lambda a, b: _in_c(math.cos, a) * _in_c(math.cos, b), x[:, 0], y[:, 0])
        return np.asarray(north * north + widths * east * east)

    def margin(self, b: Builder, rows: Value, entries: Value) -> Value:
        """Bound the rounding of sums: all terms are positive, and differences are exact.

        Weights are multiplied into rows before their differences are taken, which then are not.
        """
        epsilon = float(np.finfo("float32" if self.is_narrow(rows.dtype) else "float64").eps)
        scale = 4.0 * epsilon * (self.points.shape[1] + 8) * max(1.0, self.p)
        if self.weights is None:
            return entries * b.constant([scale], entries.dtype)
        weights = self.weights.data.astype(np.float64)
        if self.kind == "standard":
            weights = 1.0 / weights
        farthest = np.abs(self.points.data.astype(np.float64)).max(axis=0)
        x = b.op("abs", b.cast(rows, "float64")) + b.constant(farthest)
        largest = b.op("pow", x, b.constant([self.p], x.dtype)) * b.constant(weights)
        return b.reshape(b.reduce("reduce_sum", largest), 1) * b.constant([scale], x.dtype)


def _of_pairs(term: Callable[..., Terms], a: Rows, b: Rows) -> Terms:
    """Compute a term of each pair of a row's and a point's value."""
    (own, row), (others, point) = (np.unique(v, return_inverse=True) for v in (a, b))
    if len(own) * len(others) > len(a) * len(b) // 2:
        return term(a[:, None], b)
    return term(own[:, None], others)[row[:, None], point]


def _in_c(function: Callable[..., float], *values: Any) -> Terms:
    """Call the C library; where that ends in an error, the answer is numpy's."""
    wide = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))
    with np.errstate(all="ignore"):
        answers = np.asarray(getattr(np, _NAMES.get(function, function.__name__))(*wide))
    usual = np.isfinite(answers)
    given = [array[usual] for array in wide]
    answers[usual] = np.frompyfunc(function, len(given), 1)(*given).astype(np.float64)
    return answers


_NAMES: dict[Callable[..., float], str] = {math.pow: "power", math.asin: "arcsin"}


def _absolute(x: Rows, y: Rows, p: float, weight: float) -> Terms:  # noqa: ARG001
    return np.asarray(np.abs(x - y), np.float64)


def _canberra(x: Rows, y: Rows, p: float, weight: float) -> Terms:
    size = np.abs(x).astype(np.float64) + np.abs(y)
    return np.asarray(_absolute(x, y, p, weight) / np.where(size == 0.0, 1.0, size))


def _power(x: Rows, y: Rows, p: float, weight: float) -> Terms:
    return np.asarray(weight * _in_c(math.pow, _absolute(x, y, p, weight), p))


def _square(x: Rows, y: Rows, p: float, weight: float) -> Terms:
    return np.asarray(weight * np.square(_absolute(x, y, p, weight)))


def _standard(x: Rows, y: Rows, p: float, weight: float) -> Terms:
    apart = _absolute(x, y, p, weight)
    return np.asarray(apart * apart / weight)


def _sine_of_half(x: Rows, y: Rows) -> Terms:
    return _in_c(math.sin, 0.5 * (x - y).astype(np.float64))


_TERMS: dict[str, Callable[[Rows, Rows, float, float], Terms]] = {
    "absolute": _absolute,
    "largest": _absolute,
    "canberra": _canberra,
    "square": _square,
    "power": _power,
    "standard": _standard,
}
_ROOTS: dict[str, Callable[[Terms, float], Terms]] = {
    "power": lambda total, p: _in_c(math.pow, total, 1.0 / p),
    "square": lambda total, p: np.sqrt(total),
    "standard": lambda total, p: np.sqrt(total),
    "haversine": lambda total, p: 2.0 * _in_c(math.asin, np.sqrt(total)),
}
"""What makes distances of sums."""
