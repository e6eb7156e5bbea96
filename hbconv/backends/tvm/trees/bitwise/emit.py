"""Emit trees by select on bit planes: every split of every tree for 256 rows at once.

The model is data; the code is a few loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, blocks
from hbconv.backends.tvm.trees.bins.emit import write_bins
from hbconv.backends.tvm.trees.bitwise.category_planes import write_sets
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_BYTES, PLANE_ROWS, make_masks
from hbconv.backends.tvm.trees.bitwise.planes import Planes, transposed_bits, write_masks
from hbconv.backends.tvm.trees.bitwise.tables import (
    BOTH,
    EITHER,
    FUSED,
    LOPSIDED,
    BitTables,
    Shape,
    choose_group,
    make_bit_tables,
    words_of,
)
from hbconv.backends.tvm.trees.byte_columns import ByteColumns, byte_columns, shifted
from hbconv.backends.tvm.trees.categories.emit import write_classes
from hbconv.backends.tvm.trees.leaves import by_block
from hbconv.backends.tvm.trees.leaves.by_block import BlockLeaves
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

Vector = Any


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
        in_cache = n_masks * PLANE_BYTES <= task.machine.level2 // 2
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
        """Bin the rows of a block, decide all splits, then run the program group by group."""
        bins = tables.bins
        starts = k.constant(tables.group_start)
        count = tables.masks.count + tables.slots
        allocated = -(-count // PLANES_ALLOCATED) * PLANES_ALLOCATED
        with (
            byte_columns(k, len(bins.first) + len(bins.sets.groups)) as columns,
            k.temporary("uint8", (allocated * PLANE_BYTES // k.tile,)) as place,
            k.temporary("uint8", (tables.group,)) as codes,
            blocks(k) as block,
        ):
            planes = Planes(k, place)
            _decide(k, columns, block, x, planes, tables)
            runner = _Runner(k, planes, tables)
            with k.over((k.number(tables.n_groups),)) as (group,):
                begin = k.bind(k.entry(starts, group))
                with T.serial(k.entry(starts, group + 1) - begin) as i:
                    runner.run(begin + i)
                _write_codes(k, planes, tables, group * tables.group, codes)
                hand_over(
                    group,
                    block,
                    lambda tree, row: k.load(codes, (0,), shifted(row, tree * PLANE_ROWS)),
                )


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


class _Runner:
    """Emits a run: the nodes of one shape, one after another."""

    def __init__(self, k: Kernel, planes: Planes, tables: BitTables) -> None:
        self.k = k
        self.planes = planes
        self.shapes = list(enumerate(tables.shapes))
        self.runs = k.constant(tables.runs)
        self.words = k.constant(tables.words)

    def run(self, number: Any) -> None:
        """Emit the run of a number."""
        k = self.k
        shape, first, count = (k.bind(k.entry(self.runs, number * 3 + i)) for i in range(3))
        _choose(shape, self.shapes, lambda each: self._emit_all(first, count, each))

    def _emit_all(self, first: Any, count: Any, shape: Shape) -> None:
        k = self.k
        width = words_of(shape)
        with T.serial(count) as i:
            begin = first + i * width
            words = [k.bind(k.entry(self.words, begin + word)) for word in range(width)]
            _emit(k, self.planes, shape, *words)


def _choose(number: Any, shapes: list[tuple[int, Shape]], emit: Callable[[Shape], None]) -> None:
    """Do what the number says: compares that LLVM makes a jump of."""
    if not shapes:
        return
    (first, shape), *others = shapes
    with T.If(tirx.EQ(number, first)):
        with T.Then():
            emit(shape)
        if others:
            with T.Else():
                _choose(number, others, emit)


def _emit(k: Kernel, planes: Planes, shape: Shape, result: Any, *operands: Any) -> None:
    """Compute a node of which these are the words."""
    if shape == LOPSIDED:
        _join_lopsided(k, planes, result, *operands)
        return
    for i, plane in enumerate(_computed(k, planes, shape, *operands)):
        planes.store(result, plane, i)


def _computed(k: Kernel, planes: Planes, shape: Shape, first: Any, *others: Any) -> list[Vector]:
    """Compute the planes of a node."""
    before = k.bind(planes.load(first))
    if shape in (BOTH, EITHER):
        decided = planes.load(others[0])
        return [before & decided if shape == BOTH else before | decided]
    if shape == FUSED:
        left = _side(k, planes, *others[:3])
        right = _side(k, planes, *others[3:])
    else:
        left, right = ([planes.load(side, i) for i in range(int(shape))] for side in others)
    return [*(k.bind(_chosen(k, before, *pair)) for pair in zip(left, right, strict=True)), before]


def _side(k: Kernel, planes: Planes, before: Any, left: Any, right: Any) -> list[Vector]:
    """Compute a side of two planes."""
    decided = k.bind(planes.load(before))
    return [k.bind(_chosen(k, decided, planes.load(left), planes.load(right))), decided]


def _chosen(k: Kernel, before: Vector, left: Vector, right: Vector) -> Vector:
    """Take the left plane's bits of rows before the split, and the right one's of others."""
    right = k.bind(right)
    return ((left ^ right) & before) ^ right


def _join_lopsided(
    k: Kernel,
    planes: Planes,
    result: Any,
    first: Any,
    left: Any,
    right: Any,
    both: Any,
    left_alone: Any,
    right_alone: Any,
) -> None:
    """Join sides of different numbers of planes: what is missing counts as zeros."""
    before = k.bind(planes.load(first))
    begin = k.bind(both * PLANE_BYTES)
    with T.serial(both) as i:
        at = k.bind(i * PLANE_BYTES)
        sides = planes.load(left + at), planes.load(right + at)
        planes.store(result + at, _chosen(k, before, *sides))
    with T.serial(left_alone) as i:
        at = k.bind(begin + i * PLANE_BYTES)
        planes.store(result + at, planes.load(left + at) & before)
    with T.serial(right_alone) as i:
        at = k.bind(begin + i * PLANE_BYTES)
        planes.store(result + at, planes.load(right + at) & ~before)
    planes.store(result + (both + left_alone + right_alone) * PLANE_BYTES, before)


def _write_codes(
    k: Kernel, planes: Planes, tables: BitTables, first_tree: Any, codes: Place
) -> None:
    """Turn the planes of the codes of a group's trees into bytes."""
    numbers = k.constant(tables.codes)
    bits = tables.codes.shape[1]
    with T.serial(codes.shape[0]) as tree:
        first = k.bind((first_tree + tree) * bits)
        code = [k.bind(planes.load(k.entry(numbers, first + i))) for i in range(bits)]
        for q, vector in enumerate(transposed_bits(k, code)):
            begin = tree * PLANE_ROWS + q * PLANE_BYTES
            k.store(codes, (0,), tirx.Ramp(begin, 1, PLANE_BYTES), vector)
