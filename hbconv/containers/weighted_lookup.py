"""WeightedLookup: from positions and weights to sums of table rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["WeightedLookup"]


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
