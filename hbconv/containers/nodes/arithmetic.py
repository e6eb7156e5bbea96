"""Compute with several nodes, entry by entry or row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Interval, Trend, union
from hbconv.containers.node import Node, container, one_to_one
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Add", "Maximum", "Modulo", "Multiply", "Power", "Quotient", "RowDot"]


@dataclass(frozen=True, eq=False)
class _Combined(Node):
    """Combine nodes from the first to the last, entry by entry, in numpy's common dtype.

    A node of one column stands for all columns.
    """

    xs: tuple[Node, ...]

    primitive: ClassVar[str]

    def narrowed(self, columns: Array) -> Node:
        width = self.type.width
        return type(self)(
            tuple(Select(x, columns) if x.type.width == width else x for x in self.xs)
        )

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def infer(self) -> Type:
        return Type(
            max(x.type.width for x in self.xs),
            np.result_type(*(x.type.dtype for x in self.xs)).name,
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return reduce(lambda combined, x: b.op(self.primitive, combined, x), b.promote(*inputs))


@container
class Add(_Combined):
    """The sum."""

    primitive: ClassVar[str] = "add"

    def interval(self, *inputs: Interval) -> Interval:
        return union(*inputs).within(sum(x.bound for x in inputs))

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return Trend.RISES if self.type.dtype.startswith("float") else Trend.UNKNOWN


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

    def interval(self, *inputs: Interval) -> Interval:
        return union(*inputs)

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return Trend.RISES


@container
class Power(Node):
    """``x ** exponent`` entry by entry, in x's dtype (an int x becomes float64)."""

    x: Node
    exponent: float

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns))

    def infer(self) -> Type:
        return Type(
            self.x.type.width,
            self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64",
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.op("pow", x, b.constant(self.exponent, x.dtype))


_SPLITTER = 2.0**27 + 1


@container
class Modulo(Node):
    """Compute ``x - floor(x / period) * period`` column by column, in float64.

    The result is exact to the last bit where ``|x| < LIMIT * period``. A period is subtracted in
    two parts of 26 bits, whose products with the number of periods are exact.
    """

    x: Node
    periods: Array

    LIMIT: ClassVar[float] = 2.0**26

    def narrowed(self, columns: Array) -> Node:
        periods = Array(self.periods.data[columns.data])
        return replace(self, x=Select(self.x, columns), periods=periods)

    def infer(self) -> Type:
        return Type(self.x.type.width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        periods = self.periods.data
        high = _SPLITTER * periods - (_SPLITTER * periods - periods)
        whole = b.constant(periods, "float64")
        zero = b.constant(0.0, "float64")
        count = b.op("floor", x / whole)
        rest = (x - count * b.constant(high, "float64")) - count * b.constant(
            periods - high, "float64"
        )
        rest = b.where(rest < zero, rest + whole, rest)
        return b.where(rest >= whole, rest - whole, rest)


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
