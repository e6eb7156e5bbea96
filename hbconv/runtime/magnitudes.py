"""Magnitudes: whether all numbers of an array are small, by as few passes as possible.

Passes run on the thread of the call. A library for linear algebra takes more threads for long
vectors, and these keep a core busy for a while after they are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DOT_ENTRIES", "are_within", "long_dot"]

DOT_ENTRIES = 8192
"""Entries of a dot product that OpenBLAS computes on one thread; it takes more above 10,000."""


def long_dot(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return the dot product of all entries of two arrays of one shape, on this thread.

    Examples
    --------
    >>> long_dot(np.array([[1.0, 2.0], [3.0, 0.0]]), np.ones((2, 2)))
    6.0
    """
    pairs = zip(_blocks(a.reshape(-1)), _blocks(b.reshape(-1)), strict=True)
    return sum((float(np.vdot(x, y)) for x, y in pairs), 0.0)


def are_within(x: npt.NDArray[np.floating], bound: float, strict: list[int]) -> bool:
    """Whether all values are within a bound, or NaN in columns that are not strict.

    A small sum of squares says so for most rows. It is asked block by block, up to the first block
    that it leaves open.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
    bound : float
    strict : list of int
        Columns that must not hold NaN.

    Examples
    --------
    >>> x = np.array([[1.0, np.nan], [-2.0, 3.0]])
    >>> are_within(x, 3.0, [0]), are_within(x, 3.0, [1]), are_within(x, 2.0, [])
    (True, False, False)
    """
    flat = x.reshape(-1)
    square = bound * bound
    if all(np.vdot(block, block) <= square for block in _blocks(flat)):  # vdot does not warn
        return True
    if len(strict) == x.shape[1]:  # these pass NaN on, and no comparison holds for it
        return bool(-bound <= flat.min() and flat.max() <= bound)
    low = np.fmin.reduce(flat, initial=0.0)
    high = np.fmax.reduce(flat, initial=0.0)
    return bool(-bound <= low and high <= bound and not np.isnan(x[:, strict]).any())


def _blocks(flat: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    return (flat[i : i + DOT_ENTRIES] for i in range(0, flat.size, DOT_ENTRIES))
