"""SquaredDistances: to constant points, by one product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["SquaredDistances"]


@container
class SquaredDistances(Node):
    """``sum((x - point) ** 2)`` for each point, as ``|x|**2 - 2 x @ point + |point|**2`` and never below 0.

    Computed in float64 about the points' mean, which keeps the terms small; the result has numpy's common dtype of x and points.
    """

    x: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to {len(self.points)} points"

    def infer(self) -> Type:
        return Type(len(self.points), np.result_type(self.x.type.dtype, self.points.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        points = self.points.data.astype(np.float64)
        centre = points.mean(axis=0)
        points = points - centre
        x = b.cast(inputs[0], "float64") - b.constant(centre)
        norms = b.reshape(b.reduce("reduce_sum", x * x), 1)
        distances = b.matmul(x, b.constant(-2.0 * points.T)) + b.constant((points**2).sum(axis=1)) + norms
        return b.cast(b.op("maximum", distances, b.constant(0.0, distances.dtype)), self.type.dtype)
