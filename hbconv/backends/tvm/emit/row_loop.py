"""Write a program as one function that takes one row after another, for few rows.

A tile of many rows makes vectors of rows, so a single row costs as much as sixteen. Here vectors
run along the entries of a row: the points of a kernel, the units of a layer.

A CUDA device's threads take a row each by the same writer (``RowProgramWriter``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.program import EMITTERS, ProgramWriter
from hbconv.backends.tvm.emit.tile_function import TileFunction, matrix_of, tables_of
from hbconv.backends.tvm.machine.calling_convention import SYMBOL
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.ops import mathematics, reductions
from hbconv.backends.tvm.ops.flag_rows import flag_tile
from hbconv.backends.tvm.ops.loops import EntryLoop, FusedLoop
from hbconv.backends.tvm.ops.nearest.block_search import row_nearest
from hbconv.backends.tvm.ops.row_major_matmul import find_row_major
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.tir.kernel import SCRATCH, EntryPoint, RowKernel
from hbconv.backends.tvm.tir.memory import InBuffer, Place, RowMajor, storage
from hbconv.backends.tvm.tir.row_blocks import RowMajorMatrix
from hbconv.tensor import Input, Op, OpKind, TensorProgram

__all__ = ["RowProgramWriter", "write_row_loop"]


class RowProgramWriter(ProgramWriter):
    """The body of the function: inputs and outputs are read and written where they lie."""

    def __init__(
        self,
        kernel: RowKernel,
        program: TensorProgram,
        inputs: dict[str, InBuffer],
        outputs: dict[str, InBuffer],
    ) -> None:
        super().__init__(kernel, program)
        self.inputs = inputs
        self.outputs = outputs
        self.finished: set[str] = set()

    def read(self, instruction: Input) -> Place:
        """Return the row of an input."""
        return self.inputs[instruction.name]

    def room(self, position: int, op: Op) -> Place:
        """Write an output where it belongs."""
        for name, index in self.program.outputs.items():
            if index == position:
                self.finished.add(name)
                return self.outputs[name]
        return super().room(position, op)

    def finish(self, name: str, place: Place) -> None:
        """Copy an output that is an input, a view, or another output too."""
        if name not in self.finished:
            target = self.outputs[name].view((place.size,))
            self.kernel.map_rows(target, (place.view((place.size,)),), lambda value: value)


ROW_EMITTERS: dict[str, Callable[..., None]] = {
    **reductions.ROW_EMITTERS,
    "nearest": lambda kernel, out, x, points, k: row_nearest(kernel, out, x, points),
}
"""Emitters of primitives whose vectors run along a row."""


def write_row_loop(program: TensorProgram, machine: Machine, symbol: str = SYMBOL) -> TileFunction:
    """Write the function of a program; ``machine/calling_convention.py`` defines its calls."""
    k = RowKernel(machine, symbol)
    types = program.types
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        entry = EntryPoint(symbol)
        sources = {name: entry.pointer(storage(x.dtype)) for name, x in types.inputs.items()}
        targets = {name: entry.pointer(storage(x.dtype)) for name, x in types.outputs.items()}
        k.take_pointers(lambda _, dtype: entry.pointer(dtype))
        with entry.body():
            inputs = {name: matrix_of(sources[name], x) for name, x in types.inputs.items()}
            outputs = {name: matrix_of(targets[name], x) for name, x in types.outputs.items()}
            k.declare_buffers()
            with T.serial(entry.rows) as row:
                _Row(k, program, row, inputs, outputs).write()
        entry.end()
    scratch = {dtype: k.scratch[dtype].size for dtype in SCRATCH}
    return TileFunction({symbol: builder.get()}, *tables_of(k), scratch)


class _Row(RowProgramWriter):
    """The body of the loop over rows."""

    def __init__(
        self,
        kernel: RowKernel,
        program: TensorProgram,
        row: Any,
        inputs: dict[str, RowMajorMatrix],
        outputs: dict[str, RowMajorMatrix],
    ) -> None:
        types = program.types
        super().__init__(
            kernel,
            program,
            {name: _row_of(inputs[name], row, kind) for name, kind in types.inputs.items()},
            {name: _row_of(outputs[name], row, kind) for name, kind in types.outputs.items()},
        )
        self.row = row
        self.matrices = inputs
        self.in_rows = find_row_major(kernel, program)

    def read(self, instruction: Input) -> Place:
        """Return the row of an input; narrow products read it as those of tiles do."""
        if self.program.instructions.index(instruction) not in self.in_rows:
            return super().read(instruction)
        kind = instruction.type
        return RowMajor(kind.dtype, kind.shape, self.matrices[instruction.name], self.row)

    def loop(self, shape: tuple[int, ...], dtypes: set[str]) -> Any:
        """Open a loop along the row, where it has entries for a vector."""
        opened = EntryLoop if shape and shape[-1] > 1 else FusedLoop
        return opened.open(self.kernel, shape, dtypes)

    def write_primitive(self, op: Op, out: Any, operands: Any) -> None:
        """Write a primitive by vectors along the row, where its emitter can."""
        if op.primitive == FLAG_BEYOND:
            self._flag(op, out)
        elif op.primitive in ROW_EMITTERS:
            ROW_EMITTERS[op.primitive](self.kernel, out, *operands, **op.attributes)
        elif op.kind is OpKind.ARITHMETIC or op.primitive in mathematics.EMITTERS:
            with self.loop(out.shape, {x.dtype for x in (out, *operands)}) as loop:
                EMITTERS[op.primitive](loop, out, *operands, **op.attributes)
        else:
            super().write_primitive(op, out, operands)

    def _flag(self, op: Op, out: Place) -> None:
        """Write the flag of an input."""
        matrix = self.program.instructions[op.operands[0]]
        if isinstance(matrix, Input):
            (width,) = matrix.type.shape
            flag_tile(self.kernel, out, self.matrices[matrix.name], self.row, width, op)


def _row_of(matrix: RowMajorMatrix, row: Any, kind: Any) -> InBuffer:
    return InBuffer(kind.dtype, kind.shape, matrix.entries_from(row * matrix.width))
