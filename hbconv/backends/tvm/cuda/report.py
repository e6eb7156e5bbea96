"""Report what a program launches on a device, without a device: its kernels are compiled only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbconv.backends.base import DeviceReport, LaunchReport
from hbconv.backends.cuda.clocks import memory_clocks
from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.plan import Launch
from hbconv.backends.tvm.cuda.artifact import find_device
from hbconv.backends.tvm.cuda.plan import DevicePlan, ForestStep, RowStep, plan_program
from hbconv.target import Target
from hbconv.tensor import TensorProgram, TensorType

__all__ = ["report_device", "report_plan"]


def report_device(program: TensorProgram, target: Target) -> DeviceReport:
    """Report on a prepared program."""
    device = find_device(target)
    return report_plan(plan_program(program, device.sizes), device.architecture)


def report_plan(plan: DevicePlan, architecture: str) -> DeviceReport:
    """Report on a plan, for batches."""
    batch = [step.batch for step in plan.steps]
    types = plan.program.types
    kept = {f"value{index}" for index in plan.program.outputs.values()}
    buffers = dict(buffer for each in batch for buffer in each.plan.buffers)
    return DeviceReport(
        architecture,
        tuple(report for step in plan.steps for report in _launches(step, architecture)),
        sum(map(_bytes, types.inputs.values())),
        sum(map(_bytes, types.outputs.values())),
        sum(buffer.bytes_per_row for name, buffer in buffers.items() if name not in kept),
        sum(table.nbytes for each in batch for table in each.tables.values()),
    )


def _launches(step: RowStep | ForestStep, architecture: str) -> Iterator[LaunchReport]:
    """Report on each launch; the clocks of a forest are those of all its launches."""
    plan = step.batch.plan
    sizes = {name: buffer.bytes_per_row for name, buffer in plan.buffers}
    sizes |= {name: _bytes(kind) for name, kind in step.stage.program.types.inputs.items()}
    for number, launch in enumerate(plan.launches):
        moved = sum(sizes.get(str(argument), 0.0) for argument in launch.arguments)
        if isinstance(step, RowStep):
            # Kernels of rows are counted by the bytes that they move, without their arithmetic.
            clocks, limit = memory_clocks(moved), "memory"
        elif number == len(plan.launches) - 1:
            clocks, limit = step.kernels.forms[-1].clocks.total, step.kernels.forms[-1].clocks.limit
        else:
            clocks, limit = 0.0, ""
        yield _launch(launch, architecture, moved, clocks, limit)


def _launch(
    launch: Launch, architecture: str, moved: float, clocks: float, limit: str
) -> LaunchReport:
    compiled = compile_kernel(launch.kernel, architecture)
    return LaunchReport(
        str(launch.kernel),
        moved,
        compiled.registers,
        compiled.stack_bytes,
        launch.shared_bytes,
        clocks,
        limit,
    )


def _bytes(kind: TensorType) -> int:
    return int(np.prod(kind.shape)) * np.dtype(kind.dtype).itemsize
