"""Clip: values held between two bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Clip"]


@container
class Clip(Node):
    """``min(max(x, low), high)`` column by column, in x's dtype (an int x becomes float64); NaN stays NaN."""

    x: Node
    low: Array
    high: Array

    @staticmethod
    def of(x: Node, low: npt.ArrayLike, high: npt.ArrayLike) -> Clip:
        """Scalars stand for all columns."""
        width = (x.type.width,)
        return Clip(x, *(Array(np.broadcast_to(numbers(bound, np.float64), width)) for bound in (low, high)))

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        x = b.op("maximum", x, b.constant(self.low, self.type.dtype))
        return b.op("minimum", x, b.constant(self.high, self.type.dtype))
