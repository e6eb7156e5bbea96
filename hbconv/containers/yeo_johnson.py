"""YeoJohnson: powers of the distance from -1, mirrored below zero."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["YeoJohnson"]


@container
class YeoJohnson(Node):
    """``((1 + x) ** above - 1) / above`` column by column, and below zero ``-((1 - x) ** below - 1) / below``; the logarithm where a power is 0.

    By I.-K. Yeo and R. A. Johnson, A new family of power transformations, Biometrika 87 (2000). Computed as
    ``expm1(power * log1p(|x|)) / power``, the logarithm in x's dtype, what follows in float64.

    Parameters
    ----------
    above, below : Array of float64, shape (width,)
        Powers of each column where x is not negative, and where it is.
    """

    x: Node
    above: Array
    below: Array

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns), above=Array(self.above.data[columns.data]), below=Array(self.below.data[columns.data]))

    def infer(self) -> Type:
        return Type(self.x.type.width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Take one logarithm and one power of each entry, whichever side of zero it is on."""
        x = inputs[0] if inputs[0].dtype.startswith("float") else b.cast(inputs[0], "float64")
        log = b.cast(b.op("log1p", b.op("abs", x)), "float64")
        powers, is_zero = np.stack([self.below.data, self.above.data]), np.stack([self.below.data, self.above.data]) == 0
        at_least_zero = b.op("ge", x, b.constant(0.0, x.dtype))
        low, high = (b.constant(p, "float64") for p in np.where(is_zero, 1.0, powers))
        power = b.where(at_least_zero, high, low)
        size = b.op("expm1", power * log) / power
        if is_zero.any():
            size = b.where(b.where(at_least_zero, b.constant(is_zero[1]), b.constant(is_zero[0])), log, size)
        return b.where(at_least_zero, size, -size)
