"""A forest on a CUDA device: operator ``hbconv::trees``, and the module that calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hbconv.backends.cuda.choose import Candidate, TreeKernels, refuse
from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.driver import Stream
from hbconv.backends.cuda.launch import Launcher, launch_all
from hbconv.backends.cuda.plan import CudaKernel, LaunchPlan
from hbconv.forest import Forest

__all__ = [
    "OPERATOR",
    "DeviceTrees",
    "compute_trees",
    "current_stream",
    "describe_device",
    "find_kernels",
    "remark_kernels",
    "run_kernels",
    "to_tensor",
]

OPERATOR = "hbconv::trees"

torch.library.define(OPERATOR, "(Tensor x, Tensor[] tables, str plan) -> Tensor")


@torch.library.impl(OPERATOR, "CUDA")
def _on_cuda(x: Tensor, tables: list[Tensor], plan: str) -> Tensor:
    with current_stream(x.device) as stream:
        return compute_trees(x, tables, LaunchPlan.from_text(plan), stream)


def _result(x: Tensor, tables: list[Tensor], plan: str) -> Tensor:  # noqa: ARG001
    buffer = dict(LaunchPlan.from_text(plan).buffers)["out"]
    return x.new_empty(buffer.shape(x.shape[0]), dtype=getattr(torch, buffer.dtype))


torch.library.register_fake(OPERATOR, _result)


def compute_trees(x: Tensor, tables: list[Tensor], plan: LaunchPlan, launcher: Launcher) -> Tensor:
    """Run the kernels of a forest over rows."""
    given = {**dict(zip(plan.tables, tables, strict=True)), "x": x.contiguous()}
    return run_kernels(plan, given, len(x), launcher)["out"]


def run_kernels(
    plan: LaunchPlan, given: Mapping[str, Tensor], n_rows: int, launcher: Launcher
) -> dict[str, Tensor]:
    """Run the kernels of a plan on given tensors, and return them with those of its buffers.

    Memory is torch's own: it is given back when no one holds the tensors, after what was launched.
    """
    device = next(iter(given.values())).device
    memory = dict(given)
    for name, buffer in plan.buffers:
        shape, dtype = buffer.shape(n_rows), getattr(torch, buffer.dtype)
        memory[name] = torch.empty(shape, dtype=dtype, device=device)
    if n_rows:
        addresses = {name: tensor.data_ptr() for name, tensor in memory.items()}
        launch_all(plan, addresses, n_rows, launcher)
    return memory


@cache
def describe_device(device: torch.device) -> Device:
    """Return the sizes of a CUDA device."""
    found = torch.cuda.get_device_properties(device)
    return Device(
        found.multi_processor_count,
        found.shared_memory_per_block_optin,  # type: ignore[attr-defined]
        found.max_threads_per_multi_processor,
    )


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
    architecture = _architecture(device)
    return (*lines, *(f"{k}: {registers(k, architecture)} registers a thread" for k in used))


def registers(kernel: CudaKernel, architecture: str) -> int:
    """Return the registers of a kernel, which is compiled for it."""
    return compile_kernel(kernel, architecture).registers


@cache
def _architecture(device: torch.device) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@contextmanager
def current_stream(device: torch.device) -> Iterator[Stream]:
    """Yield torch's current stream of a device, whose context is this thread's own meanwhile."""
    with torch.cuda.device(device):
        handle = torch.cuda.current_stream(device).cuda_stream
        processors = describe_device(device).processors
        yield Stream(handle, device.index or 0, _architecture(device), processors)


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
        self._placed: dict[Any, tuple[list[Tensor], str]] = {}
        self._tables: dict[Any, tuple[Any, Tensor]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x (n_rows, columns)."""
        traced = torch.jit.is_tracing() or torch.compiler.is_compiling()  # type: ignore[attr-defined, no-untyped-call]
        if x.is_cuda and torch.version.cuda and not traced:  # other makers' devices say is_cuda too
            return self.compute(x.detach(), describe_device(x.device))
        output: Tensor = self.portable(x)
        return output

    def compute(self, x: Tensor, device: Device) -> Tensor:
        """Call the kernels that are predicted fastest for so many rows."""
        kernels = find_kernels(self.forest, self.dtype, self.scores, device)
        candidate = kernels.choose(len(x))
        rows = candidate.kernel.plan.rows_at_once
        if len(x) <= rows:
            return self.run(x, candidate)
        return torch.cat([self.run(chunk, candidate) for chunk in torch.split(x, rows)])

    def run(self, x: Tensor, candidate: Candidate) -> Tensor:
        """Call some kernels for rows that fit their memory."""
        tables, plan = self._place(candidate, x.device)
        found: Tensor = torch.ops.hbconv.trees(x, tables, plan)
        if self.scores:
            return found.view(len(x), self.forest.n_outputs)
        return found.t().to(torch.int64)

    def _place(self, candidate: Candidate, device: torch.device) -> tuple[list[Tensor], str]:
        """Return the tables on the device, put there at the first call that reads them."""
        plan = candidate.kernel.plan.text
        if (plan, device) not in self._placed:
            tables = candidate.kernel.tables
            placed = [self._on(device, tables[name]) for name in candidate.kernel.plan.tables]
            self._placed[plan, device] = placed, plan
        return self._placed[plan, device]

    def _on(self, device: torch.device, table: Any) -> Tensor:
        """Return a table on a device. Forms share tables: one is kept, so that no other is it."""
        key = id(table), device
        if key not in self._tables:
            self._tables[key] = table, to_tensor(table).to(device)
        return self._tables[key][1]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables on devices out: they are made again."""
        return {**self.__dict__, "_placed": {}, "_tables": {}}


def to_tensor(table: Any) -> Tensor:
    """Return a table as a tensor: torch cannot index uint32, but keeps its bits in int32."""
    own = np.ascontiguousarray(table)
    return torch.tensor(own.view(np.int32) if own.dtype == np.uint32 else own)
