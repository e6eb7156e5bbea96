"""Write a program in blocks of rows, where its values would leave the cache.

ONNX Runtime runs operator after operator over all rows. Values of many rows and hundreds of entries
each then go to memory and back. A Scan over blocks keeps them near.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hbconv.backends.onnx.writer import Tensor
from hbconv.tensor import Op, OpKind, TensorType

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter
    from hbconv.tensor import TensorProgram

__all__ = ["emit_blocks", "find_block"]

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

Emit = Callable[["GraphWriter", "TensorProgram", Mapping[str, str]], dict[str, Tensor]]


def find_block(program: TensorProgram) -> int:
    """Return the rows of a block, or 0 where the program is best run over all rows at once."""
    products = [
        op for op in program.instructions if isinstance(op, Op) and op.kind is OpKind.PRODUCT
    ]
    widest = max((math.prod(op.type.shape) for op in products), default=0)
    outputs = [program.instructions[index].type for index in program.outputs.values()]
    if widest < MIN_WIDTH or not all(output.rows for output in outputs):
        return 0
    return min(MOST_ROWS, max(FEWEST_ROWS, BLOCK_ENTRIES // widest))


def emit_blocks(
    w: GraphWriter, program: TensorProgram, inputs: Mapping[str, str], emit: Emit
) -> dict[str, Tensor]:
    """Append what ``emit`` writes of a program: twice, for few rows and for a block of many.

    Constants are those of the whole graph, so the file is hardly longer.
    """
    rows = find_block(program)
    if not rows:
        return emit(w, program, inputs)
    whole, many = w.inner(), w.inner()
    of_whole = emit(whole, program, inputs)
    of_many = _emit_scan(many, program, inputs, emit, rows)
    count = w.rows(inputs[program.inputs[0].name])
    names = w.choices(
        w.node("LessOrEqual", count, w.constant([rows], "int64")),
        (whole, _distinct(whole, of_whole)),
        (many, of_many),
        [value.type for value in of_whole.values()],
    )
    return {
        name: Tensor(written, value.type)
        for (name, value), written in zip(of_whole.items(), names, strict=True)
    }


def _distinct(w: GraphWriter, values: Mapping[str, Tensor]) -> list[str]:
    """Return names that this graph defines, each once: an output may be an input, or another."""
    return [w.named_node(w.fresh("result"), "Identity", value.name) for value in values.values()]


def _emit_scan(
    w: GraphWriter, program: TensorProgram, inputs: Mapping[str, str], emit: Emit, rows: int
) -> list[str]:
    """Write a Scan over blocks.

    1. Blocks are of one length: the last ends in a few of the first rows, once more.
    2. The body is the program.
    3. What it returns is put together, without the rows at the end.
    """
    count = w.rows(inputs[program.inputs[0].name])  # 1
    one = w.constant([1], "int64")
    blocks = _ceiling(w, count, w.constant([rows], "int64"))
    length = _ceiling(w, count, blocks)
    whole = w.node("Mul", blocks, length)
    more = w.node("Sub", whole, count)
    given, read = [], []
    inner = w.inner()  # 2
    for source in program.inputs:
        x = inputs[source.name]
        end = w.node("Slice", x, w.constant([0], "int64"), more)
        shape = w.node("Concat", blocks, length, w.constant(source.type.shape, "int64"), axis=0)
        given.append(w.node("Reshape", w.node("Concat", x, end, axis=0), shape))
        read.append(Tensor(inner.fresh("block"), TensorType(source.type.dtype, source.type.shape)))
    of_block = {source.name: x.name for source, x in zip(program.inputs, read, strict=True)}
    values = emit(inner, program, of_block)
    named = zip(_distinct(inner, values), values.values(), strict=True)
    results = [Tensor(name, value.type) for name, value in named]
    found = w.scans((inner, read, results), given, [0] * len(given))
    zero, written = w.constant([0], "int64"), []  # 3
    for name, result in zip(found, results, strict=True):
        shape = w.node("Concat", whole, w.constant(result.shape, "int64"), axis=0)
        flat = w.node("Reshape", name, shape if result.shape else whole)
        written.append(w.named_node(w.fresh("rows"), "Slice", flat, zero, count, zero, one))
    return written


def _ceiling(w: GraphWriter, x: str, y: str) -> str:
    """Write the quotient of positive whole numbers, rounded up."""
    before = w.node("Sub", w.node("Add", x, y), w.constant([1], "int64"))
    return w.node("Div", before, y)
