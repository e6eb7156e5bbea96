"""Compute with several nodes, entry by entry or row by row."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.containers.interval import Interval, Trend, union
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.column_wise import ColumnWise, PerColumn
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Add", "Maximum", "Modulo", "Multiply", "Power", "Quotient", "RowDot"]


@container_base
class _Combined(ColumnWise):
    """Combine nodes from the first to the last, entry by entry, in numpy's common dtype.

    A node of one column stands for all columns.
    """

    xs: tuple[Node, ...]

    primitive: ClassVar[str]

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
    trends: ClassVar[Trend] = Trend.RISES

    def interval(self, *inputs: Interval) -> Interval:
        return union(*inputs)


@container
class Power(ColumnWise):
    """``x ** exponent`` entry by entry, in x's dtype (an int x becomes float64)."""

    x: Node
    exponent: float

    gives: ClassVar[str] = "float"
    inexact: ClassVar[bool] = True

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.op("pow", x, b.constant(self.exponent, x.dtype))


_SPLITTER = 2.0**27 + 1


@container
class Modulo(ColumnWise):
    """Compute ``x - floor(x / period) * period`` column by column, in float64.

    The result is exact to the last bit where ``|x| < LIMIT * period``. A period is subtracted in
    two parts of 26 bits, whose products with the number of periods are exact.
    """

    x: Node
    periods: PerColumn

    LIMIT: ClassVar[float] = 2.0**26
    gives: ClassVar[str] = "float64"

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
