"""Power: values raised to a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Power"]


@container
class Power(Node):
    """``x ** exponent`` entry by entry, in x's dtype (an int x becomes float64)."""

    x: Node
    exponent: float

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.op("pow", x, b.constant(self.exponent, x.dtype))
