"""Compile a program for a CUDA device, and choose who manages its memory."""

from __future__ import annotations

from importlib.util import find_spec

from hbconv.backends.base import Artifact
from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.plan import MAX_ROWS
from hbconv.backends.tvm.cuda.artifact import CudaArtifact
from hbconv.backends.tvm.cuda.device import find_device
from hbconv.backends.tvm.cuda.plan import DevicePlan, plan_program
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["compile_for_device"]


def compile_for_device(program: TensorProgram, target: Target) -> Artifact:
    """Compile a prepared program for the device of a target; the kernels of batches at once."""
    device = find_device(target)
    plan = plan_program(program, device.sizes)
    for launch in plan.choose(MAX_ROWS).plan.launches:
        compile_kernel(launch.kernel, device.architecture)
    return _in_memory_of_torch(plan, target) or CudaArtifact(plan, device)


def _in_memory_of_torch(plan: DevicePlan, target: Target) -> Artifact | None:
    """Let torch manage memory, streams and graphs; None where there is no CUDA build of it."""
    if find_spec("torch") is None:
        return None
    from hbconv.backends.torch.planned_artifact import PlannedArtifact, device_of_torch

    device = device_of_torch(target.device)
    return PlannedArtifact(plan, device) if device else None
