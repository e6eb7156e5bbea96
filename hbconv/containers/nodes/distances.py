"""Distances from rows to constant points, or boxes.

Distances, SquaredDistances, SharedDistances, BoxDistances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.interval import Interval, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["BoxDistances", "Distances", "SharedDistances", "SquaredDistances"]


@container
class Distances(Node):
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

    x: Node
    points: Array
    kind: str = "square"
    p: float = 2.0

    @property
    def detail(self) -> str:
        return (
            f"{self.kind} {self.p:g} to {len(self.points)} points"
            if self.kind == "power"
            else f"{self.kind} to {len(self.points)} points"
        )

    def narrowed(self, columns: Array) -> Node:
        return replace(self, points=Array(self.points.data[columns.data]))

    def infer(self) -> Type:
        return Type(
            len(self.points),
            self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64",
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.op("pairwise", x, b.constant(self.points, x.dtype), kind=self.kind, p=self.p)


@container
class SquaredDistances(Node):
    """Compute ``sum((x - point) ** 2)`` for each point.

    It is computed as ``|x|**2 - 2 x @ point + |point|**2`` and never below 0, in float64 about the
    points' median. The median keeps the terms small, even where a few points are far from all
    others. The result has numpy's common dtype of x and points.
    """

    x: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to {len(self.points)} points"

    def infer(self) -> Type:
        return Type(len(self.points), np.result_type(self.x.type.dtype, self.points.dtype).name)

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        farthest = largest_constant(self.points)
        if farthest is None or x.bound > 1e100:
            return None
        return x.within(8 * (x.bound + farthest) ** 2 * max(1, self.points.shape[1]))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        points = self.points.data.astype(np.float64)
        centre = np.median(points, axis=0)
        points = points - centre
        x = b.cast(inputs[0], "float64") - b.constant(centre)
        norms = b.reshape(b.reduce("reduce_sum", x * x), 1)
        distances = (
            b.matmul(x, b.constant(-2.0 * points.T)) + b.constant((points**2).sum(axis=1)) + norms
        )
        return b.cast(b.op("maximum", distances, b.constant(0.0, distances.dtype)), self.type.dtype)


@container
class SharedDistances(Node):
    """Compute squared distances over the features that neither side has missing, in float64.

    The sums are scaled up to all features. They are NaN where no feature is shared.
    """

    x: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to {len(self.points)} points"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, points=Array(self.points.data[columns.data]))

    def infer(self) -> Type:
        return Type(len(self.points), "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        points = self.points.data.astype(np.float64)
        known = b.cast(~b.op("isnan", x), "float64")
        shared = b.matmul(known, b.constant((~np.isnan(points)).T, "float64"))
        width = b.constant([float(points.shape[1])], "float64")
        return b.op("pairwise", x, b.constant(points), kind="present", p=2.0) / shared * width


@container
class BoxDistances(Node):
    """Sum what the columns of x lie beyond the faces of boxes, to the power p; inf: the largest.

    Parameters
    ----------
    x : Node
        Floats.
    low, high : Array, shape (n_boxes, width)
    p : float
    """

    x: Node
    low: Array
    high: Array
    p: float

    @property
    def detail(self) -> str:
        return f"to {len(self.low)} boxes"

    def narrowed(self, columns: Array) -> Node:
        low, high = (Array(faces.data[columns.data]) for faces in (self.low, self.high))
        return replace(self, low=low, high=high)

    def infer(self) -> Type:
        return Type(len(self.low), self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = inputs[0]
        zero = b.constant([0.0], x.dtype)
        total = b.op("expand", x, b.constant(np.zeros(len(self.low)), x.dtype))
        for i, (low, high) in enumerate(zip(self.low.data.T, self.high.data.T, strict=True)):
            column = b.take(x, [i])
            below = b.op("maximum", b.constant(low, x.dtype) - column, zero)
            above = b.op("maximum", column - b.constant(high, x.dtype), zero)
            total = self._added(b, total, below + above)
        return total

    def _added(self, b: Builder, total: Value, beyond: Value) -> Value:
        if self.p == np.inf:
            return b.op("maximum", total, beyond)
        if self.p == 2:
            return total + beyond * beyond
        return total + b.op("pow", beyond, b.constant([self.p], beyond.dtype))
