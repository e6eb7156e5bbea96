"""Runs: neighbouring positions that a ``take`` copies at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Runs", "find_few_runs", "find_repeats"]

Runs = tuple[tuple[int, int], ...]
"""First position and length of each run."""

LENGTH = 1.5
"""Mean length, for each run there is, from which copying runs beats reading each position.

A run costs the more the more there are: each is a pass over all rows. Measured with 1 to 12 runs of
1 to 25 words in float32 and float64, on torch and ONNX Runtime.
"""

REPEATS = 8
"""Mean number of times, from which copying a repeated position beats reading it each time."""


def find_repeats(indices: npt.NDArray[Any], extent: int) -> Runs:
    """Return each position and how often it is repeated; nothing where that is seldom.

    One-hot encoders take each code once for each category.

    Examples
    --------
    >>> find_repeats(np.repeat([0, 2], [9, 12]), 3)
    ((0, 9), (2, 12))
    >>> find_repeats(np.array([0, 0, 1]), 2)
    ()
    """
    positions = np.where(indices < 0, indices + extent, indices)
    # No position is -1, so the first one begins a run.
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    if not len(starts) or len(positions) < REPEATS * len(starts):
        return ()
    counts = np.diff(starts, append=len(positions))
    return tuple(zip(positions[starts].tolist(), counts.tolist(), strict=True))


def find_few_runs(indices: npt.NDArray[Any], extent: int) -> Runs:
    """Return the runs of the positions that are taken of ``extent``; none where they are many.

    Libraries read single positions of a row slowly, up to 8 ns each, and copy a run of 25 in 20 ns.

    Examples
    --------
    >>> find_few_runs(np.array([4, 5, 6, -2, -1, 0]), 9)
    ((4, 5), (0, 1))
    >>> find_few_runs(np.array([4, 5, 6, 0, 2]), 9)
    ()
    >>> find_few_runs(np.array([3, 2, 1]), 9)
    ()
    """
    positions = np.where(indices < 0, indices + extent, indices)
    # No position is the one after -2, so the first one begins a run.
    starts = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
    if not len(starts) or len(positions) < LENGTH * len(starts) ** 2:
        return ()
    lengths = np.diff(starts, append=len(positions))
    return tuple(zip(positions[starts].tolist(), lengths.tolist(), strict=True))
