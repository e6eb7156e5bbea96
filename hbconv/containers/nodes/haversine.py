"""Haversine and Angle: how far points on a sphere are apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Angle", "Haversine"]


@container
class Haversine(Node):
    """Compute the squared sine of half the angle between rows and points on a sphere, in float64.

    This is ``sin((a - b) / 2)^2 + cos(a) cos(b) sin((c - d) / 2)^2`` for a row of latitude a and
    longitude c and each point (b, d), in radians.
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
        latitude = b.take(x, [0])
        longitude = b.take(x, [1])
        north, east = (
            _half_sine(b, position, self.points.data[:, j])
            for j, position in enumerate((latitude, longitude))
        )
        widths = b.op("cos", latitude) * b.constant(np.cos(self.points.data[:, 0]), "float64")
        return north * north + widths * east * east  # the source's order, by which radii round


@container
class Angle(Node):
    """``2 asin(sqrt(x))``: the angle of which x is the squared sine of the half."""

    x: Node

    def narrowed(self, columns: Array) -> Node:
        return Angle(Select(self.x, columns))

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.constant([2.0], inputs[0].dtype) * b.op("asin", b.op("sqrt", inputs[0]))


def _half_sine(b: Builder, x: Value, points: npt.NDArray[Any]) -> Value:
    """Sine of half the difference."""
    return b.op("sin", b.constant([0.5], "float64") * (x - b.constant(points, "float64")))
