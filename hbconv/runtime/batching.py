"""Chunks of rows: a call of many rows stays within its memory, and within the cache."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Arrays
from hbconv.optimize.program_cost import program_seconds
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram
from hbconv.tensor.program import Instruction, last_uses

__all__ = [
    "answer_chunks",
    "bytes_alive",
    "bytes_given",
    "bytes_per_row",
    "rows_in_time",
    "rows_per_chunk",
    "run_in_chunks",
]

T = TypeVar("T")
RUN_SECONDS = 0.5
"""Time of one run: that until Ctrl-C is heard."""
FULL_RUN = 256
"""Rows below which runs waste time: reference codes half as many rows in runs of 80 as of 402."""
PARTS_OF_CACHE = 4
"""Share of the cache that values of programs without trees take.

By 8 MB in place of 32, 10,000 rows took 0.55 to 1.14 of the time on torch, and 0.44 to 1 by numpy:
Gaussian processes, kernel machines, k-means, a network, a linear model and a PCA. By 2 MB, forests
took 1.4 to 2 times as long (Zen 4, 1 and 32 MB of cache, busy).
"""
DISTANCES = 3
"""Matrices of distances that are alive while one is computed: a sum, a term, and their sum."""


def bytes_per_row(program: TensorProgram, device: str = "cpu") -> int:
    """Return the bytes of one row in all values of a program: an upper bound, if none is freed.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_per_row(b.program({"y": x + x}))
    48
    """
    return sum(_row_bytes(program, instruction, device) for instruction in program.instructions)


def bytes_given(program: TensorProgram) -> int:
    """Bytes that one row takes in the inputs and outputs of a program, at least one.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_given(b.program({"y": -(-(x + x))}))
    48
    """
    return max(
        1,
        sum(i.type.row_bytes for i in program.inputs)
        + sum(program.instructions[i].type.row_bytes for i in program.outputs.values()),
    )


def bytes_alive(program: TensorProgram, device: str = "cpu") -> int:
    """Return the most bytes of one row that are alive at once, without the caller's inputs.

    Each value is freed after its last use.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_alive(b.program({"y": -(-(x + x))}))
    48
    """
    # A value lives until its last use, so the peak is below the sum of all.
    last = last_uses(program)
    alive = most = 0
    ending: dict[int, int] = {}
    for position, op in enumerate(program.instructions):
        if isinstance(op, Op):
            most = max(most, alive + _row_bytes(program, op, device))
            result = op.type.row_bytes
            alive += result
            end = last.get(position, position)
            ending[end] = ending.get(end, 0) + result
        alive -= ending.pop(position, 0)
    return most


def rows_per_chunk(program: TensorProgram, target: Target) -> int:
    """Rows of which the values fit in memory, and the living ones in the cache.

    Trees fill the cache; other programs a part, from which the next operator reads.
    """
    has_trees = any(isinstance(op, Op) and op.kind is OpKind.TREES for op in program.instructions)
    parts = 1 if has_trees or target.device != "cpu" else PARTS_OF_CACHE
    return min(
        max(1, target.memory // max(1, bytes_per_row(program, target.device))),
        target.rows_at_once(parts * bytes_alive(program, target.device)),
    )


def rows_in_time(program: TensorProgram, target: Target) -> int:
    """Rows that one run answers within half a second, as far as that is predicted.

    Python looks at signals between two runs, so that Ctrl-C ends a call of many rows. Every row is
    taken to need all rounds of a repeated program. Few rows do, so runs get up to 256 rows
    where these take ten times as long at most.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 1000)
    >>> 10_000 < rows_in_time(b.program({"y": b.op("exp", x)}), Target("torch")) < 10_000_000
    True
    """
    seconds = program_seconds(program, target) / target.rows
    if target.device != "cpu" or not 0 < seconds < math.inf:
        return sys.maxsize
    rows = int(RUN_SECONDS / seconds)
    return max(1, rows, min(FULL_RUN, int(10 * RUN_SECONDS / seconds)))


def answer_chunks(rows: int, size: int, answer: Callable[[slice], T]) -> list[T]:
    """Return the answer of each slice of the rows; of one empty slice where there are none.

    Examples
    --------
    >>> answer_chunks(5, 2, lambda chunk: (chunk.start, chunk.stop))
    [(0, 2), (2, 4), (4, 5)]
    """
    # No rows are one empty chunk, so that a program gives outputs of the right shape.
    starts = range(0, max(rows, 1), size)
    return [answer(slice(start, min(start + size, rows))) for start in starts]


def run_in_chunks(
    run: Callable[[Arrays], dict[str, npt.NDArray[Any]]], inputs: Arrays, size: int
) -> dict[str, npt.NDArray[Any]]:
    """Run a program on its inputs, chunk by chunk where the rows are many, and join its outputs.

    Examples
    --------
    >>> run_in_chunks(lambda inputs: {"y": -inputs["x"]}, {"x": np.arange(5)}, 2)
    {'y': array([ 0, -1, -2, -3, -4])}
    """
    rows = len(next(iter(inputs.values()), ()))
    # One run needs no slices, and no join.
    if rows <= size:
        return run(inputs)
    parts = answer_chunks(
        rows, size, lambda chunk: run({name: array[chunk] for name, array in inputs.items()})
    )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _row_bytes(program: TensorProgram, instruction: Instruction, device: str) -> int:
    """Return the bytes of one row of a value, and of what computes it."""
    work = _work_bytes(program, instruction, device) if isinstance(instruction, Op) else 0
    return work + instruction.type.row_bytes


def _work_bytes(program: TensorProgram, op: Op, device: str) -> int:
    """Return the bytes of one row that an operator holds beside its result.

    A native tree kernel adds a leaf number and a value for each tree; those of a GPU add a code for
    each column, and chunk what else they hold. A repeated program adds all its values. Distances
    are sums of terms, and the nearest points are found among all distances.
    """
    if op.kind is OpKind.TREES:
        forest = op.attributes["forest"]
        return int(16 * forest.n_trees if device == "cpu" else forest.n_features)
    if op.body:
        return bytes_per_row(op.body, device)
    if op.primitive not in ("pairwise", "nearest", "nearest_donors", "topk_donors"):
        return 0
    points = program.instructions[op.operands[-1]].type
    return DISTANCES * np.dtype(points.dtype).itemsize * points.shape[0]
