"""Figures: a call is timed for some seconds, and what fails is a figure too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from statistics import median, quantiles
from typing import Any

from benchmarks.gpu.place import Call, Place
from benchmarks.gpu.record import Row

__all__ = ["caller_seconds", "figure", "named", "on_device"]

LEAST_CALLS = 3
MOST_CALLS = 500


def figure(place: Place, what: str, rows: int, way: str, call: Call, **more: Any) -> Row:
    """Time a call as a caller does, who waits for the answer."""
    row = {"what": what, "rows": rows, "way": way}
    try:
        times = caller_seconds(place, call)
    except Exception as error:
        return row | _failed(error)
    low, middle, high = (round(t * 1e6, 1) for t in quantiles(times, n=4))
    spread = {"microseconds": middle, "low": low, "high": high, "calls": len(times)}
    return row | spread | more


def on_device(place: Place, row: Row, call: Call) -> Row:
    """Add the median by the device's own clock to a figure."""
    if "failed" in row:
        return row
    times = [place.device_seconds(call) for _ in range(min(row["calls"], 15))]
    return row | {"device microseconds": round(median(times) * 1e6, 1)}


def caller_seconds(place: Place, call: Call) -> list[float]:
    """Return the seconds of calls, each until the device has done everything.

    The first calls are not timed: they compile, make tables, and at the third capture graphs.
    """
    _seconds(place, call)
    if _seconds(place, call) < place.seconds:
        _seconds(place, call)
    times: list[float] = []
    ends = time.perf_counter() + place.seconds
    while len(times) < LEAST_CALLS or (time.perf_counter() < ends and len(times) < MOST_CALLS):
        times.append(_seconds(place, call))
    return times


def named(place: Place, what: str, find: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Yield what a function finds, unless that is known.

    Where an error ends it, the error is the last result, and the part goes on.
    """
    if what in place.known:
        return
    try:
        yield from find()
    except Exception as error:
        yield {"what": what} | _failed(error)


def _seconds(place: Place, call: Call) -> float:
    place.synchronize()
    began = time.perf_counter()
    call()
    place.synchronize()
    return time.perf_counter() - began


def _failed(error: Exception) -> Row:
    return {"failed": f"{type(error).__name__}: {error}"[:400]}
