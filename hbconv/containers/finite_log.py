"""FiniteLog: logarithms of probabilities, some of which are zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["FiniteLog"]


@container
class FiniteLog(Node):
    """``log(x)``; of zero the logarithm of the least normal number of x's dtype."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        least = b.constant(np.finfo(x.dtype).smallest_normal, x.dtype)
        return b.op("log", b.where(b.op("eq", x, b.constant(0.0, x.dtype)), least, x))
