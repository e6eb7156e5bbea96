"""Work: what an algorithm does for a row, and the work of each operator of a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from hbconv.target import Target
from hbconv.tensor import Constant, Op, OpKind, TensorProgram, TensorType
from hbconv.tensor.program import find_few_runs

__all__ = ["Work", "count_work", "counted_operators", "total_work", "words"]


@dataclass(frozen=True)
class Work:
    """The work of an algorithm.

    Counts are per row unless stated otherwise. A word has four bytes.

    Parameters
    ----------
    operators : float
        Primitives in all, not per row. Reshapes are free.
    elementwise : float
        Words computed by arithmetic, or copied side by side.
    takes : float
        Words read at fixed positions.
    reads : float
        Entries read at computed positions (``lookup``, ``gather``).
    multiplications : float
        Multiply-adds of matrix products, those of doubles twice.
    visits : float
        Splits that a backend's own kernel evaluates.
    tables : int
        Bytes of constants, not per row.
    temporaries : int
        Largest number of bytes in use at once.
    columns : float
        Columns that a tree kernel prepares before it decides splits.
    sums : float
        Leaf values that a tree kernel adds up.
    functions : tuple of (str, float)
        Words computed by each primitive that has a price of its own.
    spans : float
        Operators that meet a constant again in each row: one entry for each column, or of a single
        column.
    tile : int
        Least number of rows that a tree kernel computes, wanted or not.
    """

    operators: float = 0
    elementwise: float = 0
    takes: float = 0
    reads: float = 0
    multiplications: float = 0
    padding: float = 0
    visits: float = 0
    tables: int = 0
    temporaries: int = 0
    columns: float = 0
    sums: float = 0
    spans: float = 0
    functions: tuple[tuple[str, float], ...] = ()
    tile: int = 1

    def rows_at_once(self, target: Target) -> int:
        """Return the rows of one run: a typical call, in chunks where temporaries are large."""
        return min(target.rows, target.rows_at_once(self.temporaries))


def total_work(works: Sequence[Work]) -> Work:
    """Add up counts and tables of steps one after another, and take the largest temporaries.

    Examples
    --------
    >>> total = total_work([Work(takes=2, temporaries=8), Work(takes=1, temporaries=4)])
    >>> total.takes, total.temporaries
    (3, 8)
    """
    # Memory and tiles are those of the largest step, not of all together.
    summed = {field.name for field in fields(Work)} - {"temporaries", "tile", "functions"}
    return Work(
        **{name: sum(getattr(work, name) for work in works) for name in summed},
        temporaries=max(work.temporaries for work in works),
        tile=max(work.tile for work in works),
        functions=tuple(entry for work in works for entry in work.functions),
    )


WORD_BYTES = 4
# torch and ONNX Runtime copy a run of columns at once, where single columns are read one by one.
RUN_WORDS = 4
"""Words taken one by one that a run costs, whatever its length, besides the copy of its words."""
# On torch, 2 to 8 columns take 1.1 ns for each word of the row, as 16 do.
PANEL = 16
"""Words of a row that a product makes at a time; that of a single column is another function."""
COSTLY = frozenset(
    {"argmax", "bucketize", "cumsum", "logsumexp", "ordered_logsumexp", "sort", "topk"}
)
"""Primitives that are no function of the library and yet have a price of their own."""


def words(kind: TensorType) -> float:
    """Return the words of one row of a value; a narrow entry counts as one."""
    return math.prod(kind.shape) * max(1.0, np.dtype(kind.dtype).itemsize / WORD_BYTES)


def counted_operators(program: TensorProgram) -> list[Op]:
    """List the operators that are not free."""
    return [i for i in program.instructions if isinstance(i, Op) and i.kind is not OpKind.VIEW]


def count_work(program: TensorProgram, op: Op) -> Work:
    """Count the work of an operator other than trees; a repeated program counts every time.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float32", 3)
    >>> y = b.matmul(b.op("exp", x), b.constant(np.ones((3, 5)), "float32"))
    >>> program = b.program({"y": y})
    >>> count_work(program, program.instructions[-1]).multiplications
    15.0
    >>> count_work(program, program.instructions[1]).functions
    (('exp', 3.0),)
    """
    if op.body:
        return _count_repeated(op.body, op.attributes["steps"])
    operands = [program.instructions[i].type for i in op.operands]
    if op.kind is OpKind.PRODUCT:
        return _product(op, operands)
    if op.primitive == "topk_donors":
        # All squares are ranked for each column.
        return Work(operators=1, functions=(("topk", words(operands[-1])),))
    if op.kind is OpKind.TRANSCENDENTAL or op.primitive in COSTLY:
        count = max(words(op.type), words(operands[0]))
        return Work(operators=1, functions=((op.primitive, count),))
    # Zeros for all columns, and a one written for each code.
    if op.primitive == "one_hot":
        return Work(operators=4, reads=math.prod(operands[0].shape), elementwise=words(op.type))
    if op.kind is OpKind.READ:
        # What is read from the row itself is in the nearest cache.
        tables = 0 if operands[0].rows else _bytes(operands[0])
        return Work(operators=1, reads=math.prod(op.type.shape), tables=tables)
    runs = _runs(program, op)
    if runs:
        return Work(operators=runs, takes=RUN_WORDS * runs, elementwise=words(op.type))
    # A concatenation copies whole rows at a time, unlike other copies.
    if op.kind is OpKind.COPY and op.primitive != "concat":
        return Work(operators=1, takes=words(op.type))
    count = max(words(op.type), words(operands[0]))
    # 2.5e-10 s a word on torch, where adding takes 1.25e-10.
    if op.kind is OpKind.REDUCTION:
        count *= 2
    temporaries = _row_bytes(op.type, operands)
    return Work(operators=1, elementwise=count, temporaries=temporaries, spans=_spans(op, operands))


def _spans(op: Op, operands: list[TensorType]) -> int:
    """Count whether an operator meets a constant again in each row.

    Libraries then loop over rows. Only one number for several columns takes a single loop.
    """
    # ONNX Runtime loops over rows there, at 9 ns a row.
    sizes = [math.prod(kind.shape) for kind in operands if not kind.rows]
    return int(any(size > 1 or math.prod(op.type.shape) == 1 for size in sizes))


def _runs(program: TensorProgram, op: Op) -> int:
    """Count the runs that a ``take`` copies; 0 for others, and where they are many."""
    indices = program.instructions[op.operands[-1]]
    if op.primitive != "take" or not isinstance(indices, Constant):
        return 0
    x = program.instructions[op.operands[0]].type
    return len(find_few_runs(indices.value.data, x.shape[op.attributes["axis"]]))


def _product(op: Op, operands: list[TensorType]) -> Work:
    """Count multiply-adds, and the words of the row and of the result.

    The result of a search has k entries, but all points are compared.
    """
    tables = _bytes(operands[-1])
    searches = op.primitive in ("nearest", "nearest_donors")
    entries = math.prod((operands[1] if searches else op.type).shape)
    depth = 1 if searches else operands[0].shape[-1]
    # Twice as many doubles as floats take twice the vector operations.
    doubled = max(1.0, np.dtype(operands[0].dtype).itemsize / WORD_BYTES)
    # A single column is another function of the library, which does no work in vain.
    lacking = max(0, PANEL - entries * doubled) if entries > 1 else 0
    return Work(
        operators=1,
        elementwise=words(operands[0]) + words(op.type),
        multiplications=entries * depth * doubled,
        padding=lacking * depth,
        tables=tables,
        temporaries=_row_bytes(op.type, operands),
    )


def _bytes(kind: TensorType) -> int:
    return math.prod(kind.shape) * np.dtype(kind.dtype).itemsize


def _row_bytes(result: TensorType, operands: list[TensorType]) -> int:
    """Return the bytes of a row of the result and of the operands that have rows."""
    return sum(_bytes(kind) for kind in (result, *operands) if kind.rows)


def _count_repeated(body: TensorProgram, steps: int) -> Work:
    """Count a repeated program; tables and temporaries are not counted."""
    works = [count_work(body, op) for op in counted_operators(body)]
    counts = {
        unit: steps * sum(getattr(work, unit) for work in works)
        for unit in ("operators", "elementwise", "takes", "reads", "multiplications", "padding")
    }
    functions = tuple((name, steps * count) for work in works for name, count in work.functions)
    return Work(**counts, functions=functions)
