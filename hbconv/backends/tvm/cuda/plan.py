"""Plan a program for a device: kernels of rows and kernels of forests, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hbconv.backends.cuda.choose import Candidate, TreeKernels
from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.plan import (
    Buffer,
    CudaKernel,
    Grid,
    Launch,
    LaunchPlan,
    PlannedKernels,
)
from hbconv.backends.tvm.cuda.source import THREADS, RowFunction, print_kernel, write_row_function
from hbconv.backends.tvm.cuda.stages import Stage, cut, read_in_place, value_name
from hbconv.backends.tvm.passes.fuse_products import fuse_products
from hbconv.errors import BackendError
from hbconv.tensor import Input, Op, TensorProgram, TensorType

__all__ = ["DevicePlan", "ForestStep", "RowStep", "plan_program"]

MAX_ROW_BYTES = 16 << 10
"""Bytes of scratch of a row. A device keeps them for every thread that it can hold: 270,336 threads
of an H100 take 4 GiB."""


@dataclass(frozen=True, eq=False)
class RowStep:
    """A kernel that gives each row to a thread.

    Parameters
    ----------
    stage : Stage
    row : RowFunction
    batch : PlannedKernels
    """

    stage: Stage
    row: RowFunction
    batch: PlannedKernels

    def choose(self, n_rows: int) -> PlannedKernels:  # noqa: ARG002
        """Return the kernel, for any number of rows."""
        return self.batch


@dataclass(frozen=True, eq=False)
class ForestStep:
    """The kernels of a forest, which read and write values of the program."""

    stage: Stage
    kernels: TreeKernels

    def choose(self, n_rows: int) -> PlannedKernels:
        """Return the kernels that are predicted fastest for a number of rows."""
        return self._kernels_by_form[self.kernels.choose(n_rows)]

    @property
    def batch(self) -> PlannedKernels:
        """The kernels for many rows."""
        return self._kernels_by_form[self.kernels.forms[-1]]

    @cached_property
    def _kernels_by_form(self) -> dict[Candidate, PlannedKernels]:
        """Let each form read and write values of the program, and keep its own names apart."""
        ((source,), (target,)) = (self.stage.program.types.inputs, self.stage.program.outputs)
        named = {}
        for form in self.kernels.forms:
            plan = form.kernel.plan
            own_names = {
                name: f"{name} for {target}" for name in (*dict(plan.buffers), *plan.tables)
            }
            # Forests of one program have equal names for buffers and tables, so each name gets its
            # output's.
            named[form] = form.kernel.renamed({**own_names, "x": source, "out": target})
        return named


Step = RowStep | ForestStep


@dataclass(frozen=True, eq=False)
class DevicePlan:
    """The steps of a program.

    Parameters
    ----------
    program : TensorProgram
        Whose values the names are of.
    steps : tuple of RowStep or ForestStep
    """

    program: TensorProgram
    steps: tuple[Step, ...]

    @cached_property
    def inputs(self) -> dict[str, tuple[str, TensorType]]:
        """Each input's memory, and its type."""
        return {
            x.name: (value_name(i), x.type)
            for i, x in enumerate(self.program.instructions)
            if isinstance(x, Input)
        }

    @cached_property
    def outputs(self) -> dict[str, tuple[str, TensorType]]:
        """Each output's memory, and its type."""
        instructions = self.program.instructions
        return {
            name: (value_name(i), instructions[i].type) for name, i in self.program.outputs.items()
        }

    def choose(self, n_rows: int) -> PlannedKernels:
        """Return all kernels for a number of rows, joined once: artifacts know them by identity."""
        kernels = tuple(step.choose(n_rows) for step in self.steps)
        return self._joins.get(kernels) or self._joins.setdefault(kernels, _join(kernels))

    @cached_property
    def _joins(self) -> dict[tuple[PlannedKernels, ...], PlannedKernels]:
        return {}


def _join(kernels: tuple[PlannedKernels, ...]) -> PlannedKernels:
    """Return kernels that run one after another."""
    joined = PlannedKernels(LaunchPlan((), (), ()), {})
    for each in kernels:
        joined = joined.then(each.plan, each.tables)
    return joined


def plan_program(program: TensorProgram, device: Device) -> DevicePlan:
    """Plan a prepared program.

    Raises
    ------
    BackendError
        A row takes more memory than a thread may have.
    """
    # Forests have kernels of their own, so they divide a program into stages.
    program, stages = cut(fuse_products(read_in_place(program)))
    by_columns = frozenset(_leaves(stages))
    steps = (
        _forest_step(stage, op, device) if (op := stage.forest) else _row_step(stage, i, by_columns)
        for i, stage in enumerate(stages)
    )
    return DevicePlan(program, tuple(steps))


def _leaves(stages: list[Stage]) -> Iterator[str]:
    """Yield the values that are stored by columns."""
    for stage in stages:
        if stage.forest and stage.forest.primitive == "tree_leaves":
            yield from stage.program.outputs


def _forest_step(stage: Stage, op: Op, device: Device) -> ForestStep:
    (matrix,) = (i for i in stage.program.instructions if isinstance(i, Input))
    scores = op.primitive == "tree_scores"
    return ForestStep(
        stage, TreeKernels(op.attributes["forest"], matrix.type.dtype, scores, device)
    )


def _row_step(stage: Stage, number: int, by_columns: frozenset[str]) -> RowStep:
    """Write the kernel of a stage."""
    row = write_row_function(stage.program, by_columns)
    if row.scratch_bytes > MAX_ROW_BYTES:
        operators = sorted(
            {op.primitive for op in stage.program.instructions if isinstance(op, Op)}
        )
        raise BackendError(
            f"Backend 'tvm' gives each row to a thread of a CUDA device, which holds "
            f"{MAX_ROW_BYTES:,} bytes; {', '.join(operators)} take {row.scratch_bytes:,}. "
            "Use backend='torch' for CUDA."
        )
    name = f"rows{number}"
    tables = {f"{dtype} of {name}": table for dtype, table in row.tables.items()}
    types = stage.program.types
    launch = Launch(
        CudaKernel(name, text=print_kernel(row, name)),
        (*types.inputs, *types.outputs, *tables, "n"),
        Grid(THREADS),
        THREADS,
        0,
    )
    buffers = tuple(
        (value, Buffer(matrix.dtype, 1, 1, matrix.width))
        for value, matrix in zip(types.outputs, row.outputs, strict=True)
    )
    plan = LaunchPlan((launch,), buffers, tuple(tables))
    return RowStep(stage, row, PlannedKernels(plan, tables))
