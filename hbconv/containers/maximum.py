"""Maximum: the larger of two values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Maximum"]


@container
class Maximum(Node):
    """The larger of x and y entry by entry, in numpy's common dtype; NaN where one is."""

    x: Node
    y: Node

    def infer(self) -> Type:
        return Type(self.x.type.width, np.result_type(self.x.type.dtype, self.y.type.dtype).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("maximum", *b.promote(*inputs))
