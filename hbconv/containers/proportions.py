"""Proportions: each row divided by its sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Proportions"]


@container
class Proportions(Node):
    """``x / sum(x)`` over the columns; a row that sums to zero becomes uniform, or ``of_nothing`` in every column."""

    x: Node
    of_nothing: float | None = None

    finite: ClassVar[str] = "computed"

    @property
    def detail(self) -> str:
        return "" if self.of_nothing is None else f"{self.of_nothing} of nothing"

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        width = x.shape[0]
        total = b.reshape(b.reduce("reduce_sum", x), 1)
        empty = b.op("eq", total, b.constant([0.0], x.dtype))
        share = 1.0 / width if self.of_nothing is None else self.of_nothing
        return b.where(empty, b.constant(np.full(width, share), x.dtype), x / b.where(empty, b.constant([1.0], x.dtype), total))
