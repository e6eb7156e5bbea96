"""LogAdd: the logarithm of a sum, from the logarithms of its terms."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LogAdd"]


@container
class LogAdd(Node):
    """``log(exp(a) + exp(b) + ...)`` over equal blocks of columns, added one after another as ``numpy.logaddexp`` does."""

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"{self.groups} groups"

    def infer(self) -> Type:
        return Type(self.x.type.width // self.groups, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        parts = (b.take(inputs[0], np.arange(first, first + width)) for first in range(0, self.groups * width, width))
        return reduce(lambda total, part: _log_add(b, total, part), parts)


def _log_add(b: Builder, x: Value, y: Value) -> Value:
    """Equal numbers apart, of which two infinite ones have no difference."""
    more = b.op("log1p", b.op("exp", -b.op("abs", x - y)))
    return b.where(b.op("eq", x, y), x + b.constant(np.log(2.0), x.dtype), b.op("maximum", x, y) + more)
