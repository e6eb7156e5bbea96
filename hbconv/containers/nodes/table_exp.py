"""Compute the exponential by a table and a cubic, and a softmax by it.

Some libraries compute ``exp(x)`` as ``2**turn * 2**(place / 2048) * exp(rest)``. The second factor
comes from a table. The third is nearly 1 and comes from a cubic. The result is a few units in the
last place from that of the C library. So it is computed likewise: by additions, products and a
table, which all processors round alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import misfit_of_groups

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TableExp", "TableLogSoftmax", "TableSoftmax"]

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
class TableExp(ColumnWise):
    """``exp(x)`` by the table."""

    x: Node

    inexact: ClassVar[bool] = True

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
