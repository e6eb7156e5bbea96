"""One function of one value, entry by entry: Map, Clip, SoftThreshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.interval import Interval, Trend, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import BetweenBounds, ColumnWise
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = ["FUNCTIONS", "Clip", "Map", "SoftThreshold"]


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


def _write(name: str) -> Write:
    """Return what writes the primitive of a name."""
    return lambda b, x: b.op(name, x)


def _within_one(x: Interval) -> float:  # noqa: ARG001
    return 1.0


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
    """

    write: Write
    trend: Trend = Trend.UNKNOWN
    breaks: tuple[float, ...] = ()
    exact: bool = False
    keeps_zero: bool = False
    keeps_ints: bool = False
    bound: Callable[[Interval], float | None] | None = None


_UP = Trend.RISES

FUNCTIONS: dict[str, UnaryFunction] = {
    "abs": UnaryFunction(
        _write("abs"), keeps_ints=True, exact=True, keeps_zero=True, bound=_one_larger
    ),
    "neg": UnaryFunction(
        _write("neg"), Trend.FALLS, keeps_ints=True, exact=True, keeps_zero=True, bound=_one_larger
    ),
    "sign": UnaryFunction(
        _write("sign"), _UP, exact=True, keeps_zero=True, keeps_ints=True, bound=_within_one
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
    "floor": UnaryFunction(_write("floor"), _UP, exact=True, keeps_zero=True, bound=_one_larger),
    "ceil": UnaryFunction(_write("ceil"), _UP, exact=True, keeps_zero=True, bound=_one_larger),
    "rint": UnaryFunction(_write("rint"), _UP, exact=True, keeps_zero=True, bound=_one_larger),
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
