"""Write a program in blocks of rows, where its values would leave the cache.

ONNX Runtime runs operator after operator over all rows. Values of many rows and hundreds of entries
each then go to memory and back. A Scan over blocks keeps them near.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hbconv.backends.onnx.writer import Tensor
from hbconv.tensor import Op, OpKind, TensorType

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter
    from hbconv.tensor import TensorProgram

__all__ = ["emit_blocks", "emit_in_blocks", "find_block"]

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
    # Trees are written anew in each form, and one product alone gains nothing.
    has_trees = any(isinstance(op, Op) and op.kind is OpKind.TREES for op in program.instructions)
    widest = max((math.prod(op.type.shape) for op in products), default=0)
    outputs = [program.instructions[index].type for index in program.outputs.values()]
    if has_trees or len(products) < 2 or widest < MIN_WIDTH:
        return 0
    if not all(output.rows for output in outputs):
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

    def emit_block(inner: GraphWriter, blocks: Sequence[Tensor]) -> list[Tensor]:
        named = zip(program.inputs, blocks, strict=True)
        return [*emit(inner, program, {given.name: block.name for given, block in named}).values()]

    given = [Tensor(inputs[x.name], x.type) for x in program.inputs]
    of_many = _scan_blocks(many, given, emit_block, rows)
    count = w.rows(inputs[program.inputs[0].name])
    names = w.choices(
        w.node("LessOrEqual", count, w.constant([rows], "int64")),
        (whole, _distinct(whole, of_whole.values())),
        (many, of_many),
        [value.type for value in of_whole.values()],
    )
    return {
        name: Tensor(written, value.type)
        for (name, value), written in zip(of_whole.items(), names, strict=True)
    }


def emit_in_blocks(
    w: GraphWriter,
    x: Tensor,
    rows: int,
    kind: TensorType,
    emit: Callable[[GraphWriter, Tensor], str],
) -> str:
    """Append what ``emit`` writes of one matrix, at once for few rows and by blocks of more."""
    whole, many = w.inner(), w.inner()
    at_once = whole.named_node(whole.fresh("result"), "Identity", emit(whole, x))

    def emit_block(inner: GraphWriter, blocks: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(emit(inner, blocks[0]), kind)]

    (by_blocks,) = _scan_blocks(many, [x], emit_block, rows)
    is_few = w.node("LessOrEqual", w.rows(x.name), w.constant([rows], "int64"))
    return w.choice(is_few, (whole, at_once), (many, by_blocks), kind)


def _distinct(w: GraphWriter, values: Iterable[Tensor]) -> list[str]:
    """Return names that this graph defines, each once: an output may be an input, or another."""
    return [w.named_node(w.fresh("result"), "Identity", value.name) for value in values]


def _scan_blocks(
    w: GraphWriter,
    inputs: Sequence[Tensor],
    emit: Callable[[GraphWriter, Sequence[Tensor]], Sequence[Tensor]],
    rows: int,
) -> list[str]:
    """Write a Scan over blocks.

    1. Blocks are of one length: the last ends in a few of the first rows, once more.
    2. The body is what ``emit`` writes.
    3. What it returns is put together, without the rows at the end.
    """
    count = w.rows(inputs[0].name)  # 1
    one = w.constant([1], "int64")
    blocks = _ceiling(w, count, w.constant([rows], "int64"))
    length = _ceiling(w, count, blocks)
    whole = w.node("Mul", blocks, length)
    more = w.node("Sub", whole, count)
    given, read = [], []
    inner = w.inner()  # 2
    for x in inputs:
        end = w.node("Slice", x.name, w.constant([0], "int64"), more)
        shape = w.node("Concat", blocks, length, w.constant(x.type.shape, "int64"), axis=0)
        given.append(w.node("Reshape", w.node("Concat", x.name, end, axis=0), shape))
        read.append(Tensor(inner.fresh("block"), TensorType(x.type.dtype, x.type.shape)))
    values = emit(inner, read)
    named = zip(_distinct(inner, values), values, strict=True)
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
