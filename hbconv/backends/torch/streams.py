"""Streams, pinned memory and graphs of a CUDA device, as calls need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Cuda", "Streams"]

CAPTURING = Lock()
"""Torch captures one graph of a process at a time."""

Run = Callable[[], Sequence[Tensor]]


class Streams(Protocol):
    """What is needed of a device: ``Cuda``, or a recorder in tests."""

    device: torch.device

    def current(self) -> int | None:
        """Return the number of the caller's stream; None while its work is captured or traced."""

    def stream(self) -> Any:
        """Return a new stream, which waits for what its device was told to do so far."""

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Let operators run on a stream."""

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory of the host that the device copies by itself."""

    def capture(self, run: Run) -> tuple[Sequence[Tensor], Callable[[], None]]:
        """Return the tensors of a function, and what computes them again in the same memory."""


class Cuda:
    """A CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def current(self) -> int | None:
        """Return the number of the caller's stream; None while its work is captured or traced."""
        if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
            return None
        index = torch.cuda.current_device() if self.device.index is None else self.device.index
        number: int = torch._C._cuda_getCurrentRawStream(index)  # noqa: SLF001
        return number

    def stream(self) -> Any:
        """Return a new stream, which waits for what its device was told to do so far."""
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        return stream

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Let operators run on a stream."""
        return torch.cuda.stream(stream)

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory of the host that the device copies by itself."""
        return torch.empty(shape, dtype=dtype, pin_memory=True)

    def capture(self, run: Run) -> tuple[Sequence[Tensor], Callable[[], None]]:
        """Return the tensors of a function, and what computes them again in the same memory."""
        with CAPTURING:
            stream = self.stream()
            with self.on(stream):
                run()  # loads kernels and makes tables, which no capture may
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            # Threads may go on to use the device: only what this one calls is captured.
            captured = torch.cuda.graph(graph, capture_error_mode="thread_local")
            with torch.cuda.device(self.device), captured:
                found = run()
            return found, graph.replay
