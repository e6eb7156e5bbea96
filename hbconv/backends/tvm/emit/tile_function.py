"""Write a program as one function: for each tile, read inputs, compute, write outputs.

A tile holds rows. Where a program treats every entry alike, a tile holds entries instead, which are
read and written in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.program import ProgramWriter
from hbconv.backends.tvm.machine.calling_convention import SYMBOL
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.ops.flag_rows import ColumnLook, Look, flag_entries, flag_tile
from hbconv.backends.tvm.ops.row_major_matmul import find_row_major
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.passes.outline import FlatProgram, flatten
from hbconv.backends.tvm.tir.columns import ColumnPointers, live_vectors, rows_at_a_time
from hbconv.backends.tvm.tir.kernel import SCRATCH, TABLES, EntryPoint, Kernel, beyond
from hbconv.backends.tvm.tir.memory import (
    ColumnsApart,
    InBuffer,
    Place,
    RowMajor,
    RowVector,
    storage,
)
from hbconv.backends.tvm.tir.row_blocks import RowMajorMatrix
from hbconv.backends.tvm.tir.transpose import columns_used, read_columns, write_rows
from hbconv.tensor import Constant, Input, Op, TensorProgram, TensorType

__all__ = ["TileFunction", "matrix_of", "tables_of", "write_function"]

Flags = list[tuple[Op, Place]]
"""Operators that flag rows, and where their flags belong."""


@dataclass(frozen=True)
class TileFunction:
    """TIR functions, and what the entry function is called with.

    Parameters
    ----------
    functions : dict of str to PrimFunc
        By name; the first is the entry.
    tables : tuple of arrays
    constants : tuple of tuples of int
        Entries of each constant of each table, in their order; more entries may follow.
    scratch : dict of str to int
        Entries of each dtype.
    takes_columns : bool
        Callers may give an input column by column.
    """

    functions: dict[str, Any]
    tables: tuple[npt.NDArray[Any], ...]
    constants: tuple[tuple[int, ...], ...]
    scratch: dict[str, int]
    takes_columns: bool = False


def write_function(
    program: TensorProgram, schedule: Schedule, machine: Machine, symbol: str = SYMBOL
) -> TileFunction:
    """Write the function of a program; ``machine/calling_convention.py`` defines its calls."""
    flat = flatten(program, schedule)
    kernel = Kernel(flat.schedule if flat else schedule, machine, symbol)
    with IRBuilder() as builder:
        _write_main(kernel, program, flat)
    subroutines = {
        name: structure.key.with_attr("global_symbol", name)
        for structure, name in kernel.subroutines.items()
    }
    scratch = {dtype: kernel.scratch[dtype].size * kernel.tile for dtype in SCRATCH}
    functions = {symbol: builder.get(), **subroutines}
    tables, constants = tables_of(kernel)
    return TileFunction(functions, tables, constants, scratch, takes_columns=flat is None)


def _write_main(k: Kernel, program: TensorProgram, flat: FlatProgram | None) -> None:
    """Write the entry function: its arguments, and the loop over tiles."""
    program = flat.program if flat else program
    types = {name: program.instructions[index].type for name, index in program.outputs.items()}
    with T.prim_func(s_tir=True):
        entry = EntryPoint(k.symbol)
        sources = {i.name: entry.pointer(storage(i.type.dtype)) for i in program.inputs}
        targets = {name: entry.pointer(storage(kind.dtype)) for name, kind in types.items()}
        k.take_pointers(lambda _, dtype: entry.pointer(dtype))
        # Entries of any column are one tile, so tiles of entries need matrices.
        words = {} if flat else {i.name: entry.word() for i in program.inputs}
        with entry.body():
            inputs = {i.name: matrix_of(sources[i.name], i.type) for i in program.inputs}
            outputs = {name: matrix_of(targets[name], kind) for name, kind in types.items()}
            k.declare_buffers()
            if flat:
                write_entries(k, flat, T.Bind(entry.rows * flat.width), inputs, outputs)
            else:
                apart = {name: ColumnPointers.at(word) for name, word in words.items()}
                _write_tiles(k, program, entry.rows, inputs, apart, outputs)
        entry.end()


def tables_of(
    k: Kernel,
) -> tuple[tuple[npt.NDArray[Any], ...], tuple[tuple[int, ...], ...]]:
    """Return the tables of constants, and that of the runtime parameters; none is empty.

    Beside them are the entries of each constant of each table.

    Positions of constants are taken first: that may add constants to the tables.
    """
    parameters = [n if isinstance(n, int) else k.tables.offset(n) for n in k.numbers]
    # One number more, since a buffer of no entries is no argument of a kernel.
    numbers = np.array([*parameters, 0], np.int32)
    tables = (*(k.tables.pack(dtype) for dtype in TABLES), numbers)
    return tables, (*(k.tables.sizes(dtype) for dtype in TABLES), ())


def _write_tiles(
    k: Kernel,
    program: TensorProgram,
    rows: Any,
    inputs: dict[str, Any],
    apart: dict[str, ColumnPointers],
    outputs: dict[str, Any],
) -> None:
    """Loop over tiles of rows."""
    with T.serial((rows + (k.tile - 1)) // k.tile) as tile:
        first = T.Bind(tile * k.tile)
        # The last tile has fewer rows; its other lanes hold leftovers.
        k.rows_live = T.Bind(tirx.min(rows - first, tirx.IntImm("int32", k.tile)))
        _Tile(k, program, first, inputs, apart, outputs).write()


def matrix_of(pointer: Any, kind: TensorType) -> RowMajorMatrix:
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
        apart: dict[str, ColumnPointers],
        outputs: dict[str, Any],
    ) -> None:
        super().__init__(kernel, program)
        self.first = first
        self.inputs = inputs
        self.apart = apart
        self.outputs = outputs
        # Turning 100 columns of float64 rows into columns took twice as long as their product.
        self.in_rows = find_row_major(kernel, program)

    def read(self, instruction: Input) -> Place:
        """Read columns that are given one by one, or else the rows of a matrix."""
        kind = instruction.type
        pointers = self.apart[instruction.name]
        place = self.kernel.take(kind.dtype, kind.shape)
        flags = self._flags(instruction)
        with T.If(pointers.given):
            with T.Then():
                self._read_apart(instruction, place, flags)
            with T.Else():
                self._read_rows(instruction, place, flags)
        if self._stays_in_rows(instruction):
            apart = ColumnsApart(pointers.given, place)
            matrix = self.inputs[instruction.name]
            return RowMajor(kind.dtype, kind.shape, matrix, self.first, apart=apart)
        return place

    def _read_apart(self, matrix: Input, place: Place, flags: Flags) -> None:
        k = self.kernel
        looked_at = {i for op, _ in flags for i in op.attributes["columns"].data.tolist()}
        columns = sorted(looked_at.union(columns_used(self.program, matrix)))
        lanes = rows_at_a_time(k, place.dtype)
        looks = [ColumnLook(k, columns, place.dtype, op, lanes) for op, _ in flags]

        def see(number: Any, values: Any, lanes: int) -> None:
            for look in looks:
                look.see(number, values, lanes)

        self.apart[matrix.name].read(k, place, self.first, columns, see)
        for look, (_, out) in zip(looks, flags, strict=True):
            look.write(out)

    def _read_rows(self, matrix: Input, place: Place, flags: Flags) -> None:
        """Transpose rows to columns; an input that is only multiplied stays in rows.

        Flags come first: one pass in the order of memory brings the rows near.
        """
        rows = self.inputs[matrix.name]
        for op, out in flags:
            flag_tile(self.kernel, out, rows, self.first, place.shape[0], op)
        columns = columns_used(self.program, matrix)
        if columns and not self._stays_in_rows(matrix):
            read_columns(self.kernel, place, rows, self.first, columns)

    def _stays_in_rows(self, matrix: Input) -> bool:
        return self.program.instructions.index(matrix) in self.in_rows

    def finish(self, name: str, place: Place) -> None:
        """Transpose columns to rows."""
        write_rows(self.kernel, self.outputs[name], self.first, place.view((place.size,)))

    def _write_op(self, position: int, op: Op) -> None:
        if op.primitive != FLAG_BEYOND:  # flags were written as the input was read
            super()._write_op(position, op)

    def _flags(self, matrix: Input) -> Flags:
        """Return the operators that flag rows by an input, and where their flags belong."""
        index = self.program.instructions.index(matrix)
        flags: Flags = []
        for position, op in enumerate(self.program.instructions):
            if isinstance(op, Op) and op.primitive == FLAG_BEYOND and index in op.operands:
                out = self.places[position] = self.room(position, op)
                flags.append((op, out))
        return flags


def write_entries(
    k: Kernel, flat: FlatProgram, entries: Any, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    """Loop over tiles of entries; the last tile overlaps with the one before.

    Fewer entries than a tile are copied into a tile and out of it.
    """
    full = tirx.IntImm("int32", k.tile)
    with T.If(entries < full):
        with T.Then():
            k.rows_live = entries
            _PartialTile(k, flat, tirx.IntImm("int32", 0), inputs, outputs).write()
        with T.Else(), T.serial((entries + (k.tile - 1)) // k.tile) as tile:
            k.rows_live = full
            # Entries of the overlap are computed twice, with the same result: each depends on
            # itself alone.
            first = T.Bind(tirx.min(tile * k.tile, entries - full))
            _FullTile(k, flat, first, inputs, outputs).write()


class _EntryTile(ProgramWriter):
    """The body for a tile of entries."""

    is_full: bool

    def __init__(
        self,
        kernel: Kernel,
        flat: FlatProgram,
        first: Any,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
    ) -> None:
        super().__init__(kernel, flat.program)
        self.width = flat.width
        self.first = first
        self.inputs = inputs
        self.outputs = outputs
        self.finished: set[str] = set()

    def constant(self, instruction: Constant) -> Place:
        """Repeat a constant of several columns along the tile."""
        # A tile holds whole rows, so the constant repeats along it without a break.
        place = super().constant(instruction)
        if place.size == 1:
            return place
        return RowVector(place.dtype, (1,), np.resize(place.numpy(), self.kernel.tile))

    def finish(self, name: str, place: Place) -> None:
        """Copy an output, unless it was written where it belongs."""
        if name not in self.finished:
            self.copy(name, place)

    def copy(self, name: str, place: Place) -> None:
        """Copy an output."""
        raise NotImplementedError

    def _write_op(self, position: int, op: Op) -> None:
        if op.primitive != FLAG_BEYOND:
            super()._write_op(position, op)
            return
        name = next(name for name, index in self.program.outputs.items() if index == position)
        entries = self.places[op.operands[0]]
        look = Look.of(self.kernel, entries.dtype, op, vectors=self.is_full)
        flag_entries(look, self.outputs[name], self.first // self.width, self.width, entries)
        self.finished.add(name)
        self.places[position] = self.kernel.constant(np.zeros(0, bool))


class _PartialTile(_EntryTile):
    """The body for fewer entries than a tile holds: they are copied."""

    is_full = False

    def read(self, instruction: Input) -> Place:
        """Copy entries in."""
        place = self.kernel.take(instruction.type.dtype, (1,))
        matrix = self.inputs[instruction.name]
        for row in live_vectors(self.kernel, self.kernel.lanes):
            self.kernel.store(place, (0,), row, matrix.load(0, beyond(self.first, row)))
        return place

    def copy(self, name: str, place: Place) -> None:
        """Copy entries out."""
        for row in live_vectors(self.kernel, self.kernel.lanes):
            entries = beyond(self.first, row)
            self.outputs[name].store(0, entries, self.kernel.load(place, (0,), row))


class _FullTile(_EntryTile):
    """The body of the loop over full tiles: entries are read and written in place."""

    is_full = True

    def read(self, instruction: Input) -> Place:
        """Return the entries themselves."""
        return in_place(self.inputs[instruction.name], self.first, instruction.type.dtype)

    def room(self, position: int, op: Op) -> Place:
        """Write an output where it belongs."""
        names = (name for name, index in self.program.outputs.items() if index == position)
        name = next(names, None)
        if name is None:
            return super().room(position, op)
        self.finished.add(name)
        return in_place(self.outputs[name], self.first, op.type.dtype)

    def copy(self, name: str, place: Place) -> None:
        """Copy an input, or a value that is two outputs."""
        target = in_place(self.outputs[name], self.first, place.dtype)
        self.kernel.map_vectors(target, (place,), lambda value: value)


def in_place(matrix: RowMajorMatrix, first: Any, dtype: str) -> InBuffer:
    """Return the entries of a matrix, from the tile's first one on, where they are."""
    return InBuffer(dtype, (1,), matrix.entries_from(first))
