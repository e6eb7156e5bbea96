"""Distances from rows to constant points or boxes, on the line, on a sphere, or of bits alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.interval import Interval, bound_power, largest_constant
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.column_wise import ColumnWise, OwnConstants, PerColumn
from hbconv.containers.schema import Type, as_float
from hbconv.tensor.decompositions import shared_squares

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "BINARY_FORMULAS",
    "Angle",
    "BinaryDistances",
    "BoxDistances",
    "Distances",
    "Haversine",
    "SharedDistances",
    "SquaredDistances",
]


@container_base
class _ToPoints(OwnConstants):
    """Base of distances from each row to constant points, in float64."""

    x: Node
    points: PerColumn

    @property
    def detail(self) -> str:
        return f"to {len(self.points)} points"

    def infer(self) -> Type:
        return Type(len(self.points), "float64")


@container
class Distances(_ToPoints):
    """Fold each point and row over the features with ``pairwise``, in x's dtype (float64 for ints).

    Parameters
    ----------
    x : Node
    points : Array, shape (n_points, width)
    kind : str
        Such as ``"square"``: the sum of the squared differences.
    p : float
        The power, of the kind ``"power"``.
    """

    kind: str = "square"
    p: float = 2.0

    @property
    def detail(self) -> str:
        power = f" {self.p:g}" if self.kind == "power" else ""
        return f"{self.kind}{power} {super().detail}"

    def infer(self) -> Type:
        return Type(len(self.points), as_float(self.x.type.dtype))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.op("pairwise", x, b.constant(self.points, x.dtype), kind=self.kind, p=self.p)


@container
class SquaredDistances(_ToPoints):
    """Compute ``sum((x - point) ** 2)`` for each point.

    It is computed as ``|x|**2 - 2 x @ point + |point|**2`` and never below 0, in float64 about the
    points' median. The median keeps the terms small, even where a few points are far from all
    others. The result has numpy's common dtype of x and points.
    """

    # Fewer points have another median, about which the rest would round otherwise.
    narrowed = Node.narrowed

    def infer(self) -> Type:
        return Type(len(self.points), np.result_type(self.x.type.dtype, self.points.dtype).name)

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        farthest = largest_constant(self.points)
        # The square of more would leave float64.
        if farthest is None or x.bound > 1e100:
            return None
        return x.within(8 * bound_power(x.bound + farthest, 2) * max(1, self.points.shape[1]))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        points = self.points.data.astype(np.float64)
        # One point at 1e12 among 80 moved the mean so far
        # that the distances to the others lost all digits.
        centre = np.median(points, axis=0)
        points = points - centre
        x = b.cast(inputs[0], "float64") - b.constant(centre)
        norms = b.reshape(b.reduce("reduce_sum", x * x), 1)
        # A product of matrices takes one multiply-add for
        # each coordinate, differences take three operations.
        distances = (
            b.matmul(x, b.constant(-2.0 * points.T)) + b.constant((points**2).sum(axis=1)) + norms
        )
        # Cancellation may leave a square just below 0, whose root would be NaN.
        return b.cast(b.op("maximum", distances, b.constant(0.0, distances.dtype)), self.type.dtype)


@container
class SharedDistances(_ToPoints):
    """Compute squared distances over the features that neither side has missing, in float64.

    The sums are scaled up to all features. They are NaN where no feature is shared.
    """

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        return shared_squares(b, x, b.constant(self.points, "float64"))


@container
class BoxDistances(OwnConstants):
    """Sum what the columns of x lie beyond the faces of boxes, to the power p; inf: the largest.

    Parameters
    ----------
    x : Node
        Floats.
    low, high : Array, shape (n_boxes, width)
    p : float
    """

    x: Node
    low: PerColumn
    high: PerColumn
    p: float

    @property
    def detail(self) -> str:
        return f"to {len(self.low)} boxes"

    def infer(self) -> Type:
        return Type(len(self.low), self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = inputs[0]
        zero = b.constant([0.0], x.dtype)
        total = b.op("expand", x, b.constant(np.zeros(len(self.low)), x.dtype))
        # Feature after feature: scikit-learn's trees leave out leaves by bounds that are added so.
        for i, (low, high) in enumerate(zip(self.low.data.T, self.high.data.T, strict=True)):
            column = b.take(x, [i])
            below = b.op("maximum", b.constant(low, x.dtype) - column, zero)
            above = b.op("maximum", column - b.constant(high, x.dtype), zero)
            total = self._add_beyond(b, total, below + above)
        return total

    def _add_beyond(self, b: Builder, total: Value, beyond: Value) -> Value:
        if self.p == np.inf:
            return b.op("maximum", total, beyond)
        if self.p == 2:
            return total + beyond * beyond
        return total + b.op("pow", beyond, b.constant([self.p], beyond.dtype))


@dataclass(frozen=True)
class _Counts:
    """Numbers of features true in both, in the row, in the point or in one alone; and of all."""

    builder: Builder
    both: Value
    row: Value
    point: Value
    alone: Value
    size: int

    def number(self, value: float) -> Value:
        return self.builder.constant([value], "float64")


def _divide(c: _Counts, numerator: Value, denominator: Value) -> Value:
    """Divide; nothing by nothing is 0."""
    zero = c.number(0.0)
    # The denominator is replaced too: 0 by 0 would be NaN, and warn on some backends.
    none = c.builder.op("eq", numerator, zero)
    return c.builder.where(
        none, zero, numerator / c.builder.where(none, c.number(1.0), denominator)
    )


def _yule(c: _Counts) -> Value:
    crossed = c.row * c.point
    neither = c.number(c.size) - c.both - c.alone
    return _divide(c, c.number(2.0) * crossed, c.both * neither + crossed)


BINARY_FORMULAS: dict[str, Callable[[_Counts], Value]] = {
    "dice": lambda c: c.alone / (c.number(2.0) * c.both + c.alone),
    "jaccard": lambda c: _divide(c, c.alone, c.both + c.alone),
    "rogerstanimoto": lambda c: c.number(2.0) * c.alone / (c.number(c.size) + c.alone),
    "russellrao": lambda c: (c.number(c.size) - c.both) / c.number(c.size),
    "sokalsneath": lambda c: c.alone / (c.number(0.5) * c.both + c.alone),
    "yule": _yule,
}
"""Distances by name, as ``scipy.spatial.distance`` defines them."""


@container
class BinaryDistances(_ToPoints):
    """A distance of BINARY_FORMULAS between each row and each point, float64."""

    metric: str

    @property
    def detail(self) -> str:
        return f"{self.metric} {super().detail}"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        points = (self.points.data != 0).astype(np.float64)
        true = b.cast(b.op("ne", x, b.constant([0], x.dtype)), "float64")
        both = b.matmul(true, b.constant(points.T))
        row = b.reshape(b.reduce("reduce_sum", true), 1) - both
        point = b.constant(points.sum(axis=1)) - both
        return BINARY_FORMULAS[self.metric](
            _Counts(b, both, row, point, row + point, points.shape[1])
        )


@container
class Haversine(_ToPoints):
    """Compute the squared sine of half the angle between rows and points on a sphere, in float64.

    This is ``sin((a - b) / 2)^2 + cos(a) cos(b) sin((c - d) / 2)^2`` for a row of latitude a and
    longitude c and each point (b, d), in radians.
    """

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        latitude = b.take(x, [0])
        longitude = b.take(x, [1])
        north, east = (
            _half_sine(b, position, self.points.data[:, j])
            for j, position in enumerate((latitude, longitude))
        )
        widths = b.op("cos", latitude) * b.constant(np.cos(self.points.data[:, 0]), "float64")
        # The source's order of products, by which radii round.
        return north * north + widths * east * east


@container
class Angle(ColumnWise):
    """``2 asin(sqrt(x))``: the angle whose half has the squared sine x."""

    x: Node

    inexact: ClassVar[bool] = True

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.constant([2.0], inputs[0].dtype) * b.op("asin", b.op("sqrt", inputs[0]))


def _half_sine(b: Builder, x: Value, points: npt.NDArray[Any]) -> Value:
    """Sine of half the difference."""
    return b.op("sin", b.constant([0.5], "float64") * (x - b.constant(points, "float64")))
