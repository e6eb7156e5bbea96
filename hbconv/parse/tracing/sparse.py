"""Sparse rows that record: what a function sees behind a step that makes a sparse matrix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hbconv.containers import Node
from hbconv.parse.tracing.arrays import N_ROWS, Traced, TracedMatrix, call_function
from hbconv.parse.tracing.functions import MAPPED
from hbconv.parse.tracing.trace import RowCount, refuse

__all__ = ["KEEP_ZERO", "TESTS", "TracedSparse"]

KEEP_ZERO = frozenset(
    {
        np.absolute,
        np.negative,
        np.positive,
        np.sign,
        np.sqrt,
        np.expm1,
        np.log1p,
        np.sin,
        np.tan,
        np.arcsin,
        np.arctan,
        np.sinh,
        np.tanh,
        np.arcsinh,
        np.arctanh,
        np.deg2rad,
        np.rad2deg,
        np.rint,
    }
)
"""Functions that scipy applies to the nonzeros of a sparse matrix: they keep zero."""

_METHODS = {
    ufunc.__name__: ufunc for ufunc in (*(KEEP_ZERO & MAPPED.keys()), np.floor, np.ceil, np.trunc)
}
"""Those that scipy has as methods, by name."""

_PARTS = ("data", "indices", "indptr")
_WAYS = "Make an array of it first: X.toarray()."


class TracedSparse(Traced):
    """A sparse matrix of shape (n_rows, width), as scipy's: ``*`` is a product of matrices.

    Parameters
    ----------
    node : Node
        Its columns, with their zeros.
    layout : {"kept", "csr", "csc"}
        "kept" is that of the rows.
    """

    ndim = 2

    def __init__(self, node: Node, layout: Any = "kept") -> None:
        self.node = node
        self.layout = layout

    @property
    def real_class(self) -> Any:
        """Class that it stands for; steps make matrices, and most of them csr."""
        sparse = sys.modules["scipy.sparse"]
        return sparse.csc_matrix if self.layout == "csc" else sparse.csr_matrix

    @property
    def shape(self) -> tuple[RowCount, int]:
        """Its shape."""
        return N_ROWS, self.node.type.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the rows."""
        return np.dtype(self.node.type.dtype)

    def __getattr__(self, name: str) -> Any:
        # scipy's own attributes differ among versions, and a function may ask for any.
        is_known = name in _PARTS or hasattr(self.real_class, name)
        if name.startswith("__") or not is_known:
            raise AttributeError(f"{self.real_class.__name__!r} object has no attribute {name!r}")
        if name in _METHODS:
            return lambda: self._of(_METHODS[name])
        return refuse(f"uses {name} of a sparse matrix, which hbconv does not follow", _WAYS)

    def toarray(self, order: Any = None) -> TracedMatrix:  # noqa: ARG002
        """Return the array."""
        return TracedMatrix(self.node)

    todense = toarray

    def copy(self) -> TracedSparse:
        """Return the same matrix, into which nothing can be written."""
        return TracedSparse(self.node, self.layout)

    def tocsr(self, copy: bool = False) -> TracedSparse:  # noqa: ARG002
        """Return it in rows."""
        return TracedSparse(self.node, "csr")

    def tocsc(self, copy: bool = False) -> TracedSparse:  # noqa: ARG002
        """Return it in columns."""
        return TracedSparse(self.node, "csc")

    def astype(self, dtype: npt.DTypeLike, *, copy: bool = True) -> TracedSparse:  # noqa: ARG002
        """Convert."""
        return self._like(self._array.astype(dtype))

    def multiply(self, other: Any) -> TracedSparse:
        """Multiply entries by a number."""
        # scipy makes coo of a product with an array.
        if isinstance(other, Traced) or np.ndim(other):
            refuse("multiplies a sparse matrix by other than a number", _WAYS)
        return self._like(self._array * other)

    def power(self, n: Any) -> TracedSparse:
        """Raise entries to a power."""
        if not (isinstance(n, int | float) and n > 0):
            refuse("raises a sparse matrix to other than a positive number", _WAYS)
        return self._like(self._array**n)

    def dot(self, weights: Any) -> Any:
        """Multiply by a constant matrix, which gives an array."""
        if not isinstance(weights, np.ndarray):
            refuse("multiplies a sparse matrix by other than an array", _WAYS)
        return call_function("matmul", (self._array, weights), {})

    __matmul__ = dot

    def __mul__(self, other: Any) -> Any:
        # Of two matrices it is their product, by which rows meet rows.
        if isinstance(other, Traced) or np.ndim(other):
            refuse("multiplies a sparse matrix by * with other than a number", _WAYS)
        return self.multiply(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> TracedSparse:
        if isinstance(other, Traced) or np.ndim(other):
            refuse("divides a sparse matrix by other than a number", _WAYS)
        # As scipy divides: by the reciprocal, in float64.
        return self._like(self._array.astype(np.float64) * (1 / other))

    def __neg__(self) -> TracedSparse:
        return self._of(np.negative)

    def __abs__(self) -> TracedSparse:
        return self._of(np.absolute)

    def __getitem__(self, key: Any) -> TracedSparse:
        # A single column is a matrix of scipy's matrices and a vector of its arrays.
        if not isinstance(key, tuple) or len(key) != 2 or isinstance(key[1], int | np.integer):
            refuse("takes other than columns of a sparse matrix", "Take them by X[:, [0, 1]].")
        return self._like(self._array[key])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords or len(inputs) > 1 or ufunc not in KEEP_ZERO:
            refuse(f"calls numpy.{ufunc.__name__} of a sparse matrix", _WAYS)
        return self._of(ufunc)

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        refuse(f"calls numpy.{function.__name__} of a sparse matrix", _WAYS)

    @property
    def _array(self) -> Any:
        return TracedMatrix(self.node)

    def _of(self, ufunc: np.ufunc) -> TracedSparse:
        return self._like(ufunc(self._array))

    def _like(self, array: Any) -> TracedSparse:
        return TracedSparse(array.node, self.layout)


def _tester(layout: str | None) -> Callable[[Any], bool]:
    """Return a test of scipy: whether a value is a sparse matrix, of one layout."""

    def test(x: Any) -> bool:
        if not isinstance(x, TracedSparse):
            return False
        return layout is None or x.real_class.__name__.startswith(layout)

    return test


TESTS: dict[str, Callable[[Any], bool]] = {
    "issparse": _tester(None),
    "isspmatrix": _tester(None),
    "isspmatrix_csr": _tester("csr"),
    "isspmatrix_csc": _tester("csc"),
}
"""Tests of ``scipy.sparse`` by name, as they stand in."""
