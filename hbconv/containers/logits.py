"""Logits: what a softmax takes, from scores or probabilities of all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Logits"]

ABOVE_ZERO = 1e-12
"""Added to probabilities, whose logarithm would not be finite at 0."""

NEAR_ONE = 1.001e-5
"""How far from 1 the sum of probabilities may be."""


@container
class Logits(Node):
    """``log(x + 1e-12)`` of a row of probabilities (between 0 and 1, nearly 1 in sum), any other row as it is."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        zero, one, near = (b.constant(value, x.dtype) for value in (0.0, 1.0, NEAR_ONE))
        outside = b.reduce("reduce_any", ~((x >= zero) & (x <= one)))
        far = ~(b.op("abs", b.reduce("reduce_sum", x) - one) <= near)
        return b.where(b.reshape(outside | far, 1), x, b.op("log", x + b.constant(ABOVE_ZERO, x.dtype)))
