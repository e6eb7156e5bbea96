"""One pool of threads for all calls of a process: made at the first call that shares its work, and anew after a fork."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

__all__ = ["share"]


def share(tasks: Sequence[Callable[[], None]], threads: int) -> None:
    """Run tasks that are independent of each other, on so many threads, of which one is the caller's: each takes the next when it is done with one.

    Examples
    --------
    >>> done = []
    >>> share([lambda: done.append("a"), lambda: done.append("b"), lambda: done.append("c")], threads=2)
    >>> sorted(done)
    ['a', 'b', 'c']
    """
    waiting = iter(tasks)
    others = [_pool().submit(_run, waiting) for _ in range(1, min(threads, len(tasks)))]
    try:
        _run(waiting)
    finally:
        for other in others:
            other.result()


def _run(tasks: Iterator[Callable[[], None]]) -> None:
    for task in tasks:
        task()


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the pool. Its threads wait without a sound, and are no more than the processor has cores."""
    return ThreadPoolExecutor(os.cpu_count(), "hbconv")


# A child has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
