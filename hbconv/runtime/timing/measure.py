"""Time calls by turns, so that a machine that drifts slows all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

__all__ = ["Clock", "Measure", "measure"]

Calls = Mapping[str, Callable[[], object]]
Clock = Callable[[], float]
Measure = Callable[[Calls, float], dict[str, float]]
"""Returns the least seconds of each call, by label, within about so many seconds in all."""

SHORTEST = 1e-9
"""Seconds, where a clock does not tell two moments apart."""
HOPELESS = 3.0
"""Ratio to the fastest from which a call is not timed again."""
FIRST_ROUNDS = 4
"""Times that each is called at first: TorchScript compiles in the first three."""


def measure(calls: Calls, seconds: float, clock: Clock = time.perf_counter) -> dict[str, float]:
    """Return the least time of each call: that with the least disturbance.

    Parameters
    ----------
    calls : mapping of str to callable
    seconds : float
        About the time to spend on all calls together. It may take longer to call each a few times.
    clock : callable

    Examples
    --------
    >>> ticks = iter(range(100))
    >>> measure({"a": lambda: None, "b": lambda: None}, 5, lambda: float(next(ticks)))
    {'a': 1.0, 'b': 1.0}
    """
    end = clock() + seconds
    least = dict.fromkeys(calls, math.inf)
    for _ in range(FIRST_ROUNDS):
        _turn(calls, least, clock)
    fastest = min(least.values())
    near = {label: call for label, call in calls.items() if least[label] <= HOPELESS * fastest}
    while clock() < end:
        _turn(near, least, clock)
    return least


def _turn(calls: Calls, least: dict[str, float], clock: Clock) -> None:
    """Time each call once, and keep its least time."""
    for label, call in calls.items():
        began = clock()
        call()
        least[label] = min(least[label], max(clock() - began, SHORTEST))
