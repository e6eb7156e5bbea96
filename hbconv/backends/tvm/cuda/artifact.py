"""Compile a program for a CUDA device, and run its plan.

Where torch has a CUDA build, torch manages memory, streams and graphs. Otherwise the driver alone
does: copy the inputs, launch the kernels, copy back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Arrays, Artifact
from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.driver import DeviceMemory, DriverDevice
from hbconv.backends.cuda.plan import MAX_ROWS, PlannedKernels, launch_all
from hbconv.backends.tvm.cuda.plan import DevicePlan, plan_program
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["CudaArtifact", "compile_for_device", "find_device"]


class CudaArtifact(Artifact):
    """A program on a device, whose tables stay there.

    Parameters
    ----------
    plan : DevicePlan
    device : DeviceMemory
    """

    def __init__(self, plan: DevicePlan, device: DeviceMemory) -> None:
        self.plan = plan
        self.device = device
        self._tables: dict[int, int] = {}
        self._kept: list[npt.NDArray[Any]] = []
        # At exit the process returns all memory of the device by itself.
        finalize(self, _give_all, device, self._tables).atexit = False
        self._lock = Lock()

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs, for as many rows at a time as their memory allows."""
        n_rows = len(next(inputs[name] for name in self.plan.inputs))
        outputs = {
            name: np.empty((n_rows, *kind.shape), kind.dtype)
            for name, (_, kind) in self.plan.outputs.items()
        }
        # All buffers of a batch exist at once, so their sizes bound its rows.
        step = self.plan.choose(min(n_rows, MAX_ROWS)).plan.rows_at_once if n_rows else 1
        with self.device.opened() as launcher:
            for first in range(0, n_rows, step):
                part = slice(first, first + step)
                part_inputs = {name: inputs[name][part] for name in self.plan.inputs}
                self._run(launcher, part_inputs, {name: out[part] for name, out in outputs.items()})
        return outputs

    def _run(self, launcher: Any, inputs: Arrays, outputs: Arrays) -> None:
        """Compute some rows."""
        n_rows = len(next(iter(inputs.values())))
        kernels = self.plan.choose(n_rows)
        sizes = {name: buffer.n_bytes(n_rows) for name, buffer in kernels.plan.buffers}
        sizes |= {self.plan.inputs[name][0]: array.nbytes for name, array in inputs.items()}
        with self._room(sizes) as memory:
            for name, array in inputs.items():
                self.device.write(memory[self.plan.inputs[name][0]], np.ascontiguousarray(array))
            launch_all(kernels.plan, {**self._place(kernels), **memory}, n_rows, launcher)
            for name, array in outputs.items():
                self.device.read(array, memory[self.plan.outputs[name][0]])

    @contextmanager
    def _room(self, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Take memory for as long as the block lasts."""
        memory: dict[str, int] = {}
        try:
            for name, size in sizes.items():
                memory[name] = self.device.take(size)
            yield memory
        finally:
            for address in memory.values():
                self.device.give(address)

    def _place(self, kernels: PlannedKernels) -> dict[str, int]:
        """Return the addresses of the tables, which the first call copies to the device."""
        # Two first calls at once would copy a table twice and lose one copy.
        with self._lock:
            for name in kernels.plan.tables:
                self._copy(kernels.tables[name])
            return {name: self._tables[id(kernels.tables[name])] for name in kernels.plan.tables}

    def _copy(self, table: npt.NDArray[Any]) -> None:
        """Copy a table to the device, once. It is kept, so that no other is it."""
        if id(table) not in self._tables:
            contiguous = np.ascontiguousarray(table)
            self._kept.append(table)
            self._tables[id(table)] = self.device.take(contiguous.nbytes)
            self.device.write(self._tables[id(table)], contiguous)


def _give_all(device: DeviceMemory, tables: Mapping[int, int]) -> None:
    """Give the tables back when no one holds the artifact any more."""
    with device.opened():
        for address in tables.values():
            device.give(address)


def find_device(target: Target) -> DriverDevice:
    """Return the target's device, which all programs share.

    Raises
    ------
    BackendError
        The driver does not have it.
    """
    return _device(int(target.device.partition(":")[2] or 0))


@lru_cache(maxsize=64)
def _device(number: int) -> DriverDevice:
    return DriverDevice(number)


def compile_for_device(program: TensorProgram, target: Target) -> Artifact:
    """Compile a prepared program for the device of a target; the kernels of batches at once."""
    device = find_device(target)
    plan = plan_program(program, device.sizes)
    for launch in plan.choose(MAX_ROWS).plan.launches:
        # Compiled now, so that a failure shows in convert and not in a call.
        compile_kernel(launch.kernel, device.architecture)
    return _in_memory_of_torch(plan, target) or CudaArtifact(plan, device)


def _in_memory_of_torch(plan: DevicePlan, target: Target) -> Artifact | None:
    """Let torch manage memory, streams and graphs; None where there is no CUDA build of it."""
    if find_spec("torch") is None:
        return None
    from hbconv.backends.torch.launches import PlannedArtifact, device_of_torch

    device = device_of_torch(target.device)
    return PlannedArtifact(plan, device) if device else None
