"""Functions of two values, entry by entry, as numpy has them.

Divisions with a rest (FloorDivide, Remainder, Fmod), Fmax and Fmin, Hypot, Arctan2, Raise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.containers.interval import Interval, union
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.column_wise import ColumnWise
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Arctan2", "FloorDivide", "Fmax", "Fmin", "Fmod", "Hypot", "Raise", "Remainder"]


@container_base
class _OfTwo(ColumnWise):
    """Base: a node of one column stands for all columns; the dtype is numpy's common one."""

    x: Node
    y: Node

    def infer(self) -> Type:
        width = max(self.x.type.width, self.y.type.width)
        dtype = np.result_type(self.x.type.dtype, self.y.type.dtype).name
        return Type(width, as_float(dtype) if self.gives == "float" else dtype)

    def check(self) -> str | None:
        # numpy makes int8 of the quotient of two bools, which no program has.
        return None if self.type.dtype != "bool" else "computes with bools"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, y = (b.cast(value, self.type.dtype) for value in inputs)
        return self.write(b, x, y)

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        """Write the function of two values of this node's dtype."""
        raise NotImplementedError


@container
class Fmod(_OfTwo):
    """``numpy.fmod``: the rest of ``x / y`` rounded toward zero, with the sign of x.

    It is exact. By zero it is NaN, and 0 for ints.
    """

    decides: ClassVar[bool] = True

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        return b.op("fmod", x, y)


@container
class Raise(_OfTwo):
    """``numpy.power`` of floats: ``x ** y``, both of which differ by row."""

    gives: ClassVar[str] = "float"
    inexact: ClassVar[bool] = True

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        return b.op("pow", x, y)


@container
class FloorDivide(_OfTwo):
    """``numpy.floor_divide``, Python's ``//``: the quotient rounded down.

    For floats it is ``(x - x % y) / y``, rounded to the nearest whole number (``npy_divmod`` of
    numpy). So ``1.0 // 0.1`` is 9, where ``floor(1.0 / 0.1)`` is 10. Zero has the sign of the
    quotient. By zero a float is ``x / y``, and an int 0.
    """

    decides: ClassVar[bool] = True

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        rest = b.op("fmod", x, y)
        is_below = _lies_below(b, rest, y)
        if not self.type.dtype.startswith("float"):
            return b.op("trunc_divide", x, y) - b.cast(is_below, x.dtype)
        zero, half, one = (b.constant(value, x.dtype) for value in (0.0, 0.5, 1.0))
        whole = (x - rest) / y
        whole = b.where(is_below, whole - one, whole)
        # The quotient of a multiple of y may round to the number below.
        below = b.op("floor", whole)
        nearest = b.where(whole - below > half, below + one, below)
        quotient = x / y
        signed = b.where(b.op("eq", whole, zero), quotient * zero, nearest)
        return b.where(b.op("eq", y, zero), quotient, signed)


@container
class Remainder(_OfTwo):
    """``numpy.remainder``, Python's ``%``: the rest of ``x // y``, with the sign of y.

    Floats are computed from ``fmod``, as by numpy. By zero it is NaN, and 0 for ints.
    """

    decides: ClassVar[bool] = True

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        rest = b.op("fmod", x, y)
        value = b.where(_lies_below(b, rest, y), rest + y, rest)
        if not self.type.dtype.startswith("float"):
            return value
        zero = b.constant(0.0, x.dtype)
        # A rest of zero has the sign of y. TorchScript takes a constant -0.0 for 0.0.
        return b.where(b.op("eq", rest, zero), zero / y, value)


def _lies_below(b: Builder, rest: Value, y: Value) -> Value:
    """Whether the quotient rounded toward zero is one above that rounded down."""
    zero = b.constant(0, rest.dtype)
    return b.op("ne", rest, zero) & b.op("xor", rest < zero, y < zero)


@container_base
class _Extreme(_OfTwo):
    """Base: the other value where one is NaN."""

    primitive: ClassVar[str]

    def interval(self, *inputs: Interval) -> Interval:
        return union(*inputs)

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        value = b.op(self.primitive, x, y)
        if not x.dtype.startswith("float"):
            return value
        return b.where(b.op("isnan", x), y, b.where(b.op("isnan", y), x, value))


@container
class Fmax(_Extreme):
    """``numpy.fmax``: the larger value; the other one where one is NaN."""

    primitive: ClassVar[str] = "maximum"


@container
class Fmin(_Extreme):
    """``numpy.fmin``: the smaller value; the other one where one is NaN."""

    primitive: ClassVar[str] = "minimum"


_SCALES = {"float32": (-40, 100, 60, -80), "float64": (-400, 600, 500, -600)}
"""Exponents of 2 by float dtype: below the first, numbers are scaled by the second; above the
third, by the fourth. Then no square underflows that counts, and none overflows.
"""


@container
class Hypot(_OfTwo):
    """``numpy.hypot``: ``sqrt(x**2 + y**2)``, where squares may not overflow.

    Values are scaled by a power of two first, which is exact. Infinity is the answer beside NaN
    too.
    """

    gives: ClassVar[str] = "float"
    inexact: ClassVar[bool] = True

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        sides = tuple(b.op("abs", side) for side in (x, y))
        largest = b.op("maximum", *sides)
        small, raised, large, lowered = (
            b.constant(2.0**exponent, x.dtype) for exponent in _SCALES[x.dtype]
        )
        one, infinity = b.constant(1.0, x.dtype), b.constant(math.inf, x.dtype)
        scale = b.where(largest < small, raised, b.where(largest > large, lowered, one))
        first, second = (side * scale for side in sides)
        length = b.op("sqrt", first * first + second * second) / scale
        is_infinite = b.op("isinf", x) | b.op("isinf", y)
        return b.where(is_infinite, infinity, length)


@container
class Arctan2(_OfTwo):
    """``numpy.arctan2(x, y)``: the angle of the point ``(y, x)``, from -pi to pi.

    It is the arc tangent of the sides' sizes, in the quadrant that their signs say; those of zeros
    count.
    """

    gives: ClassVar[str] = "float"
    inexact: ClassVar[bool] = True

    def interval(self, *inputs: Interval) -> Interval:
        return union(*inputs).within(4.0)

    def write(self, b: Builder, x: Value, y: Value) -> Value:
        zero, one = b.constant(0.0, x.dtype), b.constant(1.0, x.dtype)
        opposite, adjacent = b.op("abs", x), b.op("abs", y)
        # Two zeros and two infinities have no quotient.
        equal = b.where(b.op("eq", opposite, zero), zero, one)
        ratio = b.where(b.op("eq", opposite, adjacent), equal, opposite / adjacent)
        angle = b.op("atan", ratio)
        half_turn = np.array(math.pi, x.dtype)
        # What the float nearest to pi leaves out counts in the last place of the difference.
        rest = b.constant(math.pi - float(half_turn) + 1.2246467991473532e-16, x.dtype)
        angle = b.where(_is_negative(b, y), b.constant(half_turn) - (angle - rest), angle)
        return b.where(_is_negative(b, x), -angle, angle)


def _is_negative(b: Builder, x: Value) -> Value:
    """Whether a value is below zero, or the zero that is."""
    zero, one = b.constant(0.0, x.dtype), b.constant(1.0, x.dtype)
    return (x < zero) | (b.op("eq", x, zero) & (one / x < zero))
