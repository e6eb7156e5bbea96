"""Calls of a device: tensors stay there, host arrays are copied, and small batches are graphs.

Large host arrays come in chunks, on two streams. A chunk is copied into pinned memory, so that the
device takes it while it computes another one.

Calls captured as CUDA graphs: a small batch that comes again is one launch.

Streams, pinned memory and graphs of a CUDA device, as calls need them.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.errors import BackendError, log_no_graph

__all__ = ["DIRECT_OPERATORS", "Call", "Cuda", "DeviceCalls", "Graphs", "Streams"]

CHUNK_BYTES = 16 << 20
"""Bytes of a chunk's inputs and outputs, which are pinned. A device takes 300 us for the copy, and
Python 70 us for the calls."""
PAGEABLE_BYTES = 1 << 20
"""Bytes up to which an array is copied from where it lies, by one thread of the driver."""
LEAST_ROWS = 4096
"""Rows of a chunk at least: wide rows are few of a chunk's bytes."""

Arrays = Sequence[npt.NDArray[Any]]


@dataclass(eq=False)
class _Slot:
    """A stream with pinned memory, and where the results of its chunk belong."""

    stream: Any
    pinned: dict[int, Tensor] = field(default_factory=dict)
    results: list[Tensor] = field(default_factory=list)
    rows: slice = field(default_factory=lambda: slice(0, 0))


class DeviceCalls:
    """Computes a program of a device for tensors there, or arrays of the host, from any thread.

    Parameters
    ----------
    streams : Streams
    call : callable
        Computes tensors on the device.
    operators : int
        Operators or kernels that a call launches.
    bytes_out : int
        Bytes of a row of all outputs.
    """

    def __init__(self, streams: Streams, call: Call, operators: int, bytes_out: int) -> None:
        self._streams = streams
        self._call = call
        self._bytes_out = bytes_out
        self._graphs = Graphs(streams, call) if operators > DIRECT_OPERATORS else None
        self._slots: deque[tuple[_Slot, _Slot]] = deque()

    def compute(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the outputs for tensors on the device, as new tensors."""
        found = None if self._graphs is None else self._graphs.answer(tensors, Tensor.clone)
        return self._call(tensors) if found is None else found

    def run(self, arrays: Arrays) -> list[npt.NDArray[Any]]:
        """Return the outputs for C-contiguous arrays."""
        rows = len(arrays[0])
        bytes_in = sum(a[:1].nbytes for a in arrays) or 1
        if rows > max(LEAST_ROWS, PAGEABLE_BYTES // bytes_in):
            chunk = CHUNK_BYTES // (bytes_in + self._bytes_out)
            return self._in_chunks(arrays, rows, max(LEAST_ROWS, chunk))
        given = [torch.from_numpy(array) for array in arrays]
        found = None if self._graphs is None else self._graphs.answer(given, to_host)
        if found is None:
            there = [tensor.to(self._streams.device) for tensor in given]
            found = [to_host(tensor) for tensor in self._call(there)]
        return found

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
                pinned.copy_(source)  # by all threads of torch: one of them takes 10 GB/s
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
            torch.from_numpy(output[slot.rows]).copy_(result)
        slot.results = []


def to_host(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a copy of a tensor as an array, once its stream has computed it."""
    return tensor.to("cpu", copy=True).numpy()


def _empty(like: Tensor, rows: int) -> npt.NDArray[Any]:
    return np.empty((rows, *like.shape[1:]), like.numpy().dtype)


GRAPH_ROWS = 16_384
"""Rows up to which the host takes longer to launch a program than the device to compute it: of a
network of two layers, 10,000 rows took 499 us on an H200, and its products by hand 137."""
DIRECT_OPERATORS = 5
"""Operators up to which a program is launched directly. As counted, the host takes 3 to 5 us for an
operator or a kernel. A replay takes 6, and 14 more to copy rows to it and an answer from it."""
CALLS_BEFORE_CAPTURE = 3
"""A bucket of rows that came so often is worth the memory of a graph."""
MAX_GRAPHS = 64
"""Graphs of a program. A caller that makes stream after stream must not fill the memory."""
MAX_BYTES = 256 << 20
"""Bytes that the graphs of a program keep: each has memory of its own, which nothing else may use.
Distances of 16,384 rows to 100,000 points take 6 GB, and the device longer than a launch does."""
VARIABLE = "HBCONV_CUDA_GRAPHS"
"""Variable of the environment: ``0`` captures no graphs."""

Call = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]
Key = tuple[int, int]
T = TypeVar("T")


@dataclass(eq=False)
class _Graph:
    """A captured call, and its memory on the device, which one thread at a time may use."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    replay: Callable[[], None]
    lock: Lock = field(default_factory=Lock)


class Graphs:
    """The graphs of a program, by the caller's stream and the power of two of rows.

    A stream does one thing after another. So a graph's memory is written again only after the
    answer of the call before was copied, also where the caller waits for nothing.

    Parameters
    ----------
    streams : Streams
    call : callable
        Computes tensors on the device.
    """

    def __init__(self, streams: Streams, call: Call) -> None:
        self._streams = streams
        self._call = call
        self._graphs: dict[Key, _Graph | None] = {}
        self._seen: Counter[Key] = Counter()
        self._bytes_left = MAX_BYTES
        self._lock = Lock()

    def answer(self, given: Sequence[Tensor], take: Callable[[Tensor], T]) -> list[T] | None:
        """Return what is taken of each output; None where no graph computes so many rows.

        Parameters
        ----------
        given : sequence of Tensor
            Of the host or of the device.
        take : callable
            Copies an output, which the next call writes over.
        """
        rows = len(given[0])
        graph = self._find(given, rows) if rows <= GRAPH_ROWS else None
        if graph is None:
            return None
        with graph.lock:
            for memory, tensor in zip(graph.inputs, given, strict=True):
                memory.narrow(0, 0, rows).copy_(tensor)  # what lies behind is old
            graph.replay()
            return [take(output.narrow(0, 0, rows)) for output in graph.outputs]

    def _find(self, given: Sequence[Tensor], rows: int) -> _Graph | None:
        """Return the graph of a bucket of rows, captured when it has come often enough."""
        stream = self._streams.current()
        if stream is None:
            return None
        bucket = 1 << max(rows - 1, 0).bit_length()
        key = (stream, bucket)
        if key in self._graphs:
            return self._graphs[key]
        self._seen[key] += 1
        if self._seen[key] < CALLS_BEFORE_CAPTURE or os.environ.get(VARIABLE) == "0":
            return None
        with self._lock:
            if key not in self._graphs and len(self._graphs) < MAX_GRAPHS:
                self._graphs[key] = self._captured(given, bucket)
        return self._graphs.get(key)

    def _captured(self, given: Sequence[Tensor], bucket: int) -> _Graph | None:
        """Capture a call of so many rows; None, with a line in the log, where that fails."""
        device = self._streams.device
        # No call may write to memory of inference mode outside of it.
        with torch.inference_mode(False), torch.no_grad():
            inputs = [
                torch.zeros(bucket, *tensor.shape[1:], dtype=tensor.dtype, device=device)
                for tensor in given
            ]
            run = partial(self._call, inputs)
            try:
                outputs, replay, n_bytes = self._streams.capture(run, self._bytes_left)
            except (RuntimeError, BackendError) as error:
                log_no_graph(bucket, str(error))  # such as operators that wait for the host
                return None
        self._bytes_left -= n_bytes
        return _Graph(inputs, outputs, replay)


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
