"""Trees by select: every test of every tree is decided, and what the tests say picks the leaves. No row takes a branch of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.tables import Bins, make_bins
from hbconv.backends.tvm.trees.bitwise import tables as bit_tables
from hbconv.backends.tvm.trees.bitwise.emit import BitSelect
from hbconv.backends.tvm.trees.bitwise.planes import BYTES, ROWS, make_masks
from hbconv.backends.tvm.trees.bytewise import tables as byte_tables
from hbconv.backends.tvm.trees.bytewise.emit import ByteSelect
from hbconv.backends.tvm.trees.leaf_values import Trees, adder, by_number
from hbconv.forest import Forest

__all__ = ["find_select", "leaves", "scores"]

MASKS_PER_TEST = 1.25
"""Planes of masks for each test up to which they are sooner made than as many tests decided on bytes."""
MASKS_PER_SET = 100
"""The same for each category set, which on bytes is looked up row by row."""
MOST_LEAVES = 256
"""Leaves of a tree that a byte tells apart."""


def scores(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_scores``: sums in the source's order, for trees of one output and then the next."""
    how = find_select(k, forest, x.dtype)
    order = np.argsort(forest.target.data, kind="stable")
    parts = [
        _padded(order[forest.target.data[order] == output], how.group)
        for output in np.unique(forest.target.data)
    ]
    trees = Trees(np.concatenate([np.zeros(0, np.int64), *parts]), how.group, how.number)
    sums = adder(k, out, forest, trees)
    sums.begin()
    how.evaluate(k, x, trees.order, sums.add)
    sums.end()


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``: the number of the exit leaf of each tree."""
    how = find_select(k, forest, x.dtype)
    trees = Trees(_padded(np.arange(forest.n_trees), how.group), how.group, how.number)
    table, first = map(
        k.constant, by_number(forest, trees, np.arange(forest.n_leaves, dtype=np.int32), 0)
    )

    def store(group: Any, block: Any, number: Any) -> None:
        with k.over((how.group,)) as (i,):
            tree = k.bind(group * how.group + i)
            begin = k.bind(k.entry(first, tree))
            with T.If(tree < k.number(forest.n_trees)), T.Then(), block.rows() as row:
                k.store(
                    out,
                    (tree,),
                    block.first + row,
                    k.entry(table, begin + tirx.Cast("int32", number(i, row))),
                )

    how.evaluate(k, x, trees.order, store)


def find_select(k: Kernel, forest: Forest, dtype: str) -> BitSelect | ByteSelect:
    """Choose between bit planes and bytes: one for each threshold pays if most are tested more than once, and fits only so many times; one for a set always."""
    bins = _bins(forest, dtype)
    masks = make_masks(bins)
    small = (
        int(np.diff(forest.first_leaf.data).max(initial=1)) <= MOST_LEAVES
        and masks.first_set * BYTES <= k.machine.level2 // 2
    )
    if (
        small
        and k.schedule.block == ROWS
        and masks.first_set <= MASKS_PER_TEST * forest.n_tests + MASKS_PER_SET * bins.sets.count
    ):
        return BitSelect(forest, bins, bit_tables.group_of(forest))
    return ByteSelect(forest, bins, byte_tables.group_of(forest))


@lru_cache(maxsize=2)
def _bins(forest: Forest, dtype: str) -> Bins:
    return make_bins(forest, dtype)


def _padded(trees: npt.NDArray[Any], group: int) -> npt.NDArray[Any]:
    """Fill the last group."""
    return np.concatenate([trees, np.full(-len(trees) % group, -1, np.int64)])
