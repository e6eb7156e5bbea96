"""Write the instructions of a program in order: values are stored in scratch, which is reused.

Elementwise primitives of one shape become one loop, which keeps their values in registers. Programs
inside another one, as those of ``iterate``, are written by the same writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops import (
    circular,
    elementwise,
    mathematics,
    movement,
    reductions,
    sorting,
)
from hbconv.backends.tvm.ops.loops import FusedLoop
from hbconv.backends.tvm.ops.nearest import donors, heaps
from hbconv.backends.tvm.ops.nearest import emit as nearest
from hbconv.backends.tvm.ops.row_major_matmul import add_scaling
from hbconv.backends.tvm.passes.fuse_products import group_elementwise
from hbconv.backends.tvm.passes.outline import Section, outline
from hbconv.backends.tvm.tir.kernel import Kernel, Register, literal
from hbconv.backends.tvm.tir.memory import InRegister, Place
from hbconv.backends.tvm.tir.subroutines import outline_part
from hbconv.backends.tvm.trees import choose as trees
from hbconv.backends.tvm.trees.contributions import emit as contributions
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["EMITTERS", "NESTED", "ProgramWriter"]

EMITTERS: dict[str, Callable[..., None]] = {
    **elementwise.EMITTERS,
    **mathematics.EMITTERS,
    **circular.EMITTERS,
    **movement.EMITTERS,
    **nearest.EMITTERS,
    **heaps.EMITTERS,
    **donors.EMITTERS,
    **sorting.EMITTERS,
    **reductions.EMITTERS,
    **trees.EMITTERS,
    **contributions.EMITTERS,
}
"""``emit(kernel, out, *operands, **attributes)`` of each primitive."""


class ProgramWriter:
    """Writes the instructions of a program, and gives scratch back after a value's last use.

    Attributes
    ----------
    kernel : Kernel
    program : TensorProgram
    in_rows : frozenset of int
        Positions of values that are left in the caller's row-major matrix.
    places : dict of int to Place
        Where the values so far are, by position.
    owner : dict of int to int
        The position that owns a value's memory: another one for a view.
    pending : Counter
        Uses that are still to come of the memory that a position owns.
    """

    def __init__(self, kernel: Kernel, program: TensorProgram) -> None:
        self.kernel = kernel
        self.program = program
        self.in_rows: frozenset[int] = frozenset()
        self.places: dict[int, Place] = {}
        self.owner: dict[int, int] = {}
        self.pending = Counter(
            i for op in program.instructions if isinstance(op, Op) for i in op.operands
        ) + Counter(program.outputs.values())

    def read(self, instruction: Input) -> Place:
        """Return where an input is."""
        raise NotImplementedError

    def finish(self, name: str, place: Place) -> None:
        """Copy an output to where it belongs."""
        raise NotImplementedError

    def room(self, position: int, op: Op) -> Place:  # noqa: ARG002
        """Return where a value is to be written."""
        return self.kernel.take(op.type.dtype, op.type.shape)

    def constant(self, instruction: Constant) -> Place:
        """Return where a constant is."""
        return self.kernel.constant(instruction.value.data)

    def loop(self, shape: tuple[int, ...], dtypes: set[str]) -> AbstractContextManager[FusedLoop]:
        """Open a loop for elementwise primitives of one shape."""
        return FusedLoop.open(self.kernel, shape, dtypes)

    def write(self) -> None:
        """Write every instruction in order; sections of a long program become functions."""
        for position, instruction in enumerate(self.program.instructions):
            self.owner[position] = position
            if isinstance(instruction, Constant):
                self.places[position] = self.constant(instruction)
        for section in outline(self.program, self.in_rows):
            if section.outlined and self.kernel.calls_subroutines:
                self._write_outlined(section)
            else:
                self._write_inline(section)

    def write_nested(
        self, body: TensorProgram, inputs: Mapping[str, Place], finish: Callable[[Place], None]
    ) -> None:
        """Write a program of one output on given inputs; ``finish`` takes the output."""
        _Nested(self.kernel, body, inputs, finish).write()

    def _write_inline(self, section: Section) -> None:
        for positions in self._groups(section):
            self._write_group(positions)
            self._finish(positions)

    def _write_outlined(self, section: Section) -> None:
        """Write a function of its own; its caller finishes outputs, after the call."""
        caller = self.kernel
        with outline_part(caller) as self.kernel:
            for positions in self._groups(section):
                self._write_group(positions)
        self.kernel = caller
        self._finish(tuple(i for repetition in section.repetitions for i in repetition))

    def _groups(self, section: Section) -> Iterator[tuple[int, ...]]:
        for repetition in section.repetitions:
            yield from group_elementwise(self.program, repetition, self.in_rows)

    def _finish(self, positions: tuple[int, ...]) -> None:
        """Finish the outputs among some positions."""
        for name in (n for n, index in self.program.outputs.items() if index in positions):
            self.finish(name, self.places[self.program.outputs[name]])
            self._release(self.program.outputs[name])

    def _write_group(self, positions: tuple[int, ...]) -> None:
        """Write one instruction, or several in one loop, and release what they read."""
        first = self.program.instructions[positions[0]]
        if isinstance(first, Input):
            self.places[positions[0]] = self.read(first)
            return
        instructions = ((position, self.program.instructions[position]) for position in positions)
        ops = {position: op for position, op in instructions if isinstance(op, Op)}
        if len(ops) > 1:
            self._write_fused(ops)
        else:
            self._write_op(positions[0], ops[positions[0]])
        for operand in (i for op in ops.values() for i in op.operands):
            self._release(operand)

    def _write_fused(self, ops: dict[int, Op]) -> None:
        """Write a fused loop; values that are read outside it have memory."""
        inside = Counter(i for op in ops.values() for i in op.operands)
        for position, op in ops.items():
            lasts = self.pending[position] > inside[position]
            register = InRegister(op.type.dtype, op.type.shape)
            self.places[position] = self.room(position, op) if lasts else register
        shape = next(iter(ops.values())).type.shape
        if not np.prod(shape):
            return
        dtypes = {self.places[i].dtype for i in (*ops, *inside)}
        with self.loop(shape, dtypes) as loop:
            for position, op in ops.items():
                operands = (self.places[i] for i in op.operands)
                EMITTERS[op.primitive](loop, self.places[position], *operands, **op.attributes)

    def _write_op(self, position: int, op: Op) -> None:
        operands = tuple(self.places[i] for i in op.operands)
        view = add_scaling(op.primitive, operands, op.attributes) or movement.view(
            op.primitive, operands, op.attributes
        )
        if view is not None:
            self._keep_view(position, op, view)
            return
        out = self.places[position] = self.room(position, op)
        if not np.prod(op.type.shape):
            return
        if op.primitive in NESTED:
            NESTED[op.primitive](self, out, *operands, **op.attributes)
        else:
            self.write_primitive(op, out, operands)

    def write_primitive(self, op: Op, out: Place, operands: tuple[Place, ...]) -> None:
        """Write one primitive."""
        EMITTERS[op.primitive](self.kernel, out, *operands, **op.attributes)

    def _keep_view(self, position: int, op: Op, view: Place) -> None:
        """Let a view share the memory of the operand that it views."""
        viewed = op.operands[1 if op.primitive == "expand" else 0]
        owner = self.owner[viewed]
        self.places[position] = view
        self.owner[position] = owner
        # Each use of the view keeps the memory of its owner.
        self.pending[owner] += self.pending[position]

    def _release(self, position: int) -> None:
        """Count one use of a value as done."""
        owner = self.owner[position]
        self.pending[owner] -= 1
        if not self.pending[owner]:
            self.kernel.give(self.places[owner])


class _Nested(ProgramWriter):
    """The body of a program inside another one, which reads values of the outer program."""

    def __init__(
        self,
        kernel: Kernel,
        program: TensorProgram,
        inputs: Mapping[str, Place],
        finish: Callable[[Place], None],
    ) -> None:
        super().__init__(kernel, program)
        self.inputs = inputs
        self.finish_output = finish
        # One more use: an input's memory belongs to the outer program.
        self.pending.update(i for i, x in enumerate(program.instructions) if isinstance(x, Input))

    def read(self, instruction: Input) -> Place:
        """Return the value of the outer program."""
        return self.inputs[instruction.name]

    def finish(self, name: str, place: Place) -> None:  # noqa: ARG002
        """Let the outer program take the output."""
        self.finish_output(place)


def iterate(
    w: ProgramWriter, out: Place, state: Place, inputs: Place, body: TensorProgram, steps: int
) -> None:
    """Emit ``iterate``: step after step on the rows of a tile, until none of them changes."""
    k = w.kernel
    k.map_vectors(out, (state,), lambda value: value)
    changed = k.variable("int32", literal(1, "int32", 1))
    # A loop over a fixed number of steps has no exit, so steps after the last change are skipped.
    with T.serial(steps), T.If(changed.get() > 0), T.Then():
        changed.set(literal(0, "int32", 1))
        w.write_nested(
            body, {"state": out, "given": inputs}, lambda after: _overwrite(k, out, after, changed)
        )


def _overwrite(k: Kernel, state: Place, after: Place, changed: Register) -> None:
    """Overwrite the state, and set ``changed`` if an entry of a live row is another."""
    one = literal(1, "int32", 1)
    # Live rows only: leftovers past the last row might change in every step.
    with k.over(state.shape) as index, k.rows() as row:
        value = k.bind(k.load(after, index, row))
        # NaN never equals itself, so a row with NaN takes all steps.
        same = tirx.EQ(k.load(state, index, row), value)
        changed.set(tirx.Select(same, changed.get(), one))
        k.store(state, index, row, value)


NESTED: dict[str, Callable[..., None]] = {"iterate": iterate}
"""Emitters that take the program's writer in place of a kernel, to write the nested program."""
