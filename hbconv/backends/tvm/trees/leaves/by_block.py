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
from hbconv.backends.tvm.trees.leaves.shuffled_sums import adding_shuffled, max_shuffled_leaves
from hbconv.backends.tvm.trees.leaves.tables import lay_out_by_number
from hbconv.backends.tvm.trees.leaves.word_sums import adding_by_words
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["BlockLeaves", "adding", "writing"]

BYTES_APART = 256
"""Leaves that a byte tells apart: kernels hand fewer over as bytes."""
BlockLeaves = Callable[[Any, Block, Callable[[Any, Any], Any]], None]


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
    return _adding_one_by_one(k, out, forest, trees)


@contextmanager
def _adding_one_by_one(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> Iterator[BlockLeaves]:
    """Read the values row by row. A place without a tree adds -0.0, which changes no sum."""
    width = forest.values.shape[1]
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
