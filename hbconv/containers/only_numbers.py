"""OnlyNumbers: columns of objects that must all be numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["OnlyNumbers"]


@container
class OnlyNumbers(Node):
    """x itself, whose columns the source reads as objects: None and texts in them are values there, for which no number can stand.

    Elsewhere None is NaN, and a text of digits is the number. Here the host refuses rows that hold them.
    """

    x: Node

    finite: ClassVar[str] = "preserves"

    def narrowed(self, columns: Array) -> Node:
        return OnlyNumbers(Select(self.x, columns))

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)
