"""RowDot: the inner product of two values, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["RowDot"]


@container
class RowDot(Node):
    """``sum(x * y)`` over the columns, in numpy's common dtype."""

    x: Node
    y: Node

    def infer(self) -> Type:
        return Type(1, np.result_type(self.x.type.dtype, self.y.type.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, y = b.promote(*inputs)
        return b.reshape(b.reduce("reduce_sum", x * y), 1)
