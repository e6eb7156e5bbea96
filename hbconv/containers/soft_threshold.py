"""SoftThreshold: values drawn towards zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["SoftThreshold"]


@container
class SoftThreshold(Node):
    """``sign(x) * max(|x| - amount, 0)`` entry by entry, in x's dtype."""

    x: Node
    amount: float

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        rest = b.op("abs", x) - b.constant(self.amount, x.dtype)
        return b.op("sign", x) * b.op("maximum", rest, b.constant(0.0, x.dtype))
