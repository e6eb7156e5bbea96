"""The program over bit planes that a forest becomes, as rows of numbers.

First chains decide what lies before each split of leaves. A row lies before a split if it goes left
at its test, and at another, or at a third, and so on. A pair of steps is one operation: ``(decided
and this) or that``.

Then windows join planes to codes. They are parts of trees of a few bits, which a kernel computes in
its registers. A window of b bits is as many levels of splits, as a heap: the split at i has those
at ``2 i + 1`` and ``2 i + 2`` below it. A range of fewer bits than there are levels hangs right
below a split that nothing lies before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bitwise.masks import (
    ONES_PLANE,
    PLANE_WORD,
    WINDOW_BITS,
    ZEROS_PLANE,
    Masks,
    SetTables,
    make_set_tables,
)
from hbconv.backends.tvm.trees.bitwise.rank_masks import RankMasks
from hbconv.backends.tvm.trees.list_scheduling import lay_out
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest
from hbconv.trees.leaf_splits import LeafSplits

__all__ = [
    "CHAIN",
    "KINDS",
    "WINDOW",
    "BitTables",
    "Kind",
    "make_bit_tables",
    "words_of",
]

# Few sizes: a tenth of the code of exact ones, and retrained models share it.
CHAIN_PAIRS = (1, 2, 3, 4, 6)
"""Pairs of the chains that there is code for; shorter ones are filled with what changes nothing."""
Ints = npt.NDArray[np.int64]
CHAIN = "chain"
WINDOW = "window"
Kind: TypeAlias = tuple[str, int]
"""A chain of so many pairs, or a window of so many bits."""
KINDS: tuple[Kind, ...] = (
    *((CHAIN, pairs) for pairs in reversed(CHAIN_PAIRS)),
    *((WINDOW, bits) for bits in range(WINDOW_BITS, 0, -1)),
)
"""In the order of their runs. Long chains come first: their last pairs are in a shorter one."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains of steps; that of a split with many steps continues in the next one.

    Parameters
    ----------
    range : int64 (n_chains,)
        Whose split it decides.
    first, count : int64 (n_chains,)
        Its pairs.
    both, either : int64 (n_pairs,)
        Planes of the masks: a row lies before the split if so far it does and ``both`` has its
        bit, or if ``either`` has it.
    at_split : int64 (n_ranges,)
        The mask of the test at the split itself.
    """

    range: Ints
    first: Ints
    count: Ints
    both: Ints
    either: Ints
    at_split: Ints

    @property
    def size(self) -> Ints:
        """Pairs of the code that runs each."""
        sizes = np.array(CHAIN_PAIRS)
        return sizes[np.searchsorted(sizes, self.count)]

    def planes_before(self, result: Ints) -> Ints:
        """Return the plane of what lies before the split of each range, given those of chains."""
        planes = self.at_split.copy()
        planes[self.range] = result  # the last chain of a range wins
        return planes

    def words(self, size: int, result: Ints) -> Ints:
        """Return result, begin and pairs of the chains of a size."""
        chosen = np.flatnonzero(self.size == size)
        goes_on = np.append(False, self.range[1:] == self.range[:-1])[chosen]
        # A long chain continues from the result of the chain before.
        begin = np.where(goes_on, result[chosen - 1], self.at_split[self.range[chosen]])
        turn = np.arange(size)
        pair = self.first[chosen][:, None] + turn
        missing = turn >= self.count[chosen][:, None]
        pair[missing] = -1
        # Missing pairs are "and ones, or zeros", which changes nothing.
        both = np.append(self.both, ONES_PLANE)[pair]
        either = np.append(self.either, ZEROS_PLANE)[pair]
        pairs = np.stack([both, either], axis=2).reshape(len(chosen), 2 * size)
        return np.concatenate([result[chosen][:, None], begin[:, None], pairs], axis=1)


def find_chains(splits: LeafSplits, mask: Ints) -> Chains:
    """Join the steps of each split to pairs, and the pairs to chains.

    1. A step opens a pair if all must hold; or if one suffices and the one before it does too.
    2. A chain has no more pairs than the longest code.

    Parameters
    ----------
    mask : int64 (n_tests,)
        The plane of each test.
    """
    either = splits.step_either
    plane = mask[splits.step_test]
    # A pair is "and" before "or", so an "or" after an "or" opens the next pair.
    opens = ~either | _begins(splits.step_range) | np.append(True, either)[: len(either)]  # 1
    pair = np.cumsum(opens) - 1
    both = np.full(int(opens.sum()), ONES_PLANE)
    both[pair[~either]] = plane[~either]
    either_plane = np.full(len(both), ZEROS_PLANE)
    either_plane[pair[either]] = plane[either]
    of_range = splits.step_range[opens]
    begins = np.flatnonzero(_begins(of_range))  # 2
    turn = np.arange(len(of_range)) - np.repeat(begins, np.diff(np.append(begins, len(of_range))))
    first = np.flatnonzero(turn % CHAIN_PAIRS[-1] == 0)
    count = np.diff(np.append(first, len(of_range)))
    return Chains(of_range[first], first, count, both, either_plane, mask[splits.test])


def _begins(of_range: Ints) -> npt.NDArray[np.bool_]:
    """Whether an entry is the first of its range."""
    return np.append(True, of_range[1:] != of_range[:-1])[: len(of_range)]


@dataclass(frozen=True, eq=False)
class BitTables:
    """A forest as a program over planes: those of the masks, then slots.

    The words of a chain are its result, the plane that it begins with, and two planes for each
    pair. Those of a window are the first plane of its result, and the planes at its splits.

    Parameters
    ----------
    bins : Bins
    masks : Masks or RankMasks
    sets : SetTables
    words : uint16 or int32 (n_words,)
        Planes, counted by ``PLANE_WORD``.
    runs : int32 (n_runs, 3)
        Nodes of one kind, one after another: its position in KINDS, first word, their number.
    group_start : int32 (n_groups + 1,)
        First run of each group of trees.
    group : int
        Trees of a group.
    slots : int
        Planes of slots; those of classes have been there before.
    bits, levels : int
        Bits of the codes of trees, and levels of their tops; the others are in windows below.
    codes : uint16 or int32 (n_places, n_words_of_tree)
        Planes at the splits of the top of each tree, then the first of each window below it.
    """

    bins: Bins
    masks: Masks | RankMasks
    sets: SetTables
    words: npt.NDArray[np.integer]
    runs: npt.NDArray[np.int32]
    group_start: npt.NDArray[np.int32]
    group: int
    slots: int
    bits: int
    levels: int
    codes: npt.NDArray[np.integer]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1

    @property
    def kinds(self) -> list[tuple[int, Kind]]:
        """The kinds in use, and their positions."""
        return [(i, KINDS[i]) for i in np.unique(self.runs[:, 0]).tolist()]

    @property
    def planes(self) -> int:
        """Number of planes."""
        return self.masks.count + self.slots


def make_bit_tables(
    forest: Forest, bins: Bins, splits: LeafSplits, trees: Trees, masks: Masks | RankMasks
) -> BitTables:
    """Write the program for the trees, in their order.

    1. Find the chains.
    2. Find the tops of the trees, and the windows below them.
    3. Give each chain a plane after those of the masks, and each window several.
    4. Write the words of the nodes, kind by kind, and lay them out.
    """
    sets = make_set_tables(bins.sets, masks.first_set)
    place = np.zeros(forest.n_trees + 1, np.int64)
    place[trees.order] = np.arange(len(trees.order))
    chains = find_chains(splits, masks.of_tests(bins))  # 1
    bits = int(splits.bits.max(initial=1))
    # Codes of more bits than registers hold are joined of windows below a top.
    levels = bits if bits <= WINDOW_BITS else bits - WINDOW_BITS
    # A place without a tree takes the appended -1, whose planes are zeros.
    roots = np.append(splits.root, -1)[trees.order]
    tops, below = heaps(splits, roots, bits, levels)  # 2
    tree, window = np.nonzero(below >= 0)
    ranges = below[tree, window]
    chain_place = place[forest.tree_of_tests[splits.test[chains.range]]]
    group = np.concatenate([chain_place, tree]) // trees.group  # 3
    slot, slots = _slots(group, np.repeat([1, WINDOW_BITS], [len(chains.range), len(tree)]))
    result = masks.count + slot
    chain_result, window_result = np.split(result, [len(chains.range)])
    decided = np.append(chains.planes_before(chain_result), ZEROS_PLANE)
    words = [chains.words(pairs, chain_result) for kind, pairs in KINDS if kind == CHAIN]  # 4
    words += [
        _window_words(splits, ranges, width, window_result, decided)
        for kind, width in KINDS
        if kind == WINDOW
    ]
    kind = np.concatenate([_positions(CHAIN, chains.size), _positions(WINDOW, splits.bits[ranges])])
    order = np.lexsort((kind, group))
    n_groups = len(trees.order) // trees.group
    flat, runs, group_start = lay_out(words, kind, group, order, n_groups)
    firsts = np.full(below.shape, ZEROS_PLANE)
    firsts[tree, window] = window_result
    codes = np.concatenate([decided[tops], firsts], axis=1) if len(tree) else decided[tops]
    # Planes of classes are dead before the first group of trees runs, so slots reuse them.
    slots = max(slots, sets.max_class_planes)
    dtype = _word_dtype(masks.count + slots)
    return BitTables(
        bins=bins,
        masks=masks,
        sets=sets,
        words=(flat * PLANE_WORD).astype(dtype),
        runs=runs,
        group_start=group_start,
        group=trees.group,
        slots=slots,
        bits=bits,
        levels=levels,
        codes=(codes * PLANE_WORD).astype(dtype),
    )


def heaps(splits: LeafSplits, roots: Ints, bits: int, levels: int) -> tuple[Ints, Ints]:
    """Return the ranges at the splits of the uppermost levels, and those below them.

    Parameters
    ----------
    roots : int64 (n,)
        Ranges of at most so many bits, -1 for none.

    Returns
    -------
    tuple of int64 (n, 2 ** levels - 1) and int64 (n, 2 ** levels)
        Ranges; -1 where nothing is before the split, and where there is none.
    """
    size = np.append(splits.bits, 0)
    left, right = (np.append(side, -1) for side in (splits.left, splits.right))
    ranges = np.full((len(roots), (2 << levels) - 1), -1)
    ranges[:, 0] = roots
    for level in range(levels):
        here = slice((1 << level) - 1, (2 << level) - 1)
        at = ranges[:, here]
        fills = size[at] == bits - level
        below = np.stack([np.where(fills, left[at], -1), np.where(fills, right[at], at)], axis=2)
        ranges[:, here.stop : 2 * here.stop + 1] = below.reshape(len(roots), 2 << level)
        # A range of fewer bits than its level has hangs right below, where nothing is before it.
        ranges[:, here] = np.where(fills, at, -1)
    inside = (1 << levels) - 1
    return ranges[:, :inside], ranges[:, inside:]


def words_of(kind: Kind) -> int:
    """Count the words of a node.

    Examples
    --------
    >>> words_of((CHAIN, 3)), words_of((WINDOW, 5))
    (8, 32)
    """
    name, size = kind
    return 2 + 2 * size if name == CHAIN else 1 << size


def _window_words(splits: LeafSplits, ranges: Ints, bits: int, result: Ints, decided: Ints) -> Ints:
    """Return the result and the splits of the windows of so many bits."""
    chosen = np.flatnonzero(splits.bits[ranges] == bits)
    at, _ = heaps(splits, ranges[chosen], bits, bits)
    return np.concatenate([result[chosen][:, None], decided[at]], axis=1)


def _positions(name: str, sizes: Ints) -> Ints:
    """Return positions among the kinds."""
    position = {size: i for i, (kind, size) in enumerate(KINDS) if kind == name}
    table = np.array([position.get(size, -1) for size in range(max(position) + 1)])
    return table[sizes]


def _slots(group: Ints, width: Ints) -> tuple[Ints, int]:
    """Give each node of a group so many slots of its own, and count the slots of a group."""
    order = np.argsort(group, kind="stable")
    end = np.cumsum(width[order])
    begin = end - width[order]
    first = np.searchsorted(group[order], group[order])
    slot = np.empty_like(group)
    slot[order] = begin - begin[first]
    return slot, int((slot + width).max(initial=0))


def _word_dtype(planes: int) -> type[np.integer]:
    return np.uint16 if planes * PLANE_WORD <= np.iinfo(np.uint16).max else np.int32
