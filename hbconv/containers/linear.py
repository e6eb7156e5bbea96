"""Linear: a matrix product with constant weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Linear"]


@container
class Linear(Node):
    """``x @ weights + bias``: the product in numpy's common dtype of x and weights, the sum in that of product and bias.

    weights are (inputs, outputs), bias (outputs,).
    """

    x: Node
    weights: Array
    bias: Array

    @staticmethod
    def of(x: Node, weights: npt.ArrayLike, bias: npt.ArrayLike = 0.0) -> Linear:
        """Bias may be a scalar, a Python number taking the weights' dtype; a vector of weights gives one output."""
        w = np.asarray(weights)
        w = w[:, None] if w.ndim == 1 else w
        dtype = w.dtype if isinstance(bias, int | float) and not isinstance(bias, np.generic) else None
        return Linear(x, Array(w), Array(np.broadcast_to(np.asarray(bias, dtype=dtype), (w.shape[1],))))

    @property
    def detail(self) -> str:
        return f"{self.weights!r} + {self.bias!r}"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, weights=Array(self.weights.data[:, columns.data]), bias=Array(self.bias.data[columns.data]))

    def infer(self) -> Type:
        return Type(self.weights.shape[1], np.result_type(self.x.type.dtype, self.weights.dtype, self.bias.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        product = b.matmul(*b.promote(inputs[0], b.constant(self.weights)))
        product = b.cast(product, self.type.dtype)
        return product if not np.any(self.bias.data) else product + b.constant(self.bias, self.type.dtype)
