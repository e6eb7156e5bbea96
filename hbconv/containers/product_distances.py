"""How a source computes what its search for neighbours compares, where rounding decides.

``|x|^2 - 2 x y + |y|^2`` loses digits where it cancels. Distances that are equal, or nearly, then
become unequal, and the source chooses by that. The same products in numpy round alike: for narrow
rows always, as its BLAS and SciPy's both add term after term; for wide ones nearly always.

Other distances are sums of terms, one of each feature (``TermDistances``). scikit-learn's search
takes the difference of two float32 numbers in float32, sums terms up in float64, and compares the
sums in float32. Powers and sines are those of the C library, whose last bit is not that of numpy or
of a backend.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "CosineDistances",
    "Formula",
    "ProductDistances",
    "RootProducts",
    "SharedProducts",
    "SparseProducts",
    "TermDistances",
    "WholeProducts",
]

Rows = npt.NDArray[Any]


def is_searched_by_heap(dtype: str, points: Array) -> bool:
    """Whether scikit-learn's heap takes rows of a dtype: it takes floats of the points' own."""
    return dtype == points.dtype and dtype in ("float32", "float64")


@dataclass(frozen=True)
class Formula(ABC):
    """Entries of rows: what grows with the distance to each point, as the source rounds it.

    Programs compute entries their own way. Where two differ by no more than the rounding of both
    ways, the host computes them by the formula.

    Parameters
    ----------
    points : Array of floats, shape (n_points, width)
    of : Array of int64, optional
        Positions of the points that are entries, if not all are.
    """

    points: Array
    of: Array | None = None

    def misfit(self, entries: int, width: int) -> str | None:
        """Return why it does not give that many entries of rows that wide; None where it does."""
        places = self.of is None or self.of.are_places(len(self.points))
        if places and (len(self.of or self.points), self.points.shape[1]) == (entries, width):
            return None
        return f"distances over {width} columns to {self.points.shape} points"

    def for_dtype(self, dtype: str) -> Formula | None:  # noqa: ARG002
        """Return the formula of rows of a dtype; None where programs compute as the source does."""
        return self

    def rounds(self, rows: Rows) -> bool:  # noqa: ARG002
        """Whether entries of any of these rows may be rounded."""
        return True

    def is_narrow(self, dtype: str) -> bool:
        """Whether rows of a dtype and the points are both float32."""
        return dtype == self.points.dtype == "float32"

    @abstractmethod
    def entries(self, rows: Rows, batch: int) -> Rows:
        """Compute what the source's search compares, of all points.

        Parameters
        ----------
        rows : ndarray, shape (n_rows, width)
        batch : int
            Rows of the whole call.

        Returns
        -------
        ndarray of floats, shape (n_rows, n_points)
            Of the dtype that is compared.
        """

    def scaled(self, b: Builder, entries: Value) -> Value:  # noqa: ARG002
        """Return entries that a program has, in the unit of the margin."""
        return entries

    @abstractmethod
    def margin(self, b: Builder, rows: Value, entries: Value) -> Value:
        """Bound how much entries, so scaled, may come nearer to smaller ones, or farther.

        Parameters
        ----------
        rows : Value, shape (width,)
        entries : Value of float64, shape (listed,)

        Returns
        -------
        Value of float64, shape (1,) or that of the entries
        """


# Two distances are compared, and each is rounded in two ways: margins below count four errors.
EPSILON = float(np.finfo(np.float64).eps)
CHUNK = 256
"""Points of one product, as in scikit-learn: the last columns of a product may round otherwise."""


@dataclass(frozen=True)
class WholeProducts(Formula):
    """Squared distances to points without missing values."""

    terms: ClassVar[int] = 1
    """Products of matrices in addition to the first one, at most."""

    @cached_property
    def _filled_points(self) -> Rows:
        return np.nan_to_num(self.points.data.astype(np.float64), nan=0.0)

    @cached_property
    def _lengths(self) -> npt.NDArray[np.float64]:
        return self._row_lengths(self._filled_points)

    @property
    def growth(self) -> int:
        """By how much distances are scaled up, at most."""
        return 1

    def rounds(self, rows: Rows) -> bool:
        """Whether distances of any of these rows may be rounded: those of small ints are not."""
        if not self._are_ints:
            return True
        # Sums of whole numbers below 2**digits are exact, in whatever order they are added.
        digits = np.finfo(np.result_type(rows, np.float32)).nmant
        largest = max(np.abs(rows).max(initial=0.0), np.abs(self._filled_points).max(initial=0.0))
        is_small = self.terms * self.points.shape[1] * (2.0 * largest) ** 2 < 2.0**digits
        return not (is_small and (rows == np.rint(rows)).all())

    @cached_property
    def _are_ints(self) -> bool:
        return bool((self._filled_points == np.rint(self._filled_points)).all())

    def entries(self, rows: Rows, batch: int) -> Rows:  # noqa: ARG002
        x = rows.astype(np.float64)
        squares = self._row_lengths(x)[:, None] + -2.0 * self._products(x) + self._lengths
        # Cancellation may leave a square just below 0.
        return np.maximum(squares, 0.0)

    def _products(self, x: Rows) -> Rows:
        """Multiply rows with the points."""
        return _product(x, self._filled_points)

    def _row_lengths(self, x: Rows) -> npt.NDArray[np.float64]:
        # scikit-learn's ``row_norms`` calls the same einsum, whose sums round by its own order.
        return np.asarray(np.einsum("ij,ij->i", x, x))

    def epsilon(self, dtype: str) -> float:  # noqa: ARG002
        """Return the rounding of what is compared for rows of a dtype."""
        return EPSILON

    def margin(self, b: Builder, rows: Value, entries: Value) -> Value:  # noqa: ARG002
        """Bound the rounding of sums of ``width`` terms, each at most ``|x|^2 + |y|^2``."""
        x = b.cast(rows, "float64")
        x = b.where(b.op("isnan", x), b.op("expand", x, b.constant([0.0], x.dtype)), x)
        largest = float((self._filled_points**2).sum(axis=1).max(initial=0.0))
        size = b.reduce("reduce_sum", x * x)
        sums = (self.points.shape[1] + 2) * self.terms
        scale = 4.0 * self.epsilon(rows.dtype) * sums * self.growth
        whole = b.reshape(size, 1) + b.constant([largest], x.dtype)
        return whole * b.constant([scale], x.dtype)


@dataclass(frozen=True)
class ProductDistances(WholeProducts):
    """Squared distances as the source's heap has them: by products with some points at a time.

    Parameters
    ----------
    rest : Formula, optional
        For rows of another dtype than the points', whose distances are partitioned.
    """

    rest: Formula | None = None

    def for_dtype(self, dtype: str) -> Formula | None:
        return self if is_searched_by_heap(dtype, self.points) else self.rest

    def _products(self, x: Rows) -> Rows:
        y = self._filled_points
        parts = [_product(x, y[start : start + CHUNK]) for start in range(0, len(y), CHUNK)]
        return np.concatenate(parts, axis=1)

    def _row_lengths(self, x: Rows) -> npt.NDArray[np.float64]:
        return _dots(x)


@dataclass(frozen=True)
class SparseProducts(WholeProducts):
    """Squared distances where the rows or the points are a sparse matrix.

    Products then add up term after term, each rounded; so do the lengths of what is sparse.

    Parameters
    ----------
    rows_are_sparse, points_are_sparse : bool
    """

    rows_are_sparse: bool = True
    points_are_sparse: bool = True

    def entries(self, rows: Rows, batch: int) -> Rows:
        """Compute them as without zeros; of two sparse matrices of float32 they are rounded."""
        squares = super().entries(rows, batch)
        both = self.rows_are_sparse and self.points_are_sparse
        narrow = both and self.is_narrow(rows.dtype.name)
        return squares.astype(np.float32) if narrow else squares

    def epsilon(self, dtype: str) -> float:
        return float(np.finfo("float32" if self.is_narrow(dtype) else "float64").eps)

    @cached_property
    def _lengths(self) -> npt.NDArray[np.float64]:
        return (_sums if self.points_are_sparse else _dots)(self._filled_points)

    def _row_lengths(self, x: Rows) -> npt.NDArray[np.float64]:
        return (_sums if self.rows_are_sparse else _dots)(x)

    def _products(self, x: Rows) -> Rows:
        return _term_after_term(x, self._filled_points)


@dataclass(frozen=True)
class RootProducts(WholeProducts):
    """Their roots, which may be equal where squares are not."""

    def entries(self, rows: Rows, batch: int) -> Rows:
        return np.sqrt(super().entries(rows, batch))


@dataclass(frozen=True)
class CosineDistances(Formula):
    """One minus the product of rows and points of length 1, in float32 where both have it.

    Parameters
    ----------
    rows_are_sparse, points_are_sparse : bool
        Sparse rows are summed up term after term, in float64.
    """

    rows_are_sparse: bool = False
    points_are_sparse: bool = False

    def entries(self, rows: Rows, batch: int) -> Rows:
        dtype = self._dtype(rows.dtype.name)
        x = _unit_rows(rows.astype(dtype), sparse=self.rows_are_sparse)
        y = _unit_rows(self.points.data.astype(dtype), sparse=self.points_are_sparse)
        is_sparse = self.rows_are_sparse or self.points_are_sparse
        products = _term_after_term(x, y) if is_sparse else _product(x, y, batch)
        return np.asarray(np.clip(1 - products, 0.0, 2.0))

    def margin(self, b: Builder, rows: Value, entries: Value) -> Value:
        """Bound the rounding of a product of rows of length 1."""
        epsilon = np.finfo(self._dtype(rows.dtype)).eps
        return b.constant([4.0 * (self.points.shape[1] + 8) * float(epsilon)], entries.dtype)

    def _dtype(self, rows: str) -> str:
        return "float32" if self.is_narrow(rows) else "float64"


@dataclass(frozen=True)
class SharedProducts(WholeProducts):
    """Distances over the columns that neither side has missing, scaled up to all.

    The points hold NaN where a value is missing, and so do the rows.
    """

    terms: ClassVar[int] = 3

    @property
    def growth(self) -> int:
        return self.points.shape[1]

    def entries(self, rows: Rows, batch: int) -> Rows:
        """Compute distances as ``nan_euclidean_distances`` does.

        1. Square distances with zeros for what is missing, in float64.
        2. Take off the squares of what only one side has.
        3. Scale up by the columns shared.
        """
        dtype = self._dtype(rows.dtype)
        x_raw, points = rows.astype(dtype), self.points.data.astype(dtype)
        missing, absent = (np.isnan(v).astype(dtype) for v in (x_raw, points))
        x, y = (np.nan_to_num(v, nan=0.0) for v in (x_raw, points))
        squares = -2.0 * _product(x.astype(np.float64), self._filled_points, batch)  # 1
        squares += np.einsum("ij,ij->i", x, x, dtype=np.float64)[:, None]
        squares += np.einsum("ij,ij->i", self._filled_points, self._filled_points)
        squares = np.maximum(squares, 0.0).astype(dtype)
        squares -= _product(x * x, absent, batch)  # 2
        squares -= _product(missing, y * y, batch)
        np.maximum(squares, 0.0, out=squares)
        shared = _product(1.0 - missing, 1.0 - absent, batch)  # 3
        # Rows that share no column have no distance.
        squares[shared == 0] = np.nan
        squares /= np.maximum(1.0, shared)
        squares *= x.shape[1]
        return np.sqrt(squares)

    def scaled(self, b: Builder, entries: Value) -> Value:  # noqa: ARG002
        return entries * entries

    def epsilon(self, dtype: str) -> float:
        return float(np.finfo(self._dtype(np.dtype(dtype))).eps)

    def _dtype(self, rows: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of what is compared: float32 where the rows and the points are."""
        return np.result_type(rows, self.points.data)


def _dots(x: Rows) -> npt.NDArray[np.float64]:
    """Return the squared length of each row, by the BLAS."""
    # Its ArgKmin asks the BLAS for each row instead, which adds otherwise than einsum.
    return np.array([np.dot(row, row) for row in x], np.float64)


def _sums(x: Rows) -> npt.NDArray[np.float64]:
    """Return the squared length of each row, term after term."""
    return np.cumsum(x * x, axis=1)[:, -1]


def _unit_rows(x: Rows, *, sparse: bool) -> Rows:
    """Divide each row by its length; rows near 0 stay."""
    if sparse:
        squares = np.cumsum((x * x).astype(np.float64), axis=1)[:, -1]
        lengths = np.sqrt(squares)
        return (x / np.where(lengths == 0.0, 1.0, lengths)[:, None]).astype(x.dtype)
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
    # scikit-learn's ``_handle_zeros_in_scale`` keeps rows whose norm is below ten epsilons.
    least = 10 * np.finfo(x.dtype).eps
    return np.asarray(x / np.where(lengths < least, x.dtype.type(1.0), lengths)[:, None])


def _term_after_term(x: Rows, y: Rows) -> Rows:
    """Multiply by the transpose of y, each product rounded, and each sum."""
    products = np.zeros((len(x), len(y)), x.dtype)
    # Columns of zeros add exact zeros, which no sum notices.
    for column in np.flatnonzero(x.any(axis=0)):
        products += x[:, column, None] * y[:, column]
    return products


def _product(x: Rows, y: Rows, batch: int = 2) -> Rows:
    """Multiply by the transpose of y, as for a batch: numpy multiplies a single row otherwise."""
    if len(x) != 1 or batch == 1:
        return x @ y.T
    # For one row the BLAS takes a product of vectors, which adds in another order.
    return (np.concatenate([x, x]) @ y.T)[:1]


Terms = npt.NDArray[np.float64]

_COMMON = ("absolute", "largest", "square", "canberra")
"""Kinds whose terms of float64 every backend rounds alike."""


@dataclass(frozen=True)
class TermDistances(Formula):
    """Sums of ``weight * term(x, y)`` over the features.

    Parameters
    ----------
    kind : str
        ``absolute``: ``|x - y|``. ``largest``: the same, but the largest is taken.
        ``square``: ``(x - y)^2``.
        ``canberra``: ``|x - y| / (|x| + |y|)``, 0 where both are 0. ``power``: ``|x - y|^p``.
        ``standard``: ``(x - y)^2`` divided by the weight. ``haversine``: the square of the sine of
        half the angle between two places, whose columns are latitude and longitude.
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
            return self._partition_formula()
        return None if self.kind in _COMMON and not self.is_narrow(dtype) else self

    def _partition_formula(self) -> Formula | None:
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
        # In float64 whatever the dtype: scikit-learn's accumulators are doubles.
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
    (distinct, row), (others, point) = (np.unique(v, return_inverse=True) for v in (a, b))
    # Terms of distinct values are gathered again afterwards, which pays only if pairs repeat.
    if len(distinct) * len(others) > len(a) * len(b) // 2:
        return term(a[:, None], b)
    return term(distinct[:, None], others)[row[:, None], point]


def _in_c(function: Callable[..., float], *values: Any) -> Terms:
    """Call the C library; where that ends in an error, the answer is numpy's."""
    wide = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))
    with np.errstate(all="ignore"):
        answers = np.asarray(getattr(np, _NAMES.get(function, function.__name__))(*wide))
    # Python's math raises at poles and overflows, where
    # the C library returns what numpy has already.
    usual = np.isfinite(answers)
    arguments = [array[usual] for array in wide]
    # Value by value: numpy's own loops use vector code whose last bit differs from the C library's.
    answers[usual] = np.frompyfunc(function, len(arguments), 1)(*arguments).astype(np.float64)
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
