"""Streams, pinned memory and graphs of a CUDA device, as calls need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from threading import Lock
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Cuda", "Streams"]

CAPTURING = Lock()
"""Torch captures one graph of a process at a time."""

Run = Callable[[], Sequence[Tensor]]
Captured = tuple[Sequence[Tensor], Callable[[], None], int]


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

    def capture(self, run: Run, room: int) -> Captured:
        """Return a function's tensors, what computes them again there, and the bytes it keeps.

        Raises
        ------
        RuntimeError
            It would keep more bytes than there is room, or does what no capture may.
        """


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

    def capture(self, run: Run, room: int) -> Captured:
        """Return a function's tensors, what computes them again there, and the bytes it keeps.

        Raises
        ------
        RuntimeError
            It would keep more bytes than there is room, or does what no capture may.
        """
        graph = torch.cuda.CUDAGraph()
        # Where a capture fails, torch leaves its stream the current one: the outer block does not.
        caller = torch.cuda.current_stream(self.device)
        with CAPTURING, torch.cuda.device(self.device), self.on(caller):
            run()  # loads kernels and makes tables, which no capture may
            captured = torch.cuda.graph(
                graph,
                stream=_stream_of_captures(self.device, caller.cuda_stream),
                capture_error_mode="thread_local",  # threads may go on to use the device
            )
            with captured:
                before = torch.cuda.memory_reserved(self.device)
                found = run()
                n_bytes = torch.cuda.memory_reserved(self.device) - before
            if n_bytes > room:
                del found
                graph.reset()
                torch.cuda.empty_cache()  # else torch keeps the memory, for no one
                raise RuntimeError(f"it would keep {n_bytes:,} bytes of the device")
        return found, graph.replay, n_bytes


@cache
def _stream_of_captures(device: torch.device, caller: int) -> Any:  # noqa: ARG001  (a key)
    """Return the stream that calls of a caller's stream are captured on.

    Torch's own lies on the device that captured first. Graphs of one stream share memory of cuBLAS,
    so they must not run at the same time, as those of one caller do not. Torch hands out 32 streams
    in turn; those of another priority are handed to no chunk, whose work would be captured too.
    """
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
