"""Tables of kernel ``deep``: nodes of two words, or of four for float64, over the values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.bits import out_buffer
from hbconv.backends.cuda.nodes import Nodes
from hbconv.backends.cuda.plan import CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels, Tables
from hbconv.backends.cuda.tree_order import NAMES, TreeOrder
from hbconv.forest import Forest

__all__ = ["DeepShape", "deep_shapes", "make_deep", "node_bytes", "pair_bits", "tabulate_deep"]

ROWS = 4
"""Rows of a thread."""
THREADS = (256, 128, 64)
"""Threads of a block."""
LEFT_IS_LEAF, RIGHT_IS_LEAF, MISSING_RIGHT = 1, 2, 4
FLAG_BITS = 3
BRANCH_BITS = 32
"""Flags of a branch, which stand between its pair and its feature."""

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

    It compares with thresholds alone, so it takes no categories, and no threshold NaN beside which
    NaN goes left. A branch names feature and pair.
    """
    never = np.isnan(forest.less_equal_thresholds(dtype)) & forest.default_left.data
    if forest.on_category.any() or never.any():
        return None
    bits = (int(np.diff(nodes.first).max()) // 2).bit_length()
    feature_bits = forest.n_features.bit_length()
    return bits if feature_bits + FLAG_BITS + bits <= BRANCH_BITS else None


def tabulate_deep(forest: Forest, trees: TreeOrder, nodes: Nodes, dtype: str, bits: int) -> Tables:
    """Return the tables of the trees, for values of a dtype."""
    first = nodes.first[:-1] + np.arange(len(nodes.depth))
    return {
        "nodes": _words(forest, trees, nodes, dtype, bits),
        "first": first.astype(np.int32),
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
        Grid(shape.rows),
        shape.threads,
        shape.shared_bytes,
    )
    tables = {**trees.tables(), **tables}
    out = (("out", out_buffer(forest, trees)),)
    return PlannedKernels(LaunchPlan((launch,), out, tuple(tables)), tables)


def _words(
    forest: Forest, trees: TreeOrder, nodes: Nodes, dtype: str, bits: int
) -> npt.NDArray[np.uint32]:
    """Write the nodes, a tree's after one that all rows pass to the right.

    1. A leaf is its value.
    2. A test is its threshold and its branch, and a pair starts at an even place of its tree.
    """
    tree = nodes.tree
    place = np.arange(len(tree)) + tree + 1
    thresholds = forest.less_equal_thresholds(dtype)
    parts = thresholds.itemsize // 4
    words = np.zeros((len(tree) + len(nodes.depth), 2 * parts), np.uint32)
    inner = np.flatnonzero(nodes.is_test)
    leaves = np.flatnonzero(~nodes.is_test)
    values = trees.values[~nodes.child[leaves]]
    words[place[leaves], : trees.words] = values.view(np.uint32).reshape(-1, trees.words)  # 1
    test = nodes.child[inner]  # 2
    words[place[inner], :parts] = thresholds[test].view(np.uint32).reshape(-1, parts)
    left = nodes.left[inner]
    flags = np.where(forest.default_left.data[test], 0, MISSING_RIGHT)
    flags |= np.where(nodes.is_test[left], 0, LEFT_IS_LEAF)
    flags |= np.where(nodes.is_test[left + 1], 0, RIGHT_IS_LEAF)
    branch = forest.feature.data[test].astype(np.int64) << FLAG_BITS | flags
    words[place[inner], parts] = branch << bits | (left - nodes.first[tree[inner]] + 1) // 2
    root = nodes.first[:-1]
    above = root + np.arange(len(root))
    words[above, :parts] = np.full(1, np.nan, dtype).view(np.uint32)
    flags = MISSING_RIGHT | np.where(nodes.is_test[root], 0, RIGHT_IS_LEAF)
    words[above, parts] = flags << bits
    return words
