"""Quotient: one value divided by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Quotient"]


@container
class Quotient(Node):
    """``x / y`` entry by entry, in numpy's common dtype; a y of one column divides all."""

    x: Node
    y: Node

    def infer(self) -> Type:
        return Type(self.x.type.width, np.result_type(self.x.type.dtype, self.y.type.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, y = b.promote(*inputs)
        return x / y
