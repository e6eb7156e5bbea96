"""Chains: what is computed entry by entry on values of one shape becomes one loop, which keeps in registers what nothing else reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.backends.tvm.ops import elementwise
from hbconv.backends.tvm.passes.outline import is_view
from hbconv.backends.tvm.tir.kernel import Kernel, Register
from hbconv.backends.tvm.tir.memory import Place, storage
from hbconv.tensor import Op, TensorProgram
from hbconv.tensor.program import Instruction

__all__ = ["Chain", "Held", "chains"]

CHAINED = frozenset({"take", *elementwise.EMITTERS} - {"sin", "cos", "tan", "asin", "pow"})
"""Primitives that are computed in vectors; the C mathematics library takes one row at a time."""
LONGEST = 16
"""Primitives of a chain: more of them gain nothing."""
REGISTERS = 2
"""Registers of a vector: two chains of dependent operations run beside each other, and their values still fit the registers."""


@dataclass(frozen=True, eq=False)
class Held(Place):
    """A value that has no memory: a register at a time, inside the loop that computes it."""

    @property
    def size(self) -> int:
        """Number of entries of scratch."""
        return 0


def chains(
    program: TensorProgram, positions: Iterable[int], rows: frozenset[int]
) -> Iterator[tuple[int, ...]]:
    """Yield positions in the order in which they are to be written; those of a tuple make one loop. ``rows`` stay where the caller has them.

    Other code ends all chains, whatever it reads, so that equal operators make equal code.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> list(chains(b.program({"y": b.op("reduce_sum", (x + x) * x, axis=0)}), range(4), frozenset()))
    [(0,), (1, 2), (3,)]
    """
    waiting: dict[tuple[int, ...], list[int]] = {}
    for position in positions:
        instruction = program.instructions[position]
        chained = (
            isinstance(instruction, Op)
            and instruction.primitive in CHAINED
            and position not in rows
            and not is_view(program, instruction)
        )
        for shape in [
            shape for shape, chain in waiting.items() if _ends(program, chain, instruction, chained)
        ]:
            yield tuple(waiting.pop(shape))
        if not chained:
            yield (position,)
            continue
        chain = waiting.setdefault(instruction.type.shape, [])
        chain.append(position)
        if len(chain) == LONGEST:
            yield tuple(waiting.pop(instruction.type.shape))
    yield from map(tuple, waiting.values())


def _ends(
    program: TensorProgram, chain: list[int], instruction: Instruction, chained: bool
) -> bool:
    """Whether a chain must be written before an instruction."""
    reads = isinstance(instruction, Op) and not set(chain).isdisjoint(instruction.operands)
    if not chained:
        return reads or not is_view(program, instruction)
    beside = (
        instruction.type.shape == program.instructions[chain[0]].type.shape
        and getattr(instruction, "primitive", "") != "take"
    )
    return reads and not beside


class Chain(Kernel):
    """A kernel inside one loop over entries and vectors of rows, for emitters that would each open such a loop of their own.

    Values pass through registers, not names: what TVM finds out about a name grows with each that it is computed from, and so does its time.
    """

    def __init__(self, kernel: Kernel, index: tuple[Any, ...], row: Any) -> None:
        vars(self).update(vars(kernel))
        self.offset, self.start = kernel.offset, kernel.start  # type: ignore[method-assign]
        self.lanes = int(row.lanes)
        self._index, self._row, self._values = index, row, dict[Place, Register]()

    @classmethod
    @contextmanager
    def over_entries(
        cls, kernel: Kernel, shape: tuple[int, ...], dtypes: set[str]
    ) -> Iterator[Chain]:
        """Open the loop, for values of the given dtypes."""
        size = max(np.dtype(storage(dtype)).itemsize for dtype in dtypes)
        with (
            kernel.over(shape) as index,
            kernel.vectors(min(kernel.lanes, REGISTERS * kernel.machine.vector // size)) as row,
        ):
            yield cls(kernel, index, row)

    @contextmanager
    def over(self, shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        """Take the entry at hand."""
        yield self._index

    @contextmanager
    def vectors(self, lanes: int = 0) -> Iterator[Any]:  # noqa: ARG002
        """Take the vector at hand."""
        yield self._row

    def load(self, place: Place, index: tuple[Any, ...], row: Any) -> Any:
        """Read a register, or memory into one; another entry from memory."""
        if index is not self._index:
            return super().load(place, index, row)
        if place not in self._values:
            self._values[place] = Register(
                storage(place.dtype), self.lanes, super().load(place, index, row)
            )
        return self._values[place].get()

    def store(self, place: Place, index: tuple[Any, ...], row: Any, value: Any) -> None:
        """Fill a register, and memory where the value lasts."""
        self._values[place] = Register(storage(place.dtype), self.lanes, value)
        if not isinstance(place, Held):
            super().store(place, index, row, self._values[place].get())
