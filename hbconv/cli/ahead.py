"""Read in one thread and write in another, while rows are scored.

pyarrow and compiled kernels leave the interpreter to others while they work.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["behind", "read_ahead"]

Item = TypeVar("Item")
HELD = 2
"""Items that wait between two threads."""
END = object()


def read_ahead(items: Iterator[Item]) -> Generator[Item]:
    """Yield items that a thread makes, up to ``HELD`` ahead. Its error is raised here, in order.

    >>> list(read_ahead(iter("abc")))
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

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not END:
            if isinstance(item, _Raised):
                raise item.error
            yield item
    finally:
        stopped.set()
        thread.join()


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
            while (item := waiting.get()) is not END and not stopped.is_set():
                write(item)
        except BaseException as error:
            failed.append(error)
            stopped.set()

    def hand_on(item: Any) -> None:
        if not _put(waiting, item, stopped):
            raise failed[0]

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield hand_on
        _put(waiting, END, stopped)
    except BaseException:
        stopped.set()
        if waiting.empty():
            waiting.put(END)
        raise
    finally:
        thread.join()
    if failed:
        raise failed[0]


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _put(waiting: queue.Queue[Any], item: Any, stopped: threading.Event) -> bool:
    """Hand an item over, unless the other side has stopped."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
