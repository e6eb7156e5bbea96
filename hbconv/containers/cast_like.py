"""CastLike: a value in the dtype of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["CastLike"]


@container
class CastLike(Node):
    """x converted to the dtype of ``like``, as numpy does on assignment into an array of that dtype."""

    x: Node
    like: Node

    def infer(self) -> Type:
        return Type(self.x.type.width, self.like.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)
