"""Write the instructions of a program, one after another: values lie in scratch, which is reused as they die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops import elementwise, mathematics, movement
from hbconv.backends.tvm.ops import reductions as reduce
from hbconv.backends.tvm.ops import sorting as order
from hbconv.backends.tvm.ops.nearest import emit as nearest
from hbconv.backends.tvm.ops.row_major_matmul import scaled
from hbconv.backends.tvm.passes.outline import cut
from hbconv.backends.tvm.tir.fused_loop import Chain, Held, chains
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.subroutines import piece
from hbconv.backends.tvm.trees import choose as trees
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["EMITTERS", "Writer"]

EMITTERS: dict[str, Callable[..., None]] = {
    **elementwise.EMITTERS,
    **mathematics.EMITTERS,
    **movement.EMITTERS,
    **nearest.EMITTERS,
    **order.EMITTERS,
    **reduce.EMITTERS,
    **trees.EMITTERS,
}


class Writer:
    """Writes the instructions of a program, giving scratch back as soon as a value is last used; ``rows`` are left where the caller has them."""

    def __init__(self, kernel: Kernel, program: TensorProgram) -> None:
        self.kernel, self.program = kernel, program
        self.rows: frozenset[int] = frozenset()
        self.places: dict[int, Place] = {}
        self.owner: dict[int, int] = {}
        self.pending = Counter(
            i for op in program.instructions if isinstance(op, Op) for i in op.operands
        ) + Counter(program.outputs.values())

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
        for turns, apart in cut(self.program, self.rows):
            caller = self.kernel
            with piece(caller) if apart else nullcontext(caller) as self.kernel:
                for chain in (c for turn in turns for c in chains(self.program, turn, self.rows)):
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
        ops = {
            position: op
            for position in positions
            if isinstance(op := self.program.instructions[position], Op)
        }
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
            self.places[position] = (
                self.room(position, op) if lasting else Held(op.type.dtype, op.type.shape)
            )
        shape = next(iter(ops.values())).type.shape
        if not np.prod(shape):
            return
        with Chain.over_entries(
            self.kernel, shape, {self.places[i].dtype for i in (*ops, *inside)}
        ) as chain:
            for position, op in ops.items():
                EMITTERS[op.primitive](
                    chain,
                    self.places[position],
                    *(self.places[i] for i in op.operands),
                    **op.attributes,
                )

    def _compute(self, position: int, op: Op) -> None:
        operands = tuple(self.places[i] for i in op.operands)
        seen = scaled(op.primitive, operands) or movement.view(
            op.primitive, operands, op.attributes
        )
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


class _Step(Writer):
    """The body of an iteration, which reads and writes the state where it lies; ``changed`` tells whether a row's state is another."""

    def __init__(
        self, kernel: Kernel, program: TensorProgram, state: Place, given: Place, changed: Any
    ) -> None:
        super().__init__(kernel, program)
        self.given, self.changed = {"state": state, "given": given}, changed
        self.pending.update(
            i for i, x in enumerate(program.instructions) if isinstance(x, Input)
        )  # not its own to give back

    def read(self, instruction: Input) -> Place:
        """Return the matrix around the iteration."""
        return self.given[instruction.name]

    def give_back(self, name: str, place: Place) -> None:
        """Overwrite the state, at the end."""
        state, one = self.given[name], literal(1, "int32", 1)
        with self.kernel.over(state.shape) as index, self.kernel.rows() as row:
            after = self.kernel.bind(self.kernel.load(place, index, row))
            self.changed.set(
                tirx.Select(
                    tirx.EQ(self.kernel.load(state, index, row), after), self.changed.get(), one
                )
            )
            self.kernel.store(state, index, row, after)


def iterate(
    k: Kernel, out: Place, state: Place, given: Place, body: TensorProgram, steps: int
) -> None:
    """Emit ``iterate``: step after step on the rows of a tile, until none of them changes."""
    k.map_vectors(out, (state,), lambda value: value)
    changed = k.variable("int32", literal(1, "int32", 1))
    with T.serial(steps), T.If(changed.get() > 0), T.Then():
        changed.set(literal(0, "int32", 1))
        _Step(k, body, out, given, changed).write()


EMITTERS["iterate"] = iterate
