"""Compute with several nodes, entry by entry or row by row.

Compute the exponential by a table and a cubic, and a softmax by it.

Some libraries compute ``exp(x)`` as ``2**turn * 2**(place / 2048) * exp(rest)``. The second factor
comes from a table. The third is nearly 1 and comes from a cubic. The result is a few units in the
last place from that of the C library. So it is computed likewise: by additions, products and a
table, which all processors round alike.
"""

from __future__ import annotations

import math
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
from hbconv.containers.vocabulary import misfit_of_groups

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "Add",
    "Maximum",
    "Modulo",
    "Multiply",
    "Power",
    "Quotient",
    "RowDot",
    "TableExp",
    "TableLogSoftmax",
    "TableSoftmax",
]


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


PLACES = 2048
"""Size of the table."""

TABLE = Array.of([2.0 ** (place / PLACES) for place in range(PLACES)], np.float64)
"""The powers, each the float nearest to the true one.

They are Python's, since numpy's are a unit off on a processor with AVX-512.
"""

CUBIC = (3.0000000027955394, 0.16666666685227835064)
"""Coefficients of the cubic, each a little above 3 and 1/6, which makes the largest error small."""

LOWEST = -708.39641853226408
HIGHEST = 709.78271289338397
"""Arguments below the first count as it; beyond the second the power is infinite."""


@container
class TableExp(Node):
    """``exp(x)`` by the table."""

    x: Node

    def narrowed(self, columns: Array) -> Node:
        return TableExp(Select(self.x, columns))

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return _exp(b, inputs[0])


@container
class TableSoftmax(Node):
    """Compute ``exp(x - max) / sum`` by the table, within each of ``groups`` blocks of columns."""

    x: Node
    groups: int = 1

    @property
    def detail(self) -> str:
        return f"in {self.groups} groups" if self.groups > 1 else ""

    def infer(self) -> Type:
        return self.x.type

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        _, powers, total = _shifted(b, b.reshape(inputs[0], self.groups, width // self.groups))
        return b.reshape(powers / total, width)


@container
class TableLogSoftmax(Node):
    """``x - max - log(sum of exp(x - max))`` over the columns by the table."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        shifted, _, total = _shifted(b, b.reshape(inputs[0], 1, self.type.width))
        return b.reshape(shifted - b.op("log", total), self.type.width)


def _shifted(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return ``x - max``, its exponentials and their sum, over the last axis of x."""
    groups, width = x.shape
    shifted = x - b.reshape(b.reduce("reduce_max", x, axis=1), groups, 1)
    powers = _exp(b, shifted)
    if width % 4:
        # The source computes columns four by four, and those left over one by one.
        # There it cuts the smallest powers off to 0.
        vanishes = (shifted <= b.constant(LOWEST, x.dtype)) & b.constant(
            np.arange(width) >= width - width % 4
        )
        powers = b.where(vanishes, b.constant(0.0, x.dtype), powers)
    return shifted, powers, b.reshape(b.reduce("ordered_sum", powers, axis=1), groups, 1)


def _exp(b: Builder, x: Value) -> Value:
    if x.dtype != "float64":
        return b.op("exp", x)
    missing = b.op("isnan", x)
    x = b.where(
        missing,
        b.constant(0.0),
        b.op("minimum", b.op("maximum", x, b.constant(LOWEST)), b.constant(HIGHEST)),
    )
    in_places = PLACES / math.log(2.0)
    steps = b.op("rint", x * b.constant(in_places))
    turn = b.op("floor", steps / b.constant(float(PLACES)))
    place = steps - turn * b.constant(float(PLACES))
    rest = steps * b.constant(1.0 / in_places) - x
    cubic = (
        (b.constant(CUBIC[0]) - rest) * (rest * rest) * b.constant(CUBIC[1])
        - rest
        + b.constant(1.0)
    )
    scale = b.lookup(b.constant(TABLE.data), b.cast(place, "int32"))
    turns = b.lookup(
        b.constant(np.append(np.ldexp(1.0, np.arange(-1022, 1024)), np.inf)),
        b.cast(turn, "int32") + b.constant(1022, "int32"),
    )
    return b.where(missing, b.constant(np.nan), cubic * (scale * turns))
