"""Make row flags for infinite entries one primitive, which can flag a whole tile of entries."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hbconv.tensor import Op, TensorProgram
from hbconv.tensor.program import Instruction, renumber

__all__ = ["FLAG_INFINITE", "join_flags"]

FLAG_INFINITE = "flag_infinite"
"""The primitive that flags each row of which an entry, or one of a row nearby, is infinite."""
JOINED = ("reduce_any", "isinf")
"""The primitives that it replaces, from the output back; reshapes may stand between them."""


def join_flags(program: TensorProgram) -> TensorProgram:
    """Replace ``reduce_any(isinf(x))`` by one primitive where it is an output.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 2)
    >>> print(join_flags(b.program({"flagged": b.reduce("reduce_any", b.op("isinf", x))})))
    %0 = input x : float64[n, 2]
    %1 = flag_infinite %0 : bool[n]
    return flagged=%1
    """
    readers = Counter(
        i for op in program.instructions if isinstance(op, Op) for i in op.operands
    ) + Counter(program.outputs.values())
    runs = {
        index: run
        for index in program.outputs.values()
        if (run := _find_run(program, index)) and all(readers[i] == 1 for i in run)
    }
    inner = {i for run in runs.values() for i in run[1:]}
    kept: list[Instruction] = []
    position: dict[int, int] = {}
    for old, instruction in enumerate(program.instructions):
        if old in inner:
            continue
        flagged = program.instructions[runs[old][-1]] if old in runs else None
        if isinstance(instruction, Op) and isinstance(flagged, Op):
            instruction = replace(
                instruction, primitive=FLAG_INFINITE, operands=flagged.operands, attributes={}
            )
        position[old] = len(kept)
        kept.append(renumber(instruction, position))
    return TensorProgram(
        tuple(kept), {name: position[index] for name, index in program.outputs.items()}
    )


def _find_run(program: TensorProgram, index: int) -> list[int]:
    """Return the positions from an output back to ``isinf``; empty if the output is not a flag."""
    run: list[int] = []
    for primitive in JOINED:
        op = program.instructions[index]
        while isinstance(op, Op) and op.primitive == "reshape":
            run.append(index)
            index = op.operands[0]
            op = program.instructions[index]
        if not isinstance(op, Op) or op.primitive != primitive:
            return []
        run.append(index)
        index = op.operands[0]
    return run
