"""Time zones as tables: when each offset from UTC begins, as pandas knows it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Offsets", "read_offsets"]

FIRST = -4_417_977_600
"""The second at which 1830 begins, before the first time zone."""
LAST = 16_725_225_600
"""The second at which 2500 begins: a cycle of 400 years behind the last table."""
STEP = 3 * 86_400
"""Seconds between two looks: no offset of any zone lasts less, but for those before 1830."""
FIRST_DAY = -62_135_596_800
"""The second at which year 1 begins, the first that Python's clocks know."""
LAST_SECOND = 253_402_300_799
"""The last second of 9999."""

Seconds = npt.NDArray[np.int64]


class Offsets(NamedTuple):
    """Offsets of a time zone.

    Parameters
    ----------
    starts : ndarray of shape (1, m)
        Seconds since 1970 at which an offset begins.
    offsets : ndarray of shape (m + 1,)
        In seconds.
    within : tuple of int, or None
        First and last second that pandas takes; None where it takes all.
    """

    starts: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.float64]
    within: tuple[int, int] | None


@lru_cache(32)
def read_offsets(zone: Any) -> Offsets:
    """Ask pandas for the offsets of a time zone, from 1830 to 2500.

    It looks at each third day, and divides the time in which the offset changes.
    """
    days = np.arange(FIRST, LAST, STEP)
    known = _offsets_at(zone, days)
    changes = np.flatnonzero(known[1:] != known[:-1])
    before = days[changes]
    after = days[changes + 1]
    while (after - before > 1).any():
        middle = (before + after) // 2
        same = _offsets_at(zone, middle) == known[changes]
        before = np.where(same, middle, before)
        after = np.where(same, after, middle)
    offsets = known[np.append(changes, len(known) - 1)]
    starts = after[None].astype(np.float64)
    return Offsets(starts, offsets.astype(np.float64), _within(zone, offsets))


def _within(zone: Any, offsets: Seconds) -> tuple[int, int] | None:
    """Return the seconds of which both the clock in UTC and the local one show years 1 to 9999."""
    import pandas as pd

    far = pd.DatetimeIndex(np.array([LAST_SECOND + STEP * 9], "datetime64[s]"), tz="UTC")
    try:
        far.tz_convert(zone).tz_localize(None)
    except (NotImplementedError, OverflowError, ValueError):
        first = FIRST_DAY - min(int(offsets[0]), 0)
        return first, LAST_SECOND - max(int(offsets[-1]), 0)
    return None


def _offsets_at(zone: Any, seconds: Seconds) -> Seconds:
    """Return the offset at each second."""
    import pandas as pd

    instants = pd.DatetimeIndex(seconds.astype("datetime64[s]"), tz="UTC")
    local = instants.tz_convert(zone).tz_localize(None)
    return np.asarray(local).view(np.int64) - seconds
