"""Tiles of entries: write a program that treats every entry alike, on entries in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.emit.program import ProgramWriter
from hbconv.backends.tvm.ops.flag_rows import Look, flag_entries
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.passes.flatten import FlatProgram
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.matrix import RowMajorMatrix
from hbconv.backends.tvm.tir.memory import InBuffer, Place, RowVector
from hbconv.tensor import Constant, Input, Op

__all__ = ["write_entries"]


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
        place = super().constant(instruction)
        if place.size == 1:
            return place
        return RowVector(place.dtype, (1,), np.resize(place.known(), self.kernel.tile))

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
        for row, entries in _runs(self.kernel, self.first):
            self.kernel.store(place, (0,), row, matrix.load(0, entries))
        return place

    def copy(self, name: str, place: Place) -> None:
        """Copy entries out."""
        for row, entries in _runs(self.kernel, self.first):
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


def _runs(k: Kernel, first: Any) -> Iterator[tuple[Any, Any]]:
    """Loop over whole vectors of live entries, then over the rest one by one.

    Yields positions in the tile, and in the matrix.
    """
    whole = k.bind(k.rows_live // k.lanes)
    with T.serial(whole) as group:
        yield tirx.Ramp(group * k.lanes, 1, k.lanes), tirx.Ramp(first + group * k.lanes, 1, k.lanes)
    with T.serial(k.rows_live - whole * k.lanes) as rest:
        yield whole * k.lanes + rest, first + whole * k.lanes + rest
