"""Statistics of each row, over its columns: sums, means, deviations, extremes, tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["ORDERS", "STATISTICS", "RowStatistic"]

ORDERS = ("C", "F")
"""Orders of an array in memory: by rows, or by columns."""

_BLOCK = 128
_LANES = 8


@container
class RowStatistic(Node):
    """Compute a statistic of numpy over the columns: ``numpy.NAME(x, axis=1)``, to the last bit.

    Those that begin with ``nan`` skip NaN, as numpy's and pandas' do. Sums start from 0.0.

    Parameters
    ----------
    function : str
        An entry of ``STATISTICS``.
    ddof : int
        Taken off the count of values, by which the squares of ``var`` and ``std`` are divided: 0 is
        numpy's default, and 1 is pandas'.
    order : {"C", "F"}
        Order of x in the source's memory, which decides the order of its sums from 8 columns on.
        Rows that lie together are added in pairs (``pairwise_sum`` of numpy's
        ``loops_utils.h.src``). Columns that lie together are added one after another, as pandas
        does.
    """

    x: Node
    function: str
    ddof: int = 0
    order: str = "F"

    @property
    def detail(self) -> str:
        return self.function

    def check(self) -> str | None:
        if self.function not in STATISTICS or self.order not in ORDERS:
            return f"computes {self.function:.50} in order {self.order:.50}, which is none"
        return None if self.x.type.width else "computes a statistic of no columns"

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        kind = self.function.removeprefix("nan")
        if kind in ("any", "all"):
            return Type(1, "bool")
        if kind in ("max", "min"):
            return Type(1, dtype)
        if kind == "sum":
            return Type(1, dtype if dtype.startswith("float") else "int64")
        return Type(1, as_float(dtype))

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        # Tests take any number, and all others compute in the dtype of the answer.
        x = x if self.type.dtype == "bool" else b.cast(x, self.type.dtype)
        return STATISTICS[self.function](b, x, self)

    def total(self, b: Builder, x: Value) -> Value:
        """Write the sum of the columns."""
        if not x.dtype.startswith("float"):
            return b.reshape(b.reduce("reduce_sum", x), 1)
        if self.order == "F" or x.shape[0] < _LANES:
            return b.reshape(b.reduce("ordered_sum", x), 1)
        return b.constant(0.0, x.dtype) + _pairwise_sum(b, x)


def _pairwise_sum(b: Builder, x: Value) -> Value:
    """Add up eight running sums, and what is left one after another; halve longer rows."""
    width = x.shape[0]
    if width > _BLOCK:
        half = width // 2 - width // 2 % _LANES
        first, second = np.arange(half), np.arange(half, width)
        return _pairwise_sum(b, b.take(x, first)) + _pairwise_sum(b, b.take(x, second))
    columns = [b.take(x, [place]) for place in range(width)]
    if width < _LANES:
        return reduce(lambda total, column: total + column, columns)
    whole = width - width % _LANES
    lanes = [
        reduce(lambda total, column: total + column, columns[lane:whole:_LANES])
        for lane in range(_LANES)
    ]
    while len(lanes) > 1:
        lanes = [left + right for left, right in zip(lanes[::2], lanes[1::2], strict=True)]
    return reduce(lambda total, column: total + column, columns[whole:], lanes[0])


Statistic = Callable[["Builder", "Value", RowStatistic], "Value"]


def _sum(b: Builder, x: Value, node: RowStatistic) -> Value:
    return node.total(b, x)


def _mean(b: Builder, x: Value, node: RowStatistic) -> Value:
    return node.total(b, x) / b.constant(float(x.shape[0]), x.dtype)


def _var(b: Builder, x: Value, node: RowStatistic) -> Value:
    apart = x - _mean(b, x, node)
    count = max(x.shape[0] - node.ddof, 0)
    return node.total(b, apart * apart) / b.constant(float(count), x.dtype)


def _extreme(primitive: str) -> Statistic:
    return lambda b, x, node: b.reshape(b.reduce(primitive, x), 1)


def _any(b: Builder, x: Value, node: RowStatistic) -> Value:  # noqa: ARG001
    return b.reshape(b.reduce("reduce_any", _is_true(b, x)), 1)


def _all(b: Builder, x: Value, node: RowStatistic) -> Value:  # noqa: ARG001
    return ~b.reshape(b.reduce("reduce_any", ~_is_true(b, x)), 1)


def _is_true(b: Builder, x: Value) -> Value:
    """Whether values differ from zero; NaN does."""
    return b.cast(x, "bool")


def _present(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return where values are missing, and the values with 0 there."""
    missing = b.op("isnan", x)
    return missing, b.where(missing, b.constant(0.0, x.dtype), x)


def _count(b: Builder, missing: Value, dtype: str) -> Value:
    """Return how many values are there."""
    return b.cast(b.reshape(b.reduce("reduce_sum", b.cast(~missing, "int32")), 1), dtype)


def _nansum(b: Builder, x: Value, node: RowStatistic) -> Value:
    return node.total(b, _present(b, x)[1])


def _nanmean(b: Builder, x: Value, node: RowStatistic) -> Value:
    missing, values = _present(b, x)
    return node.total(b, values) / _count(b, missing, x.dtype)


def _nanvar(b: Builder, x: Value, node: RowStatistic) -> Value:
    missing, values = _present(b, x)
    zero = b.constant(0.0, x.dtype)
    count = _count(b, missing, x.dtype)
    apart = b.where(missing, zero, values - node.total(b, values) / count)
    freedom = count - b.constant(float(node.ddof), x.dtype)
    variance = node.total(b, apart * apart) / freedom
    return b.where(freedom > zero, variance, b.constant(math.nan, x.dtype))


def _root(variance: Statistic) -> Statistic:
    return lambda b, x, node: b.op("sqrt", variance(b, x, node))


def _nanextreme(primitive: str, last: float) -> Statistic:
    """Return the extreme of what is there, and NaN where nothing is."""

    def write(b: Builder, x: Value, node: RowStatistic) -> Value:  # noqa: ARG001
        missing = b.op("isnan", x)
        filled = b.where(missing, b.constant(last, x.dtype), x)
        none = ~b.reshape(b.reduce("reduce_any", ~missing), 1)
        value = b.reshape(b.reduce(primitive, filled), 1)
        return b.where(none, b.constant(math.nan, x.dtype), value)

    return write


def _of_floats(skipping: Statistic, plain: Statistic) -> Statistic:
    """Return a statistic that skips NaN, which ints have none of."""

    def write(b: Builder, x: Value, node: RowStatistic) -> Value:
        return (skipping if x.dtype.startswith("float") else plain)(b, x, node)

    return write


_PLAIN: dict[str, Statistic] = {
    "sum": _sum,
    "mean": _mean,
    "var": _var,
    "std": _root(_var),
    "max": _extreme("reduce_max"),
    "min": _extreme("reduce_min"),
    "any": _any,
    "all": _all,
}
_SKIPPING: dict[str, Statistic] = {
    "nansum": _nansum,
    "nanmean": _nanmean,
    "nanvar": _nanvar,
    "nanstd": _root(_nanvar),
    "nanmax": _nanextreme("reduce_max", -math.inf),
    "nanmin": _nanextreme("reduce_min", math.inf),
}
STATISTICS: dict[str, Statistic] = _PLAIN | {
    name: _of_floats(write, _PLAIN[name.removeprefix("nan")]) for name, write in _SKIPPING.items()
}
"""Functions of numpy that a RowStatistic may name."""
