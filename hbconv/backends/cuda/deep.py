"""Tables of kernel ``deep``: nodes of two words, or of four for float64, over the values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.bits import out_buffer
from hbconv.backends.cuda.plan import CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels, Tables
from hbconv.backends.cuda.tree_order import NAMES, Nodes, TreeOrder
from hbconv.trees.forest import Forest

__all__ = [
    "DeepShape",
    "PairPlaces",
    "deep_shapes",
    "make_deep",
    "node_bytes",
    "pair_bits",
    "place_pairs",
    "tabulate_deep",
]

ROWS = 4
"""Rows of a thread."""
THREADS = (256, 128, 64)
"""Threads of a block."""
LEFT_IS_LEAF, RIGHT_IS_LEAF, MISSING_RIGHT = 1, 2, 4
FLAG_BITS = 3
BRANCH_BITS = 32
"""Flags of a branch, which are between its pair and its feature."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DeepShape:
    """Sizes of the kernel.

    Parameters
    ----------
    threads : int
        Of a block.
    shared_bytes : int
        The rows of a block; 0 where they are read from memory.
    """

    threads: int
    shared_bytes: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return ROWS * self.threads


def deep_shapes(n_features: int, dtype: str, shared_bytes: int) -> list[DeepShape]:
    """Return the shapes whose rows fit shared memory, or that which leaves them where they are."""
    row = n_features * np.dtype(dtype).itemsize
    fits = [DeepShape(threads, ROWS * threads * row) for threads in THREADS]
    return [s for s in fits if s.shared_bytes <= shared_bytes] or [DeepShape(THREADS[0], 0)]


def node_bytes(dtype: str) -> int:
    """Return the bytes of a node: its threshold, and as much again for its branch."""
    return 2 * np.dtype(dtype).itemsize


def pair_bits(forest: Forest, nodes: Nodes, dtype: str) -> int | None:
    """Return the bits that name a pair of a tree; None where the kernel does not take the forest.

    It compares with thresholds alone, so it takes no categories, and no threshold NaN where
    NaN goes left. A branch names feature and pair.
    """
    never = np.isnan(forest.less_equal_thresholds(dtype)) & forest.default_left.data
    if forest.on_category.any() or never.any():
        return None
    bits = (int(np.diff(nodes.first).max()) // 2).bit_length()
    feature_bits = forest.n_features.bit_length()
    return bits if feature_bits + FLAG_BITS + bits <= BRANCH_BITS else None


@dataclass(frozen=True, eq=False)
class PairPlaces:
    """Where the children of each test lie, as pairs of their tree.

    Parameters
    ----------
    place : int64 (n_nodes,)
        Of a test's pair. That of the first node and the root is 0.
    first : int64 (n_trees,)
        First node of each tree, at a sector's beginning.
    n_nodes : int
    fresh : float
        Share of the pairs that rows read which share no sector with the one before.
    """

    place: Ints
    first: Ints
    n_nodes: int
    fresh: float

    def slots(self, nodes: Nodes) -> Ints:
        """Return the place of each node in the table."""
        slots = np.empty(len(nodes.child), np.int64)
        slots[nodes.first[:-1]] = self.first + 1
        inner = nodes.is_test
        left = self.first[nodes.tree[inner]] + 2 * self.place[inner]
        slots[nodes.left[inner]] = left
        slots[nodes.left[inner] + 1] = left + 1
        return slots


def place_pairs(nodes: Nodes) -> PairPlaces:
    """Let two pairs share a sector where most rows go on from one to the other.

    1. From the root down, a pair that is not joined yet takes that of its child with most leaves.
    2. Sectors of two pairs come first, level after level, then pairs of leaves.
    """
    inner = nodes.is_test
    leaf_counts = nodes.leaf_counts
    joined = np.zeros(len(inner), bool)
    joined[nodes.first[:-1]] = inner[nodes.first[:-1]]
    partner = np.full(len(inner), -1)
    for at in nodes.levels:  # 1
        alone = at[inner[at] & ~joined[at]]
        left = nodes.left[alone]
        heavy = left + (leaf_counts[left + 1] > leaf_counts[left])
        takes = inner[heavy]
        partner[alone[takes]] = heavy[takes]
        joined[heavy[takes]] = True
    place = np.zeros(len(inner), np.int64)  # 2
    place[nodes.first[:-1]] = 1
    takers = np.flatnonzero(partner >= 0)
    turn, n_takers = _turns(nodes, takers)
    place[takers] = 2 * turn + 2
    place[partner[takers]] = 2 * turn + 3
    rest = np.flatnonzero(inner & ~joined & (partner < 0))
    turn, n_rest = _turns(nodes, rest)
    place[rest] = 2 * n_takers[nodes.tree[rest]] + 2 + turn
    n_pairs = 2 * n_takers + 2 + n_rest
    # A sector is two pairs of small nodes, and no tree begins within one.
    ends = np.cumsum(-(-n_pairs // 2) * 4)
    fresh = leaf_counts[inner & ~joined].sum() / leaf_counts[inner].sum()
    return PairPlaces(place, np.append(0, ends[:-1]), int(ends[-1]), float(fresh))


def _turns(nodes: Nodes, at: Ints) -> tuple[Ints, Ints]:
    """Return the number of each of some nodes within its tree, and how many each tree has."""
    tree = nodes.tree[at]
    counts = np.bincount(tree, minlength=len(nodes.depth))
    return np.arange(len(at)) - (np.cumsum(counts) - counts)[tree], counts


def tabulate_deep(
    forest: Forest, trees: TreeOrder, nodes: Nodes, pairs: PairPlaces, dtype: str, bits: int
) -> Tables:
    """Return the tables of the trees, for values of a dtype."""
    return {
        "nodes": _words(forest, trees, nodes, pairs, dtype, bits),
        "first": pairs.first.astype(np.int32),
    }


def make_deep(
    forest: Forest, trees: TreeOrder, dtype: str, bits: int, shape: DeepShape, tables: Tables
) -> PlannedKernels:
    """Return the kernel for values of a dtype."""
    constants = (("THREADS", shape.threads), ("STAGED", int(shape.shared_bytes > 0)))
    launch = Launch(
        CudaKernel("deep", (("INPUT", NAMES[dtype]), *trees.constants, *constants)),
        (
            *("x", "n", forest.n_features, trees.outputs, bits),
            *("of_output", "nodes", "first", "start", "out"),
        ),
        Grid(shape.rows, trees.slices),
        shape.threads,
        shape.shared_bytes,
    )
    tables = {**trees.tables(), **tables}
    out = (("out", out_buffer(forest, trees)),)
    return PlannedKernels(LaunchPlan((launch,), out, tuple(tables)), tables)


def _words(
    forest: Forest, trees: TreeOrder, nodes: Nodes, pairs: PairPlaces, dtype: str, bits: int
) -> npt.NDArray[np.uint32]:
    """Write the nodes, a tree's after one that all rows pass to the right.

    1. A leaf is its value.
    2. A test is its threshold and its branch.
    """
    slots = pairs.slots(nodes)
    thresholds = forest.less_equal_thresholds(dtype)
    parts = thresholds.itemsize // 4
    words = np.zeros((pairs.n_nodes, 2 * parts), np.uint32)
    inner = np.flatnonzero(nodes.is_test)
    leaves = np.flatnonzero(~nodes.is_test)
    values = trees.values[~nodes.child[leaves]]
    words[slots[leaves], : trees.words] = values.view(np.uint32).reshape(-1, trees.words)  # 1
    test = nodes.child[inner]  # 2
    words[slots[inner], :parts] = thresholds[test].view(np.uint32).reshape(-1, parts)
    left = nodes.left[inner]
    flags = np.where(forest.default_left.data[test], 0, MISSING_RIGHT)
    flags |= np.where(nodes.is_test[left], 0, LEFT_IS_LEAF)
    flags |= np.where(nodes.is_test[left + 1], 0, RIGHT_IS_LEAF)
    branch = forest.feature.data[test].astype(np.int64) << FLAG_BITS | flags
    words[slots[inner], parts] = branch << bits | pairs.place[inner]
    # No value is <= NaN, and the flag sends NaN right: so all rows reach the root's slot.
    words[pairs.first, :parts] = np.full(1, np.nan, dtype).view(np.uint32)
    flags = MISSING_RIGHT | np.where(nodes.is_test[nodes.first[:-1]], 0, RIGHT_IS_LEAF)
    words[pairs.first, parts] = flags << bits
    return words
