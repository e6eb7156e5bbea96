"""Nearest and EntriesAt: the smallest entries of each row, and the entries at positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["EntriesAt", "Nearest"]


@container
class Nearest(Node):
    """Positions of the ``count`` smallest entries, the smallest first, ties by position, NaN last: int32."""

    x: Node
    count: int

    finite: ClassVar[str] = "always"

    def infer(self) -> Type:
        return Type(self.count, "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("topk", inputs[0], k=self.count)


@container
class EntriesAt(Node):
    """Each row's entries at its own int32 positions."""

    x: Node
    positions: Node

    def infer(self) -> Type:
        return Type(self.positions.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.gather(*inputs)
