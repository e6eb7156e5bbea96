"""A process for each device, which answers batch after batch: ``hbconv score --devices``.

CUDA keeps a context for each process, and Python a lock. So several devices need several processes,
and each one loads the model onto its own device.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Self

from hbconv.errors import BackendError, OptionError

__all__ = ["DevicePool", "parse_devices"]

HELD = 2
"""Batches that a device has at once: one that it answers, and one that waits."""

Answer = Callable[[Any], Any]

_answer: Answer | None = None
"""What answers in a process of the pool."""


def parse_devices(names: str) -> tuple[str, ...]:
    """Return the devices that an option names, separated by commas. One may stand there twice.

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
        context = multiprocessing.get_context("spawn")  # a fork cannot use CUDA
        self.devices = tuple(devices)
        self._processes = [
            ProcessPoolExecutor(1, context, initializer=_begin, initargs=(make, device))
            for device in self.devices
        ]

    def answers(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the answer to each batch, in the order of the batches.

        A device takes the next batch when it has answered one, up to ``HELD`` at once.

        Raises
        ------
        BackendError
            A process ended, by a signal or for want of memory.
        """
        asked: deque[tuple[int, Future[Any]]] = deque()
        for batch in batches:
            if len(asked) == HELD * len(self.devices):
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
            raise self._ended(place) from error

    def _result(self, place: int, future: Future[Any]) -> Any:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise self._ended(place) from error

    def _ended(self, place: int) -> BackendError:
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
    for name in ("SIGINT", "SIGHUP"):  # ctrl-C and a closed terminal are for the process that asks
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _answer = make(device)
    except Exception as error:  # the executor would lose it
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
