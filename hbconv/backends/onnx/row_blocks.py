"""Write a program in blocks of rows, where its values would leave the cache.

ONNX Runtime runs operator after operator over all rows. Values of many rows and hundreds of entries
each then go to memory and back. A Scan over blocks keeps them near.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hbconv.tensor import Op, OpKind

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor
    from hbconv.tensor import TensorProgram

__all__ = ["emit_in_blocks", "find_block"]

MIN_WIDTH = 64
"""Entries that a product writes for a row, from which on blocks win."""

BLOCK_ENTRIES = 1 << 18
FEWEST_ROWS = 64
MOST_ROWS = 256
"""Bounds of the rows of a block, which hold ``BLOCK_ENTRIES`` of the widest value.

For 10,000 rows, in ns a row: a Gaussian process of 1,000 points takes 10,200 to 10,900 by 64 to 256
rows and 13,700 at once. A network of 100 and 100 units takes 1,220 by 256, 1,440 by 64 and 1,900 at
once, and a machine of 2,240 vectors 26,800 by 128 and 35,200 at once. Blocks of 100 rows gain
nothing, and a Scan takes 20 us.
"""

Emit = Callable[["GraphWriter", Sequence["Tensor"]], Sequence["Tensor"]]
"""Writes the nodes that read some matrices, and returns their results."""


def find_block(program: TensorProgram) -> int:
    """Return the rows of a block, or 0 where the program is best run over all rows at once."""
    products = [
        op for op in program.instructions if isinstance(op, Op) and op.kind is OpKind.PRODUCT
    ]
    # Trees are written anew in each form, and one product alone gains nothing.
    has_trees = any(isinstance(op, Op) and op.kind is OpKind.TREES for op in program.instructions)
    widest = max((math.prod(op.type.shape) for op in products), default=0)
    outputs = [program.instructions[index].type for index in program.outputs.values()]
    if has_trees or len(products) < 2 or widest < MIN_WIDTH:
        return 0
    if not all(output.rows for output in outputs):
        return 0
    return min(MOST_ROWS, max(FEWEST_ROWS, BLOCK_ENTRIES // widest))


def emit_in_blocks(w: GraphWriter, given: Sequence[Tensor], rows: int, emit: Emit) -> list[Tensor]:
    """Append what ``emit`` writes: at once for few rows, and by blocks of more.

    Constants are those of the whole graph, so the file is hardly longer.
    """
    whole, many = w.inner(), w.inner()
    at_once = _distinct(whole, emit(whole, given))
    by_blocks = _scan_blocks(many, given, emit, rows)
    are_few = w.node("LessOrEqual", w.rows(given[0].name), w.constant([rows], "int64"))
    return w.choice(are_few, (whole, at_once), (many, by_blocks))


def _distinct(w: GraphWriter, values: Iterable[Tensor]) -> list[Tensor]:
    """Return values that this graph defines, each once: one may be an input, or another."""
    return [
        replace(value, name=w.named_node(w.fresh("result"), "Identity", value.name))
        for value in values
    ]


def _scan_blocks(w: GraphWriter, given: Sequence[Tensor], emit: Emit, rows: int) -> list[Tensor]:
    """Write a Scan over blocks.

    1. Blocks are of one length: the last ends in a few of the first rows, once more.
    2. The body is what ``emit`` writes.
    3. What it returns is put together, without the rows at the end.
    """
    count = w.rows(given[0].name)  # 1
    one = w.constant([1], "int64")
    blocks = _ceiling(w, count, w.constant([rows], "int64"))
    length = _ceiling(w, count, blocks)
    whole = w.node("Mul", blocks, length)
    more = w.node("Sub", whole, count)
    cut = []
    for x in given:
        end = w.node("Slice", x.name, w.constant([0], "int64"), more)
        shape = w.node("Concat", blocks, length, w.constant(x.type.shape, "int64"), axis=0)
        cut.append(w.node("Reshape", w.node("Concat", x.name, end, axis=0), shape))
    inner = w.inner()  # 2
    read = [replace(x, name=inner.fresh("block")) for x in given]
    results = _distinct(inner, emit(inner, read))
    found = w.scan((inner, read, results), cut, [0] * len(cut))
    zero, written = w.constant([0], "int64"), []  # 3
    for name, result in zip(found, results, strict=True):
        shape = w.node("Concat", whole, w.constant(result.shape, "int64"), axis=0)
        flat = w.node("Reshape", name, shape if result.shape else whole)
        rows_of = w.named_node(w.fresh("rows"), "Slice", flat, zero, count, zero, one)
        written.append(replace(result, name=rows_of))
    return written


def _ceiling(w: GraphWriter, x: str, y: str) -> str:
    """Write the quotient of positive whole numbers, rounded up."""
    before = w.node("Sub", w.node("Add", x, y), w.constant([1], "int64"))
    return w.node("Div", before, y)
