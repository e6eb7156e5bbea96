"""Multiply: the product of nodes."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Multiply"]


@container
class Multiply(Node):
    """The product of nodes entry by entry, in numpy's common dtype; one column stands for all."""

    xs: tuple[Node, ...]

    def infer(self) -> Type:
        return Type(max(x.type.width for x in self.xs), np.result_type(*(x.type.dtype for x in self.xs)).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return reduce(lambda product, x: product * x, b.promote(*inputs))
