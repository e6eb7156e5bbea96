"""GroupSums: sums of neighbouring columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["GroupSums"]


@container
class GroupSums(Node):
    """The sum of each of ``groups`` equal blocks of columns."""

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"of {self.groups} groups"

    def infer(self) -> Type:
        return Type(self.groups, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce("reduce_sum", b.reshape(inputs[0], self.groups, self.x.type.width // self.groups), axis=1)
