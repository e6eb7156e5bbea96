"""Tables of kernel ``bits``: trees as programs over bit planes.

A tree's leaves are halved by leaf splits until single ones are left, and a tree that needs fewer
bits than the kernel has takes part as if it had empty halves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.columns import ALL, CodeColumns, Cutoffs, bin_values
from hbconv.backends.cuda.plan import (
    Buffer,
    CudaKernel,
    Grid,
    Launch,
    LaunchPlan,
    PlannedKernels,
    Tables,
)
from hbconv.backends.cuda.tree_order import ColumnChunks, TreeOrder, chunk_columns, tables_of_values
from hbconv.trees.forest import Forest
from hbconv.trees.leaf_splits import LeafSplits

__all__ = [
    "MAX_BITS",
    "THREADS",
    "BitsShape",
    "TreePrograms",
    "make_bits",
    "out_buffer",
    "tabulate_bits",
    "write_programs",
]

MAX_BITS = 6
"""Bits of a leaf code: with its place in the table of words, it fills a byte."""
MIN_BITS = 3
THREADS = 512
PLANES_PER_COLUMN = 32
ZEROS_PLANE, ONES_PLANE = 0, 16
"""Planes of a column; the others are those below each value of its two digits."""
# Offsets of planes are multiples of 4 below 2 GB: their low two bits and the top one are free.
MORE, CONTINUED, EITHER = 1, 2, 1 << 31
"""Flags of a cutoff."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BitsShape:
    """Sizes of the kernel.

    Parameters
    ----------
    bits : int
        Of a leaf code.
    lanes : int
        Words of a plane: 32 for tiles of 1,024 rows, 16 for 512.
    """

    bits: int
    lanes: int

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return 32 * self.lanes

    @property
    def teams(self) -> int:
        """Trees evaluated at once."""
        return THREADS // self.lanes

    def room(self, shared_bytes: int, words: int, longest: int) -> int:
        """Count the columns whose planes fit the shared memory of a block."""
        free = shared_bytes - self.shared_bytes(0, words, longest)
        return max(0, free // (PLANES_PER_COLUMN * 4 * self.lanes))

    def shared_bytes(self, n_columns: int, words: int, longest: int) -> int:
        """Count the shared memory of a block: planes, leaf codes, values, programs."""
        planes = n_columns * PLANES_PER_COLUMN * 4 * self.lanes
        codes = 2 * self.teams * self.rows
        values = 8 * self.teams * words << self.bits
        return planes + codes + values + 8 * self.teams * longest

    @staticmethod
    def bits_of(splits: LeafSplits) -> int:
        """Return the bits that all trees need."""
        return max(MIN_BITS, int(splits.bits.max(initial=0)))


@dataclass(frozen=True, eq=False)
class TreePrograms:
    """The cutoffs of all trees in the order in which they are read.

    Parameters
    ----------
    column, cutoff : int64 (n_words,)
        Column 0 and cutoff 0 for an empty half.
    flags : int64 (n_words,)
        MORE if the split has more cutoffs, CONTINUED if the test has.
    either : bool (n_words,)
        The test is joined by "or".
    first : int32 (n_trees + 1,)
    """

    column: Ints
    cutoff: Ints
    flags: Ints
    either: npt.NDArray[np.bool_]
    first: npt.NDArray[np.int32]

    @property
    def longest(self) -> int:
        """Words that hold any program, and one more, which is read ahead."""
        return int(self.counts.max(initial=0)) + 1

    @property
    def counts(self) -> Ints:
        """Words of each tree."""
        return np.diff(self.first).astype(np.int64)

    def chunks(self, n_columns: int, room: int) -> ColumnChunks | None:
        """Return chunks of the trees that read few enough columns; None if a tree reads more."""
        tree = np.repeat(np.arange(len(self.counts)), self.counts)
        return chunk_columns(tree, self.column, len(self.counts), n_columns, room)

    def words(self, place: Ints, lanes: int) -> npt.NDArray[np.uint32]:
        """Return the words of the kernel: offsets of the planes, and flags.

        The planes of a word's column are at a place among those of its chunk. A cutoff ``16 h + l``
        reads high planes h and h + 1, and low plane l. All codes are below high plane 15 or 16.
        """
        plane = 4 * lanes
        # Word w of a column is stored at w ^ place % lanes, so that no two lanes meet in a bank
        # (bits.cu).
        base = place * PLANES_PER_COLUMN * plane + 4 * (place % lanes)
        # A code has two digits of base 16: "below 16 h + l" is below h, or below h + 1 and below l.
        everything = self.cutoff == ALL
        high = np.where(everything, ONES_PLANE - 1, self.cutoff // 16)
        digit = self.cutoff % 16
        low = np.where(everything, ONES_PLANE, np.where(digit > 0, ONES_PLANE + digit, ZEROS_PLANE))
        first = base + high * plane | self.flags
        second = base + low * plane | np.where(self.either, EITHER, 0)
        # Two words of 32 bits, which the kernel reads at once.
        return np.stack([first, second], axis=1).astype(np.uint32)


def write_programs(
    splits: LeafSplits, trees: npt.NDArray[np.int32], cutoffs: Cutoffs, bits: int
) -> TreePrograms:
    """Write the programs of some trees.

    1. Find the range of leaves at each place of a full tree of splits; -1 for an empty half.
    2. A range's tests are that at its split, then its steps; an empty half has one of no test.
    3. Each test becomes its cutoffs; no test is cutoff 0.
    """
    ranges = _full_ranges(splits, splits.root[trees], bits).ravel()  # 1
    steps = np.bincount(splits.step_range, minlength=len(splits.bits))
    # Index -1, an empty half, reads what is appended.
    n_tests = np.where(ranges >= 0, 1 + np.append(steps, 0)[ranges], 1)  # 2
    at, turn = _expand(n_tests)
    step = np.append(np.cumsum(steps) - steps, 0)[ranges][at] + turn - 1
    is_step = turn > 0
    test = np.where(ranges >= 0, np.append(splits.test, -1)[ranges], -1)[at]
    test[is_step] = splits.step_test[step[is_step]]
    either = np.ones(len(at), bool)
    either[is_step] = splits.step_either[step[is_step]]
    last = turn == n_tests[at] - 1
    counts = np.append(np.diff(cutoffs.start), 1)[test]  # 3
    of_test, nth = _expand(counts)
    word = np.append(cutoffs.start[:-1], len(cutoffs.cutoff))[test][of_test] + nth
    continued = nth < counts[of_test] - 1
    more = continued | ~last[of_test]
    owner = (at // ((1 << bits) - 1))[of_test]
    first = np.append(0, np.cumsum(np.bincount(owner, minlength=len(trees))))
    return TreePrograms(
        np.append(cutoffs.column, 0)[word],
        np.append(cutoffs.cutoff, 0)[word],
        MORE * more + CONTINUED * continued,
        either[of_test],
        first.astype(np.int32),
    )


def tabulate_bits(
    forest: Forest,
    trees: TreeOrder,
    splits: LeafSplits,
    programs: TreePrograms,
    chunks: ColumnChunks,
    shape: BitsShape,
) -> Tables:
    """Return the tables of a shape, which do not depend on slices."""
    values = np.zeros((forest.n_trees, 1 << shape.bits), trees.values.dtype)
    tree_of_leaf = np.repeat(np.arange(forest.n_trees), np.diff(forest.first_leaf.data))
    values[tree_of_leaf, splits.codes(forest.n_leaves)] = trees.values
    return {
        **chunks.tables(),
        **tables_of_values(values[trees.number]),
        "cutoffs": programs.words(chunks.place, shape.lanes),
        "first": programs.first,
    }


def make_bits(
    forest: Forest,
    trees: TreeOrder,
    columns: CodeColumns,
    programs: TreePrograms,
    chunks: ColumnChunks,
    shape: BitsShape,
    lists: bool,
    tables: Tables,
) -> PlannedKernels:
    """Return the kernel for tiles of a shape."""
    constants = (
        ("BITS", shape.bits), ("LANES", shape.lanes), ("THREADS", THREADS), ("LISTS", int(lists)),
    )  # fmt: skip
    launch = Launch(
        CudaKernel("bits", (*trees.constants, *constants)),
        (
            *("codes", "n", len(columns), chunks.widest, trees.outputs, programs.longest),
            *("of_output", *chunks.tables()),
            *("cutoffs", "first", "low", "high", "start", "out"),
        ),
        Grid(shape.rows, trees.slices, per_processor=1),
        THREADS,
        shape.shared_bytes(chunks.widest, trees.words, programs.longest),
    )
    return bin_values(columns, forest.n_features).then(
        LaunchPlan((launch,), (("out", out_buffer(forest, trees)),), (*trees.tables(), *tables)),
        {**trees.tables(), **tables},
    )


def out_buffer(forest: Forest, trees: TreeOrder) -> Buffer:
    """Return the buffer of the sums, by row, or of each tree's values, by tree."""
    dtype = trees.values.dtype.name
    if trees.apart:
        return Buffer(dtype, forest.n_trees, 1, 1)
    return Buffer(dtype, 1, 1, trees.outputs)


def _full_ranges(splits: LeafSplits, roots: Ints, bits: int) -> Ints:
    """Return the range at each place of a full tree, sides before their split: (trees, places).

    A range that fewer bits tell apart is its own right side, after a split before which nothing
    lies.
    """
    if not bits:
        return np.zeros((len(roots), 0), np.int64)
    full = (roots >= 0) & (np.append(splits.bits, 0)[roots] == bits)
    left = np.where(full, np.append(splits.left, -1)[roots], -1)
    right = np.where(full, np.append(splits.right, -1)[roots], roots)
    sides = [_full_ranges(splits, side, bits - 1) for side in (left, right)]
    return np.concatenate([*sides, np.where(full, roots, -1)[:, None]], axis=1)


def _expand(counts: Ints) -> tuple[Ints, Ints]:
    """Repeat each entry ``counts`` times: return which entry, and how many of it were before.

    Examples
    --------
    >>> _expand(np.array([2, 1]))
    (array([0, 0, 1]), array([0, 1, 0]))
    """
    which = np.repeat(np.arange(len(counts)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
