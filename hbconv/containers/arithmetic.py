"""Add, Multiply, Quotient and Maximum: nodes combined entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Add", "Maximum", "Multiply", "Quotient"]


@dataclass(frozen=True, eq=False)
class _Combined(Node):
    """Nodes from the first to the last, entry by entry, in numpy's common dtype; one column stands for all."""

    xs: tuple[Node, ...]

    primitive: ClassVar[str]

    def narrowed(self, columns: Array) -> Node:
        return type(self)(tuple(x if x.type.width == 1 else Select(x, columns) for x in self.xs)) if self.type.width > 1 else self

    def infer(self) -> Type:
        return Type(max(x.type.width for x in self.xs), np.result_type(*(x.type.dtype for x in self.xs)).name)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return reduce(lambda combined, x: b.op(self.primitive, combined, x), b.promote(*inputs))


@container
class Add(_Combined):
    """The sum."""

    primitive: ClassVar[str] = "add"


@container
class Multiply(_Combined):
    """The product."""

    primitive: ClassVar[str] = "mul"


@container
class Quotient(_Combined):
    """The first divided by the others."""

    primitive: ClassVar[str] = "div"


@container
class Maximum(_Combined):
    """The largest; NaN where one is."""

    primitive: ClassVar[str] = "maximum"
