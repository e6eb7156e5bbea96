"""Read in one thread and write in another, while rows are scored.

pyarrow and compiled kernels leave the interpreter to others while they work. A thread that is still
in pyarrow when the interpreter ends takes the process with it (SIGABRT), so each has ended when its
block has; one that a second ctrl-C leaves behind is waited for at the interpreter's end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["behind", "read_ahead"]

Item = TypeVar("Item")
HELD = 2
"""Items that wait between two threads."""
WAIT = 0.1
"""Seconds after which a thread that waits asks whether the other one has stopped."""
END = object()


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Give an iterator over items that a thread makes, up to ``HELD`` ahead.

    The thread's error is raised by the iterator, in order.

    >>> with read_ahead(iter("abc")) as ahead:
    ...     list(ahead)
    ['a', 'b', 'c']
    """
    waiting: queue.Queue[Any] = queue.Queue(HELD)
    stopped = threading.Event()

    def work() -> None:
        try:
            for item in items:
                if not _put(waiting, item, stopped):
                    return
            _put(waiting, END, stopped)
        except BaseException as error:
            _put(waiting, _Raised(error), stopped)

    with _running(work, stopped):
        yield _received(waiting)


@contextmanager
def behind(write: Callable[[Any], None]) -> Iterator[Callable[[Any], None]]:
    """Give a function that hands items to a thread, which writes them in order.

    When the block ends, all are written. An error of the thread is raised at the next item, or at
    the end.

    >>> written = []
    >>> with behind(written.append) as hand_on:
    ...     hand_on(1)
    ...     hand_on(2)
    >>> written
    [1, 2]
    """
    waiting: queue.Queue[Any] = queue.Queue(HELD)
    stopped = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while (item := _get(waiting, stopped)) is not END:
                write(item)
        except BaseException as error:
            failed.append(error)
            stopped.set()

    def hand_on(item: Any) -> None:
        if not _put(waiting, item, stopped):
            raise failed[0]

    with _running(work, stopped) as thread:
        yield hand_on
        _put(waiting, END, stopped)
        thread.join()
    if failed:
        raise failed[0]


@contextmanager
def _running(work: Callable[[], None], stopped: threading.Event) -> Iterator[threading.Thread]:
    """Run a function in a thread, which is told to stop and waited for when the block ends."""
    thread = threading.Thread(target=work)
    try:
        thread.start()
        yield thread
    finally:
        stopped.set()
        if thread.is_alive():  # it is not yet where a signal came while it was started
            thread.join()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _received(waiting: queue.Queue[Any]) -> Iterator[Any]:
    while (item := waiting.get()) is not END:
        if isinstance(item, _Raised):
            raise item.error
        yield item


def _put(waiting: queue.Queue[Any], item: Any, stopped: threading.Event) -> bool:
    """Hand an item over, unless the other side has stopped."""
    while _goes_on(stopped):
        try:
            waiting.put(item, timeout=WAIT)
        except queue.Full:
            continue
        return True
    return False


def _get(waiting: queue.Queue[Any], stopped: threading.Event) -> Any:
    """Take the next item; END if the other side has stopped."""
    while _goes_on(stopped):
        try:
            return waiting.get(timeout=WAIT)
        except queue.Empty:
            continue
    return END


def _goes_on(stopped: threading.Event) -> bool:
    return not stopped.is_set() and threading.main_thread().is_alive()
