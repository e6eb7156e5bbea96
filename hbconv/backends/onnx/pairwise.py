"""Emit distances between rows and constant points, and the points nearest to each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.onnx.axes import topk
from hbconv.backends.onnx.shapes import write_expand
from hbconv.backends.onnx.writer import Tensor
from hbconv.tensor import TensorType

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter

__all__ = ["nearest", "pairwise"]

MAX_NARROW_FEATURES = 15
"""Features up to which sums of differences find the nearest points faster than one product."""

_Term = Callable[["GraphWriter", str, str, str], str]


def pairwise(w: GraphWriter, x: Tensor, points: Tensor, kind: str, p: float) -> str:
    """Fold the terms of one feature after another, each from a column of x and a constant row."""
    power = w.constant(p, x.dtype)
    total = write_expand(
        w, x.name, w.constant(np.zeros(points.shape[0]), x.dtype), points.shape[:1]
    )
    for feature, values in enumerate(np.asarray(points.value).T):
        column = w.node("Gather", x.name, w.constant([feature], "int64"), axis=1)
        term = _TERMS[kind](w, column, w.constant(values, x.dtype), power)
        total = w.node("Max" if kind == "largest" else "Add", total, term)
    return total


def nearest(w: GraphWriter, x: Tensor, points: Tensor, k: int) -> str:
    """Find the nearest points, by one product if they are wide.

    The product is ``|y|^2 - 2 x y``, with x and y less the median of the points. ``|x|^2`` is left
    out: it changes no order.
    """
    kind = TensorType(x.dtype, points.shape[:1])
    if points.shape[1] <= MAX_NARROW_FEATURES:
        return topk(w, Tensor(pairwise(w, x, points, "square", 2.0), kind), k)
    values = np.asarray(points.value)
    centre = np.median(values, axis=0)
    apart = values - centre
    products = w.node(
        "MatMul",
        w.node("Sub", x.name, w.constant(centre, x.dtype)),
        w.constant(-2.0 * apart.T, x.dtype),
    )
    return topk(
        w, Tensor(w.node("Add", products, w.constant((apart**2).sum(axis=1), x.dtype)), kind), k
    )


def _difference(w: GraphWriter, x: str, y: str, power: str) -> str:  # noqa: ARG001
    return w.node("Abs", w.node("Sub", x, y))


def _square(w: GraphWriter, x: str, y: str, power: str) -> str:  # noqa: ARG001
    difference = w.node("Sub", x, y)
    return w.node("Mul", difference, difference)


def _power(w: GraphWriter, x: str, y: str, power: str) -> str:
    return w.node("Pow", _difference(w, x, y, power), power)


def _different(w: GraphWriter, x: str, y: str, power: str) -> str:
    return w.node("CastLike", w.node("Not", w.node("Equal", x, y)), power)


def _canberra(w: GraphWriter, x: str, y: str, power: str) -> str:
    size = w.node("Add", w.node("Abs", x), w.node("Abs", y))
    zero, one = (w.node("CastLike", w.constant(number), power) for number in (0.0, 1.0))
    return w.node(
        "Div", _difference(w, x, y, power), w.node("Where", w.node("Equal", size, zero), one, size)
    )


def _chi_square(w: GraphWriter, x: str, y: str, power: str) -> str:
    size, square = w.node("Add", x, y), _square(w, x, y, power)
    zero = w.node("CastLike", w.constant(0.0), power)
    return w.node("Where", w.node("Equal", size, zero), zero, w.node("Div", square, size))


def _present(w: GraphWriter, x: str, y: str, power: str) -> str:
    square = _square(w, x, y, power)
    return w.node(
        "Where", w.node("IsNaN", square), w.node("CastLike", w.constant(0.0), power), square
    )


_TERMS: dict[str, _Term] = {
    "square": _square,
    "absolute": _difference,
    "largest": _difference,
    "power": _power,
    "different": _different,
    "canberra": _canberra,
    "chi_square": _chi_square,
    "present": _present,
}
