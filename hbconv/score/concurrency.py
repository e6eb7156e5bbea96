"""What ``hbconv score`` does at the same time: reading, writing, and scoring on several devices.

CUDA keeps a context for each process, and Python a lock. So several devices need several processes,
and each one loads the model onto its own device (``--devices``).

Rows are read in one thread and written in another, while others are scored: pyarrow and compiled
kernels leave the interpreter to others while they work. A thread that is still in pyarrow when the
interpreter ends takes the process with it (SIGABRT), so each has ended when its block has. One that
a second ctrl-C leaves behind is waited for at the interpreter's end.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from hbconv.errors import BackendError, OptionError

__all__ = ["DevicePool", "parse_devices", "read_ahead", "write_behind"]

BATCHES_A_DEVICE = 2
"""Batches that a device has at once: one that it scores, and one that waits."""

Answer = Callable[[Any], Any]

_answer: Answer | None = None
"""What answers in a process of the pool."""


def parse_devices(names: str) -> tuple[str, ...]:
    """Return the devices that an option names, separated by commas. One may be named twice.

    Raises
    ------
    OptionError
        It names none, or one that is no device.

    Examples
    --------
    >>> parse_devices("cuda:0, cuda:1")
    ('cuda:0', 'cuda:1')
    """
    devices = tuple(name.strip() for name in names.split(","))
    for device in devices:
        kind, colon, number = device.partition(":")
        numbered = number.isdigit() if colon else True
        if kind not in ("cpu", "cuda") or not numbered or (kind == "cpu" and colon):
            raise OptionError(
                f"--devices {names}: {device!r} is no device. Name devices such as cuda:0,cuda:1."
            )
    return devices


class DevicePool:
    """A process for each device.

    Parameters
    ----------
    make : callable
        ``make(device)`` returns what answers a batch on a device. It is pickled, and called once in
        each process. So are batches and answers.
    devices : sequence of str
    """

    def __init__(self, make: Callable[[str], Answer], devices: Iterable[str]) -> None:
        # A fork cannot use CUDA.
        context = multiprocessing.get_context("spawn")
        self.devices = tuple(devices)
        self._processes = [
            ProcessPoolExecutor(1, context, initializer=_begin, initargs=(make, device))
            for device in self.devices
        ]

    def answers(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the answer to each batch, in the order of the batches.

        A device takes the next batch when it has answered one, up to ``BATCHES_A_DEVICE`` at once.

        Raises
        ------
        BackendError
            A process ended, by a signal or for want of memory.
        """
        asked: deque[tuple[int, Future[Any]]] = deque()
        for batch in batches:
            # Results leave in the order of the batches, so the oldest one is waited for.
            if len(asked) == BATCHES_A_DEVICE * len(self.devices):
                yield self._result(*asked.popleft())
            place = self._least_busy(asked)
            asked.append((place, self._submit(place, batch)))
        while asked:
            yield self._result(*asked.popleft())

    def close(self) -> None:
        """End the processes; what waits is not answered."""
        for process in self._processes:
            process.shutdown(cancel_futures=True)

    def _least_busy(self, asked: Iterable[tuple[int, Future[Any]]]) -> int:
        waiting = [0] * len(self.devices)
        for place, future in asked:
            waiting[place] += not future.done()
        return waiting.index(min(waiting))

    def _submit(self, place: int, batch: Any) -> Future[Any]:
        try:
            return self._processes[place].submit(_run, batch)
        except BrokenProcessPool as error:
            raise self._name_ended(place) from error

    def _result(self, place: int, future: Future[Any]) -> Any:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise self._name_ended(place) from error

    def _name_ended(self, place: int) -> BackendError:
        return BackendError(
            f"The process of device {self.devices[place]!r} ended before it answered. It may have "
            "run out of memory: give fewer rows at a time, or name fewer devices."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _begin(make: Callable[[str], Answer], device: str) -> None:
    global _answer  # noqa: PLW0603  (a process has one device)
    # ctrl-C and a closed terminal are for the process that asks, which then ends this one.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _answer = make(device)
    # The executor would lose the error, and report a broken pool.
    except Exception as error:
        _answer = _Failed(error)


def _end_with_parent() -> None:
    """End when the process that asks does, however it ends: it cannot say so if it is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101  (a process of the pool has one)
    parent.join()
    os._exit(1)


def _run(batch: Any) -> Any:
    assert _answer is not None  # noqa: S101  (_begin has run)
    return _answer(batch)


class _Failed:
    """Raises at each batch what went wrong when the model was loaded."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, batch: Any) -> Any:  # noqa: ARG002
        raise self.error


Item = TypeVar("Item")
MOST_WAITING = 2
"""Items that wait between two threads."""
WAIT = 0.1
"""Seconds after which a thread that waits asks whether the other one has stopped."""
END = object()


@contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Give an iterator over items that a thread makes, up to ``MOST_WAITING`` ahead.

    The thread's error is raised by the iterator, in order.

    >>> with read_ahead(iter("abc")) as ahead:
    ...     list(ahead)
    ['a', 'b', 'c']
    """
    waiting: queue.Queue[Any] = queue.Queue(MOST_WAITING)
    stopped = threading.Event()

    def work() -> None:
        try:
            for item in items:
                if not _put(waiting, item, stopped):
                    return
            _put(waiting, END, stopped)
        except BaseException as error:
            _put(waiting, _Raised(error), stopped)

    with _run_thread(work, stopped):
        yield _receive(waiting)


@contextmanager
def write_behind(write: Callable[[Any], None]) -> Iterator[Callable[[Any], None]]:
    """Give a function that hands items to a thread, which writes them in order.

    When the block ends, all are written. An error of the thread is raised at the next item, or at
    the end.

    >>> written = []
    >>> with write_behind(written.append) as hand_on:
    ...     hand_on(1)
    ...     hand_on(2)
    >>> written
    [1, 2]
    """
    waiting: queue.Queue[Any] = queue.Queue(MOST_WAITING)
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

    with _run_thread(work, stopped) as thread:
        yield hand_on
        _put(waiting, END, stopped)
        thread.join()
    if failed:
        raise failed[0]


@contextmanager
def _run_thread(work: Callable[[], None], stopped: threading.Event) -> Iterator[threading.Thread]:
    """Run a function in a thread, which is told to stop and waited for when the block ends."""
    thread = threading.Thread(target=work)
    try:
        thread.start()
        yield thread
    finally:
        stopped.set()
        # It is not alive yet where a signal came while it was started.
        if thread.is_alive():
            thread.join()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _receive(waiting: queue.Queue[Any]) -> Iterator[Any]:
    while (item := waiting.get()) is not END:
        if isinstance(item, _Raised):
            raise item.error
        yield item


def _put(waiting: queue.Queue[Any], item: Any, stopped: threading.Event) -> bool:
    """Hand an item over, unless the other side has stopped."""
    # A wait without end would hold the thread after the other one has failed.
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
