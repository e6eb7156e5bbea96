"""BinaryDistances: between rows and points of which only zero and not zero count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["BINARY_FORMULAS", "BinaryDistances"]


@dataclass(frozen=True)
class _Counts:
    """Numbers of features true in both, in the row, in the point or in one alone; and of all."""

    builder: Builder
    both: Value
    row: Value
    point: Value
    one: Value
    size: int

    def number(self, value: float) -> Value:
        return self.builder.constant([value], "float64")


def _divided(c: _Counts, numerator: Value, denominator: Value) -> Value:
    """Divide; nothing by nothing is 0."""
    zero = c.number(0.0)
    none = c.builder.op("eq", numerator, zero)
    return c.builder.where(
        none, zero, numerator / c.builder.where(none, c.number(1.0), denominator)
    )


def _yule(c: _Counts) -> Value:
    crossed = c.row * c.point
    neither = c.number(c.size) - c.both - c.one
    return _divided(c, c.number(2.0) * crossed, c.both * neither + crossed)


BINARY_FORMULAS: dict[str, Callable[[_Counts], Value]] = {
    "dice": lambda c: c.one / (c.number(2.0) * c.both + c.one),
    "jaccard": lambda c: _divided(c, c.one, c.both + c.one),
    "rogerstanimoto": lambda c: c.number(2.0) * c.one / (c.number(c.size) + c.one),
    "russellrao": lambda c: (c.number(c.size) - c.both) / c.number(c.size),
    "sokalsneath": lambda c: c.one / (c.number(0.5) * c.both + c.one),
    "yule": _yule,
}
"""Distances by name, as ``scipy.spatial.distance`` defines them."""


@container
class BinaryDistances(Node):
    """A distance of BINARY_FORMULAS between each row and each point, float64."""

    x: Node
    points: Array
    metric: str

    @property
    def detail(self) -> str:
        return f"{self.metric} to {len(self.points)} points"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, points=Array(self.points.data[columns.data]))

    def infer(self) -> Type:
        return Type(len(self.points), "float64")

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
