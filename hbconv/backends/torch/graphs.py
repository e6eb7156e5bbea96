"""Calls captured as CUDA graphs: a small batch that comes again is one launch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

import torch
from torch import Tensor

from hbconv.backends.torch.streams import Streams
from hbconv.errors import BackendError
from hbconv.log import log_no_graph

__all__ = ["DIRECT_OPERATORS", "Call", "Graphs"]

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
