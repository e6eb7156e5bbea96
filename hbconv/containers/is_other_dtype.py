"""IsOtherDtype: whether rows came in a dtype that a step does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["IsOtherDtype"]


@container
class IsOtherDtype(Node):
    """True in every row unless x is of the dtype: the condition of a check."""

    x: Node
    dtype: str

    finite: ClassVar[str] = "always"

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("expand", inputs[0], b.constant([self.x.type.dtype != self.dtype]))
