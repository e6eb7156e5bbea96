"""The smallest entries of each row, and the points nearest to it: their positions, and the entries or squared distances there."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["EntriesAt", "Nearest", "NearestPoints", "SquaresAt"]


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


@container
class NearestPoints(Node):
    """Positions of the ``count`` constant points nearest to each row of floats, the nearest first, ties by position, NaN last: int32."""

    x: Node
    points: Array
    count: int

    finite: ClassVar[str] = "always"

    @property
    def detail(self) -> str:
        return f"{self.count} of {len(self.points)} points"

    def infer(self) -> Type:
        return Type(self.count, "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("nearest", inputs[0], b.constant(self.points, inputs[0].dtype), k=self.count)


@container
class SquaresAt(Node):
    """Squared distances from each row of floats to the constant points at its own int32 positions."""

    x: Node
    positions: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to some of {len(self.points)} points"

    def infer(self) -> Type:
        return Type(self.positions.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, positions = inputs
        apart = b.reshape(x, 1, *x.shape) - b.lookup(b.constant(self.points, x.dtype), positions)
        return b.reduce("ordered_sum", apart * apart, axis=1)
