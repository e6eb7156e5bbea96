"""Emit trees by select on bit planes: every split of every tree for all rows of a block at once.

The model is data; the code is a few loops. Masks decide the thresholds, and a program over planes
decides category sets. Then chains, windows and codes join the planes to the numbers of leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, beyond
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, ByteColumns, blocks, byte_columns
from hbconv.backends.tvm.trees.bins.emit import write_bins, write_classes
from hbconv.backends.tvm.trees.bitwise.masks import (
    PLANE_ROWS,
    PLANE_WORD,
    WIDE_PLANE_ROWS,
    WINDOW_BITS,
    WORDS_PER_STEP,
    Masks,
    SetTables,
    make_masks,
)
from hbconv.backends.tvm.trees.bitwise.planes import (
    BYTE_BITS,
    Planes,
    byte_vectors,
    parts_of,
    transpose_bits,
    write_masks,
    write_rank_masks,
)
from hbconv.backends.tvm.trees.bitwise.rank_masks import RankMasks, cut_trees
from hbconv.backends.tvm.trees.bitwise.tables import (
    CHAIN,
    BitTables,
    Kind,
    make_bit_tables,
    words_of,
)
from hbconv.backends.tvm.trees.leaves import by_block
from hbconv.backends.tvm.trees.leaves.by_block import BlockLeaves
from hbconv.backends.tvm.trees.tree_kernel import (
    MAX_MASKS_PER_SET,
    MAX_MASKS_PER_SPLIT,
    LeafForm,
    TreeKernel,
    TreeTask,
)
from hbconv.backends.tvm.trees.tree_order import Trees, choose_bitwise_group, largest_tree

__all__ = ["Bitwise"]

PLANES_ALLOCATED = 1024
"""Memory is for a multiple of so many planes: models that differ by a few share a kernel."""
MAX_LEAVES_CODED = 256
"""Leaves of a tree that a byte tells apart."""
Vector = Any
Word = Callable[[int], Any]
"""Reads the word of a number, of those of a node or a tree."""


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
        """Ask for a strategy that decides all splits, and small trees.

        Where the planes of all thresholds fit half of the second-level cache, splits must repeat
        them; one for a category set pays always. Else the trees must be such that can be cut into
        parts.
        """
        if task.strategy != "select" or task.schedule.block != PLANE_ROWS:
            return False
        if largest_tree(task.forest) > MAX_LEAVES_CODED:
            return False
        masks = _choose_masks(task, self.trees(task))
        if isinstance(masks, RankMasks):
            return True
        worth = MAX_MASKS_PER_SPLIT * task.forest.n_tests
        worth += MAX_MASKS_PER_SET * task.bins.sets.count
        return masks.first_set <= worth and _in_cache(task, masks)

    def group(self, task: TreeTask) -> int:
        """Return how many trees are evaluated together."""
        return self.trees_together or choose_bitwise_group(task.forest)

    def numbers(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Return the code of each leaf: a bit for each split of the leaves of its tree."""
        return task.leaf_splits.codes(task.forest.n_leaves)

    def tables(self, task: TreeTask, trees: Trees) -> BitTables:
        """Return the program over planes."""
        masks = _choose_masks(task, trees)
        bins = task.ranks if isinstance(masks, RankMasks) else task.bins
        return make_bit_tables(task.forest, bins, task.leaf_splits, trees, masks)

    def find_leaves(self, k: Kernel, x: Place, tables: BitTables, hand_over: BlockLeaves) -> None:
        """Take blocks of as many rows as fill a vector, and smaller ones where few are left."""
        rows = _most_rows(k, tables)
        with _memory(k, tables, rows) as memory:
            if rows == PLANE_ROWS:
                _find_leaves(k, memory, x, tables, hand_over)
                return
            # Both heights are in one function, since the last tile has few rows.
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
    bins = tables.bins
    n_columns = len(bins.first) * bins.bytes_per_column + len(bins.sets.groups)
    with (
        byte_columns(k, n_columns) as columns,
        k.temporary("uint8", (allocated * rows // BYTE_BITS // k.tile,)) as planes,
        k.temporary("uint8", (tables.group,)) as codes,
    ):
        yield _Memory(columns, planes, codes)


def _choose_masks(task: TreeTask, trees: Trees) -> Masks | RankMasks:
    """Cut the trees into parts where all planes leave the cache, and those of parts do not."""
    masks = make_masks(task.bins)
    if _in_cache(task, masks):
        return masks
    return cut_trees(task.forest, trees, task.ranks, _most_masks(task, trees.group)) or masks


def _in_cache(task: TreeTask, masks: Masks) -> bool:
    """Say whether the planes of all thresholds fit half of the second-level cache."""
    return masks.first_set * PLANE_ROWS // BYTE_BITS <= task.machine.level2 // 2


def _most_masks(task: TreeTask, group: int) -> int:
    """Return how many planes of masks fit half of the cache, beside those of a group of trees."""
    schedule = task.schedule
    wide = (
        task.machine.vector * BYTE_BITS >= WIDE_PLANE_ROWS and schedule.tile % WIDE_PLANE_ROWS == 0
    )
    plane_bytes = (WIDE_PLANE_ROWS if wide else PLANE_ROWS) // BYTE_BITS
    # A tree of n leaves needs about as many planes between its masks and its code.
    return max(1, task.machine.level2 // 2 // plane_bytes - group * largest_tree(task.forest))


def _most_rows(k: Kernel, tables: BitTables) -> int:
    """Return the rows of the tallest planes: more where those fill a vector and half a cache."""
    size = WIDE_PLANE_ROWS // BYTE_BITS
    # 500 LightGBM trees of depth 8 take 315 ns a row with 512 rows, 390 with 256 (Zen 4, AVX-512).
    in_cache = tables.planes * size <= k.machine.level2 // 2
    fills = k.machine.vector >= size and k.tile % WIDE_PLANE_ROWS == 0
    return WIDE_PLANE_ROWS if fills and in_cache else PLANE_ROWS


def _find_leaves(
    k: Kernel, memory: _Memory, x: Place, tables: BitTables, hand_over: BlockLeaves
) -> None:
    """Decide the splits of each block, then run the program group by group."""
    if isinstance(tables.masks, RankMasks):
        _find_by_parts(k, memory, x, tables, tables.masks, hand_over)
        return
    planes = Planes(k, memory.planes)
    groups = _Groups(k, memory, tables)
    with blocks(k) as block:
        _decide(k, memory.columns, block, x, planes, tables, tables.masks)
        with k.over((k.number(tables.n_groups),)) as (group,):
            groups.run(group, block, hand_over)


def _find_by_parts(
    k: Kernel,
    memory: _Memory,
    x: Place,
    tables: BitTables,
    masks: RankMasks,
    hand_over: BlockLeaves,
) -> None:
    """Rank the rows of a tile, then decide the splits of each part and run its groups.

    A part runs for every block, so that its tables are read once.
    """
    planes, groups = Planes(k, memory.planes), _Groups(k, memory, tables)
    first, count = (k.constant(t) for t in parts_of(masks.part_of_group, masks.n_parts))
    with blocks(k) as block:
        write_bins(k, memory.columns, block, x, tables.bins)
    with k.over((k.number(masks.n_parts),)) as (part,), blocks(k) as block:
        write_rank_masks(k, memory.columns, block, planes, masks, part)
        with T.serial(k.entry(count, part)) as i:
            groups.run(k.bind(k.entry(first, part) + i), block, hand_over)


class _Groups:
    """Runs the program of a group of trees, and hands its leaves over."""

    def __init__(self, k: Kernel, memory: _Memory, tables: BitTables) -> None:
        self.k = k
        self.codes = memory.codes
        self.group = tables.group
        self.starts = k.constant(tables.group_start)
        planes = Planes(k, memory.planes)
        self.runner, self.codes_of = Runner(k, planes, tables), Codes(k, planes, tables)

    def run(self, group: Any, block: Block, hand_over: BlockLeaves) -> None:
        """Emit the runs of a group."""
        k, codes, size = self.k, self.codes, self.k.schedule.block
        begin = k.bind(k.entry(self.starts, group))
        with T.serial(k.entry(self.starts, group + 1) - begin) as i:
            self.runner.run(begin + i)
        self.codes_of.write(group * self.group, codes)
        hand_over(group, block, lambda tree, row: k.load(codes, (0,), beyond(tree * size, row)))


def _decide(
    k: Kernel,
    columns: ByteColumns,
    block: Block,
    x: Place,
    planes: Planes,
    tables: BitTables,
    masks: Masks,
) -> None:
    """Write the outcomes of all splits of a block."""
    bins = tables.bins
    write_bins(k, columns, block, x, bins)
    write_masks(k, columns, block, planes, masks)
    if bins.sets.groups:
        write_classes(k, columns, block, x, bins.sets, len(bins.first))
        write_sets(k, columns, block, planes, len(bins.first), tables.sets)


def write_sets(
    k: Kernel, columns: ByteColumns, block: Block, planes: Planes, first: int, tables: SetTables
) -> None:
    """Decide all sets, from the columns of classes, which begin with column ``first``."""
    bits = k.constant(tables.bits)
    words = k.constant(tables.words)
    steps = k.constant(tables.step_start)
    with k.over((k.number(len(tables.bits)),)) as (group,):
        column = k.number(first) + group
        group_bits = k.entry(bits, group)
        classes = k.number(tables.classes)
        begin = k.bind(columns.begin(block, column))
        rows = byte_vectors(k, columns, begin)
        _write_class_planes(k, planes, rows, group_bits, classes)
        first_step = k.bind(k.entry(steps, group))
        with T.serial(k.entry(steps, group + 1) - first_step) as i:
            result, *terms = (
                k.bind(k.entry(words, (first_step + i) * WORDS_PER_STEP + word))
                for word in range(WORDS_PER_STEP)
            )
            plane = planes.load(terms[0])
            for term in terms[1:]:
                # Sets differ by few classes, and an exclusive or adds or removes a class alike.
                plane = plane ^ planes.load(term)
            planes.store(result, plane)


def _write_class_planes(
    k: Kernel, planes: Planes, rows: list[Any], n_bits: Any, classes: Any
) -> None:
    """Write a plane for each class of the rows' codes, from plane ``classes`` on.

    Bit after bit: the planes of the classes without it, then those of the classes with it.
    """
    with k.temporary("uint8", (1,)) as place:
        kept = Planes(k, place)
        first = k.bind(classes)
        for i, plane in enumerate(transpose_bits(k, rows)):
            kept.store(i * PLANE_WORD, plane)
        planes.store(first, planes.ones)
        with T.serial(n_bits) as bit:
            is_set = k.bind(kept.load(bit * PLANE_WORD))
            # Planes double: those with the bit come after all those without it.
            top = k.bind(tirx.shift_left(tirx.IntImm("int32", PLANE_WORD), bit))
            with T.serial(tirx.shift_left(tirx.IntImm("int32", 1), bit)) as number:
                at = k.bind(first + number * PLANE_WORD)
                plane = k.bind(planes.load(at))
                planes.store(at, plane & ~is_set)
                planes.store(at + top, plane & is_set)


class Runner:
    """Emits a run: the nodes of one kind, one after another."""

    def __init__(self, k: Kernel, planes: Planes, tables: BitTables) -> None:
        self.k = k
        self.planes = planes
        self.kinds = tables.kinds
        self.runs = k.constant(tables.runs)
        self.words = k.constant(tables.words)

    def run(self, number: Any) -> None:
        """Emit the run of a number."""
        k = self.k
        kind, first, count = (k.bind(k.entry(self.runs, number * 3 + i)) for i in range(3))
        _choose(kind, self.kinds, lambda each: self._emit_all(first, count, each))

    def _emit_all(self, first: Any, count: Any, kind: Kind) -> None:
        name, size = kind
        emit = self._chain if name == CHAIN else self._window
        with T.serial(count) as i:
            begin = self.k.bind(first + i * words_of(kind))
            emit(size, lambda word: self.k.entry(self.words, begin + word))

    def _chain(self, pairs: int, word: Word) -> None:
        """Compute ``(decided and this) or that``, pair after pair."""
        k, planes = self.k, self.planes
        decided = k.bind(planes.load(word(1)))
        for i in range(2, 2 + 2 * pairs, 2):
            decided = k.bind((decided & planes.load(word(i))) | planes.load(word(i + 1)))
        planes.store(word(0), decided)

    def _window(self, bits: int, word: Word) -> None:
        """Compute the planes of a window; past its bits are zeros."""
        window = _join_planes(self.planes, lambda i: word(1 + i), bits)
        result = self.k.bind(tirx.Cast("int32", word(0)))
        # All windows are of one width, so that codes are joined by one piece of code.
        missing = [self.planes.zeros] * (WINDOW_BITS - bits)
        for i, plane in enumerate([*window, *missing]):
            self.planes.store(result, plane, i)


def _choose(number: Any, kinds: list[tuple[int, Kind]], emit: Callable[[Kind], None]) -> None:
    """Emit the kind of the number: compares that LLVM turns into a jump."""
    if not kinds:
        return
    # Kinds are few and their runs long, so the jump is predicted well.
    (first, kind), *others = kinds
    with T.If(tirx.EQ(number, first)):
        with T.Then():
            emit(kind)
        if others:
            with T.Else():
                _choose(number, others, emit)


def _join_planes(
    planes: Planes, word: Word, levels: int, below: Word | None = None, split: int = 0
) -> list[Vector]:
    """Return the planes of a part of a tree from a split on, the lowest bit first.

    Parameters
    ----------
    word : callable
        Reads where the plane of each split is.
    levels : int
        Levels of splits from this one on.
    below : callable, optional
        Reads where the planes of each window below these levels begin.
    """
    if not levels:
        first = (split + 1).bit_length() - 1
        window = split + 1 - (1 << first)
        begin = planes.k.bind(tirx.Cast("int32", below(window))) if below else None
        return [planes.load(begin, i) for i in range(WINDOW_BITS)] if below else []
    left, right = (
        _join_planes(planes, word, levels - 1, below, 2 * split + side) for side in (1, 2)
    )
    # The deciding split becomes the top bit, above the bits of both sides.
    before = planes.k.bind(planes.load(word(split)))
    pairs = zip(left, right, strict=True)
    return [*(planes.k.bind(_select(planes.k, before, *pair)) for pair in pairs), before]


def _select(k: Kernel, before: Vector, left: Vector, right: Vector) -> Vector:
    """Take the left plane's bits of rows before the split, and the right one's of others."""
    right = k.bind(right)
    # Three operations, of which AVX-512 makes one.
    return ((left ^ right) & before) ^ right


class Codes:
    """Turns the tops of a group's trees into bytes."""

    def __init__(self, k: Kernel, planes: Planes, tables: BitTables) -> None:
        self.k = k
        self.planes = planes
        self.levels = tables.levels
        self.has_windows = tables.bits > tables.levels
        self.width = tables.codes.shape[1]
        self.words = k.constant(tables.codes)

    def write(self, first_tree: Any, codes: Place) -> None:
        """Write the code of each row, tree after tree."""
        k, size = self.k, self.planes.size
        with T.serial(codes.shape[0]) as tree:
            first = k.bind((first_tree + tree) * self.width)
            splits = (1 << self.levels) - 1

            def word(i: int) -> Any:
                return k.entry(self.words, first + i)

            below = (lambda i: word(splits + i)) if self.has_windows else None
            code = _join_planes(self.planes, word, self.levels, below)
            for q, vector in enumerate(transpose_bits(k, code)):
                begin = tree * k.schedule.block + q * size
                k.store(codes, (0,), tirx.Ramp(begin, 1, size), vector)
