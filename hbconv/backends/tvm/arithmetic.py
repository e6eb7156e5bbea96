"""Arithmetic: what is computed entry by entry on values of one shape becomes one loop, which keeps values in registers as long as nothing else reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from hbconv.backends.tvm.kernel import Kernel
from hbconv.backends.tvm.memory import Place, storage
from hbconv.tensor import Op, TensorProgram
from hbconv.tensor.program import Instruction

__all__ = ["Held", "Loop", "is_fused", "loops", "reads"]

FUSED = frozenset({"add", "sub", "mul", "div", "neg", "sqrt", "abs"})
"""Plain arithmetic. LLVM takes minutes over long loops that select by conditions: those stay apart."""
REGISTERS = 2
"""Registers of a vector: two chains of dependent operations run beside each other, and their values still fit the registers."""


@dataclass(frozen=True, eq=False)
class Held(Place):
    """A value that has no memory: a register at a time, inside the loop that computes it."""

    @property
    def size(self) -> int:
        """Number of entries of scratch."""
        return 0


def reads(op: Op) -> tuple[int, ...]:
    """Return the operands whose values matter: of ``expand``, the first lends its rows alone."""
    return op.operands[1:] if op.primitive == "expand" else op.operands


def is_fused(instruction: Instruction) -> bool:
    """Whether an instruction is computed in vectors, each entry by itself."""
    return isinstance(instruction, Op) and instruction.primitive in FUSED


def loops(program: TensorProgram) -> list[tuple[int, ...]]:
    """Return the positions of a program's instructions in the order in which they are to be emitted; those of a tuple belong to one loop.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> loops(b.program({"y": b.op("reduce_sum", (x + x) * x, axis=0)}))
    [(0,), (1, 2), (3,)]
    """
    done: list[tuple[int, ...]] = []
    waiting: dict[tuple[int, ...], list[int]] = {}
    for position, instruction in enumerate(program.instructions):
        fused = is_fused(instruction)
        read = set(reads(instruction)) if isinstance(instruction, Op) else set()
        before = [s for s, group in waiting.items() if read & set(group) and not (fused and s == instruction.type.shape)]
        done += [tuple(waiting.pop(shape)) for shape in before]
        if fused:
            waiting.setdefault(instruction.type.shape, []).append(position)
        else:
            done.append((position,))
    return done + [tuple(group) for group in waiting.values()]


class Loop(Kernel):
    """A kernel inside one loop over entries and vectors of rows, for emitters that would each open such a loop of their own."""

    def __init__(self, kernel: Kernel, index: tuple[Any, ...], row: Any) -> None:
        vars(self).update(vars(kernel))
        self.lanes = int(row.lanes)
        self._index, self._row, self._values = index, row, dict[Place, Any]()

    @classmethod
    @contextmanager
    def over_entries(cls, kernel: Kernel, shape: tuple[int, ...], dtypes: set[str]) -> Iterator[Loop]:
        """Open the loop, for values of the given dtypes."""
        size = max(np.dtype(storage(dtype)).itemsize for dtype in dtypes)
        with kernel.over(shape) as index, kernel.vectors(min(kernel.lanes, REGISTERS * kernel.machine.vector // size)) as row:
            yield cls(kernel, index, row)

    def map_vectors(self, out: Place, operands: tuple[Place, ...], function: Callable[..., Any]) -> None:
        """Compute the vector at hand from those in registers and in memory; fenced, so that no product is fused with a sum of another primitive."""
        value = function(*(self._values[x] if x in self._values else self.load(x, self._index, self._row) for x in operands))
        if out.dtype.startswith("float"):
            value = tirx.call_llvm_pure_intrin(f"{out.dtype}x{self.lanes}", "llvm.arithmetic.fence", value)
        self._values[out] = self.bind(value)
        if not isinstance(out, Held):
            self.store(out, self._index, self._row, self._values[out])
