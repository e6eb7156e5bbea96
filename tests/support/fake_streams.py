"""A recorder in place of a device's streams, pinned memory and graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["FakeDevice", "FakeStream", "Late"]


class FakeStream:
    """A stream whose copies are done only when it is waited for."""

    def __init__(self, name: int, told: list[str]) -> None:
        self.name = name
        self.told = told
        self.late: list[Callable[[], Any]] = []

    def synchronize(self) -> None:
        self.told.append(f"wait {self.name}")
        for copy in self.late:
            copy()
        self.late = []


class FakeDevice:
    """Records what it is told. Memory that it writes holds nothing before its stream is waited for."""

    device = torch.device("cpu")

    def __init__(self, *, captures: bool = True) -> None:
        self.captures = captures
        self.capturing = False
        self.told: list[str] = []
        self.streams: list[FakeStream] = []
        self.pinned_bytes = 0

    def current(self) -> int | None:
        return None if self.capturing else (current.streams[-1].name if current.streams else -1)

    def stream(self) -> FakeStream:
        self.streams.append(FakeStream(len(self.streams), self.told))
        return self.streams[-1]

    @contextmanager
    def on(self, stream: FakeStream) -> Iterator[None]:
        assert not stream.late, "pinned memory is used before its stream was waited for"
        self.told.append(f"use {stream.name}")
        current.streams.append(stream)
        try:
            yield
        finally:
            current.streams.pop()

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        found = torch.zeros(shape, dtype=dtype).as_subclass(Late)
        self.pinned_bytes += found.nbytes
        return found

    def capture(
        self, run: Callable[[], Sequence[Tensor]], room: int
    ) -> tuple[Any, Callable[[], None], int]:
        self.told.append("capture")
        if not self.captures:
            raise RuntimeError("operation not permitted when stream is capturing")
        found = run()

        def replay() -> None:
            self.told.append("replay")
            for memory, again in zip(found, run(), strict=True):
                memory.copy_(again)

        n_bytes = sum(tensor.nbytes for tensor in found)
        if n_bytes > room:
            raise RuntimeError(f"it would keep {n_bytes} bytes of the device")
        return found, replay, n_bytes


class Current(threading.local):
    """The streams of a thread's blocks, the last one inmost."""

    def __init__(self) -> None:
        self.streams: list[FakeStream] = []


current = Current()


class Late(torch.Tensor):
    """Pinned memory: what a device writes is there when its stream was waited for."""

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        if not non_blocking:
            return super().copy_(source)
        kept = source.clone()
        self.zero_()
        current.streams[-1].late.append(lambda: torch.Tensor.copy_(self, kept))
        return self
