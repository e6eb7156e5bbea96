"""RunningSums: sums after each of several terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["RunningSums"]


@container
class RunningSums(Node):
    """Equal blocks of columns, each replaced by the sum of itself and those before it, added one after another."""

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"of {self.groups} groups"

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        return b.reshape(b.op("cumsum", b.reshape(inputs[0], self.groups, width // self.groups), axis=0), width)
