"""SplineBasis: the B-splines over given knots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["SplineBasis"]


@container
class SplineBasis(Node):
    """All B-splines of each column, in float64, side by side.

    By the recursion of de Boor and Cox (C. de Boor, A Practical Guide to Splines, chapter IX). Beyond the base interval, which
    leaves out ``degree`` knots at either end, the polynomials of its first and last piece go on.

    Parameters
    ----------
    knots : Array of float64, shape (width, n_knots)
        Knots ascend; what a piece of no length would contribute is zero.
    degree : int
    periodic : bool
        The last ``degree`` splines of a column are the first ones, a period later, and are added to them.
    """

    x: Node
    knots: Array
    degree: int
    periodic: bool = False

    @property
    def detail(self) -> str:
        return f"degree {self.degree}  {self.knots.shape[1]} knots{'  periodic' if self.periodic else ''}"

    @property
    def n_splines(self) -> int:
        """Splines of one column."""
        return self.knots.shape[1] - self.degree - 1 - (self.degree if self.periodic else 0)

    def infer(self) -> Type:
        return Type(self.x.type.width * self.n_splines, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        knots, width = self.knots.data, self.type.width // self.n_splines
        basis = self._piece(b, x)
        x = b.reshape(x, width, 1)
        for degree in range(1, self.degree + 1):
            lengths = knots[:, degree:] - knots[:, :-degree]
            shares = basis / b.constant(np.where(lengths > 0, lengths, np.inf), x.dtype)
            count = shares.shape[1] - 1
            rising = b.take(shares, np.arange(count), axis=1) * (x - b.constant(knots[:, :count], x.dtype))
            falling = b.take(shares, np.arange(1, count + 1), axis=1) * (b.constant(knots[:, degree + 1 :], x.dtype) - x)
            basis = rising + falling
        return b.reshape(self._wrapped(b, basis) if self.periodic else basis, self.type.width)

    def _piece(self, b: Builder, x: Value) -> Value:
        """Splines of degree 0: a one for the piece that x falls in, the outer ones of the base interval being open."""
        inner = self.knots.data[:, self.degree + 1 : self.knots.shape[1] - self.degree - 1]
        edges = np.hstack([inner, np.full((len(inner), 1), np.nan)])
        piece = b.op("bucketize", x, b.constant(edges, x.dtype), right=True) + b.constant(self.degree, "int32")
        positions = b.constant(np.arange(self.knots.shape[1] - 1), "int32")
        return b.cast(b.op("eq", b.reshape(piece, *x.shape, 1), positions), x.dtype)

    def _wrapped(self, b: Builder, basis: Value) -> Value:
        first, middle, last = np.split(np.arange(basis.shape[1]), [self.degree, self.n_splines])
        sums = b.take(basis, first, axis=1) + b.take(basis, last, axis=1)
        return b.concat([sums, b.take(basis, middle, axis=1)], axis=1)
