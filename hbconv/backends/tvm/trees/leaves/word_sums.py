"""Sums of leaf values read one by one, where the numbers of eight rows are one word.

A read of a number takes as long as one of a value. So eight numbers are read at once, and cut out
of the word in registers. Eight sums stay in registers while the values of some trees are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.leaves.tables import lay_out_by_number
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["adding_by_words"]

WORD = "uint64"
ROWS = 8
"""Rows whose numbers, bytes, are a word."""
BYTE_BITS = 8
TREES = 8
"""Trees at most whose values are added before the sums are stored; more need more registers."""

Number = Callable[[Any, Any], Any]


@contextmanager
def adding_by_words(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> Iterator[Callable[[Any, Block, Number], None]]:
    """Add the values of the leaves, one for each leaf. A place without a tree adds -0.0."""
    k.map_vectors(out, (k.constant(forest.start.data),), lambda value: value)
    yield _WordSums(k, out, forest, trees).add


class _WordSums:
    """Adds the values of a group of trees for a block of rows."""

    def __init__(self, k: Kernel, out: Place, forest: Forest, trees: Trees) -> None:
        table, first = lay_out_by_number(forest, trees, forest.values.data, -0.0)
        self.k = k
        self.out = out
        self.dtype = forest.accumulate
        self.group = trees.group
        self.values = k.constant(table)
        self.first = k.constant(first)
        self.target = k.constant(trees.targets(forest))

    def add(self, group: Any, block: Block, number: Number) -> None:
        """Add some trees after the others: whole words of rows, then the rows that are left."""
        k = self.k
        column = k.bind(k.entry(self.target, group))
        together = min(self.group, TREES)
        with T.serial(self.group // together) as part:
            trees = [k.bind(part * together + i) for i in range(together)]
            starts = [
                k.bind(tirx.Cast("int64", k.entry(self.first, group * self.group + tree)))
                for tree in trees
            ]
            places = list(zip(trees, starts, strict=True))
            words = k.bind(block.live // ROWS)
            with T.serial(words) as word:
                self._add_word(block, column, k.bind(word * ROWS), number, places)
            with T.serial(block.live - words * ROWS) as i:
                self._add_row(block, column, k.bind(words * ROWS + i), number, places)

    def _add_word(
        self, block: Block, column: Any, row: Any, number: Number, places: list[tuple[Any, Any]]
    ) -> None:
        """Add the values of eight rows."""
        k = self.k
        rows = [block.first + row + i for i in range(ROWS)]
        sums = [k.variable(self.dtype, k.load(self.out, (column,), each)) for each in rows]
        for tree, start in places:
            word = k.bind(tirx.reinterpret(WORD, number(tree, tirx.Ramp(row, 1, ROWS))))
            for i, total in enumerate(sums):
                by = tirx.IntImm(WORD, i * BYTE_BITS)
                byte = tirx.shift_right(word, by) & tirx.IntImm(WORD, 255)
                total.set(total.get() + self._value(start, byte))
        for each, total in zip(rows, sums, strict=True):
            k.store(self.out, (column,), each, total.get())

    def _add_row(
        self, block: Block, column: Any, row: Any, number: Number, places: list[tuple[Any, Any]]
    ) -> None:
        """Add the values of one row."""
        k = self.k
        total = k.load(self.out, (column,), block.first + row)
        for tree, start in places:
            total = total + self._value(start, number(tree, row))
        k.store(self.out, (column,), block.first + row, total)

    def _value(self, start: Any, number: Any) -> Any:
        """Read a value. Positions of 64 bits are added as the processor reads memory."""
        return self.k.entry(self.values, start + tirx.Cast("int64", number))
