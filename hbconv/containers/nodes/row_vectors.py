"""Small vectors of each row, as programs that containers repeat write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "as_column",
    "as_row",
    "dot",
    "is_set",
    "least_positive",
    "number",
    "one_hot",
    "square",
    "total",
]


def number(b: Builder, value: float) -> Value:
    """Write a number of float64."""
    return b.constant(np.array([value]), "float64")


def is_set(b: Builder, x: Value) -> Value:
    """Tell where a number is above zero."""
    return x > number(b, 0.0)


def dot(b: Builder, x: Value, y: Value) -> Value:
    """Multiply and add up, into a vector of one entry."""
    return total(b, x * y)


def total(b: Builder, x: Value) -> Value:
    """Add up, into a vector of one entry."""
    return b.reshape(b.reduce("reduce_sum", x), 1)


def as_row(b: Builder, x: Value) -> Value:
    """Make a vector a matrix of one row."""
    return b.reshape(x, 1, x.shape[0])


def as_column(b: Builder, x: Value) -> Value:
    """Make a vector a matrix of one column."""
    return b.reshape(x, x.shape[0], 1)


def square(b: Builder, v: Value, factor: Value) -> Value:
    """Return ``factor * v * v'``."""
    return as_column(b, factor * v) * as_row(b, v)


def one_hot(b: Builder, index: Value, size: int) -> Value:
    """Write 1 at a computed position, 0 elsewhere."""
    places = b.constant(np.arange(size), "int32")
    return b.cast(b.op("eq", b.reshape(index, 1), places), "float64")


def least_positive(b: Builder, x: Value, counts: Value) -> Value:
    """Find the least of the entries that count and are above zero."""
    most = number(b, np.finfo(np.float64).max)
    positive = b.where(counts & is_set(b, x), x, most)
    return b.reshape(b.reduce("reduce_min", positive), 1)
