"""OrderedLinear: a linear model whose terms are added one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["OrderedLinear"]


@container
class OrderedLinear(Node):
    """``bias + x[0] * weights[0] + x[1] * weights[1] + ...``: each step rounded to the dtype of x and weights; NaN adds nothing.

    weights are (inputs, outputs), bias (outputs,), of x's dtype.
    """

    x: Node
    weights: Array
    bias: Array

    @property
    def detail(self) -> str:
        return f"{self.weights!r} + {self.bias!r}"

    def infer(self) -> Type:
        return Type(self.weights.shape[1], self.weights.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width, dtype = self.x.type.width, b.dtype(self.weights.dtype)
        x = b.reshape(b.cast(inputs[0], dtype), width, 1)
        terms = b.where(b.op("isnan", x), b.constant(0.0, dtype), x * b.constant(self.weights, dtype))
        bias = b.op("expand", inputs[0], b.constant(self.bias.data[None], dtype))
        return b.reduce("ordered_sum", b.concat([bias, terms]))
