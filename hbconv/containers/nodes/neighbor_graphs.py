"""Graphs of neighbours: their rows, and the shortest paths over them."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Held", "Scatter", "ShortestPaths"]


@container
class Scatter(Node):
    """Each row's values at its own int32 positions, and what stands for absent ones elsewhere."""

    values: Node
    positions: Node
    width: int
    absent: float = 0.0

    def infer(self) -> Type:
        return Type(self.width, self.values.type.dtype)

    def check(self) -> str | None:
        fits = self.width > 0 and self.values.type.width == self.positions.type.width
        return None if fits else f"scatters over {self.width} columns"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        values, positions = inputs
        scattered = b.op("scatter", positions, values, width=self.width)
        if self.absent == 0:
            return scattered
        ones = b.op(
            "expand", values, b.constant(Array(np.ones(self.positions.type.width)), values.dtype)
        )
        there = b.op("scatter", positions, ones, width=self.width) > b.constant(0.0, values.dtype)
        return b.where(there, scattered, b.constant(self.absent, values.dtype))


@container
class Held(Node):
    """The values that are held, and what stands for absent ones elsewhere."""

    held: Node
    values: Node
    absent: float = 0.0

    def narrowed(self, columns: Array) -> Node:
        return replace(self, held=Select(self.held, columns), values=Select(self.values, columns))

    def infer(self) -> Type:
        return self.values.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        held, values = inputs
        return b.where(held, values, b.constant(self.absent, values.dtype))


@container
class ShortestPaths(Node):
    """Find the length of the shortest way to each point through a neighbour.

    This is ``min over i of distances[:, i] + lengths[positions[:, i]]``.
    """

    positions: Node
    distances: Node
    lengths: Array

    @property
    def detail(self) -> str:
        return f"to {self.lengths.shape[1]} points"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, lengths=Array(self.lengths.data[:, columns.data]))

    def infer(self) -> Type:
        return Type(
            self.lengths.shape[1],
            np.result_type(self.distances.type.dtype, self.lengths.dtype).name,
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        positions, distances = inputs
        lengths = b.constant(self.lengths, self.type.dtype)
        distances = b.cast(distances, self.type.dtype)
        ways = []
        for i in range(positions.shape[0]):
            onward = b.reshape(b.lookup(lengths, b.take(positions, [i])), self.type.width)
            ways.append(onward + b.take(distances, [i]))
        return reduce(lambda shortest, way: b.op("minimum", shortest, way), ways)
