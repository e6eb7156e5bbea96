"""LookupRows: rows of one table, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LookupRows"]


@container
class LookupRows(Node):
    """For each column of int32 positions, the row of the table that it names."""

    positions: Node
    table: Array

    @property
    def detail(self) -> str:
        return f"table of {len(self.table)}  width {self.type.width}"

    def infer(self) -> Type:
        return Type(self.positions.type.width * self.table.shape[1], self.table.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reshape(b.lookup(b.constant(self.table), inputs[0]), self.type.width)
