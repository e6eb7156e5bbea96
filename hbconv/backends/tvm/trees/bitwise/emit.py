"""Emit trees by select on bit planes: every split of every tree for all rows of a block at once.

The model is data; the code is a few loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, beyond
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, blocks
from hbconv.backends.tvm.trees.bins.emit import write_bins
from hbconv.backends.tvm.trees.bitwise.category_planes import write_sets
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_ROWS, WIDE_PLANE_ROWS, make_masks
from hbconv.backends.tvm.trees.bitwise.planes import BYTE_BITS, Planes, write_masks
from hbconv.backends.tvm.trees.bitwise.program import Codes, Runner
from hbconv.backends.tvm.trees.bitwise.tables import BitTables, choose_group, make_bit_tables
from hbconv.backends.tvm.trees.byte_columns import ByteColumns, byte_columns
from hbconv.backends.tvm.trees.leaves import by_block
from hbconv.backends.tvm.trees.leaves.by_block import BlockLeaves
from hbconv.backends.tvm.trees.split_columns import write_classes
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees

__all__ = ["Bitwise"]

PLANES_ALLOCATED = 1024
"""Memory is for a multiple of so many planes: models that differ by a few share a kernel."""
MAX_MASKS_PER_SPLIT = 1.25
"""Masks for each split up to which they are sooner made than as many splits decided on bytes."""
MAX_MASKS_PER_SET = 100
"""The same for each category set, which on bytes is looked up row by row."""
MAX_LEAVES = 256
"""Leaves of a tree that a byte tells apart."""


@dataclass(frozen=True)
class Bitwise(TreeKernel):
    """Decides all splits of a forest on planes, then joins planes to the codes of leaves.

    Parameters
    ----------
    trees_together : int
        Trees of a group; 0 for as many as suit the forest.
    """

    trees_together: int = 0

    name: ClassVar[str] = "bitwise"
    form: ClassVar[LeafForm] = by_block
    binned: ClassVar[bool] = True

    def fits(self, task: TreeTask) -> bool:
        """Ask for a strategy that decides all splits, small trees and repeated thresholds.

        A plane for each threshold pays only then; one for a category set pays always. They must fit
        half of the second-level cache.
        """
        if task.strategy != "select" or task.schedule.block != PLANE_ROWS:
            return False
        n_masks = make_masks(task.bins).first_set
        worth = MAX_MASKS_PER_SPLIT * task.forest.n_tests
        worth += MAX_MASKS_PER_SET * task.bins.sets.count
        largest = int(np.diff(task.forest.first_leaf.data).max(initial=1))
        in_cache = n_masks * PLANE_ROWS // BYTE_BITS <= task.machine.level2 // 2
        return largest <= MAX_LEAVES and in_cache and n_masks <= worth

    def group(self, task: TreeTask) -> int:
        """Return how many trees are evaluated together."""
        return self.trees_together or choose_group(task.forest)

    def numbers(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Return the code of each leaf: a bit for each split of the leaves of its tree."""
        return task.leaf_splits.codes(task.forest.n_leaves)

    def tables(self, task: TreeTask, trees: Trees) -> BitTables:
        """Return the program over planes."""
        return make_bit_tables(task.forest, task.bins, task.leaf_splits, trees)

    def find_leaves(self, k: Kernel, x: Place, tables: BitTables, hand_over: BlockLeaves) -> None:
        """Take blocks of as many rows as fill a vector, and smaller ones where few are left."""
        rows = _most_rows(k, tables)
        with _memory(k, tables, rows) as memory:
            if rows == PLANE_ROWS:
                _find_leaves(k, memory, x, tables, hand_over)
                return
            with T.If(k.rows_live > PLANE_ROWS):
                with T.Then(), k.blocks_of(rows):
                    _find_leaves(k, memory, x, tables, hand_over)
                with T.Else():
                    _find_leaves(k, memory, x, tables, hand_over)


@dataclass(frozen=True, eq=False)
class _Memory:
    """The columns of a tile, the planes of a block, and the codes of a group of trees."""

    columns: ByteColumns
    planes: Place
    codes: Place


@contextmanager
def _memory(k: Kernel, tables: BitTables, rows: int) -> Iterator[_Memory]:
    """Take memory for planes of so many rows."""
    allocated = -(-tables.planes // PLANES_ALLOCATED) * PLANES_ALLOCATED
    with (
        byte_columns(k, len(tables.bins.first) + len(tables.bins.sets.groups)) as columns,
        k.temporary("uint8", (allocated * rows // BYTE_BITS // k.tile,)) as planes,
        k.temporary("uint8", (tables.group,)) as codes,
    ):
        yield _Memory(columns, planes, codes)


def _most_rows(k: Kernel, tables: BitTables) -> int:
    """Return the rows of the tallest planes: more where those fill a vector and half a cache."""
    size = WIDE_PLANE_ROWS // BYTE_BITS
    in_cache = tables.planes * size <= k.machine.level2 // 2
    fills = k.machine.vector >= size and k.tile % WIDE_PLANE_ROWS == 0
    return WIDE_PLANE_ROWS if fills and in_cache else PLANE_ROWS


def _find_leaves(
    k: Kernel, memory: _Memory, x: Place, tables: BitTables, hand_over: BlockLeaves
) -> None:
    """Bin the rows of each block, decide all splits, then run the program group by group."""
    planes, codes, size = Planes(k, memory.planes), memory.codes, k.schedule.block
    starts = k.constant(tables.group_start)
    with blocks(k) as block:
        _decide(k, memory.columns, block, x, planes, tables)
        runner, codes_of = Runner(k, planes, tables), Codes(k, planes, tables)
        with k.over((k.number(tables.n_groups),)) as (group,):
            begin = k.bind(k.entry(starts, group))
            with T.serial(k.entry(starts, group + 1) - begin) as i:
                runner.run(begin + i)
            codes_of.write(group * tables.group, codes)
            hand_over(group, block, lambda tree, row: k.load(codes, (0,), beyond(tree * size, row)))


def _decide(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, planes: Planes, tables: BitTables
) -> None:
    """Write the outcomes of all splits of a block."""
    bins = tables.bins
    write_bins(k, columns, block, x, bins)
    write_masks(k, columns, block, planes, tables.masks)
    if bins.sets.groups:
        write_classes(k, columns, block, x, bins.sets, len(bins.first))
        write_sets(k, columns, block, planes, len(bins.first), tables.sets)
