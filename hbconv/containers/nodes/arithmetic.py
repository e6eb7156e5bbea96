"""Compute with several nodes, or with groups of columns: sums, products, maxima and medians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.interval import Interval, Trend, union
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.column_wise import ColumnWise, PerColumn
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import misfit_of_groups

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "Add",
    "GroupSums",
    "Maximum",
    "Minimum",
    "Modulo",
    "Multiply",
    "Pool",
    "Power",
    "Quotient",
    "RowDot",
    "RunningSums",
]


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
        # From the first to the last, as sources add up members: sums round by their order.
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
class Minimum(_Combined):
    """The smallest; NaN where one is."""

    primitive: ClassVar[str] = "minimum"
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


# Dekker's splitter: times it, 53 bits fall into two halves of 26, whose products are exact.
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
        # The difference cancels all but the leading 26 bits of the period.
        high = _SPLITTER * periods - (_SPLITTER * periods - periods)
        whole = b.constant(periods, "float64")
        zero = b.constant(0.0, "float64")
        count = b.op("floor", x / whole)
        rest = (x - count * b.constant(high, "float64")) - count * b.constant(
            periods - high, "float64"
        )
        # The quotient is rounded, so its floor may be one period too many or too few.
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


@container_base
class _Grouped(Node):
    """Base of sums over ``groups`` equal blocks of columns."""

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"of {self.groups} groups"

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)


@container
class GroupSums(_Grouped):
    """The sum of each of ``groups`` equal blocks of columns."""

    def infer(self) -> Type:
        return Type(self.groups, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce(
            "reduce_sum",
            b.reshape(inputs[0], self.groups, self.x.type.width // self.groups),
            axis=1,
        )


@container
class RunningSums(_Grouped):
    """Add up equal blocks of columns: each block becomes the sum of itself and those before it.

    The blocks are added one after another.
    """

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        return b.reshape(
            b.op("cumsum", b.reshape(inputs[0], self.groups, width // self.groups), axis=0), width
        )


def _median(b: Builder, x: Value) -> Value:
    """Middle of the sorted columns, or the mean of the two that are."""
    width = x.shape[0]
    # Of an odd number both middles are one value, and half of their sum is it exactly.
    middle = b.take(b.reduce("sort", x), [(width - 1) // 2, width // 2])
    return b.reduce("reduce_sum", middle) * b.constant(0.5, x.dtype)


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "max": lambda b, x: b.reduce("reduce_max", x),
    "median": _median,
    "min": lambda b, x: b.reduce("reduce_min", x),
    "sum": lambda b, x: b.reduce("reduce_sum", x),
}
"""What a Pool may make of a group."""

_OF_FLOATS = ("median",)


@container
class Pool(Node):
    """A function of each group of columns, in x's dtype; a median of ints is float64."""

    x: Node
    groups: tuple[tuple[int, ...], ...]
    function: str

    @property
    def detail(self) -> str:
        return f"{self.function} of {len(self.groups)} groups"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, groups=tuple(self.groups[j] for j in columns.data))

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        return Type(
            len(self.groups),
            "float64" if self.function in _OF_FLOATS and not dtype.startswith("float") else dtype,
        )

    def check(self) -> str | None:
        width = self.x.type.width
        fits = self.function in FUNCTIONS and all(
            group and min(group) >= 0 and max(group) < width for group in self.groups
        )
        return None if fits else f"pools other columns than the {width} there are"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.concat(
            [b.reshape(FUNCTIONS[self.function](b, b.take(x, group)), 1) for group in self.groups]
        )
