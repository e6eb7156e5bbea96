"""Turn a TensorProgram into one function: for each tile of rows, read inputs, run every primitive, write outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.program import Writer
from hbconv.backends.tvm.ops.row_major_matmul import Rows, by_rows
from hbconv.backends.tvm.passes.flatten import Flat, copy_in, copy_out, flatten, lying
from hbconv.backends.tvm.passes.mark_infinite import MARK, mark_rows
from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.target.schedule import Schedule
from hbconv.backends.tvm.tir.entry_point import Entry
from hbconv.backends.tvm.tir.kernel import ANY, SCRATCH, TABLES, Kernel
from hbconv.backends.tvm.tir.memory import Place, storage
from hbconv.backends.tvm.tir.transpose import columns_used, read_columns, write_rows
from hbconv.tensor import Constant, Input, Op, TensorProgram, TensorType

__all__ = ["TileFunction", "write_function"]


@dataclass(frozen=True)
class TileFunction:
    """TIR functions by name, the one to call first, and what to call it with: its tables, and how many entries of scratch of each dtype."""

    functions: dict[str, Any]
    tables: tuple[npt.NDArray[Any], ...]
    scratch: dict[str, int]


def write_function(program: TensorProgram, schedule: Schedule, machine: Machine) -> TileFunction:
    """Write the function ``main(rows, addresses)``: addresses of inputs, outputs, tables and scratch, in this order."""
    flat = flatten(program, schedule)
    if flat:
        program, schedule = flat.program, flat.schedule
    kernel = Kernel(schedule, machine)
    types = {name: program.instructions[index].type for name, index in program.outputs.items()}
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        entry = Entry("main")
        sources = {i.name: entry.pointer(storage(i.type.dtype)) for i in program.inputs}
        targets = {name: entry.pointer(storage(kind.dtype)) for name, kind in types.items()}
        kernel.take_pointers(lambda _, dtype: entry.pointer(dtype))
        with entry.body():
            inputs = {i.name: _matrix(sources[i.name], i.type) for i in program.inputs}
            outputs = {name: _matrix(targets[name], kind) for name, kind in types.items()}
            kernel.declare_buffers()
            if flat:
                _write_entries(kernel, flat, T.Bind(entry.rows * flat.width), inputs, outputs)
            else:
                _write_tiles(kernel, program, entry.rows, inputs, outputs)
        entry.end()
    numbers = np.array(
        [*(n if isinstance(n, int) else kernel.tables.offset(n) for n in kernel.numbers), 0],
        np.int32,
    )
    tables = (*(kernel.tables.packed(dtype) for dtype in TABLES), numbers)
    parts = {
        name: structure.key.with_attr("global_symbol", name)
        for structure, name in kernel.parts.items()
    }
    return TileFunction(
        {"__tvm_ffi_main": builder.get(), **parts},
        tables,
        {dtype: kernel.scratch[dtype].size * schedule.tile for dtype in SCRATCH},
    )


def _write_tiles(
    k: Kernel, program: TensorProgram, rows: Any, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    """Loop over tiles of rows."""
    with T.serial((rows + (k.tile - 1)) // k.tile) as tile:
        first = T.Bind(tile * k.tile)
        k.rows_live = T.Bind(tirx.min(rows - first, tirx.IntImm("int32", k.tile)))
        _Tile(k, program, first, inputs, outputs).write()


def _write_entries(
    k: Kernel, flat: Flat, entries: Any, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    """Loop over tiles of entries, the last of which overlaps with the one before; what fills none is copied in and out."""
    whole = tirx.IntImm("int32", k.tile)
    with T.If(entries < whole):
        with T.Then():
            k.rows_live = entries
            _Entries(k, flat, tirx.IntImm("int32", 0), inputs, outputs).write()
        with T.Else(), T.serial((entries + (k.tile - 1)) // k.tile) as tile:
            k.rows_live = whole
            _Lying(
                k, flat, T.Bind(tirx.min(tile * k.tile, entries - whole)), inputs, outputs
            ).write()


def _matrix(pointer: Any, kind: TensorType) -> Any:
    """Let the body read or write a row-major matrix of any height and alignment."""
    shape = (ANY, int(np.prod(kind.shape)))
    return T.decl_buffer(
        shape, storage(kind.dtype), data=pointer, align=np.dtype(kind.dtype).itemsize
    )


class _Tile(Writer):
    """The body of the loop over tiles: rows are turned into columns, and back."""

    def __init__(
        self,
        kernel: Kernel,
        program: TensorProgram,
        first: Any,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
    ) -> None:
        super().__init__(kernel, program)
        self.first, self.inputs, self.outputs, self.rows = (
            first,
            inputs,
            outputs,
            by_rows(kernel, program),
        )

    def read(self, instruction: Input) -> Place:
        """Turn rows into columns, but for an input that is only multiplied."""
        kind, matrix = instruction.type, self.inputs[instruction.name]
        if self.program.instructions.index(instruction) in self.rows:
            return Rows(kind.dtype, kind.shape, matrix=matrix, first=self.first)
        place = self.kernel.take(kind.dtype, kind.shape)
        read_columns(
            self.kernel, place, matrix, self.first, columns_used(self.program, instruction)
        )
        return place

    def give_back(self, name: str, place: Place) -> None:
        """Turn columns into rows."""
        write_rows(self.kernel, self.outputs[name], self.first, place.view((place.size,)))


class _Entries(Writer):
    """The body for a tile of entries that is not whole."""

    whole = False

    def __init__(
        self,
        kernel: Kernel,
        flat: Flat,
        first: Any,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
    ) -> None:
        super().__init__(kernel, flat.program)
        self.flat, self.first, self.inputs, self.outputs = flat, first, inputs, outputs
        self.there: set[str] = set()

    def read(self, instruction: Input) -> Place:
        """Copy a run of entries."""
        place = self.kernel.take(instruction.type.dtype, (1,))
        copy_in(self.kernel, place, self.inputs[instruction.name], self.first)
        return place

    def give_back(self, name: str, place: Place) -> None:
        """Copy a run of entries."""
        if name not in self.there:
            self.copy(name, place)

    def copy(self, name: str, place: Place) -> None:
        """Copy an output that is not there yet."""
        copy_out(self.kernel, self.outputs[name], self.first, place)

    def _compute(self, position: int, op: Op) -> None:
        if op.primitive != MARK:
            super()._compute(position, op)
            return
        name = next(name for name, index in self.program.outputs.items() if index == position)
        mark_rows(
            self.kernel,
            self.outputs[name],
            self.first,
            self.flat.width,
            self.places[op.operands[0]],
            whole=self.whole,
        )
        self.there.add(name)
        self.places[position] = self.kernel.constant(np.zeros(0, bool))

    def constant(self, instruction: Constant) -> Place:
        """Repeat it along the tile."""
        return self.flat.constant(super().constant(instruction))


class _Lying(_Entries):
    """The body of the loop over whole tiles of entries: they are read and written where they lie."""

    whole = True

    def read(self, instruction: Input) -> Place:
        """Return the entries themselves."""
        return lying(self.inputs[instruction.name], self.first, instruction.type.dtype)

    def room(self, position: int, op: Op) -> Place:
        """Write an output where it belongs."""
        name = next(
            (name for name, index in self.program.outputs.items() if index == position), None
        )
        if name is None:
            return super().room(position, op)
        self.there.add(name)
        return lying(self.outputs[name], self.first, op.type.dtype)

    def copy(self, name: str, place: Place) -> None:
        """Copy an input, or a value that is two outputs."""
        self.kernel.map_vectors(
            lying(self.outputs[name], self.first, place.dtype), (place,), lambda value: value
        )
