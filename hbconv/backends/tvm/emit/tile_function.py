"""Write a program as one function: for each tile, read inputs, compute, write outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.entry_tiles import write_entries
from hbconv.backends.tvm.emit.program import ProgramWriter
from hbconv.backends.tvm.ops.flag_rows import flag_tile
from hbconv.backends.tvm.ops.row_major_matmul import find_row_major
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.passes.flatten import FlatProgram, flatten
from hbconv.backends.tvm.target.calling_convention import SYMBOL
from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.target.schedule import Schedule
from hbconv.backends.tvm.tir.entry_point import EntryPoint
from hbconv.backends.tvm.tir.kernel import SCRATCH, TABLES, Kernel
from hbconv.backends.tvm.tir.matrix import RowMajorMatrix
from hbconv.backends.tvm.tir.memory import Place, RowMajor, storage
from hbconv.backends.tvm.tir.transpose import columns_used, read_columns, write_rows
from hbconv.tensor import Input, Op, TensorProgram, TensorType

__all__ = ["TileFunction", "write_function"]


@dataclass(frozen=True)
class TileFunction:
    """TIR functions, and what the entry function is called with.

    Parameters
    ----------
    functions : dict of str to PrimFunc
        By name; the first is the entry.
    tables : tuple of arrays
    scratch : dict of str to int
        Entries of each dtype.
    """

    functions: dict[str, Any]
    tables: tuple[npt.NDArray[Any], ...]
    scratch: dict[str, int]


def write_function(
    program: TensorProgram, schedule: Schedule, machine: Machine, symbol: str = SYMBOL
) -> TileFunction:
    """Write the function of a program; ``target/calling_convention.py`` says how it is called."""
    flat = flatten(program, schedule)
    kernel = Kernel(flat.schedule if flat else schedule, machine, symbol)
    with IRBuilder() as builder:
        _write_main(kernel, program, flat)
    subroutines = {
        name: structure.key.with_attr("global_symbol", name)
        for structure, name in kernel.subroutines.items()
    }
    scratch = {dtype: kernel.scratch[dtype].size * kernel.tile for dtype in SCRATCH}
    return TileFunction({symbol: builder.get(), **subroutines}, _tables(kernel), scratch)


def _write_main(k: Kernel, program: TensorProgram, flat: FlatProgram | None) -> None:
    """Write the entry function: its arguments, and the loop over tiles."""
    program = flat.program if flat else program
    types = {name: program.instructions[index].type for name, index in program.outputs.items()}
    with T.prim_func(s_tir=True):
        entry = EntryPoint(k.symbol)
        sources = {i.name: entry.pointer(storage(i.type.dtype)) for i in program.inputs}
        targets = {name: entry.pointer(storage(kind.dtype)) for name, kind in types.items()}
        k.take_pointers(lambda _, dtype: entry.pointer(dtype))
        with entry.body():
            inputs = {i.name: _matrix(sources[i.name], i.type) for i in program.inputs}
            outputs = {name: _matrix(targets[name], kind) for name, kind in types.items()}
            k.declare_buffers()
            if flat:
                write_entries(k, flat, T.Bind(entry.rows * flat.width), inputs, outputs)
            else:
                _write_tiles(k, program, entry.rows, inputs, outputs)
        entry.end()


def _tables(k: Kernel) -> tuple[npt.NDArray[Any], ...]:
    """Return the tables of constants, and that of the runtime parameters; none is empty.

    Positions of constants are taken first: that may add constants to the tables.
    """
    parameters = [n if isinstance(n, int) else k.tables.offset(n) for n in k.numbers]
    numbers = np.array([*parameters, 0], np.int32)
    return (*(k.tables.packed(dtype) for dtype in TABLES), numbers)


def _write_tiles(
    k: Kernel, program: TensorProgram, rows: Any, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    """Loop over tiles of rows."""
    with T.serial((rows + (k.tile - 1)) // k.tile) as tile:
        first = T.Bind(tile * k.tile)
        k.rows_live = T.Bind(tirx.min(rows - first, tirx.IntImm("int32", k.tile)))
        _Tile(k, program, first, inputs, outputs).write()


def _matrix(pointer: Any, kind: TensorType) -> RowMajorMatrix:
    """Declare the matrix of an input or output."""
    return RowMajorMatrix.at(pointer, kind.dtype, int(np.prod(kind.shape)))


class _Tile(ProgramWriter):
    """The body of the loop over tiles: inputs are transposed to columns, outputs to rows."""

    def __init__(
        self,
        kernel: Kernel,
        program: TensorProgram,
        first: Any,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
    ) -> None:
        super().__init__(kernel, program)
        self.first = first
        self.inputs = inputs
        self.outputs = outputs
        self.in_rows = find_row_major(kernel, program)

    def read(self, instruction: Input) -> Place:
        """Transpose rows to columns; an input that is only multiplied stays in rows."""
        kind = instruction.type
        matrix = self.inputs[instruction.name]
        self._flag(instruction)
        if self.program.instructions.index(instruction) in self.in_rows:
            return RowMajor(kind.dtype, kind.shape, matrix, self.first)
        place = self.kernel.take(kind.dtype, kind.shape)
        columns = columns_used(self.program, instruction)
        if columns:
            read_columns(self.kernel, place, matrix, self.first, columns)
        return place

    def finish(self, name: str, place: Place) -> None:
        """Transpose columns to rows."""
        write_rows(self.kernel, self.outputs[name], self.first, place.view((place.size,)))

    def _write_op(self, position: int, op: Op) -> None:
        if op.primitive != FLAG_BEYOND:  # flags were written as the input was read
            super()._write_op(position, op)

    def _flag(self, matrix: Input) -> None:
        """Write the flags of an input: one pass in the order of memory brings the rows near."""
        index = self.program.instructions.index(matrix)
        (width,) = matrix.type.shape
        for position, op in enumerate(self.program.instructions):
            if isinstance(op, Op) and op.primitive == FLAG_BEYOND and index in op.operands:
                out = self.places[position] = self.room(position, op)
                flag_tile(self.kernel, out, self.inputs[matrix.name], self.first, width, op)
