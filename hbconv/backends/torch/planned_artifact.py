"""Run kernels of a whole program in memory of torch and on its streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.backends.base import Arrays, Artifact, contiguous
from hbconv.backends.cuda.plan import MAX_ROWS, PlannedKernels
from hbconv.backends.torch.device_calls import Cuda, DeviceCalls, Streams
from hbconv.backends.torch.launches import PlacedKernels, PlacedTables
from hbconv.tensor import TensorType

__all__ = ["PlannedArtifact", "device_of_torch"]


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
