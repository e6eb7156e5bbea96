"""Backend ``tvm``: compile a program to one loop over tiles of rows.

TVM itself is imported at the first compile.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hbconv.backends.base import Artifact, Backend, KernelReport
from hbconv.backends.tvm.passes.fuse_products import REWRITES
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, ProgramTypes, TensorProgram

if TYPE_CHECKING:
    from hbconv.backends.base import DeviceReport
    from hbconv.backends.tvm.machine.machine import Machine
    from hbconv.backends.tvm.machine.schedule import Schedule
    from hbconv.cost_model import Work
    from hbconv.trees.forest import Forest

__all__ = ["BACKEND", "Tvm"]

NATIVE = frozenset({"select", "tree_traversal", "perfect_tree_traversal"})


class Tvm(Backend):
    """The tile compiler: tiles of many rows on the CPU, one thread per row on a CUDA device."""

    name = "tvm"
    needs = ("tvm", "tvm_ffi", "platformdirs")
    extra = "tvm"
    runs_stored = True
    emits = frozenset(PRIMITIVES) - {"relu", "logsumexp", "lookup_codes", "one_hot"}
    rewrites = REWRITES
    devices = ("cpu", "cuda")
    finds_devices = ("the CUDA driver", "a newer driver")
    tiled = True

    def native_trees(self, target: Target) -> frozenset[str]:  # noqa: ARG002
        """Return the strategies that table-driven kernels run."""
        return NATIVE

    def tree_work(
        self,
        strategy: str,
        forest: Forest,
        dtype: str,
        target: Target,
        *,
        added: bool = True,  # noqa: ARG002
    ) -> Work:
        """Count what a table-driven kernel does."""
        from hbconv.backends.tvm.trees.tree_work import count_tree_work

        return count_tree_work(strategy, forest, dtype, target.rows)

    def cuda_devices(self) -> int:
        """Count the devices that the driver sees."""
        from hbconv.backends.cuda.driver import count_devices

        return count_devices()

    def takes_tensors(self, target: Target) -> bool:
        """Whether the device is one that torch sees too."""
        if target.device == "cpu" or find_spec("torch") is None:
            return False
        from hbconv.backends.torch.launches import device_of_torch

        return device_of_torch(target.device) is not None

    def prepare(self, program: TensorProgram, target: Target) -> TensorProgram:
        """Rewrite the program; on CUDA devices, forests without splits too."""
        if target.device == "cpu":
            return super().prepare(program, target)
        from hbconv.backends.tvm.cuda.stages import lower_unsplit, write_plainly

        return lower_unsplit(super().prepare(write_plainly(program, NATIVE), target))

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Take the compiled program from the cache, or compile it, which alone needs TVM."""
        if target.device != "cpu":
            self.require_packages()
            from hbconv.backends.tvm.cuda.artifact import compile_for_device

            return compile_for_device(program, target)
        from hbconv.backends.tvm.compile import compile_program

        try:
            return compile_program(*_schedule(program), target)
        except ModuleNotFoundError:
            self.require_packages()
            raise

    def report(self, program: TensorProgram, target: Target) -> KernelReport | DeviceReport:
        """Write the function, and count what it holds."""
        self.require_packages()
        if target.device != "cpu":
            from hbconv.backends.tvm.cuda.report import report_device

            return report_device(program, target)
        from hbconv.backends.tvm.import_tvm import import_tvm

        import_tvm()
        from hbconv.backends.tvm.report import report_kernel

        return report_kernel(*_schedule(program))

    def runs(self, files: Mapping[str, bytes]) -> bool:
        """Whether this machine runs the kernel: it may be for others."""
        from hbconv.backends.tvm.binary.machine_files import choose_files

        return choose_files(files) is not None

    def load(
        self,
        files: Mapping[str, bytes],
        types: ProgramTypes,  # noqa: ARG002
        target: Target,
    ) -> Artifact | None:
        """Read the compiled kernel back; None where this machine cannot run it."""
        if target.device != "cpu":
            return None
        from hbconv.backends.tvm.binary.artifact import unpack

        return unpack(files, target.threads)


def _schedule(program: TensorProgram) -> tuple[TensorProgram, Schedule, Machine]:
    """Fuse what the kernels compute at once, and choose the sizes of tiles for this machine."""
    from hbconv.backends.tvm.machine.machine import Machine
    from hbconv.backends.tvm.machine.schedule import Schedule
    from hbconv.backends.tvm.passes.flag_beyond import join_looks
    from hbconv.backends.tvm.passes.fuse_products import fuse_products

    program = fuse_products(join_looks(program))
    machine = Machine.host()
    return program, Schedule.construct(program, machine), machine


BACKEND = Tvm()
