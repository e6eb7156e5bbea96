"""Kernels of a forest or a whole program in memory of torch, on its current stream.

This is the hot path of a call on a CUDA device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack
from torch._C._functorch import is_functorch_wrapped_tensor

from hbconv.backends.base import Arrays, Artifact, contiguous
from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.driver import DriverLauncher
from hbconv.backends.cuda.plan import (
    MAX_ROWS,
    Launcher,
    LaunchPlan,
    PlannedKernels,
    PreparedLaunches,
    plan_pairwise,
)
from hbconv.backends.torch.device_calls import Cuda, DeviceCalls, Streams
from hbconv.tensor import TensorType

__all__ = [
    "PlacedKernels",
    "PlacedTables",
    "PlannedArtifact",
    "architecture_of",
    "describe_device",
    "device_of_torch",
    "find_launcher",
    "pairwise_on_device",
    "takes_launches",
]

ALIGNMENT = 256
"""Bytes at whose multiples a buffer begins, as memory of its own does."""

Result = tuple[torch.dtype, tuple[int, ...]]


class OpenedLauncher(Launcher, Protocol):
    """A launcher whose device may not be the current one."""

    def opened(self) -> AbstractContextManager[Any]:
        """Let kernels run on the device in a block."""


class CurrentStream(DriverLauncher):
    """Puts kernels on torch's current stream of a device."""

    def stream(self) -> ctypes.c_void_p:
        """Return the stream by its number, as compiled code of torch does: no object is made."""
        return ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(self.device))  # noqa: SLF001

    def opened(self) -> AbstractContextManager[Any]:
        """Let kernels run on the device in a block."""
        return torch.cuda.device(self.device)


@cache
def find_launcher(device: torch.device) -> OpenedLauncher:
    """Return the launcher of a CUDA device."""
    processors = describe_device(device).processors
    return CurrentStream(device.index or 0, architecture_of(device), processors)


@cache
def describe_device(device: torch.device) -> Device:
    """Return the sizes of a CUDA device."""
    properties = torch.cuda.get_device_properties(device)
    return Device(
        properties.multi_processor_count,
        properties.shared_memory_per_block_optin,  # type: ignore[attr-defined]
        properties.max_threads_per_multi_processor,
    )


@cache
def architecture_of(device: torch.device) -> str:
    """Return the architecture of a CUDA device, such as ``"sm_90"``."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


class PlacedKernels:
    """The kernels of a plan with their tables on a device, for calls from any thread.

    Memory is torch's own: it is given back when no one holds the tensors, after what was launched.
    A result has memory of its own, since callers keep it. All other buffers are one piece, which
    is given back at once.

    Parameters
    ----------
    plan : LaunchPlan
    inputs : sequence of str
        Names of the tensors that a call gives.
    results : mapping of str to (torch.dtype, tuple of int)
        Buffers that a call returns: their dtypes and shapes, where -1 is the number of rows.
    tables : mapping of str to Tensor
        On the device.
    device : torch.device
    """

    def __init__(
        self,
        plan: LaunchPlan,
        inputs: Sequence[str],
        results: Mapping[str, Result],
        tables: Mapping[str, Tensor],
        device: torch.device,
    ) -> None:
        self._device = device
        self._launcher = find_launcher(device)
        self._results = tuple(results.values())
        self._tables = tables
        scratch = {name: buffer for name, buffer in plan.buffers if name not in results}
        self._scratch = tuple(scratch.values())
        fixed = {name: table.data_ptr() for name, table in tables.items()}
        names = (*inputs, *results, *scratch)
        # Kernels are loaded into the current device.
        with self._launcher.opened():
            self._launches = PreparedLaunches(plan, names, fixed, self._launcher)

    def __call__(self, n_rows: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Compute the results for tensors of ``n_rows`` rows."""
        results = [
            torch.empty([n_rows if n < 0 else n for n in shape], dtype=dtype, device=self._device)
            for dtype, shape in self._results
        ]
        if not n_rows:
            return results
        ends = [0]
        for buffer in self._scratch:
            ends.append(ends[-1] + -(-buffer.n_bytes(n_rows) // ALIGNMENT) * ALIGNMENT)
        # Kernels read memory, not what a view makes of it: another order, or minus signs.
        inputs = [tensor.resolve_neg().contiguous() for tensor in inputs]
        addresses = [tensor.data_ptr() for tensor in (*inputs, *results)]
        if self._scratch:
            scratch = torch.empty(ends[-1], dtype=torch.uint8, device=self._device)
            addresses += [scratch.data_ptr() + start for start in ends[:-1]]
        with self._launcher.opened():
            self._launches.run(n_rows, addresses)
        return results


def takes_launches(x: Tensor) -> bool:
    """Whether a kernel may be launched for a tensor.

    That is no operator: those who record operators, or run them without values, would miss it.
    """
    return (
        x.is_cuda
        # Devices of other makers say is_cuda too.
        and torch.version.cuda is not None
        and not torch.compiler.is_compiling()
        and type(x) is Tensor
        and not _len_torch_dispatch_stack()
        # Tensors of vmap and torch.func have no memory of their own.
        and not is_functorch_wrapped_tensor(x)
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )


class PlacedTables:
    """Tables on devices, each put there once: forms of a kernel share theirs."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, torch.device], tuple[Any, Tensor]] = {}

    def of(self, kernels: PlannedKernels, device: torch.device) -> dict[str, Tensor]:
        """Return the tables of kernels on a device."""
        return {name: self._on(device, kernels.tables[name]) for name in kernels.plan.tables}

    def _on(self, device: torch.device, table: Any) -> Tensor:
        """Return a table's copy. The table is kept with it, so that no other table gets its id."""
        key = id(table), device
        # Two threads may both copy a table; setdefault lets both have the first copy.
        _, tensor = self._held.get(key) or self._held.setdefault(
            key, (table, to_tensor(table).to(device))
        )
        return tensor


def to_tensor(table: Any) -> Tensor:
    """Return a table as a tensor: torch cannot index uint32, but keeps its bits in int32."""
    array = np.ascontiguousarray(table)
    return torch.tensor(array.view(np.int32) if array.dtype == np.uint32 else array)


NAMES = {torch.float32: "float32", torch.float64: "float64"}


def pairwise_on_device(x: Tensor, points: Tensor, kind: str, p: float) -> Tensor:
    """Compute primitive ``pairwise``: (rows, points) for x (rows, k) and points (points, k)."""
    if len(x) > MAX_ROWS:
        # Kernels number rows by int32.
        parts = torch.split(x, MAX_ROWS)
        return torch.cat([pairwise_on_device(part, points, kind, p) for part in parts])
    n_points, n_features = points.shape
    placed = _place_pairwise(x.dtype, kind, p, n_features, n_points, x.device)
    (distances,) = placed(x.shape[0], (x.contiguous(), points.contiguous()))
    return distances


@lru_cache(maxsize=256)
def _place_pairwise(
    dtype: torch.dtype, kind: str, p: float, n_features: int, n_points: int, device: torch.device
) -> PlacedKernels:
    plan = plan_pairwise(NAMES[dtype], kind, p, n_features, n_points)
    return PlacedKernels(plan, ("x", "points"), {"out": (dtype, (-1, n_points))}, {}, device)


def device_of_torch(name: str) -> torch.device | None:
    """Return torch's device of this name; None where torch does not see it."""
    number = torch.device(name).index or 0
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return torch.device("cuda", number) if number < count else None


class ChosenKernels(Protocol):
    """The kernels of a program."""

    @property
    def inputs(self) -> Mapping[str, tuple[str, TensorType]]:
        """Each input's memory, and its type."""

    @property
    def outputs(self) -> Mapping[str, tuple[str, TensorType]]:
        """Each output's memory, and its type."""

    def choose(self, n_rows: int) -> PlannedKernels:
        """Return all kernels for ``n_rows`` rows."""


class PlannedArtifact(Artifact):
    """A program on a device: arrays of the host are copied, and tensors stay there.

    Parameters
    ----------
    plan : ChosenKernels
    device : torch.device
    streams : Streams, optional
        Those of the device; by default torch's.
    """

    def __init__(
        self, plan: ChosenKernels, device: torch.device, streams: Streams | None = None
    ) -> None:
        self.plan = plan
        self.device = device
        self._dtypes = [getattr(torch, kind.dtype) for _, kind in plan.inputs.values()]
        self._results_of = {
            name: (getattr(torch, kind.dtype), (-1, *kind.shape))
            for name, kind in plan.outputs.values()
        }
        self._tables = PlacedTables()
        self._placed: dict[PlannedKernels, PlacedKernels] = {}
        operators = len(plan.choose(1).plan.launches)
        bytes_out = sum(kind.row_bytes for _, kind in plan.outputs.values())
        self._calls = DeviceCalls(streams or Cuda(device), self._results, operators, bytes_out)

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs: large batches in chunks, small ones as graphs."""
        arrays = [contiguous(inputs[name]) for name in self.plan.inputs]
        with torch.inference_mode():
            outputs = self._calls.run(arrays)
        return {
            name: np.ascontiguousarray(array, dtype=kind.dtype)
            for array, (name, (_, kind)) in zip(outputs, self.plan.outputs.items(), strict=True)
        }

    def compute(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute the outputs for tensors on the device, where they stay."""
        outputs = self._calls.compute([inputs[name].to(self.device) for name in self.plan.inputs])
        return dict(zip(self.plan.outputs, outputs, strict=True))

    def _results(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Compute tensors in the program's order, for as many rows at a time as memory allows."""
        inputs = [
            tensor if tensor.dtype == dtype else tensor.to(dtype)
            for tensor, dtype in zip(tensors, self._dtypes, strict=True)
        ]
        kernels = self.plan.choose(min(inputs[0].shape[0], MAX_ROWS))
        rows = kernels.plan.rows_at_once
        if inputs[0].shape[0] <= rows:
            return self._launch(kernels, inputs)
        parts = zip(*(torch.split(tensor, rows) for tensor in inputs), strict=True)
        outputs = [self._launch(self.plan.choose(len(part[0])), part) for part in parts]
        return tuple(map(torch.cat, zip(*outputs, strict=True)))

    def _launch(self, kernels: PlannedKernels, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        placed = self._placed.get(kernels) or self._place(kernels)
        results = placed(tensors[0].shape[0], tensors)
        memory = dict(zip(self._results_of, results, strict=True))
        return tuple(memory[name] for name, _ in self.plan.outputs.values())

    def _place(self, kernels: PlannedKernels) -> PlacedKernels:
        """Put the tables on the device, at the first call."""
        names = [name for name, _ in self.plan.inputs.values()]
        tables = self._tables.of(kernels, self.device)
        placed = PlacedKernels(kernels.plan, names, self._results_of, tables, self.device)
        return self._placed.setdefault(kernels, placed)
