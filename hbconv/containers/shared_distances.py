"""SharedDistances: between rows and points of which some values are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["SharedDistances"]


@container
class SharedDistances(Node):
    """Squared distances over the features that neither has missing (NaN), scaled up to all features; NaN where they share none. Float64."""

    x: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to {len(self.points)} points"

    def infer(self) -> Type:
        return Type(len(self.points), "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, points = b.cast(inputs[0], "float64"), self.points.data.astype(np.float64)
        known = b.cast(~b.op("isnan", x), "float64")
        shared = b.matmul(known, b.constant((~np.isnan(points)).T, "float64"))
        width = b.constant([float(points.shape[1])], "float64")
        return b.op("pairwise", x, b.constant(points), kind="present", p=2.0) / shared * width
