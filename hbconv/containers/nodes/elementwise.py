"""One function of one value, entry by entry: Map, RoundDecimals, Clip, SoftThreshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.interval import LARGEST, Interval, Trend, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import BetweenBounds, ColumnWise
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = ["FUNCTIONS", "Clip", "Map", "RoundDecimals", "SoftThreshold"]


Write = Callable[["Builder", "Value"], "Value"]


def _logit(b: Builder, p: Value) -> Value:
    """Compute ``log(p / (1 - p))``; near a half by ``log1p``, where the quotient loses digits."""
    # SciPy's logit changes its form at 0.3 and 0.65, so these give its digits.
    low, half, high, one = (b.constant(value, p.dtype) for value in (0.3, 0.5, 0.65, 1.0))
    # Doubling by an addition is exact, and so is the difference from a half near it.
    twice = (p - half) + (p - half)
    near_half = b.op("log1p", twice) - b.op("log1p", b.op("neg", twice))
    return b.where((p < low) | (p > high), b.op("log", p / (one - p)), near_half)


def _sublinear(b: Builder, x: Value) -> Value:
    """``1 + log(x)`` for a count, 0 for none."""
    zero = b.constant(0.0, x.dtype)
    one = b.constant(1.0, x.dtype)
    # Counts of 0 are entries that are not stored, and stay so: the logarithm of 0 is infinite.
    return b.where(b.op("eq", x, zero), zero, b.op("log", x) + one)


def _odd(function: Write) -> Write:
    """Return the odd function that is another one above zero; zeros and NaN are their own."""

    def write(b: Builder, x: Value) -> Value:
        zero = b.constant(0.0, x.dtype)
        value = function(b, b.op("abs", x))
        return b.where(x > zero, value, b.where(x < zero, -value, x))

    return write


# From there on ``exp(-x)`` is below half a unit in the last place of ``exp(x)``.
_ONE_SIDED = 22.0


def _half_exp(b: Builder, size: Value) -> Value:
    """``exp(size) / 2`` as a product of two roots, which overflows no earlier than the result."""
    half = b.constant(0.5, size.dtype)
    root = b.op("exp", half * size)
    return half * root * root


def _sinh(b: Builder, size: Value) -> Value:
    """``(e + e / (e + 1)) / 2`` for ``e = expm1(size)``: no difference cancels."""
    e = b.op("expm1", size)
    one, half, end = (b.constant(value, size.dtype) for value in (1.0, 0.5, _ONE_SIDED))
    return b.where(size < end, half * (e + e / (e + one)), _half_exp(b, size))


def _cosh(b: Builder, x: Value) -> Value:
    size = b.op("abs", x)
    half, end = (b.constant(value, x.dtype) for value in (0.5, _ONE_SIDED))
    e = b.op("exp", size)
    # NaN is not below the end, and stays NaN in the other form.
    return b.where(size < end, half * e + half / e, _half_exp(b, size))


# From there on ``sqrt(x**2 + 1)`` rounds to x, and the square of x may overflow.
_LARGE = 2.0**28


def _log_of_double(b: Builder, size: Value) -> Value:
    return b.op("log", size) + b.constant(math.log(2.0), size.dtype)


def _arcsinh(b: Builder, size: Value) -> Value:
    """``log(x + sqrt(x**2 + 1))``; by ``log1p``, so that small numbers keep their digits."""
    one, end = (b.constant(value, size.dtype) for value in (1.0, _LARGE))
    square = size * size
    near = b.op("log1p", size + square / (one + b.op("sqrt", square + one)))
    return b.where(size < end, near, _log_of_double(b, size))


def _arccosh(b: Builder, x: Value) -> Value:
    """``log(x + sqrt(x**2 - 1))``; by ``log1p``, so that numbers near 1 keep their digits."""
    one, end, none = (b.constant(value, x.dtype) for value in (1.0, _LARGE, math.nan))
    above = x - one
    near = b.op("log1p", above + b.op("sqrt", above + above + above * above))
    return b.where(x < one, none, b.where(x < end, near, _log_of_double(b, x)))


def _arctanh(b: Builder, size: Value) -> Value:
    """``log((1 + x) / (1 - x)) / 2``; by ``log1p``, in the form that rounds less below a half."""
    one, half = (b.constant(value, size.dtype) for value in (1.0, 0.5))
    double, rest = size + size, one - size
    ratio = b.where(size < half, double + double * size / rest, double / rest)
    return half * b.op("log1p", ratio)


def _arccos(b: Builder, x: Value) -> Value:
    """Take the arc sine off a quarter turn.

    Beyond a half it is twice the arc sine of ``sqrt((1 - |x|) / 2)``, from 0 or from half a turn.
    """
    one, zero, half = (b.constant(value, x.dtype) for value in (1.0, 0.0, 0.5))
    turn = np.array(math.pi, x.dtype)
    # What the float nearest to half a turn leaves out counts in the last place of differences.
    rest = math.pi - float(turn) + _REST_OF_HALF_TURN
    half_turn, lost = b.constant(turn), b.constant(rest, x.dtype)
    quarter, half_lost = b.constant(turn / 2), b.constant(rest / 2, x.dtype)
    size = b.op("abs", x)
    side = b.op("asin", b.op("sqrt", (one - size) * half))
    beyond = b.where(x > zero, side + side, half_turn - (side + side - lost))
    return b.where(size <= half, quarter - (b.op("asin", x) - half_lost), beyond)


_REST_OF_HALF_TURN = 1.2246467991473532e-16
"""Half a turn less the float64 nearest to it."""


def _cbrt(b: Builder, size: Value) -> Value:
    """Take the power 1/3, and one step of Newton's method: 1/3 is no float."""
    third = b.constant(1.0 / 3.0, size.dtype)
    root = b.op("pow", size, third)
    better = root - (root - size / (root * root)) * third
    return b.where(b.op("isinf", size), size, better)


def _trunc(b: Builder, x: Value) -> Value:
    return b.where(x < b.constant(0.0, x.dtype), b.op("ceil", x), b.op("floor", x))


def _radians(b: Builder, x: Value) -> Value:
    return x * b.constant(math.pi / 180.0, x.dtype)


def _degrees(b: Builder, x: Value) -> Value:
    # numpy divides in x's dtype, which gives another float32 than the quotient in float64.
    half_turn, pi = (np.array(value, x.dtype) for value in (180.0, math.pi))
    return x * b.constant(half_turn / pi)


def _write(name: str) -> Write:
    """Return what writes the primitive of a name."""
    return lambda b, x: b.op(name, x)


def _within_one(x: Interval) -> float:  # noqa: ARG001
    return 1.0


def _within_two(x: Interval) -> float:  # noqa: ARG001
    return 2.0


def _one_larger(x: Interval) -> float:
    """Bound what moves no value by more than one."""
    return x.bound + 1.0


def _square_bound(x: Interval) -> float | None:
    # Above 1e150 the square of a bound would come near the largest float64.
    return x.bound**2 if x.bound < 1e150 else None


def _log_bound(x: Interval) -> float | None:
    # Of a negative number there is no logarithm; of a positive float64, and one, none reaches 750.
    return 750.0 if x.least >= 0.0 else None


@dataclass(frozen=True)
class UnaryFunction:
    """What is known of a function of one value.

    Parameters
    ----------
    write : callable
        How it lowers.
    trend : Trend
        How it goes between its breaks; a function that is inexact does so up to a last bit.
    breaks : tuple of float
        Where it jumps, or begins and ends.
    exact : bool
        Every backend rounds it to the nearest float.
    keeps_zero : bool
        It makes zero of zero.
    keeps_ints : bool
        numpy computes it in ints where x is int.
    bound : callable or None
        Bounds its values by the interval of x; None if it does not.
    jumps : bool
        A last bit of x can make another whole number of it.
    """

    write: Write
    trend: Trend = Trend.UNKNOWN
    breaks: tuple[float, ...] = ()
    exact: bool = False
    keeps_zero: bool = False
    keeps_ints: bool = False
    bound: Callable[[Interval], float | None] | None = None
    jumps: bool = False


_UP = Trend.RISES


def _whole(write: Write) -> UnaryFunction:
    """Return what is known of a function that rounds to whole numbers."""
    return UnaryFunction(write, _UP, exact=True, keeps_zero=True, bound=_one_larger, jumps=True)


FUNCTIONS: dict[str, UnaryFunction] = {
    "abs": UnaryFunction(
        _write("abs"), keeps_ints=True, exact=True, keeps_zero=True, bound=_one_larger
    ),
    "neg": UnaryFunction(
        _write("neg"), Trend.FALLS, keeps_ints=True, exact=True, keeps_zero=True, bound=_one_larger
    ),
    "sign": UnaryFunction(
        _write("sign"),
        _UP,
        exact=True,
        keeps_zero=True,
        keeps_ints=True,
        bound=_within_one,
        jumps=True,
    ),
    "square": UnaryFunction(
        lambda b, x: x * x, exact=True, keeps_zero=True, keeps_ints=True, bound=_square_bound
    ),
    "signed_square": UnaryFunction(
        lambda b, x: b.op("sign", x) * x * x, _UP, exact=True, keeps_zero=True
    ),
    "sqrt": UnaryFunction(_write("sqrt"), _UP, (0.0,), exact=True, keeps_zero=True),
    "reciprocal": UnaryFunction(
        lambda b, x: b.constant(1.0, x.dtype) / x, Trend.FALLS, (0.0,), exact=True
    ),
    "relu": UnaryFunction(_write("relu"), _UP, exact=True, keeps_zero=True, bound=_one_larger),
    "floor": UnaryFunction(
        _write("floor"), _UP, exact=True, keeps_zero=True, bound=_one_larger, jumps=True
    ),
    "ceil": UnaryFunction(
        _write("ceil"), _UP, exact=True, keeps_zero=True, bound=_one_larger, jumps=True
    ),
    "rint": UnaryFunction(
        _write("rint"), _UP, exact=True, keeps_zero=True, bound=_one_larger, jumps=True
    ),
    "trunc": _whole(_trunc),
    "deg2rad": UnaryFunction(_radians, _UP, exact=True, keeps_zero=True, bound=_one_larger),
    "rad2deg": UnaryFunction(_degrees, _UP, exact=True, keeps_zero=True),
    "cbrt": UnaryFunction(_odd(_cbrt), _UP, keeps_zero=True, bound=_one_larger),
    "exp": UnaryFunction(_write("exp"), _UP),
    "exp2": UnaryFunction(lambda b, x: b.op("pow", b.constant(2.0, x.dtype), x), _UP),
    "expm1": UnaryFunction(_write("expm1"), _UP, keeps_zero=True),
    "log": UnaryFunction(_write("log"), _UP, (0.0,)),
    "log2": UnaryFunction(_write("log2"), _UP, (0.0,)),
    "log10": UnaryFunction(_write("log10"), _UP, (0.0,)),
    "log1p": UnaryFunction(_write("log1p"), _UP, (-1.0,), keeps_zero=True),
    "logit": UnaryFunction(_logit, _UP, (0.0, 1.0)),
    "sublinear": UnaryFunction(_sublinear, _UP, (0.0,), keeps_zero=True, bound=_log_bound),
    "sin": UnaryFunction(_write("sin"), keeps_zero=True, bound=_within_one),
    "cos": UnaryFunction(_write("cos"), bound=_within_one),
    "tan": UnaryFunction(_write("tan"), keeps_zero=True),
    "arcsin": UnaryFunction(_write("asin"), _UP, (-1.0, 1.0), keeps_zero=True),
    "arccos": UnaryFunction(_arccos, Trend.FALLS, (-1.0, 1.0)),
    "arctan": UnaryFunction(_write("atan"), _UP, keeps_zero=True, bound=_within_two),
    "sinh": UnaryFunction(_odd(_sinh), _UP, keeps_zero=True),
    "cosh": UnaryFunction(_cosh),
    "arcsinh": UnaryFunction(_odd(_arcsinh), _UP, keeps_zero=True, bound=_one_larger),
    "arccosh": UnaryFunction(_arccosh, _UP, (1.0,)),
    "arctanh": UnaryFunction(_odd(_arctanh), _UP, (-1.0, 1.0), keeps_zero=True),
    "tanh": UnaryFunction(_write("tanh"), _UP, keeps_zero=True, bound=_within_one),
    "sigmoid": UnaryFunction(_write("sigmoid"), _UP, bound=_within_one),
    "erf": UnaryFunction(_write("erf"), _UP, keeps_zero=True, bound=_within_one),
}
"""Functions that a Map may name."""


@container
class Map(ColumnWise):
    """Apply a function to each entry, in x's dtype.

    Ints become float64, except for ``abs``, ``neg``, ``sign`` and ``square``.
    """

    x: Node
    function: str

    def check(self) -> str | None:
        return None if self.function in FUNCTIONS else f"maps by {self.function:.50}, which is none"

    @property
    def inexact(self) -> bool:  # type: ignore[override]
        return not FUNCTIONS[self.function].exact

    @property
    def decides(self) -> bool:  # type: ignore[override]
        return FUNCTIONS[self.function].jumps

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        # The least int has no negative: it wraps around to itself.
        is_float = self.type.dtype.startswith("float")
        return FUNCTIONS[self.function].trend if is_float else Trend.UNKNOWN

    def breaks(self, column: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        return np.array(FUNCTIONS[self.function].breaks, np.float64)

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        keeps = dtype.startswith("int") and FUNCTIONS[self.function].keeps_ints
        return Type(self.x.type.width, dtype if keeps else as_float(dtype))

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        bound = FUNCTIONS[self.function].bound
        largest = bound and bound(x)
        return None if largest is None else x.within(largest)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return FUNCTIONS[self.function].write(b, b.cast(inputs[0], self.type.dtype))

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows | None:  # type: ignore[override]
        (rows,) = inputs
        keeps_zero = FUNCTIONS[self.function].keeps_zero
        return rows.with_weights(self.lower(b, rows.weights)) if keeps_zero else None


@container
class RoundDecimals(ColumnWise):
    """``numpy.round``: round to so many decimals, halves to the even one, in x's dtype.

    Numbers are multiplied by a power of ten, rounded to whole ones, and divided by it, as by
    ``PyArray_Round`` of numpy. Below 0 decimals they are divided first, ints in float64.
    """

    x: Node
    decimals: int

    decides: ClassVar[bool] = True
    trends: ClassVar[Trend] = Trend.RISES

    def check(self) -> str | None:
        if abs(self.decimals) > _MOST_DECIMALS:
            return f"rounds to {self.decimals} decimals"
        return "rounds bools" if self.x.type.dtype == "bool" else None

    @property
    def _keeps_ints(self) -> bool:
        return self.x.type.dtype.startswith("int") and self.decimals >= 0

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        if self.type.dtype not in LARGEST:
            return None
        factor = _power_of_ten(abs(self.decimals))
        # A product that overflows stays infinite; what is rounded moves by less than the factor.
        fits = x.bound * factor < LARGEST[self.type.dtype]
        return x.within(2 * x.bound + factor) if fits else None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        if self._keeps_ints:
            return x
        wide = b.cast(x, as_float(x.dtype))
        if self.decimals == 0:
            return b.op("rint", wide)
        factor = b.constant(_power_of_ten(abs(self.decimals)), wide.dtype)
        if self.decimals > 0:
            return b.op("rint", wide * factor) / factor
        return b.cast(b.op("rint", wide / factor) * factor, self.type.dtype)


_MOST_DECIMALS = 308
"""Beyond, the power of ten is no float."""


def _power_of_ten(exponent: int) -> float:
    """Multiply by ten so often, as numpy does: from 23 on, other floats than the nearest."""
    return math.prod([10.0] * exponent)


@container
class Clip(BetweenBounds):
    """Compute ``min(max(x, low), high)`` column by column, in x's dtype (float64 for ints).

    NaN stays NaN.
    """

    gives: ClassVar[str] = "float"
    trends: ClassVar[Trend] = Trend.RISES

    def interval(self, *inputs: Interval) -> Interval:
        (x,) = inputs
        largest = largest_constant(self.low, self.high)
        return x if largest is None else x.within(min(x.bound, largest))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        x = b.op("maximum", x, b.constant(self.low, self.type.dtype))
        return b.op("minimum", x, b.constant(self.high, self.type.dtype))


@container
class SoftThreshold(ColumnWise):
    """``sign(x) * max(|x| - amount, 0)`` entry by entry, in x's dtype."""

    x: Node
    amount: float

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        rest = b.op("abs", x) - b.constant(self.amount, x.dtype)
        return b.op("sign", x) * b.op("maximum", rest, b.constant(0.0, x.dtype))
