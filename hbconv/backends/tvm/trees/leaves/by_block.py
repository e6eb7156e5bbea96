"""Leaves by the block: a kernel finds those of a block of rows in a group of trees.

Such a kernel hands over ``(group, block, number)``. ``number(tree, row)`` loads the number of the
leaf that a row, or a vector of rows, reaches in a tree of the group. Leaves are numbered by tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.leaves.row_sums import adding_to_rows
from hbconv.backends.tvm.trees.leaves.shuffled_sums import adding_shuffled, max_shuffled_leaves
from hbconv.backends.tvm.trees.leaves.tables import MIN_WIDTH, lay_out_by_number
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["BlockLeaves", "adding", "writing"]

BYTES_APART = 256
"""Leaves that a byte tells apart: kernels hand fewer over as bytes."""
BlockLeaves = Callable[[Any, Block, Callable[[Any, Any], Any]], None]
WORD = "uint64"
ROWS_PER_WORD = 8
"""Rows whose numbers, bytes, are a word."""
BYTE_BITS = 8
MAX_TREES_ADDED = 8
"""Trees at most whose values are added before the sums are stored; more need more registers."""
Number = Callable[[Any, Any], Any]


def adding(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> AbstractContextManager[BlockLeaves]:
    """Add the values of the leaves, tree after tree.

    They are found by shuffles where the trees are small, and by words of numbers where each number
    is a byte. With vectors of 64 bytes LLVM cuts words by shuffles, so there they are found one by
    one.
    """
    largest = int(trees.numbers.max(initial=0))
    alone = forest.values.shape[1] == 1
    if alone and largest < max_shuffled_leaves(k):
        return adding_shuffled(k, out, forest, trees)
    if alone and largest < BYTES_APART and not k.machine.wide_shuffles:
        return adding_by_words(k, out, forest, trees)
    if forest.values.shape[1] >= MIN_WIDTH:
        return _adding_rows(k, out, forest, trees)
    return _adding_one_by_one(k, out, forest, trees)


@contextmanager
def _adding_rows(k: Kernel, out: Place, forest: Forest, trees: Trees) -> Iterator[BlockLeaves]:
    """Add what each leaf has, row by row."""
    table, begin = lay_out_by_number(forest, trees, forest.values.data, -0.0)
    first = k.constant(begin)
    target = k.constant(trees.targets(forest))
    with adding_to_rows(k, out, forest, table) as add_leaf:

        def add(group: Any, block: Block, number: Callable[[Any, Any], Any]) -> None:
            starts = [k.bind(k.entry(first, group * trees.group + i)) for i in range(trees.group)]
            column = k.bind(k.entry(target, group))
            with block.rows() as row:
                for i, start in enumerate(starts):
                    leaf = k.bind(start + tirx.Cast("int32", number(i, row)))
                    add_leaf(column, block.first + row, leaf)

        yield add


@contextmanager
def _adding_one_by_one(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> Iterator[BlockLeaves]:
    """Read the values row by row. A place without a tree adds -0.0, which changes no sum."""
    width = forest.values.shape[1]
    # -0.0 changes no sum, not even one of -0.0, which 0.0 would.
    table, begin = lay_out_by_number(forest, trees, forest.values.data, -0.0)
    values = k.constant(table)
    first = k.constant(begin * width)
    target = k.constant(trees.targets(forest))
    k.map_vectors(out, (k.constant(forest.start.data),), lambda value: value)

    def add(group: Any, block: Block, number: Callable[[Any, Any], Any]) -> None:
        starts = [k.bind(k.entry(first, group * trees.group + i)) for i in range(trees.group)]
        column = k.bind(k.entry(target, group))
        with k.over((width,)) as (value,), block.rows() as row:
            total = k.load(out, (column + value,), block.first + row)
            # Tree after tree, so that sums round as the source's do.
            for i, start in enumerate(starts):
                entry = start + tirx.Cast("int32", number(i, row)) * width + value
                total = total + k.entry(values, entry)
            k.store(out, (column + value,), block.first + row, total)

    yield add


@contextmanager
def writing(k: Kernel, out: Place, forest: Forest, trees: Trees) -> Iterator[BlockLeaves]:
    """Write the numbers over the forest, looked up by those in the tree."""
    over_forest = np.arange(forest.n_leaves, dtype=np.int32)
    table, begin = map(k.constant, lay_out_by_number(forest, trees, over_forest, 0))

    def write(group: Any, block: Block, number: Callable[[Any, Any], Any]) -> None:
        with k.over((trees.group,)) as (i,):
            tree = k.bind(group * trees.group + i)
            first = k.bind(k.entry(begin, tree))
            with T.If(tree < k.number(forest.n_trees)), T.Then(), block.rows() as row:
                leaf = k.entry(table, first + tirx.Cast("int32", number(i, row)))
                k.store(out, (tree,), block.first + row, leaf)

    yield write


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
        together = min(self.group, MAX_TREES_ADDED)
        with T.serial(self.group // together) as part:
            trees = [k.bind(part * together + i) for i in range(together)]
            starts = [
                k.bind(tirx.Cast("int64", k.entry(self.first, group * self.group + tree)))
                for tree in trees
            ]
            places = list(zip(trees, starts, strict=True))
            # A word past the last live row would add to sums of no row.
            words = k.bind(block.live // ROWS_PER_WORD)
            with T.serial(words) as word:
                self._add_word(block, column, k.bind(word * ROWS_PER_WORD), number, places)
            with T.serial(block.live - words * ROWS_PER_WORD) as i:
                self._add_row(block, column, k.bind(words * ROWS_PER_WORD + i), number, places)

    def _add_word(
        self, block: Block, column: Any, row: Any, number: Number, places: list[tuple[Any, Any]]
    ) -> None:
        """Add the values of eight rows."""
        k = self.k
        rows = [block.first + row + i for i in range(ROWS_PER_WORD)]
        sums = [k.variable(self.dtype, k.load(self.out, (column,), each)) for each in rows]
        for tree, start in places:
            word = k.bind(tirx.reinterpret(WORD, number(tree, tirx.Ramp(row, 1, ROWS_PER_WORD))))
            for i, total in enumerate(sums):
                # The first row is the lowest byte of the word, as all levels are little-endian.
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
