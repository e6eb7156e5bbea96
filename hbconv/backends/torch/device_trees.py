"""A forest on a CUDA device: the module that calls its kernels."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from hbconv.backends.cuda.choose import Candidate, TreeKernels, refuse
from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.plan import CudaKernel
from hbconv.backends.torch.launches import (
    PlacedKernels,
    PlacedTables,
    architecture_of,
    describe_device,
    takes_launches,
)
from hbconv.trees.forest import Forest

__all__ = ["DeviceTrees", "find_kernels", "remark_kernels"]


@lru_cache(maxsize=8)
def find_kernels(forest: Forest, dtype: str, scores: bool, device: Device) -> TreeKernels:
    """Return the kernels of a forest, which a plan's remarks and each copy of a module share."""
    return TreeKernels(forest, dtype, scores, device)


def remark_kernels(forest: Forest, device: torch.device) -> tuple[str, ...]:
    """Say which kernels compute a forest's sums of float32 rows, and what they should take."""
    reason = refuse(forest)
    if reason:
        return (f"plain operators: {reason}",)
    kernels = find_kernels(forest, "float32", True, describe_device(device))
    lines = tuple(str(kernels).splitlines())
    used = dict.fromkeys(form.main for form in kernels.forms)
    architecture = architecture_of(device)
    return (*lines, *(f"{k}: {registers(k, architecture)} registers a thread" for k in used))


def registers(kernel: CudaKernel, architecture: str) -> int:
    """Return the registers of a kernel, which is compiled for it."""
    return compile_kernel(kernel, architecture).registers


class DeviceTrees(nn.Module):
    """The sums of a forest, or its leaves: by kernels on a CUDA device, else by plain operators.

    Parameters
    ----------
    forest : Forest
        With splits.
    dtype : str
        Of the rows.
    scores : bool
        Sums, rather than leaves.
    portable : nn.Module
        Computes the same by plain operators, for other devices, tracers and compilers.
    """

    def __init__(self, forest: Forest, dtype: str, scores: bool, portable: nn.Module) -> None:
        super().__init__()
        self.forest = forest
        self.dtype = dtype
        self.scores = scores
        self.portable = portable
        self._kernels: dict[Device, TreeKernels] = {}
        self._placed: dict[tuple[Candidate, torch.device], PlacedKernels] = {}
        self._tables = PlacedTables()

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x (n_rows, columns)."""
        if takes_launches(x):
            return self.compute(x, describe_device(x.device))
        output: Tensor = self.portable(x)
        return output

    def compute(self, x: Tensor, device: Device) -> Tensor:
        """Call the kernels that are predicted fastest for this number of rows."""
        kernels = self._find_kernels(device)
        candidate = kernels.choose(len(x))
        rows = candidate.kernel.plan.rows_at_once
        if len(x) <= rows:
            return self.run(x, candidate)
        return torch.cat([self.run(chunk, candidate) for chunk in torch.split(x, rows)])

    def run(self, x: Tensor, candidate: Candidate) -> Tensor:
        """Call some kernels for rows that fit their memory."""
        placed = self._placed.get((candidate, x.device)) or self._place(candidate, x.device)
        (values,) = placed(x.shape[0], (x,))
        return values if self.scores else values.t().to(torch.int64)

    def _find_kernels(self, device: Device) -> TreeKernels:
        """Return the kernels for a device. To look them up by the forest takes 10 us."""
        if device not in self._kernels:
            self._kernels[device] = find_kernels(self.forest, self.dtype, self.scores, device)
        return self._kernels[device]

    def _place(self, candidate: Candidate, device: torch.device) -> PlacedKernels:
        """Put the tables on the device, at the first call."""
        kernel = candidate.kernel
        buffer = dict(kernel.plan.buffers)["out"]
        shape = (-1, self.forest.n_outputs) if self.scores else (buffer.leading, -1)
        results = {"out": (getattr(torch, buffer.dtype), shape)}
        tables = self._tables.of(kernel, device)
        kernels = PlacedKernels(kernel.plan, ("x",), results, tables, device)
        return self._placed.setdefault((candidate, device), kernels)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables on devices out: they are made again."""
        return {**self.__dict__, "_kernels": {}, "_placed": {}, "_tables": PlacedTables()}
