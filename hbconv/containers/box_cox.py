"""BoxCox: powers, made continuous in their exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["BoxCox"]


@container
class BoxCox(Node):
    """``(x ** power - 1) / power`` column by column, and ``log(x)`` where the power is 0, as ``expm1(power * log(x)) / power``.

    The logarithm is taken in x's dtype, what follows in float64.
    """

    x: Node
    powers: Array

    def infer(self) -> Type:
        return Type(self.x.type.width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        log = b.cast(b.op("log", inputs[0]), "float64")
        is_zero = self.powers.data == 0
        powers = b.constant(np.where(is_zero, 1.0, self.powers.data), "float64")
        return b.where(b.constant(is_zero), log, b.op("expm1", powers * log) / powers)
