"""One function of one value, entry by entry: Map, Clip, SoftThreshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers.interval import Interval, Trend, largest_constant
from hbconv.containers.node import Node, container, one_to_one
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = ["FUNCTIONS", "Clip", "Map", "SoftThreshold"]


def _primitive(name: str) -> Callable[[Builder, Value], Value]:
    return lambda b, x: b.op(name, x)


def _logit(b: Builder, p: Value) -> Value:
    """Compute ``log(p / (1 - p))``; near a half by ``log1p``, where the quotient loses digits."""
    low, half, high, one = (b.constant(value, p.dtype) for value in (0.3, 0.5, 0.65, 1.0))
    twice = (p - half) + (p - half)
    near_half = b.op("log1p", twice) - b.op("log1p", b.op("neg", twice))
    return b.where((p < low) | (p > high), b.op("log", p / (one - p)), near_half)


def _sublinear(b: Builder, x: Value) -> Value:
    """``1 + log(x)`` for a count, 0 for none."""
    zero = b.constant(0.0, x.dtype)
    one = b.constant(1.0, x.dtype)
    return b.where(b.op("eq", x, zero), zero, b.op("log", x) + one)


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    **{name: _primitive(name) for name in (
        "abs", "neg", "sign", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10",
        "sin", "cos", "tan", "tanh",
        "sigmoid", "relu", "erf", "floor", "ceil", "rint",
    )},
    "square": lambda b, x: x * x,
    "signed_square": lambda b, x: b.op("sign", x) * x * x,
    "reciprocal": lambda b, x: b.constant(1.0, x.dtype) / x,
    "logit": _logit,
    "sublinear": _sublinear,
    "exp2": lambda b, x: b.op("pow", b.constant(2.0, x.dtype), x),
}  # fmt: skip
"""Functions a Map may name, each as it lowers."""

_KEEPS_ZERO = frozenset({
    "abs", "neg", "sign", "sqrt", "expm1", "log1p", "sin", "tan", "tanh", "relu", "erf",
    "floor", "ceil", "rint", "square", "signed_square", "sublinear",
})  # fmt: skip
"""Functions that make zero of zero."""

_WITHIN_ONE = frozenset({"sigmoid", "tanh", "sin", "cos", "sign", "erf"})
"""Functions whose values are within [-1, 1]."""

_KEEPS_SIZE = frozenset({"abs", "neg", "relu", "floor", "ceil", "rint"})
"""Functions whose values are at most one larger than x."""

_LARGEST_LOG = 750.0
"""No logarithm of a positive float64, and one, is larger."""

_KEEPS_INTS = frozenset({"abs", "neg", "sign", "square"})
"""Functions that numpy computes in ints where x is int."""


_EXACT = frozenset({
    "abs", "neg", "sign", "sqrt", "relu", "floor", "ceil", "rint",
    "square", "signed_square", "reciprocal",
})  # fmt: skip
"""Functions that every backend rounds to the nearest float."""

_RISES = frozenset({
    "sign", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "tanh", "sigmoid", "relu",
    "erf", "floor", "ceil", "rint", "signed_square", "logit", "sublinear", "exp2",
})  # fmt: skip
"""Functions that never fall; those that are inexact do so up to a last bit."""

_FALLS = frozenset({"neg", "reciprocal"})
"""Functions that never rise."""

_BREAKS = {
    "reciprocal": (0.0,), "sqrt": (0.0,), "log": (0.0,), "log2": (0.0,), "log10": (0.0,),
    "log1p": (-1.0,), "logit": (0.0, 1.0), "sublinear": (0.0,),
}  # fmt: skip
"""Where functions jump, or begin and end."""


@container
class Map(Node):
    """Apply a function to each entry, in x's dtype.

    Ints become float64, except for ``abs``, ``neg``, ``sign`` and ``square``.
    """

    x: Node
    function: str

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns))

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    @property
    def inexact(self) -> bool:  # type: ignore[override]
        return self.function not in _EXACT

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        if not self.type.dtype.startswith("float"):
            return Trend.UNKNOWN  # the least int has no negative
        if self.function in _FALLS:
            return Trend.FALLS
        return Trend.RISES if self.function in _RISES else Trend.UNKNOWN

    def breaks(self, column: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        return np.array(_BREAKS.get(self.function, ()), np.float64)

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        keeps = dtype.startswith("float") or (
            dtype.startswith("int") and self.function in _KEEPS_INTS
        )
        return Type(self.x.type.width, dtype if keeps else "float64")

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        if self.function in _WITHIN_ONE:
            return x.within(1.0)
        if self.function in _KEEPS_SIZE:
            return x.within(x.bound + 1.0)
        if self.function == "sublinear" and x.least >= 0.0:
            return x.within(_LARGEST_LOG)
        return x.within(x.bound**2) if self.function == "square" and x.bound < 1e150 else None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return FUNCTIONS[self.function](b, b.cast(inputs[0], self.type.dtype))

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows | None:  # type: ignore[override]
        (rows,) = inputs
        return (
            rows.with_weights(self.lower(b, rows.weights)) if self.function in _KEEPS_ZERO else None
        )


@container
class Clip(Node):
    """Compute ``min(max(x, low), high)`` column by column, in x's dtype (float64 for ints).

    NaN stays NaN.
    """

    x: Node
    low: Array
    high: Array

    @staticmethod
    def of(x: Node, low: npt.ArrayLike, high: npt.ArrayLike) -> Clip:
        """Scalars stand for all columns."""
        width = (x.type.width,)
        return Clip(
            x, *(Array(np.broadcast_to(numbers(bound, np.float64), width)) for bound in (low, high))
        )

    def narrowed(self, columns: Array) -> Node:
        low, high = (Array(bound.data[columns.data]) for bound in (self.low, self.high))
        return replace(self, x=Select(self.x, columns), low=low, high=high)

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return Trend.RISES

    def infer(self) -> Type:
        return Type(
            self.x.type.width,
            self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64",
        )

    def interval(self, *inputs: Interval) -> Interval:
        (x,) = inputs
        largest = largest_constant(self.low, self.high)
        return x if largest is None else x.within(min(x.bound, largest))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        x = b.op("maximum", x, b.constant(self.low, self.type.dtype))
        return b.op("minimum", x, b.constant(self.high, self.type.dtype))


@container
class SoftThreshold(Node):
    """``sign(x) * max(|x| - amount, 0)`` entry by entry, in x's dtype."""

    x: Node
    amount: float

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns))

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        rest = b.op("abs", x) - b.constant(self.amount, x.dtype)
        return b.op("sign", x) * b.op("maximum", rest, b.constant(0.0, x.dtype))
