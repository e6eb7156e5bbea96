"""One pool of threads for all calls of a process, made at its first use, and anew after a fork.

The threads of ``concurrent.futures`` do not suit. They stop when the main thread ends, while others
go on. And waking them takes locks: a signal handler or a finalizer that shares work while its
thread holds these locks would wait forever.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from queue import SimpleQueue

__all__ = ["share"]

Task = Callable[[], None]


def share(tasks: Sequence[Task], threads: int) -> None:
    """Run independent tasks on ``threads`` threads, one of which is the caller's.

    Each thread takes the next task when it is done with one. The caller runs all tasks if no other
    thread has time, or none can be started. It raises what a task raised.

    Examples
    --------
    >>> done = []
    >>> share([partial(done.append, letter) for letter in "abc"], threads=2)
    >>> sorted(done)
    ['a', 'b', 'c']
    """
    waiting = iter(tasks)
    others = min(threads, len(tasks)) - 1
    if others < 1:
        return _run(waiting)
    ended = SimpleQueue[BaseException | None]()
    seats = iter(range(others))
    for _ in range(others):
        _pool().put(partial(_help, seats, waiting, ended))
    try:
        _run(waiting)
    finally:
        free = len(list(seats))
        errors = [ended.get() for _ in range(others - free)]
    for error in filter(None, errors):
        raise error
    return None


def _run(tasks: Iterator[Task]) -> None:
    for task in tasks:
        task()


def _help(
    seats: Iterator[int], tasks: Iterator[Task], ended: SimpleQueue[BaseException | None]
) -> None:
    """Run tasks too, if there is a seat: the caller takes the free seats when no task is left."""
    if next(seats, None) is None:
        return
    try:
        _run(tasks)
    except BaseException as error:  # the caller raises it
        ended.put(error)
    else:
        ended.put(None)


class _Pool:
    """Threads that wait for work, at most one for each core; each is started when work comes."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Task] = SimpleQueue()
        self._unstarted = [self._serve] * (os.cpu_count() or 1)

    def put(self, task: Task) -> None:
        """Queue a task for one thread."""
        self._work.put(task)
        # All threads run already, or the interpreter ends and starts none.
        with suppress(IndexError, RuntimeError):
            _thread.start_new_thread(self._unstarted.pop(), ())

    def _serve(self) -> None:
        while True:
            self._work.get()()


@cache
def _pool() -> _Pool:
    return _Pool()


# A child has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
