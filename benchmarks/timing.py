"""What the benchmarks share: repeated calls, timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["timed"]


def timed(call: Callable[[Any], Any], rows: Any, seconds: float, least: int = 5) -> list[float]:
    """Time repeated calls, after one that is not timed, for about the given number of seconds, at least so many."""
    call(rows)
    times: list[float] = []
    while len(times) < least or (sum(times) < seconds and len(times) < 2000):
        began = time.perf_counter()
        call(rows)
        times.append(time.perf_counter() - began)
    return times
