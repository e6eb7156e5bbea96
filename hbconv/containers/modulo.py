"""Modulo: what is left after whole periods."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Modulo"]

_SPLITTER = 2.0**27 + 1


@container
class Modulo(Node):
    """``x - floor(x / period) * period`` column by column, in float64, to the last bit where ``|x| < LIMIT * period``.

    A period is taken away in two parts of 26 bits, whose products with the number of periods are exact.
    """

    x: Node
    periods: Array

    LIMIT: ClassVar[float] = 2.0**26

    def infer(self) -> Type:
        return Type(self.x.type.width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, periods = b.cast(inputs[0], "float64"), self.periods.data
        high = _SPLITTER * periods - (_SPLITTER * periods - periods)
        whole, zero = b.constant(periods, "float64"), b.constant(0.0, "float64")
        count = b.op("floor", x / whole)
        rest = (x - count * b.constant(high, "float64")) - count * b.constant(periods - high, "float64")
        rest = b.where(rest < zero, rest + whole, rest)
        return b.where(rest >= whole, rest - whole, rest)
