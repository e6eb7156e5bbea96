"""Calls of a device: tensors stay there, host arrays are copied, and small batches are graphs.

Large host arrays come in chunks, on two streams. A chunk is copied into pinned memory, so that the
device takes it while it computes another one. A small batch that comes again is captured as a CUDA
graph, and is one launch from then on.
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
"""Bytes up to which an array is copied from its own memory, by one thread of the driver."""
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
        outputs = None if self._graphs is None else self._graphs.answer(tensors, Tensor.clone)
        return self._call(tensors) if outputs is None else outputs

    def run(self, arrays: Arrays) -> list[npt.NDArray[Any]]:
        """Return the outputs for C-contiguous arrays."""
        rows = len(arrays[0])
        bytes_in = sum(a[:1].nbytes for a in arrays) or 1
        if rows > max(LEAST_ROWS, PAGEABLE_BYTES // bytes_in):
            chunk = CHUNK_BYTES // (bytes_in + self._bytes_out)
            return self._in_chunks(arrays, rows, max(LEAST_ROWS, chunk))
        inputs = [torch.from_numpy(array) for array in arrays]
        outputs = None if self._graphs is None else self._graphs.answer(inputs, to_host)
        if outputs is None:
            on_device = [tensor.to(self._streams.device) for tensor in inputs]
            outputs = [to_host(tensor) for tensor in self._call(on_device)]
        return outputs

    def _in_chunks(self, arrays: Arrays, rows: int, chunk: int) -> list[npt.NDArray[Any]]:
        """Compute chunks on two streams in turn: one is copied while the other computes."""
        slots = self._take_slots()
        outputs: list[npt.NDArray[Any]] = []
        for number, start in enumerate(range(0, rows, chunk)):
            # The results of a slot's last chunk are taken before its memory is written again.
            slot = slots[number % 2]
            self._finish(slot, outputs)
            slot.rows = slice(start, min(start + chunk, rows))
            self._start(slot, arrays, chunk)
            # Shapes and dtypes of the outputs are known when the first chunk is computed.
            if not outputs:
                outputs = [_empty(result, rows) for result in slot.results]
        for slot in slots:
            self._finish(slot, outputs)
        # Not reached after an error, whose copies may still run.
        self._slots.append(slots)
        return outputs

    def _take_slots(self) -> tuple[_Slot, _Slot]:
        """Return slots that no other call uses."""
        try:
            # A deque's pop is atomic, so threads need no lock to share the slots.
            return self._slots.pop()
        except IndexError:
            return _Slot(self._streams.stream()), _Slot(self._streams.stream())

    def _start(self, slot: _Slot, arrays: Arrays, chunk: int) -> None:
        """Let a stream copy, compute and copy back, without waiting for it."""
        count = slot.rows.stop - slot.rows.start
        with self._streams.on(slot.stream):
            inputs = []
            for place, array in enumerate(arrays):
                source = torch.from_numpy(array[slot.rows])
                pinned = self._pinned_memory(slot, place, source, chunk)[:count]
                # By all threads of torch: one of them takes 10 GB/s.
                pinned.copy_(source)
                inputs.append(pinned.to(self._streams.device, non_blocking=True))
            slot.results = []
            for place, result in enumerate(self._call(inputs), len(arrays)):
                pinned = self._pinned_memory(slot, place, result, chunk)[:count]
                slot.results.append(pinned.copy_(result, non_blocking=True))

    def _pinned_memory(self, slot: _Slot, place: int, like: Tensor, chunk: int) -> Tensor:
        """Return a slot's memory for an input or an output, made once."""
        memory = slot.pinned.get(place)
        if memory is None or len(memory) < chunk:
            shape = (chunk, *like.shape[1:])
            memory = slot.pinned[place] = self._streams.pinned(shape, like.dtype)
        return memory

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
operator or a kernel. A replay takes 6, and 14 more to copy rows to it and outputs from it."""
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
    outputs of the call before were copied, also where the caller waits for nothing.

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

    def answer(self, inputs: Sequence[Tensor], take: Callable[[Tensor], T]) -> list[T] | None:
        """Return what is taken of each output; None where no graph computes this number of rows.

        Parameters
        ----------
        inputs : sequence of Tensor
            Of the host or of the device.
        take : callable
            Copies an output, which the next call writes over.
        """
        rows = len(inputs[0])
        graph = self._find(inputs, rows) if rows <= GRAPH_ROWS else None
        if graph is None:
            return None
        with graph.lock:
            for memory, tensor in zip(graph.inputs, inputs, strict=True):
                # Rows behind these are of an earlier call; nothing reads what becomes of them.
                memory.narrow(0, 0, rows).copy_(tensor)
            graph.replay()
            return [take(output.narrow(0, 0, rows)) for output in graph.outputs]

    def _find(self, inputs: Sequence[Tensor], rows: int) -> _Graph | None:
        """Return the graph of a bucket of rows, captured when it has come often enough."""
        stream = self._streams.current()
        if stream is None:
            return None
        # Powers of two keep the graphs few: at most as many rows again are computed for nothing.
        bucket = 1 << max(rows - 1, 0).bit_length()
        key = (stream, bucket)
        # Read without the lock: an entry is written once, and stays.
        if key in self._graphs:
            return self._graphs[key]
        # Threads may lose a count here, which delays a capture by a call.
        self._seen[key] += 1
        if self._seen[key] < CALLS_BEFORE_CAPTURE or os.environ.get(VARIABLE) == "0":
            return None
        with self._lock:
            if key not in self._graphs and len(self._graphs) < MAX_GRAPHS:
                self._graphs[key] = self._capture(inputs, bucket)
        return self._graphs.get(key)

    def _capture(self, inputs: Sequence[Tensor], bucket: int) -> _Graph | None:
        """Capture a call of ``bucket`` rows; None, with a line in the log, where that fails."""
        device = self._streams.device
        # No call may write to memory of inference mode outside of it.
        with torch.inference_mode(False), torch.no_grad():
            memory = [
                torch.zeros(bucket, *tensor.shape[1:], dtype=tensor.dtype, device=device)
                for tensor in inputs
            ]
            run = partial(self._call, memory)
            try:
                outputs, replay, n_bytes = self._streams.capture(run, self._bytes_left)
            except (RuntimeError, BackendError) as error:
                # Such as operators that wait for the host.
                log_no_graph(bucket, str(error))
                return None
        self._bytes_left -= n_bytes
        return _Graph(memory, outputs, replay)


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
            # Loads kernels and makes tables, which no capture may.
            run()
            captured = torch.cuda.graph(
                graph,
                stream=_stream_of_captures(self.device, caller.cuda_stream),
                # Other threads may go on to use the device.
                capture_error_mode="thread_local",
            )
            with captured:
                before = torch.cuda.memory_reserved(self.device)
                outputs = run()
                n_bytes = torch.cuda.memory_reserved(self.device) - before
            if n_bytes > room:
                del outputs
                graph.reset()
                # Else torch keeps the memory, for no one.
                torch.cuda.empty_cache()
                raise RuntimeError(f"it would keep {n_bytes:,} bytes of the device")
        return outputs, graph.replay, n_bytes


@cache
def _stream_of_captures(device: torch.device, caller: int) -> Any:  # noqa: ARG001  (a key)
    """Return the stream that calls of a caller's stream are captured on.

    Torch's own is on the device that captured first. Graphs of one stream share memory of cuBLAS,
    so they must not run at the same time, as those of one caller do not. Torch hands out 32 streams
    in turn; those of another priority are handed to no chunk, whose work would be captured too.
    """
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
