"""Calls of a device: tensors stay there, host arrays are copied, and small batches are graphs.

Large host arrays come in chunks, on two streams. A chunk is copied into pinned memory, so that the
device takes it while it computes another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.backends.torch.graphs import DIRECT_OPERATORS, Call, Graphs
from hbconv.backends.torch.streams import Streams

__all__ = ["DeviceCalls"]

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
