"""The program over bit planes that a forest becomes, as rows of numbers.

First chains decide what lies before each split of leaves. Then windows join planes to codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bitwise.chains import CHAIN_PAIRS, find_chains
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_WORD, ZEROS_PLANE, Masks, make_masks
from hbconv.backends.tvm.trees.bitwise.set_tables import SetTables, make_set_tables
from hbconv.backends.tvm.trees.bitwise.windows import WINDOW_BITS, heaps
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
    "choose_group",
    "make_bit_tables",
    "words_of",
]

Ints = npt.NDArray[np.int64]

CHAIN = "chain"
WINDOW = "window"
Kind: TypeAlias = tuple[str, int]
"""A chain of so many pairs, or a window of so many bits."""
KINDS: tuple[Kind, ...] = (
    *((CHAIN, pairs) for pairs in reversed(CHAIN_PAIRS)),
    *((WINDOW, bits) for bits in range(WINDOW_BITS, 0, -1)),
)
"""In the order of their runs. Long chains stand first: their last pairs are in a shorter one."""
BITWISE_GROUP_SIZES = (16, 8, 4)
"""Trees evaluated together: the more, the longer the runs of one kind."""
MAX_LEAVES_TOGETHER = 1500
"""Leaves of such trees up to which what is between them stays in the nearest caches.

That is about a plane a leaf.
"""


@dataclass(frozen=True, eq=False)
class BitTables:
    """A forest as a program over planes: those of the masks, then slots.

    The words of a chain are its result, the plane that it begins with, and two planes for each
    pair. Those of a window are the first plane of its result, and the planes at its splits.

    Parameters
    ----------
    bins : Bins
    masks : Masks
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
    masks: Masks
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


def make_bit_tables(forest: Forest, bins: Bins, splits: LeafSplits, trees: Trees) -> BitTables:
    """Write the program for the trees, in their order.

    1. Find the chains.
    2. Find the tops of the trees, and the windows below them.
    3. Give each chain a plane after those of the masks, and each window several.
    4. Write the words of the nodes, kind by kind, and lay them out.
    """
    masks = make_masks(bins)
    sets = make_set_tables(bins.sets, masks.first_set)
    place = np.zeros(forest.n_trees + 1, np.int64)
    place[trees.order] = np.arange(len(trees.order))
    chains = find_chains(splits, masks.of_tests(bins))  # 1
    bits = int(splits.bits.max(initial=1))
    levels = bits if bits <= WINDOW_BITS else bits - WINDOW_BITS
    roots = np.append(splits.root, -1)[trees.order]
    tops, below = heaps(splits, roots, bits, levels)  # 2
    tree, window = np.nonzero(below >= 0)
    ranges = below[tree, window]
    chain_place = place[forest.tree_of_tests[splits.test[chains.range]]]
    group = np.concatenate([chain_place, tree]) // trees.group  # 3
    slot, slots = _slots(group, np.repeat([1, WINDOW_BITS], [len(chains.range), len(tree)]))
    result = masks.count + slot
    chain_result, window_result = np.split(result, [len(chains.range)])
    decided = np.append(chains.decided(chain_result), ZEROS_PLANE)
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


def choose_group(forest: Forest) -> int:
    """Return how many trees to evaluate together."""
    most = MAX_LEAVES_TOGETHER * forest.n_trees
    return next(
        (size for size in BITWISE_GROUP_SIZES if size * forest.n_leaves <= most),
        BITWISE_GROUP_SIZES[-1],
    )


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
