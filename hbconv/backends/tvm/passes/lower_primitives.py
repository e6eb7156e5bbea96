"""Lower primitives to others: each costs a few more passes over rows that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv.tensor import Builder, Value
from hbconv.tensor.code_tables import compare_codes, compare_small_tables

__all__ = ["REWRITES"]


def relu(b: Builder, x: Value) -> Value:
    """``maximum(x, 0)``."""
    return b.op("maximum", x, b.constant(0.0, x.dtype))


def logsumexp(b: Builder, x: Value, axis: int) -> Value:
    """``log(sum(exp(x - top))) + top``; a ``top`` that is not finite is not subtracted."""
    top = b.reduce("reduce_max", x, axis)
    infinite = b.op("isinf", top) | b.op("isnan", top)
    shift = b.where(infinite, b.constant(np.zeros(()), x.dtype), top)
    column = b.reshape(shift, *x.shape[:axis], 1, *x.shape[axis + 1 :])
    return b.op("log", b.reduce("reduce_sum", b.op("exp", x - column), axis)) + shift


MAX_COMPARED = 12
"""Entries of a table up to which comparing vectors of codes beats a read for each row."""

REWRITES: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "logsumexp": logsumexp,
    "lookup_codes": compare_small_tables(MAX_COMPARED, of_all_entries=False),
    "one_hot": compare_codes,
}
