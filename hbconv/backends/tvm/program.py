"""Turn a TensorProgram into one function: for each tile of rows, read inputs, run every primitive, write outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm import elementwise, mathematics, movement, nearest, order, reduce, trees
from hbconv.backends.tvm.chains import Chain, Held, chains
from hbconv.backends.tvm.entry import Entry
from hbconv.backends.tvm.flat import Flat, copy_in, copy_out, flatten, lying
from hbconv.backends.tvm.kernel import ANY, SCRATCH, TABLES, Kernel, literal
from hbconv.backends.tvm.machine import Machine
from hbconv.backends.tvm.marks import MARK, mark_rows
from hbconv.backends.tvm.memory import Place, storage
from hbconv.backends.tvm.parts import piece
from hbconv.backends.tvm.pieces import cut
from hbconv.backends.tvm.row_products import Rows, by_rows, is_multiplied, scaled
from hbconv.backends.tvm.schedule import Schedule
from hbconv.backends.tvm.transpose import columns_used, read_columns, write_rows
from hbconv.tensor import Constant, Input, Op, TensorProgram, TensorType

__all__ = ["EMITTERS", "TileFunction", "write_function"]

EMITTERS: dict[str, Callable[..., None]] = {
    **elementwise.EMITTERS,
    **mathematics.EMITTERS,
    **movement.EMITTERS,
    **nearest.EMITTERS,
    **order.EMITTERS,
    **reduce.EMITTERS,
    **trees.EMITTERS,
}


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
    numbers = np.array([*(n if isinstance(n, int) else kernel.tables.offset(n) for n in kernel.numbers), 0], np.int32)
    tables = (*(kernel.tables.packed(dtype) for dtype in TABLES), numbers)
    parts = {name: structure.key.with_attr("global_symbol", name) for structure, name in kernel.parts.items()}
    return TileFunction({"__tvm_ffi_main": builder.get(), **parts}, tables, {dtype: kernel.scratch[dtype].size * schedule.tile for dtype in SCRATCH})


def _write_tiles(k: Kernel, program: TensorProgram, rows: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Loop over tiles of rows."""
    with T.serial((rows + (k.tile - 1)) // k.tile) as tile:
        first = T.Bind(tile * k.tile)
        k.rows_live = T.Bind(tirx.min(rows - first, tirx.IntImm("int32", k.tile)))
        _Tile(k, program, first, inputs, outputs).write()


def _write_entries(k: Kernel, flat: Flat, entries: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Loop over tiles of entries, the last of which overlaps with the one before; what fills none is copied in and out."""
    whole = tirx.IntImm("int32", k.tile)
    with T.If(entries < whole):
        with T.Then():
            k.rows_live = entries
            _Entries(k, flat, tirx.IntImm("int32", 0), inputs, outputs).write()
        with T.Else(), T.serial((entries + (k.tile - 1)) // k.tile) as tile:
            k.rows_live = whole
            _Lying(k, flat, T.Bind(tirx.min(tile * k.tile, entries - whole)), inputs, outputs).write()


def _matrix(pointer: Any, kind: TensorType) -> Any:
    """Let the body read or write a row-major matrix of any height and alignment."""
    shape = (ANY, int(np.prod(kind.shape)))
    return T.decl_buffer(shape, storage(kind.dtype), data=pointer, align=np.dtype(kind.dtype).itemsize)


class _Writer:
    """Writes the instructions of a program, giving scratch back as soon as a value is last used."""

    def __init__(self, kernel: Kernel, program: TensorProgram) -> None:
        self.kernel, self.program = kernel, program
        self.places: dict[int, Place] = {}
        self.owner: dict[int, int] = {}
        self.pending = Counter(i for op in program.instructions if isinstance(op, Op) for i in op.operands) + Counter(program.outputs.values())

    def read(self, instruction: Any) -> Place:
        """Return where an input lies."""
        raise NotImplementedError

    def give_back(self, name: str, place: Place) -> None:
        """Copy an output to where it belongs."""
        raise NotImplementedError

    def room(self, position: int, op: Op) -> Place:  # noqa: ARG002
        """Return where a value is to be written."""
        return self.kernel.take(op.type.dtype, op.type.shape)

    def constant(self, instruction: Constant) -> Place:
        """Return where a constant lies."""
        return self.kernel.constant(instruction.value.data)

    def write(self) -> None:
        """Write every instruction in order, those of a long program in pieces."""
        for position, instruction in enumerate(self.program.instructions):
            self.owner[position] = position
            if isinstance(instruction, Constant):
                self.places[position] = self.constant(instruction)
        rows = by_rows(self.kernel, self.program)
        for turns, apart in cut(self.program, rows):
            caller = self.kernel
            with piece(caller) if apart else nullcontext(caller) as self.kernel:
                for chain in (c for turn in turns for c in chains(self.program, turn, rows)):
                    self._place(chain)
                    self._answer(() if apart else chain)
            self.kernel = caller
            self._answer(sum(turns, ()) if apart else ())

    def _answer(self, positions: tuple[int, ...]) -> None:
        """Give back what is an output."""
        for name in (n for n, index in self.program.outputs.items() if index in positions):
            self.give_back(name, self.places[self.program.outputs[name]])
            self._release(self.program.outputs[name])

    def _place(self, positions: tuple[int, ...]) -> None:
        """Write one instruction, or several in one loop, and give back what was used for the last time."""
        ops = {position: op for position in positions if isinstance(op := self.program.instructions[position], Op)}
        if not ops:
            self.places[positions[0]] = self.read(self.program.instructions[positions[0]])
        elif len(ops) > 1:
            self._compute_together(ops)
        else:
            self._compute(positions[0], ops[positions[0]])
        for operand in (i for op in ops.values() for i in op.operands):
            self._release(operand)

    def _compute_together(self, ops: dict[int, Op]) -> None:
        """Write a chain; what is read outside it has memory."""
        inside = Counter(i for op in ops.values() for i in op.operands)
        for position, op in ops.items():
            lasting = self.pending[position] > inside[position]
            self.places[position] = self.room(position, op) if lasting else Held(op.type.dtype, op.type.shape)
        shape = next(iter(ops.values())).type.shape
        if not np.prod(shape):
            return
        with Chain.over_entries(self.kernel, shape, {self.places[i].dtype for i in (*ops, *inside)}) as chain:
            for position, op in ops.items():
                EMITTERS[op.primitive](chain, self.places[position], *(self.places[i] for i in op.operands), **op.attributes)

    def _compute(self, position: int, op: Op) -> None:
        operands = tuple(self.places[i] for i in op.operands)
        seen = scaled(op.primitive, operands) or movement.view(op.primitive, operands, op.attributes)
        if seen is not None:
            viewed = 1 if op.primitive == "expand" else 0
            self.places[position], self.owner[position] = seen, self.owner[op.operands[viewed]]
            self.pending[self.owner[position]] += self.pending[position]
            return
        self.places[position] = self.room(position, op)
        if np.prod(op.type.shape):
            EMITTERS[op.primitive](self.kernel, self.places[position], *operands, **op.attributes)

    def _release(self, position: int) -> None:
        """Count one use of a value as done."""
        owner = self.owner[position]
        self.pending[owner] -= 1
        if not self.pending[owner]:
            self.kernel.give(self.places[owner])


class _Tile(_Writer):
    """The body of the loop over tiles: rows are turned into columns, and back."""

    def __init__(self, kernel: Kernel, program: TensorProgram, first: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        super().__init__(kernel, program)
        self.first, self.inputs, self.outputs = first, inputs, outputs

    def read(self, instruction: Input) -> Place:
        """Turn rows into columns, but for an input that is only multiplied."""
        kind, matrix = instruction.type, self.inputs[instruction.name]
        if is_multiplied(self.kernel, self.program, instruction):
            return Rows(kind.dtype, kind.shape, matrix=matrix, first=self.first)
        place = self.kernel.take(kind.dtype, kind.shape)
        read_columns(self.kernel, place, matrix, self.first, columns_used(self.program, instruction))
        return place

    def give_back(self, name: str, place: Place) -> None:
        """Turn columns into rows."""
        write_rows(self.kernel, self.outputs[name], self.first, place.view((place.size,)))


class _Entries(_Writer):
    """The body for a tile of entries that is not whole."""

    whole = False

    def __init__(self, kernel: Kernel, flat: Flat, first: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
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
        mark_rows(self.kernel, self.outputs[name], self.first, self.flat.width, self.places[op.operands[0]], whole=self.whole)
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
        name = next((name for name, index in self.program.outputs.items() if index == position), None)
        if name is None:
            return super().room(position, op)
        self.there.add(name)
        return lying(self.outputs[name], self.first, op.type.dtype)

    def copy(self, name: str, place: Place) -> None:
        """Copy an input, or a value that is two outputs."""
        self.kernel.map_vectors(lying(self.outputs[name], self.first, place.dtype), (place,), lambda value: value)


class _Step(_Writer):
    """The body of an iteration, which reads and writes the state where it lies; ``changed`` tells whether a row's state is another."""

    def __init__(self, kernel: Kernel, program: TensorProgram, state: Place, given: Place, changed: Any) -> None:
        super().__init__(kernel, program)
        self.given, self.changed = {"state": state, "given": given}, changed
        self.pending.update(i for i, x in enumerate(program.instructions) if isinstance(x, Input))  # not its own to give back

    def read(self, instruction: Input) -> Place:
        """Return the matrix around the iteration."""
        return self.given[instruction.name]

    def give_back(self, name: str, place: Place) -> None:
        """Overwrite the state, at the end."""
        state, one = self.given[name], literal(1, "int32", 1)
        with self.kernel.over(state.shape) as index, self.kernel.rows() as row:
            after = self.kernel.bind(self.kernel.load(place, index, row))
            self.changed.set(tirx.Select(tirx.EQ(self.kernel.load(state, index, row), after), self.changed.get(), one))
            self.kernel.store(state, index, row, after)


def iterate(k: Kernel, out: Place, state: Place, given: Place, body: TensorProgram, steps: int) -> None:
    """Emit ``iterate``: step after step on the rows of a tile, until none of them changes."""
    k.map_vectors(out, (state,), lambda value: value)
    changed = k.variable("int32", literal(1, "int32", 1))
    with T.serial(steps), T.If(changed.get() > 0), T.Then():
        changed.set(literal(0, "int32", 1))
        _Step(k, body, out, given, changed).write()


EMITTERS["iterate"] = iterate
