"""Emit primitives that move entries, and matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.tensor.runs import find_few_runs

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor

__all__ = [
    "concat",
    "expand",
    "gather",
    "lookup",
    "matmul",
    "reshape",
    "scatter",
    "take",
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
    if 0 in shape:  # a zero in the target shape of Reshape means "as before"
        return write_expand(w, name, w.constant(np.zeros(shape), dtype), shape)
    return w.node("Reshape", name, w.constant([0, *shape], "int64"))


def expand(w: GraphWriter, x: Tensor, value: Tensor) -> str:
    """Repeat a constant for each row."""
    return write_expand(w, x.name, value.name, value.shape)


def write_expand(w: GraphWriter, x: str, value: str, shape: tuple[int, ...]) -> str:
    return w.node(
        "Expand", value, w.node("Concat", w.rows(x), w.constant(list(shape), "int64"), axis=0)
    )
