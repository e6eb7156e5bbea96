"""Emit primitives that move entries or work along an axis: products, reductions, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.tensor.program import find_few_runs

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor

__all__ = [
    "argmax",
    "bucketize",
    "concat",
    "cumsum",
    "expand",
    "extreme",
    "gather",
    "lookup",
    "matmul",
    "ordered_sum",
    "reduction",
    "reshape",
    "scatter",
    "sort",
    "sort_key",
    "take",
    "topk",
    "with_a_row",
    "without_last_row",
    "write_reshape",
]


def matmul(w: GraphWriter, x: Tensor, weights: Tensor) -> str:
    """Multiply by a constant matrix; batched by Einsum."""
    if len(x.shape) == 1:
        return w.node("MatMul", x.name, weights.name)
    return without_last_row(
        w, w.node("Einsum", with_a_row(w, x), weights.name, equation="rbk,bkm->rbm")
    )


def with_a_row(w: GraphWriter, x: Tensor) -> str:
    """Append a row of zeros.

    Some versions of ONNX Runtime divide by zero, and crash, in operators over no rows.
    """
    return w.node("Concat", x.name, w.constant(np.zeros((1, *x.shape)), x.dtype), axis=0)


def without_last_row(w: GraphWriter, name: str) -> str:
    """Drop the appended row."""
    return w.node(
        "Slice", name, w.constant([0], "int64"), w.constant([-1], "int64"), w.constant([0], "int64")
    )


def take(w: GraphWriter, x: Tensor, indices: Tensor, axis: int) -> str:
    """Take fixed positions of a static axis; few runs of neighbours are copied as slices."""
    runs = () if indices.value is None else find_few_runs(indices.value, x.shape[axis])
    if not runs:
        return w.node("Gather", x.name, indices.name, axis=axis + 1)
    parts = [_slice(w, x, axis + 1, first, first + length) for first, length in runs]
    return parts[0] if len(parts) == 1 else w.node("Concat", *parts, axis=axis + 1)


def _slice(w: GraphWriter, x: Tensor, axis: int, first: int, last: int) -> str:
    return w.node("Slice", x.name, *(w.constant([i], "int64") for i in (first, last, axis)))


def gather(w: GraphWriter, x: Tensor, index: Tensor) -> str:
    """Read each row at its own positions."""
    # GatherElements needs an index of as many axes as x has.
    flat = write_reshape(w, index.name, "int32", (int(np.prod(index.shape)),))
    return write_reshape(w, w.node("GatherElements", x.name, flat, axis=1), x.dtype, index.shape)


def lookup(w: GraphWriter, table: Tensor, index: Tensor) -> str:
    """Read a table at computed positions."""
    return w.node("Gather", table.name, index.name, axis=0)


def scatter(w: GraphWriter, tokens: Tensor, weights: Tensor, width: int) -> str:
    """Add weights at their columns; one more column takes the padding."""
    zeros = write_expand(
        w, weights.name, w.constant(np.zeros(width + 1), weights.dtype), (width + 1,)
    )
    added = w.node(
        "ScatterElements",
        zeros,
        w.cast(tokens.name, "int64"),
        weights.name,
        axis=1,
        reduction="add",
    )
    return w.node(
        "Slice",
        added,
        w.constant([0], "int64"),
        w.constant([width], "int64"),
        w.constant([1], "int64"),
    )


def concat(w: GraphWriter, *xs: Tensor, axis: int) -> str:
    """Join along a static axis."""
    return w.node("Concat", *(x.name for x in xs), axis=axis + 1)


def reshape(w: GraphWriter, x: Tensor, shape: tuple[int, ...]) -> str:
    """Change the static shape."""
    return write_reshape(w, x.name, x.dtype, shape)


def write_reshape(w: GraphWriter, name: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Reshape the static dimensions of a value of some dtype."""
    # A zero in the target shape of Reshape means "as before".
    if 0 in shape:
        return write_expand(w, name, w.constant(np.zeros(shape), dtype), shape)
    return w.node("Reshape", name, w.constant([0, *shape], "int64"))


def expand(w: GraphWriter, x: Tensor, value: Tensor) -> str:
    """Repeat a constant for each row."""
    return write_expand(w, x.name, value.name, value.shape)


def write_expand(w: GraphWriter, x: str, value: str, shape: tuple[int, ...]) -> str:
    return w.node(
        "Expand", value, w.node("Concat", w.rows(x), w.constant(list(shape), "int64"), axis=0)
    )


def reduction(operator: str) -> Callable[..., str]:
    """Remove one axis by one operator."""
    return lambda w, x, axis: _reduce(w, operator, x.name, axis)


def _reduce(w: GraphWriter, operator: str, name: str, axis: int) -> str:
    return w.node(operator, name, w.constant([axis + 1], "int64"), keepdims=0)


def extreme(operator: str) -> Callable[..., str]:
    """Write a maximum or minimum that is NaN where there is one: ONNX Runtime's ignores NaN."""

    def emit(w: GraphWriter, x: Tensor, axis: int) -> str:
        largest = _reduce(w, operator, x.name, axis)
        return (
            largest
            if not x.dtype.startswith("float")
            else w.node("Where", _any_nan(w, x, axis), w.constant(np.nan, x.dtype), largest)
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
    # There is no last running sum of no terms, and ReduceSum of none is 0.
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
    # A count plus its place is above zero at the last places, as many as there are NaN.
    place = np.arange(1 - size, 1, dtype=np.int32).reshape(-1, *(1 for _ in x.shape[axis + 1 :]))
    missing = w.node("Greater", w.node("Add", count, w.constant(place)), w.constant(0, "int32"))
    nan = w.constant(np.nan, x.dtype)
    ordered = _smallest(w, replace(x, name=infinite), size, axis)[0]
    return w.node("Where", missing, nan, ordered)


def topk(w: GraphWriter, x: Tensor, k: int) -> str:
    """Find the positions of the smallest entries; the first of equals comes first.

    NaN comes last. In float64, NaN becomes infinity, and infinity the largest finite number. No
    float32 is that number, and no distance in float64 gets so large.
    """
    key = sort_key(w, x) if x.dtype.startswith("float") else x
    # TopK promises the lower index first among equals, so ties keep their order.
    return w.cast(_smallest(w, key, k, axis=0)[1], "int32")


def sort_key(w: GraphWriter, x: Tensor) -> Tensor:
    """Return float64 in the order of the floats, in which infinity stands for NaN alone."""
    below_infinity = w.node(
        "Min", w.cast(x.name, "float64"), w.constant(np.finfo("float64").max, "float64")
    )
    ordered = w.node(
        "Where", w.node("IsNaN", x.name), w.constant(np.inf, "float64"), below_infinity
    )
    return replace(x, name=ordered, type=replace(x.type, dtype="float64"))


def _smallest(w: GraphWriter, x: Tensor, k: int, axis: int) -> tuple[str, str]:
    values, positions = w.topk(with_a_row(w, x), k, axis + 1)
    return without_last_row(w, values), without_last_row(w, positions)


def bucketize(w: GraphWriter, x: Tensor, edges: Tensor, right: bool) -> str:
    """Count the edges at or below x; if x is NaN, count all real edges."""
    # Edges that are NaN are padding: nothing is at or above them.
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
