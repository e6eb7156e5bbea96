"""How large the values of a node get (Interval), and how they go where its input rises (Trend)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from hbconv.array import Array

__all__ = [
    "FINITE",
    "LARGEST",
    "LARGEST_INT",
    "Interval",
    "Trend",
    "bound_power",
    "largest_constant",
    "union",
]

# The largest floats are 3.4e38 and 1.8e308: what stays below these is not rounded up to infinity.
LARGEST = {"float32": 1e37, "float64": 1e300}
"""Magnitudes below which rounding cannot reach infinity, by float dtype."""
LARGEST_INT = 2.0**63
FINITE = 1e15
"""Stands for the size of codes, flags and sums of leaves: far above them, far below overflow."""


@dataclass(frozen=True)
class Interval:
    """Bounds of all values: each is within ``[-bound, bound]`` and at least ``least``, or NaN.

    Parameters
    ----------
    bound : float
    nan_from : frozenset of int
        Columns of the schema. A row holds NaN only where it has NaN in one of these columns.
    least : float
        Of counts and squares it is 0.
    """

    bound: float
    nan_from: frozenset[int] = frozenset()
    least: float = -np.inf

    def within(self, bound: float, least: float = -np.inf) -> Interval:
        """Return the interval of values made from these, with other bounds."""
        return Interval(bound, self.nan_from, least)


def union(*intervals: Interval) -> Interval:
    """Return the interval of values that come from any of these.

    Examples
    --------
    >>> union(Interval(1.0), Interval(3.0, frozenset({0})))
    Interval(bound=3.0, nan_from=frozenset({0}), least=-inf)
    """
    # ``least`` keeps its default, which holds for any
    # values: only counts of one node are asked for theirs.
    return Interval(
        max((interval.bound for interval in intervals), default=0.0),
        frozenset().union(*(interval.nan_from for interval in intervals)),
    )


def bound_power(bound: float, exponent: int) -> float:
    """Return a power of a bound; infinity where no float holds it.

    Examples
    --------
    >>> bound_power(3.0, 2), bound_power(1e18, 18)
    (9.0, inf)
    """
    # Python's power raises OverflowError, where its products give infinity.
    try:
        return bound**exponent
    except OverflowError:
        return math.inf


def largest_constant(*tables: Array) -> float | None:
    """Return the largest magnitude in the tables; None if a value is not finite."""
    # In float64, since the least int64 has no absolute value in its own dtype.
    sizes = [np.abs(table.data.astype(np.float64)).max(initial=0.0) for table in tables]
    # A NaN among the constants makes the maximum NaN, which is not below infinity either.
    return float(max(sizes, default=0.0)) if all(size < np.inf for size in sizes) else None


class Trend(Enum):
    """By construction, that is for every rounding to the nearest float.

    ``RISES`` never falls, ``FALLS`` never rises, and ``FLAT`` is constant. A value that is NaN
    makes NaN, and has no place in the order.
    """

    RISES = "rises"
    FALLS = "falls"
    FLAT = "flat"
    UNKNOWN = "unknown"
