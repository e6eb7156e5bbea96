"""Marks of infinite entries, where entries are computed as they lie: a tile is marked as a whole, so that no row is looked at by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.tensor import Op, TensorProgram
from hbconv.tensor.program import Instruction, renumber

__all__ = ["MARK", "join_marks", "mark_rows"]

MARK = "mark"
"""The primitive that says of each row whether an entry of it, or of a row nearby, is infinite."""
CHAIN = ("reduce_any", "isinf")


def join_marks(program: TensorProgram) -> TensorProgram:
    """Make one primitive of outputs that say of each row whether some entry is infinite.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 2)
    >>> print(join_marks(b.program({"doubtful": b.reduce("reduce_any", b.op("isinf", x))})))
    %0 = input x : float64[n, 2]
    %1 = mark %0 : bool[n]
    return doubtful=%1
    """
    readers = Counter(
        i for op in program.instructions if isinstance(op, Op) for i in op.operands
    ) + Counter(program.outputs.values())
    chains = {
        index: chain
        for index in program.outputs.values()
        if (chain := _chain(program, index)) and all(readers[i] == 1 for i in chain)
    }
    inner = {i for chain in chains.values() for i in chain[1:]}
    kept: list[Instruction] = []
    position: dict[int, int] = {}
    for old, instruction in enumerate(program.instructions):
        if old in inner:
            continue
        marked = program.instructions[chains[old][-1]] if old in chains else None
        if isinstance(instruction, Op) and isinstance(marked, Op):
            instruction = replace(
                instruction, primitive=MARK, operands=marked.operands, attributes={}
            )
        position[old] = len(kept)
        kept.append(renumber(instruction, position))
    return TensorProgram(
        tuple(kept), {name: position[index] for name, index in program.outputs.items()}
    )


def _chain(program: TensorProgram, index: int) -> list[int]:
    """Return the positions from an output back to ``isinf``; none where it is something else."""
    chain: list[int] = []
    for primitive in CHAIN:
        op = program.instructions[index]
        while isinstance(op, Op) and op.primitive == "reshape":
            chain.append(index)
            index = op.operands[0]
            op = program.instructions[index]
        if not isinstance(op, Op) or op.primitive != primitive:
            return []
        chain.append(index)
        index = op.operands[0]
    return chain


def mark_rows(k: Kernel, matrix: Any, first: Any, width: int, place: Place, *, whole: bool) -> None:
    """Write the marks of the rows of a tile of entries, all lanes of which are live where it is whole."""
    lanes = k.lanes if whole else 1
    largest = k.register(place.dtype, literal(0, place.dtype, lanes), lanes)
    with k.vectors() if whole else k.rows() as row:
        size = k.bind(tirx.abs(k.load(place, (0,), row)))
        largest.set(tirx.Select(size > largest.get(), size, largest.get()))
    infinite = tirx.EQ(
        _largest_lane(k, largest.get(), lanes), literal(float("inf"), place.dtype, 1)
    )
    mark = k.bind(tirx.Select(infinite, literal(1, "uint8", 1), literal(0, "uint8", 1)))
    with T.serial(k.rows_live // width) as row:
        T.buffer_store(matrix, mark, [first // width + row, 0])


def _largest_lane(k: Kernel, vector: Any, lanes: int) -> Any:
    """Halve a vector without NaN until one lane is left."""
    while lanes > 1:
        lanes //= 2
        low, high = (
            k.bind(tirx.Shuffle([vector], list(range(start, start + lanes))))
            for start in (0, lanes)
        )
        vector = k.bind(tirx.Select(low > high, low, high))
    return vector
