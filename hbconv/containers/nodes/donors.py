"""Donors: fitted rows that have a value which a row misses; what they give in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Interval, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.distances import SharedDistances
from hbconv.containers.nodes.elementwise import Map
from hbconv.containers.nodes.neighbors import ChoosesNearest, Numbers
from hbconv.containers.product_distances import SharedProducts
from hbconv.containers.schema import Type
from hbconv.containers.searches import PartitionSearch

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["DonorDistances", "DonorMeans", "NearestDonors"]

VISIBLE = 2.0**24
"""Times the rounding of a squared distance up to which a weight is taken from the source's own.

A row beside a fitted one is at a distance of 0, of which products of matrices leave 1e-8: its donor
counts alone, or a hundred million times as much as others.
"""


@container
class NearestDonors(ChoosesNearest):
    """Find the ``count`` donors nearest to each row, for each column that the row misses.

    The values are int32 positions among the points, ``count`` for each column, the nearest first.
    Where the donors are fewer, other points follow, whose distance is NaN (``DonorDistances``).

    Parameters
    ----------
    rows : Node
        Floats; NaN where a value is missing.
    count : int
    search : PartitionSearch
        How the source chooses among donors equally near.
    formula : SharedProducts
        How it computes the distances to the fitted rows, whose rounding decides.
    weighed : bool
        Donors count by their distances.
    """

    rows: Node
    count: int
    search: PartitionSearch
    formula: SharedProducts
    weighed: bool = False

    @property
    def points(self) -> Array:
        """The fitted rows, NaN where a value is missing."""
        return self.formula.points

    @property
    def detail(self) -> str:
        return f"{self.count} of {len(self.points)} points"

    @property
    def entries(self) -> Node:
        return Map(SharedDistances(self.rows, self.points), "sqrt")

    @property
    def near(self) -> Node:
        return DonorDistances(self.rows, self, self.points)

    def infer(self) -> Type:
        return Type(self.rows.type.width * self.count, "int32")

    def check(self) -> str | None:
        return super().check() if self.formula.of is None else "takes some of the points"

    def nearest(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        return b.op("nearest_donors", x, b.constant(self.points, "float64"), k=self.listed)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        chosen = b.take(self.nearest(b, *inputs), np.arange(self.count), axis=1)
        return b.reshape(chosen, self.type.width)

    def tied(self, b: Builder, *inputs: Value) -> Value | None:
        """Tell the rows that miss a column of which the next donor is as near as the last.

        Where donors are ``weighed``, those are too whose nearest one is so near that its distance
        shows the rounding of the source.
        """
        conditions = []
        margin = b.reshape(self.formula.margin(b, inputs[0], inputs[0]), 1, 1)
        # Columns that the row has are at distance NaN, which no margin holds.
        if self.listed > self.count:
            last, following = (
                self._square_of(b, inputs[0], place) for place in (self.count - 1, self.count)
            )
            conditions.append(following - last <= margin)
        if self.weighed:
            margin = margin * b.constant(VISIBLE, margin.dtype)
            conditions.append(self._square_of(b, inputs[0], 0) <= margin)
        if not conditions:
            return None
        marks = b.reshape(b.concat(conditions), len(conditions) * inputs[0].shape[0])
        return b.reshape(b.reduce("reduce_any", marks), 1)

    def _square_of(self, b: Builder, rows: Value, place: int) -> Value:
        """Write the squared distance of one of the listed donors, for each column."""
        x, points = b.cast(rows, "float64"), b.constant(self.points, "float64")
        positions = b.take(self.nearest(b, rows), [place], axis=1)
        return b.op("donor_distances", x, positions, points)

    def choose(self, values: Mapping[str, Numbers]) -> npt.NDArray[np.int32]:
        """Choose column by column, among the points that have it."""
        rows, entries = values["rows"], values["entries"]
        lacks = np.isnan(self.points.data)
        chosen = np.zeros((*rows.shape, self.count), np.int32)
        for column, missing in enumerate(np.isnan(rows).T):
            donors = np.flatnonzero(~lacks[:, column])
            receivers = np.flatnonzero(missing)
            found = min(self.count, len(donors))
            if not (len(receivers) and found):
                continue
            if found < self.count:
                # A point that lacks the value counts for nothing.
                chosen[receivers, column] = np.flatnonzero(lacks[:, column])[0]
            apart = entries[np.ix_(receivers, donors)]
            chosen[receivers, column, :found] = donors[self.search.choose(apart, found)]
        return chosen.reshape(len(rows), -1)

    def entries_at(self, entries: Numbers, chosen: npt.NDArray[np.int32]) -> Numbers:
        """Return the distances of a choice; NaN where a point lacks the value."""
        columns = np.repeat(np.arange(self.rows.type.width), self.count)
        lacks = np.isnan(self.points.data[chosen, columns])
        return np.where(lacks, np.nan, super().entries_at(entries, chosen))


@container
class DonorDistances(Node):
    """Compute distances to donors over the features that neither side misses, in float64.

    A distance is NaN where the two share no feature, the donor lacks the value, or the row has it.

    Parameters
    ----------
    rows : Node
    positions : Node
        As many for each column.
    points : Array, shape (n_points, width)
    """

    rows: Node
    positions: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to some of {len(self.points)} points"

    def infer(self) -> Type:
        return Type(self.positions.type.width, "float64")

    def check(self) -> str | None:
        return _misfit(self.positions, self.points)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, positions = inputs
        of_columns = b.reshape(positions, x.shape[0], positions.shape[0] // x.shape[0])
        points = b.constant(self.points, "float64")
        squares = b.op("donor_distances", b.cast(x, "float64"), of_columns, points)
        return b.op("sqrt", b.reshape(squares, *positions.shape))


@container
class DonorMeans(Node):
    """Average what the donors of each column have there, by weights, in float64.

    Where all weights are 0, the mean is that of the column.

    Parameters
    ----------
    positions, weights : Node
        As many for each column.
    points : Array, shape (n_points, width)
    means : Array, shape (width,)
    """

    positions: Node
    weights: Node
    points: Array
    means: Array

    @property
    def detail(self) -> str:
        return f"of {len(self.points)} points"

    def infer(self) -> Type:
        return Type(self.points.shape[1], "float64")

    def check(self) -> str | None:
        if self.weights.type.width != self.positions.type.width:
            return f"{self.weights.type.width} weights of {self.positions.type.width} donors"
        return _misfit(self.positions, self.points)

    def interval(self, *inputs: Interval) -> Interval | None:
        weights = inputs[1]
        largest = largest_constant(Array(self._values()), self.means)
        # Weights above 1 may make infinite sums of what is finite.
        if largest is None or weights.nan_from or weights.bound > 1.0:
            return None
        # A mean is rounded, so it may be above the largest value.
        return Interval(2.0 * largest)

    def _values(self) -> npt.NDArray[np.float64]:
        return np.nan_to_num(self.points.data.astype(np.float64), nan=0.0)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.points.shape[1]
        positions, weights = (b.reshape(x, width, x.shape[0] // width) for x in inputs)
        columns = b.constant(np.arange(width)[:, None], "int32")
        entries = positions * b.constant(width, "int32") + columns
        values = b.lookup(b.constant(self._values().ravel(), "float64"), entries)
        total = b.reduce("reduce_sum", weights, axis=1)
        mean = b.reduce("ordered_sum", weights * values, axis=1) / total
        nothing = b.op("eq", total, b.constant(0.0, total.dtype))
        return b.where(nothing, b.constant(self.means, total.dtype), mean)


def _misfit(positions: Node, points: Array) -> str | None:
    """Return why positions are not as many for each column; None where they are."""
    width = points.shape[1]
    if width and positions.type.width % width == 0 and points.data.size < 2**31:
        return None
    return f"{positions.type.width} donors for {points.shape} points"
