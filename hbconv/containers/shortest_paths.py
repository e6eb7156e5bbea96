"""ShortestPaths: over neighbours to all points."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["ShortestPaths"]


@container
class ShortestPaths(Node):
    """``min over i of distances[:, i] + lengths[positions[:, i]]``: the shortest way to each point by way of a neighbour."""

    positions: Node
    distances: Node
    lengths: Array

    @property
    def detail(self) -> str:
        return f"to {len(self.lengths)} points"

    def infer(self) -> Type:
        return Type(len(self.lengths), np.result_type(self.distances.type.dtype, self.lengths.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        positions, distances = inputs
        lengths = b.constant(self.lengths, self.type.dtype)
        distances = b.cast(distances, self.type.dtype)
        ways = []
        for i in range(positions.shape[0]):
            onward = b.reshape(b.lookup(lengths, b.take(positions, [i])), self.type.width)
            ways.append(onward + b.take(distances, [i]))
        return reduce(lambda shortest, way: b.op("minimum", shortest, way), ways)
