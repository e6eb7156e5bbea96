"""Trend: how the values of a column go where those of the column it is computed from rise."""

from __future__ import annotations

from enum import Enum

__all__ = ["Trend"]


class Trend(Enum):
    """By construction, that is for every rounding to the nearest float.

    ``RISES`` never falls, ``FALLS`` never rises, and ``FLAT`` is constant. A value that is NaN
    makes NaN, and has no place in the order.
    """

    RISES = "rises"
    FALLS = "falls"
    FLAT = "flat"
    UNKNOWN = "unknown"
