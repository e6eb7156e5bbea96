"""SymmetricLogit: from probabilities of several classes to scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["SymmetricLogit"]


@container
class SymmetricLogit(Node):
    """``log(p / geometric mean of the row)``, whose softmax is p."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (p,) = inputs
        total = b.reshape(b.reduce("reduce_sum", b.op("log", p)), 1)
        mean = b.op("exp", total / b.constant(float(self.type.width), p.dtype))
        return b.op("log", p / mean)
