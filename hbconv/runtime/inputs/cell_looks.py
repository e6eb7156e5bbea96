"""Looks at the cells of a row, before a program answers it: which need no check of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType

import numpy as np

from hbconv.lower import Feed
from hbconv.runtime.inputs.cell_writers import NUMBERS, Values, Write

__all__ = ["make_look"]

COMPARABLE = NUMBERS - {np.float16} | {NoneType}
"""Types compared with a bound: float16 rounds it, to infinity even."""


def make_look(
    feeds: Sequence[Feed],
    places: Mapping[int, int],
    types: Sequence[type],
    bound: float,
    without_nan: frozenset[int],
) -> Write | None:
    """Return what takes only cells that need no check, and writes nothing; None if it cannot tell.

    Parameters
    ----------
    feeds : sequence of Feed
        The floats that checks read.
    places, types
        As of ``make_writers``.
    bound : float
        Largest magnitude of a cell.
    without_nan : frozenset of int
        Columns in which NaN is refused.
    """
    fed = {column: feed.dtype for feed in feeds for column in feed.columns}
    given = {column: types[places[column]] for column in fed}
    absent = {column for column, kind in given.items() if kind is NoneType}
    is_exact = all(
        dtype == "float64" or given[column] is np.float32 for column, dtype in fed.items()
    )
    if not is_exact or absent & without_nan or not COMPARABLE.issuperset(given.values()):
        return None
    looks = [
        (places[column], column in without_nan, _bound_of(kind, bound))
        for column, kind in given.items()
        if column not in absent
    ]

    def look(values: Values) -> None:
        for place, strict, most in looks:
            value = values[place]
            if not -most <= value <= most and (strict or value == value):
                raise ValueError(value)

    return look


def _bound_of(kind: type, bound: float) -> float:
    """Return a bound that values of a type are compared with as it is: numpy rounds it to float32.

    Examples
    --------
    >>> _bound_of(float, 0.1), _bound_of(np.float32, 0.1) < 0.1
    (0.1, True)
    """
    if kind is not np.float32:
        return bound
    rounded = np.float32(min(bound, float(np.finfo(np.float32).max)))
    return float(np.nextafter(rounded, np.float32(0)) if float(rounded) > bound else rounded)
