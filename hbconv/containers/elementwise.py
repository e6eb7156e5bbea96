"""Map: one function of one value, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value
    from hbconv.tensor.sparse_rows import SparseRows

__all__ = ["FUNCTIONS", "Map"]


def _primitive(name: str) -> Callable[[Builder, Value], Value]:
    return lambda b, x: b.op(name, x)


def _logit(b: Builder, p: Value) -> Value:
    """``log(p / (1 - p))``, near a half by way of ``log1p``, where the quotient would lose digits."""
    low, half, high, one = (b.constant(value, p.dtype) for value in (0.3, 0.5, 0.65, 1.0))
    twice = (p - half) + (p - half)
    near_half = b.op("log1p", twice) - b.op("log1p", b.op("neg", twice))
    return b.where((p < low) | (p > high), b.op("log", p / (one - p)), near_half)


def _sublinear(b: Builder, x: Value) -> Value:
    """``1 + log(x)`` for a count, 0 for none."""
    zero, one = b.constant(0.0, x.dtype), b.constant(1.0, x.dtype)
    return b.where(b.op("eq", x, zero), zero, b.op("log", x) + one)


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    **{name: _primitive(name) for name in (
        "abs", "neg", "sign", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "tanh",
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
    "abs", "neg", "sign", "sqrt", "expm1", "log1p", "sin", "tan", "tanh", "relu", "erf", "floor", "ceil", "rint", "square", "signed_square", "sublinear",
})  # fmt: skip
"""Functions that make zero of zero."""

_KEEPS_INTS = frozenset({"abs", "neg", "sign", "square"})
"""Functions that numpy computes in ints where x is int."""


@container
class Map(Node):
    """``function(x)`` entry by entry, in x's dtype; ints become float64 but for ``abs``, ``neg``, ``sign`` and ``square``."""

    x: Node
    function: str

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns))

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        keeps = dtype.startswith("float") or (dtype.startswith("int") and self.function in _KEEPS_INTS)
        return Type(self.x.type.width, dtype if keeps else "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return FUNCTIONS[self.function](b, b.cast(inputs[0], self.type.dtype))

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows | None:  # type: ignore[override]
        (rows,) = inputs
        return rows.with_weights(self.lower(b, rows.weights)) if self.function in _KEEPS_ZERO else None
