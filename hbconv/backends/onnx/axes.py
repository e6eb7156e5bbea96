"""Emit primitives that work along an axis: reductions, running sums, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.onnx.shapes import with_a_row, without_last_row, write_reshape

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor

__all__ = ["argmax", "bucketize", "cumsum", "extreme", "ordered_sum", "reduction", "sort", "topk"]


def reduction(operator: str) -> Callable[..., str]:
    """Remove one axis by one operator."""
    return lambda w, x, axis: _reduce(w, operator, x.name, axis)


def _reduce(w: GraphWriter, operator: str, name: str, axis: int) -> str:
    return w.node(operator, name, w.constant([axis + 1], "int64"), keepdims=0)


def extreme(operator: str) -> Callable[..., str]:
    """Write a maximum or minimum that is NaN where there is one: ONNX Runtime's ignores NaN."""

    def emit(w: GraphWriter, x: Tensor, axis: int) -> str:
        found = _reduce(w, operator, x.name, axis)
        return (
            found
            if not x.dtype.startswith("float")
            else w.node("Where", _any_nan(w, x, axis), w.constant(np.nan, x.dtype), found)
        )

    return emit


def _nan_counts(w: GraphWriter, x: Tensor) -> str:
    return w.cast(w.node("IsNaN", x.name), "int32")


def _any_nan(w: GraphWriter, x: Tensor, axis: int) -> str:
    return w.cast(_reduce(w, "ReduceMax", _nan_counts(w, x), axis), "bool")


def argmax(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Find the first NaN, or else the first of the largest."""
    position = w.node("ArgMax", x.name, axis=axis + 1, keepdims=0)
    if x.dtype.startswith("float"):
        nan_position = w.node("ArgMax", _nan_counts(w, x), axis=axis + 1, keepdims=0)
        position = w.node("Where", _any_nan(w, x, axis), nan_position, position)
    return w.cast(position, "int32")


def ordered_sum(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Take the last of the running sums: CumSum adds one entry after another."""
    if x.shape[axis] == 0:
        return _reduce(w, "ReduceSum", x.name, axis)
    return w.node(
        "Gather", cumsum(w, x, axis), w.constant(x.shape[axis] - 1, "int64"), axis=axis + 1
    )


def cumsum(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Write running sums."""
    return w.node("CumSum", x.name, w.constant(axis + 1, "int64"))


def sort(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Sort ascending, NaN last.

    1. Sort with infinity for NaN.
    2. Count the NaN of each row.
    3. Write NaN over as many last places.
    """
    size = x.shape[axis]
    if not x.dtype.startswith("float"):
        return _smallest(w, x, size, axis)[0]
    infinite = w.node("Where", w.node("IsNaN", x.name), w.constant(np.inf, x.dtype), x.name)
    count = w.node("ReduceSum", _nan_counts(w, x), w.constant([axis + 1], "int64"), keepdims=1)
    place = np.arange(1 - size, 1, dtype=np.int32).reshape(-1, *(1 for _ in x.shape[axis + 1 :]))
    missing = w.node("Greater", w.node("Add", count, w.constant(place)), w.constant(0, "int32"))
    nan = w.constant(np.nan, x.dtype)
    ordered = _smallest(w, replace(x, name=infinite), size, axis)[0]
    return w.node("Where", missing, nan, ordered)


def topk(w: GraphWriter, x: Tensor, k: int) -> str:
    """Find the positions of the smallest entries; the first of equals stands first.

    NaN comes last. In float64, NaN becomes infinity, and infinity the largest finite number. No
    float32 is that number, and no distance in float64 gets so large.
    """
    key = x
    if x.dtype.startswith("float"):
        below_infinity = w.node(
            "Min", w.cast(x.name, "float64"), w.constant(np.finfo("float64").max, "float64")
        )
        ordered = w.node(
            "Where", w.node("IsNaN", x.name), w.constant(np.inf, "float64"), below_infinity
        )
        key = replace(x, name=ordered, type=replace(x.type, dtype="float64"))
    return w.cast(_smallest(w, key, k, axis=0)[1], "int32")


def _smallest(w: GraphWriter, x: Tensor, k: int, axis: int) -> tuple[str, str]:
    values, positions = w.topk(with_a_row(w, x), k, axis + 1)
    return without_last_row(w, values), without_last_row(w, positions)


def bucketize(w: GraphWriter, x: Tensor, edges: Tensor, right: bool) -> str:
    """Count the edges at or below x; if x is NaN, count all real edges."""
    reached = w.node(
        "GreaterOrEqual" if right else "Greater",
        write_reshape(w, x.name, x.dtype, (*x.shape, 1)),
        edges.name,
    )
    count = _reduce(w, "ReduceSum", w.cast(reached, "int32"), axis=1)
    if not x.dtype.startswith("float"):
        return count
    real = w.constant((~np.isnan(np.asarray(edges.value))).sum(axis=1), "int32")
    return w.node("Where", w.node("IsNaN", x.name), real, count)
