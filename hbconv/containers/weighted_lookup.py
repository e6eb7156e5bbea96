"""WeightedLookup and Scatter: from positions and weights to sums of table rows, and to rows with the weights in their places."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Scatter", "WeightedLookup"]


@container
class WeightedLookup(Node):
    """``sum over i of weights[:, i] * table[positions[:, i]]``, in numpy's common dtype of weights and table."""

    positions: Node
    weights: Node
    table: Array

    @property
    def detail(self) -> str:
        return f"table of {len(self.table)}  width {self.type.width}"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, table=Array(self.table.data[:, columns.data]))

    def infer(self) -> Type:
        return Type(self.table.shape[1], np.result_type(self.weights.type.dtype, self.table.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        weights, table = b.promote(inputs[1], b.constant(self.table))
        return b.op("embedding_sum", inputs[0], weights, table)


@container
class Scatter(Node):
    """Zeros but for each row's values at its own int32 positions."""

    values: Node
    positions: Node
    width: int

    def infer(self) -> Type:
        return Type(self.width, self.values.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        values, positions = inputs
        return b.op("scatter", positions, values, width=self.width)
