"""Host arrays on a CUDA device: large batches in chunks on two streams, small ones as graphs.

A chunk is copied into pinned memory, so that the device takes it while it computes another one. A
small batch that comes again and again is captured as a CUDA graph, for each bucket of rows.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.log import log_no_graph

__all__ = ["Cuda", "HostArrays", "Streams"]

CHUNK_BYTES = 8 << 20
"""Bytes of a chunk's inputs: long enough to hide what a copy costs, and small to keep pinned."""
GRAPH_ROWS = 4096
"""Rows up to which the launches of a program take longer than its kernels."""
CALLS_BEFORE_CAPTURE = 3
"""A bucket of rows that came so often is worth the memory of a graph."""
GRAPHS = "HBCONV_CUDA_GRAPHS"
"""Variable of the environment: ``0`` captures no graphs."""

Arrays = Sequence[npt.NDArray[Any]]
Call = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]


class Streams(Protocol):
    """What is needed of a device: ``Cuda``, or a recorder in tests."""

    device: torch.device

    def stream(self) -> Any:
        """Return a new stream, which waits for what its device was told to do so far."""

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Let operators run on a stream."""

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return memory of the host that the device copies by itself."""

    def capture(self, run: Callable[[], Any]) -> Callable[[], None]:
        """Return what repeats the operators of a function, in the same memory."""


class Cuda:
    """A CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

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

    def capture(self, run: Callable[[], Any]) -> Callable[[], None]:
        """Return what repeats the operators of a function, in the same memory."""
        stream = self.stream()
        with self.on(stream):
            run()  # loads kernels and makes tables, which no capture may
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Threads may go on to use the device: only what this one calls is captured.
        captured = torch.cuda.graph(graph, capture_error_mode="thread_local")
        with torch.cuda.device(self.device), captured:
            run()
        return graph.replay


@dataclass(eq=False)
class _Slot:
    """A stream with pinned memory, and where the results of its chunk belong."""

    stream: Any
    pinned: dict[int, Tensor] = field(default_factory=dict)
    results: list[Tensor] = field(default_factory=list)
    rows: slice = field(default_factory=lambda: slice(0, 0))


@dataclass(eq=False)
class _Graph:
    """A captured call, and its memory on the device."""

    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    replay: Callable[[], None] = lambda: None


class HostArrays:
    """Computes a program of a device for arrays of the host, from any thread.

    Parameters
    ----------
    streams : Streams
    call : callable
        Computes tensors on the device.
    """

    def __init__(self, streams: Streams, call: Call) -> None:
        self._streams = streams
        self._call = call
        self._slots: deque[tuple[_Slot, _Slot]] = deque()
        self._graphs: dict[int, _Graph | None] = {}
        self._seen: Counter[int] = Counter()
        self._graph_lock = Lock()

    def run(self, arrays: Arrays) -> list[npt.NDArray[Any]]:
        """Return the outputs for C-contiguous arrays."""
        rows = len(arrays[0])
        bytes_per_row = sum(a[:1].nbytes for a in arrays) or 1
        chunk = max(GRAPH_ROWS, CHUNK_BYTES // bytes_per_row)
        if rows > chunk:
            return self._in_chunks(arrays, rows, chunk)
        graph = self._graph(arrays, rows) if rows <= GRAPH_ROWS else None
        if graph is None:
            given = [torch.from_numpy(a).to(self._streams.device) for a in arrays]
            return [found.cpu().numpy() for found in self._call(given)]
        return self._replayed(graph, arrays, rows)

    # Large batches.

    def _in_chunks(self, arrays: Arrays, rows: int, chunk: int) -> list[npt.NDArray[Any]]:
        """Compute chunks on two streams in turn: one is copied while the other computes."""
        slots = self._take_slots()
        outputs: list[npt.NDArray[Any]] = []
        for number, start in enumerate(range(0, rows, chunk)):
            slot = slots[number % 2]
            self._finish(slot, outputs)
            slot.rows = slice(start, min(start + chunk, rows))
            self._start(slot, arrays, chunk)
            if not outputs:
                outputs = [_empty(result, rows) for result in slot.results]
        for slot in slots:
            self._finish(slot, outputs)
        self._slots.append(slots)  # not reached after an error, whose copies may still run
        return outputs

    def _take_slots(self) -> tuple[_Slot, _Slot]:
        """Return slots that no other call uses."""
        try:
            return self._slots.pop()
        except IndexError:
            return _Slot(self._streams.stream()), _Slot(self._streams.stream())

    def _start(self, slot: _Slot, arrays: Arrays, chunk: int) -> None:
        """Let a stream copy, compute and copy back, without waiting for it."""
        count = slot.rows.stop - slot.rows.start
        with self._streams.on(slot.stream):
            given = []
            for place, array in enumerate(arrays):
                source = torch.from_numpy(array[slot.rows])
                pinned = self._pinned(slot, place, source, chunk)[:count]
                pinned.copy_(source)
                given.append(pinned.to(self._streams.device, non_blocking=True))
            slot.results = []
            for place, found in enumerate(self._call(given), len(arrays)):
                pinned = self._pinned(slot, place, found, chunk)[:count]
                slot.results.append(pinned.copy_(found, non_blocking=True))

    def _pinned(self, slot: _Slot, place: int, like: Tensor, chunk: int) -> Tensor:
        """Return a slot's memory for an input or an output, made once."""
        found = slot.pinned.get(place)
        if found is None or len(found) < chunk:
            shape = (chunk, *like.shape[1:])
            found = slot.pinned[place] = self._streams.pinned(shape, like.dtype)
        return found

    def _finish(self, slot: _Slot, outputs: list[npt.NDArray[Any]]) -> None:
        """Wait for a stream, and take its results."""
        if not slot.results:
            return
        slot.stream.synchronize()
        for output, result in zip(outputs, slot.results, strict=True):
            output[slot.rows] = result.numpy()
        slot.results = []

    # Small batches.

    def _graph(self, arrays: Arrays, rows: int) -> _Graph | None:
        """Return the graph of a bucket of rows, captured when it has come often enough."""
        bucket = 1 << max(rows - 1, 0).bit_length()
        self._seen[bucket] += 1
        if bucket in self._graphs:
            return self._graphs[bucket]
        if self._seen[bucket] < CALLS_BEFORE_CAPTURE or os.environ.get(GRAPHS) == "0":
            return None
        with self._graph_lock:
            if bucket not in self._graphs:
                self._graphs[bucket] = self._captured(arrays, bucket)
        return self._graphs[bucket]

    def _captured(self, arrays: Arrays, bucket: int) -> _Graph | None:
        """Capture a call of so many rows; None, with a line in the log, where that fails."""
        device = self._streams.device
        inputs = [
            torch.zeros(bucket, *a.shape[1:], dtype=torch.from_numpy(a).dtype, device=device)
            for a in arrays
        ]
        graph = _Graph(inputs)

        def run() -> None:
            graph.outputs = list(self._call(inputs))

        try:
            graph.replay = self._streams.capture(run)
        except RuntimeError as error:  # as torch raises of operators that wait for the host
            log_no_graph(bucket, str(error))
            return None
        return graph

    def _replayed(self, graph: _Graph, arrays: Arrays, rows: int) -> list[npt.NDArray[Any]]:
        """Copy rows into a graph's memory, and its results out of it. What lies behind is old."""
        with self._graph_lock:
            for memory, array in zip(graph.inputs, arrays, strict=True):
                memory[:rows].copy_(torch.from_numpy(array))
            graph.replay()
            return [output[:rows].cpu().numpy() for output in graph.outputs]


def _empty(like: Tensor, rows: int) -> npt.NDArray[Any]:
    return np.empty((rows, *like.shape[1:]), like.numpy().dtype)
