"""How many rows are better off one at a time, with vectors along their entries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.passes.outline import LARGEST_WHOLE, flatten
from hbconv.tensor import Constant, Op, OpKind, TensorProgram

__all__ = ["along_row_limit"]

MAX_ROWS = 16
"""Rows that fill the vectors of a tile."""
MIN_CYCLES = 5_000
"""Cycles of a tile below which a call spends most of its time elsewhere."""
MIN_GAIN = 2.0
"""Times that a tile must take what one row takes: two rows are worth it, or there is no loop."""
MAX_TABLE_BYTES = 1 << 30
"""Bytes of constants up to which a second loop may hold them too.

Among 80 MB of points a tile took 11 ms for a row, and a loop of its own 0.05 ms.
"""
LATENCY = 4
"""Cycles from one addition to the next that waits for it."""
BYTES_A_CYCLE = 32
"""Bytes of weights that the second-level cache gives in a cycle."""
FUNCTION = 40
"""Cycles of a function such as ``exp``, for the vectors of a tile."""
SCALAR = 2
"""Cycles of an entry that is worked on alone."""


class _Cycles(NamedTuple):
    """What a primitive takes, for a tile of rows and for one row."""

    tile: float
    row: float


def along_row_limit(program: TensorProgram, machine: Machine) -> int:
    """Return up to how many rows it is the faster; 0 where it gains little.

    Measured by ``benchmarks/few_rows.py`` on an EPYC with 64 bytes a vector, one row along its
    entries and by tiles: a support vector machine of 2,420 vectors 16 and 108 us, neighbours among
    10,000 points 19 and 137, a Gaussian process of 1,000 points 6.0 and 41, a network 4.1 and 11.
    """
    if len(program.instructions) > LARGEST_WHOLE or machine.vector <= 8:
        return 0
    ops = [op for op in program.instructions if isinstance(op, Op)]
    if any({"forest", "body"} & set(op.attributes) for op in ops) or flatten(program, Schedule()):
        return 0
    constants = (i.value.data.nbytes for i in program.instructions if isinstance(i, Constant))
    if sum(constants) > MAX_TABLE_BYTES:
        return 0
    cycles = list(_count(program, ops, machine))
    tile, row = sum(each.tile for each in cycles), sum(each.row for each in cycles)
    if tile < MIN_CYCLES or tile < MIN_GAIN * row:
        return 0
    return min(MAX_ROWS, int(tile / row))


def _count(program: TensorProgram, ops: list[Op], machine: Machine) -> Iterator[_Cycles]:
    for op in ops:
        kind = op.type
        entries = math.prod(kind.shape)
        size = _size(kind.dtype)
        lanes = machine.vector // size if kind.shape and kind.shape[-1] > 1 else 1
        if op.primitive in ("matmul", "pairwise"):
            inputs = program.instructions[op.operands[0]].type.shape[-1]
            yield _products(op, entries * inputs, inputs, size, lanes)
        elif op.primitive == "nearest":
            coordinates = math.prod(program.instructions[op.operands[1]].type.shape)
            yield _Cycles(coordinates, coordinates * 4 / BYTES_A_CYCLE)
        elif op.primitive == "nearest_donors":
            # Vectors run along the points in both.
            coordinates = math.prod(program.instructions[op.operands[1]].type.shape)
            yield _Cycles(coordinates / lanes, coordinates / lanes)
        elif op.kind is OpKind.ARITHMETIC:
            yield _Cycles(entries, entries / lanes)
        elif op.kind is OpKind.TRANSCENDENTAL:
            yield _Cycles(FUNCTION * entries, FUNCTION * entries / lanes)
        elif op.kind is not OpKind.VIEW:
            read = (program.instructions[i] for i in op.operands)
            sizes = (math.prod(i.type.shape) for i in read if not isinstance(i, Constant))
            most = max(entries, *sizes)
            yield _Cycles(most, SCALAR * most)


def _products(op: Op, terms: int, inputs: int, size: int, lanes: int) -> _Cycles:
    """Count terms of sums; one column alone waits for each of its additions."""
    steps = 3 if op.primitive == "pairwise" else 1
    if lanes == 1:
        return _Cycles(steps * terms, LATENCY * inputs)
    return _Cycles(steps * terms, max(terms * size / BYTES_A_CYCLE, steps * terms / (2 * lanes)))


def _size(dtype: str) -> int:
    return 4 if dtype in ("float32", "int32") else 8
