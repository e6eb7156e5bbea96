"""Basis functions of columns: Interpolate, SplineBasis, Polynomial, Bins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import FINITE, Interval, Trend, bound_power, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise, OwnConstants, PerColumn, Select
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Bins", "Interpolate", "Polynomial", "SplineBasis"]


@container
class Interpolate(ColumnWise):
    """Interpolate each column linearly through ``values`` at ``knots``.

    Beyond the knots the value of the nearest knot holds. It is computed as
    ``slope * (x - knot) + value`` from the knot that begins x's piece, in numpy's common dtype of x
    and the knots.

    Parameters
    ----------
    knots, values : Array, shape (width, n_knots)
        Knots ascend. Where they repeat, the pieces between them are never used.
    closed : {"left", "right"}
        Which end belongs to a piece. ``"left"`` gives the exact value at each knot, as
        ``numpy.interp`` does.
    """

    x: Node
    knots: PerColumn
    values: PerColumn
    closed: str = "left"

    @property
    def detail(self) -> str:
        return f"{self.knots.shape[1]} knots, pieces closed on the {self.closed}"

    def trend(self, column: int) -> Trend:
        steps = np.diff(self.values.data[column])
        if (steps >= 0).all():
            return Trend.RISES
        return Trend.FALLS if (steps <= 0).all() else Trend.UNKNOWN

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        knots: npt.NDArray[np.float64] = np.unique(
            self.knots.data[column].astype(self.type.dtype).astype(np.float64)
        )
        return knots[~np.isnan(knots)]

    def infer(self) -> Type:
        return Type(self.x.type.width, np.result_type(self.x.type.dtype, self.knots.dtype).name)

    def check(self) -> str | None:
        # A piece before an infinite knot has no slope: it made NaN where the source has a share.
        if np.isinf(self.knots.data).any():
            return "a knot is infinite"
        # A quantile of a damaged transformer was NaN alone in its column, and passed as ascending.
        missing = np.isnan(self.knots.data)  # all, of a column without values
        if (missing.any(axis=-1) != missing.all(axis=-1)).any():
            return "the knots of a column are missing in part"
        return None if self.knots.ascends else "its knots do not ascend"

    def interval(self, *inputs: Interval) -> Interval | None:
        """Stay between the values at the knots, unless a slope is too steep for a float."""
        largest = largest_constant(self.values)
        steps = np.diff(self.knots.data.astype(np.float64))
        shortest = steps[steps > 0].min(initial=np.inf)
        # Written so that NaN is refused; the square of FINITE is far below the largest float64.
        if largest is None or not largest / shortest < FINITE**2:
            return None
        return inputs[0].within(2 * largest + 1)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Look up where the piece of each x begins, and its slope.

        The slope is 0 before the first knot and behind the last one.
        """
        dtype = b.dtype(self.type.dtype)
        width = self.type.width
        knots, values = (table.data.astype(dtype) for table in (self.knots, self.values))
        x = b.cast(inputs[0], dtype)
        # The pieces of all columns are in one table, so one look-up serves them.
        n_before = b.op("bucketize", x, b.constant(knots), right=self.closed == "left")
        piece = n_before + b.constant(np.arange(width) * (knots.shape[1] + 1), "int32")
        knot, value, slope = (
            b.lookup(b.constant(table.ravel()), piece) for table in _pieces(knots, values)
        )
        # Slopes beyond the knots are 0, but 0 times an infinite x would be NaN.
        within = b.op(
            "minimum", b.op("maximum", x, b.constant(knots[:, 0])), b.constant(knots[:, -1])
        )
        # numpy.interp returns the value of a knot itself, where a steep slope would round.
        return b.where(b.op("eq", within, knot), value, slope * (within - knot) + value)


def _pieces(knots: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Knot, value and slope at the start of each piece, by the number of knots before it."""
    with np.errstate(all="ignore"):
        # Knots that repeat bound pieces that no x falls in, so their slope may be any number.
        slopes = np.where(np.diff(knots) > 0, np.diff(values) / np.diff(knots), 0).astype(
            values.dtype
        )
    first_knot = knots[:, :1]
    first_value = values[:, :1]
    flat = np.zeros_like(values[:, :1])
    return (
        np.hstack([first_knot, knots]),
        np.hstack([first_value, values]),
        np.hstack([flat, slopes, flat]),
    )


@container
class SplineBasis(Node):
    """All B-splines of each column, in float64, side by side.

    It follows the recursion of de Boor and Cox (C. de Boor, A Practical Guide to Splines, chapter
    IX). The base interval leaves out ``degree`` knots at either end. Beyond it the polynomials of
    its first and last piece continue.

    Parameters
    ----------
    knots : Array of float64, shape (width, n_knots)
        Knots ascend; what a piece of no length would contribute is zero.
    degree : int
    periodic : bool
        The last ``degree`` splines of a column are the first ones, a period later, and are added
        to them.
    """

    x: Node
    knots: Array
    degree: int
    periodic: bool = False

    @property
    def detail(self) -> str:
        periodic = "  periodic" if self.periodic else ""
        return f"degree {self.degree}  {self.knots.shape[1]} knots{periodic}"

    @property
    def n_splines(self) -> int:
        """Splines of one column."""
        return self.knots.shape[1] - self.degree - 1 - (self.degree if self.periodic else 0)

    def narrowed(self, columns: Array) -> Node | None:
        """Compute the splines of the columns that have a selected one."""
        owners = columns.data // self.n_splines
        kept = np.unique(owners)
        # Splines of one column are computed together, so
        # a selection helps only if a whole column goes.
        if len(kept) == self.x.type.width:
            return None
        knots = Array(self.knots.data[kept])
        fewer = replace(self, x=Select(self.x, Array.of(kept, np.int32)), knots=knots)
        first = np.searchsorted(kept, owners) * self.n_splines
        return Select(fewer, Array.of(first + columns.data % self.n_splines, np.int32))

    def infer(self) -> Type:
        return Type(self.x.type.width * self.n_splines, "float64")

    def check(self) -> str | None:
        fits = (
            self.knots.data.ndim == 2
            and len(self.knots) == self.x.type.width
            and self.degree >= 0
            and self.n_splines > 0
        )
        return None if fits else f"has degree {self.degree}, and knots {self.knots.shape}"

    def interval(self, *inputs: Interval) -> Interval | None:
        """Bound each step of the recursion.

        A step adds two products of a share and a distance to a knot.
        """
        (x,) = inputs
        farthest = largest_constant(self.knots)
        if farthest is None:
            return None
        bound = 1.0
        knots = self.knots.data
        for degree in range(1, self.degree + 1):
            lengths = knots[:, degree:] - knots[:, :-degree]
            shortest = min(1.0, float(lengths[lengths > 0].min(initial=1.0)))
            bound *= 2 * (x.bound + farthest) / shortest
        return x.within(2 * bound)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        knots = self.knots.data
        width = self.type.width // self.n_splines
        basis = self._piece(b, x)
        x = b.reshape(x, width, 1)
        for degree in range(1, self.degree + 1):
            lengths = knots[:, degree:] - knots[:, :-degree]
            # Over infinity a piece of no length contributes 0, where 0 by 0 would be NaN.
            shares = basis / b.constant(np.where(lengths > 0, lengths, np.inf), x.dtype)
            count = shares.shape[1] - 1
            rising = b.take(shares, np.arange(count), axis=1) * (
                x - b.constant(knots[:, :count], x.dtype)
            )
            falling = b.take(shares, np.arange(1, count + 1), axis=1) * (
                b.constant(knots[:, degree + 1 :], x.dtype) - x
            )
            basis = rising + falling
        return b.reshape(self._wrap(b, basis) if self.periodic else basis, self.type.width)

    def _piece(self, b: Builder, x: Value) -> Value:
        """Compute splines of degree 0: a one for the piece that x falls in.

        The outer pieces of the base interval are open.
        """
        inner = self.knots.data[:, self.degree + 1 : self.knots.shape[1] - self.degree - 1]
        # An edge of NaN is never reached: there may be no inner knot, and bucketize needs one edge.
        edges = np.hstack([inner, np.full((len(inner), 1), np.nan)])
        piece = b.op("bucketize", x, b.constant(edges, x.dtype), right=True) + b.constant(
            self.degree, "int32"
        )
        positions = b.constant(np.arange(self.knots.shape[1] - 1), "int32")
        return b.cast(b.op("eq", b.reshape(piece, *x.shape, 1), positions), x.dtype)

    def _wrap(self, b: Builder, basis: Value) -> Value:
        first, middle, last = np.split(np.arange(basis.shape[1]), [self.degree, self.n_splines])
        sums = b.take(basis, first, axis=1) + b.take(basis, last, axis=1)
        return b.concat([sums, b.take(basis, middle, axis=1)], axis=1)


@container
class Polynomial(OwnConstants):
    """Multiply the columns that each term lists, in that order; an int x becomes float64.

    Parameters
    ----------
    terms : Array of int32, shape (outputs, degree)
        Columns, then -1 (a factor of one) up to the highest degree.
    """

    x: Node
    terms: PerColumn

    @property
    def detail(self) -> str:
        return f"degree {self.terms.shape[1]}  width {self.type.width}"

    def infer(self) -> Type:
        return Type(len(self.terms), as_float(self.x.type.dtype))

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        largest = bound_power(max(1.0, x.bound), self.terms.shape[1])
        return x.within(largest) if x.bound < 1e30 else None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Multiply factor by factor; a last column of ones stands for missing factors."""
        x = b.cast(inputs[0], self.type.dtype)
        factors = b.concat([x, b.op("expand", x, b.constant([1.0], x.dtype))])
        # One more column of ones stands for missing factors, so all terms have one length.
        terms = np.where(self.terms.data < 0, x.shape[0], self.terms.data)
        product = b.take(factors, terms[:, 0])
        for column in terms.T[1:]:
            product = product * b.take(factors, column)
        return product


@container
class Bins(ColumnWise):
    """Count the edges of its column that each value reaches (``edge <= x``), in x's dtype.

    An int x becomes float64.

    Edges are (width, m), ascending, padded with NaN. They are compared in numpy's common dtype of
    x and the edges.
    """

    x: Node
    edges: PerColumn

    always_finite: ClassVar[bool] = True
    decides: ClassVar[bool] = True
    gives: ClassVar[str] = "float"
    trends: ClassVar[Trend] = Trend.RISES

    def check(self) -> str | None:
        return None if self.edges.ascends else "its edges do not ascend"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, edges = b.promote(b.cast(inputs[0], self.type.dtype), b.constant(self.edges))
        return b.cast(b.op("bucketize", x, edges, right=True), self.type.dtype)
