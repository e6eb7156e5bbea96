"""Squared distances by products of matrices, as scikit-learn computes them: to its last bits.

``|x|^2 - 2 x y + |y|^2`` loses digits where it cancels, so distances that are equal, or nearly,
become unequal, and the source chooses by that. The same products in numpy round alike: for narrow
rows always, as its BLAS and SciPy's both add term after term; for wide ones nearly always.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.formula import Formula, Rows, is_searched_by_heap

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "CosineDistances",
    "ProductDistances",
    "RootProducts",
    "SharedProducts",
    "SparseProducts",
    "WholeProducts",
]

EPSILON = float(np.finfo(np.float64).eps)
CHUNK = 256
"""Points of one product, as in scikit-learn: the last columns of a product may round otherwise."""


@dataclass(frozen=True)
class WholeProducts(Formula):
    """Squared distances to points, of which none is missing."""

    terms: ClassVar[int] = 1
    """Products of matrices beside the first one, at most."""

    @cached_property
    def _known(self) -> Rows:
        return np.nan_to_num(self.points.data.astype(np.float64), nan=0.0)

    @cached_property
    def _lengths(self) -> npt.NDArray[np.float64]:
        return self._row_lengths(self._known)

    @property
    def growth(self) -> int:
        """By how much distances are scaled up, at most."""
        return 1

    def rounds(self, rows: Rows) -> bool:
        """Whether distances of any of these rows may be rounded: those of small ints are not."""
        if not self._are_ints:
            return True
        digits = np.finfo(np.result_type(rows, np.float32)).nmant
        largest = max(np.abs(rows).max(initial=0.0), np.abs(self._known).max(initial=0.0))
        is_small = self.terms * self.points.shape[1] * (2.0 * largest) ** 2 < 2.0**digits
        return not (is_small and (rows == np.rint(rows)).all())

    @cached_property
    def _are_ints(self) -> bool:
        return bool((self._known == np.rint(self._known)).all())

    def entries(self, rows: Rows, batch: int) -> Rows:  # noqa: ARG002
        x = rows.astype(np.float64)
        squares = self._row_lengths(x)[:, None] + -2.0 * self._products(x) + self._lengths
        return np.maximum(squares, 0.0)

    def _products(self, x: Rows) -> Rows:
        """Multiply rows with the points."""
        return _product(x, self._known)

    def _row_lengths(self, x: Rows) -> npt.NDArray[np.float64]:
        return np.asarray(np.einsum("ij,ij->i", x, x))

    def epsilon(self, dtype: str) -> float:  # noqa: ARG002
        """Return the rounding of what is compared for rows of a dtype."""
        return EPSILON

    def margin(self, b: Builder, rows: Value, entries: Value) -> Value:  # noqa: ARG002
        """Bound the rounding of sums of ``width`` terms, each at most ``|x|^2 + |y|^2``."""
        x = b.cast(rows, "float64")
        x = b.where(b.op("isnan", x), b.op("expand", x, b.constant([0.0], x.dtype)), x)
        largest = float((self._known**2).sum(axis=1).max(initial=0.0))
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
        y = self._known
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
        return (_sums if self.points_are_sparse else _dots)(self._known)

    def _row_lengths(self, x: Rows) -> npt.NDArray[np.float64]:
        return (_sums if self.rows_are_sparse else _dots)(x)

    def _products(self, x: Rows) -> Rows:
        return _term_after_term(x, self._known)


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
        given, points = rows.astype(dtype), self.points.data.astype(dtype)
        missing, absent = (np.isnan(v).astype(dtype) for v in (given, points))
        x, y = (np.nan_to_num(v, nan=0.0) for v in (given, points))
        squares = -2.0 * _product(x.astype(np.float64), self._known, batch)  # 1
        squares += np.einsum("ij,ij->i", x, x, dtype=np.float64)[:, None]
        squares += np.einsum("ij,ij->i", self._known, self._known)
        squares = np.maximum(squares, 0.0).astype(dtype)
        squares -= _product(x * x, absent, batch)  # 2
        squares -= _product(missing, y * y, batch)
        np.maximum(squares, 0.0, out=squares)
        shared = _product(1.0 - missing, 1.0 - absent, batch)  # 3
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
    least = 10 * np.finfo(x.dtype).eps
    return np.asarray(x / np.where(lengths < least, x.dtype.type(1.0), lengths)[:, None])


def _term_after_term(x: Rows, y: Rows) -> Rows:
    """Multiply by the transpose of y, each product rounded, and each sum."""
    products = np.zeros((len(x), len(y)), x.dtype)
    for column in np.flatnonzero(x.any(axis=0)):
        products += x[:, column, None] * y[:, column]
    return products


def _product(x: Rows, y: Rows, batch: int = 2) -> Rows:
    """Multiply by the transpose of y, as for a batch: numpy multiplies a single row otherwise."""
    if len(x) != 1 or batch == 1:
        return x @ y.T
    return (np.concatenate([x, x]) @ y.T)[:1]
