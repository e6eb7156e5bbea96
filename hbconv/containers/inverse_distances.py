"""InverseDistances: how much a neighbour counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["InverseDistances"]


@container
class InverseDistances(Node):
    """``1 / x``; in a row where that is infinite somewhere, 1 there and 0 elsewhere."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        inverse = b.constant([1.0], inputs[0].dtype) / inputs[0]
        infinite = b.op("isinf", inverse)
        any_infinite = b.reshape(b.reduce("reduce_any", infinite), 1)
        return b.where(any_infinite, b.cast(infinite, inverse.dtype), inverse)
