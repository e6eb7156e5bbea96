"""What a tree kernel is: a way to find the leaves that rows reach.

A kernel does not know what its leaves are for. It hands them over in one of three forms: for a tile
of rows, for a block of rows, or for one row (``leaves/``). ``choose.py`` makes ``tree_scores`` and
``tree_leaves`` of any kernel by its form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.tables import RANKS_PER_COLUMN, Bins, make_bins
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest
from hbconv.trees.leaf_splits import LeafSplits, split_leaves
from hbconv.trees.symmetric_forest import find_level_splits

__all__ = [
    "MAX_MASKS_PER_SET",
    "MAX_MASKS_PER_SPLIT",
    "MOST_TABLES",
    "SETS_PER_TREE",
    "HandOver",
    "LeafForm",
    "TreeKernel",
    "TreeTask",
]

# No timings of this choice are kept.
MAX_MASKS_PER_SPLIT = 1.25
"""Masks for each split up to which planes are faster than deciding the splits on bytes."""
# On bytes, deciding category sets takes ten times as long.
MAX_MASKS_PER_SET = 100
"""The same for each category set, which on bytes is looked up row by row."""
# Looking for equal sets takes 1.4 s for 12,000 tables.
MOST_TABLES = 1 << 14
"""Tables of categories among which equal ones are looked for."""
# 500 trees with 4,851 sets took 7,503 ns a row when walks looked them up, and 4,828 so.
SETS_PER_TREE = 20
"""Sets that are decided in less time than the look-ups of a tree take that they replace."""

HandOver = Callable[..., None]
"""Takes the leaves that a kernel has found; its parameters are those of the kernel's form."""


@dataclass(frozen=True)
class TreeTask:
    """A forest to evaluate, and all that the choice of a kernel depends on.

    What several steps need to know of the forest is a cached property here.

    Parameters
    ----------
    forest : Forest
    dtype : str
        Of the values that the splits compare.
    strategy : str
    schedule : Schedule
    machine : Machine
    added : bool
        Whether the values of the leaves are added; else their numbers are written.
    """

    forest: Forest
    dtype: str
    strategy: str
    schedule: Schedule
    machine: Machine
    added: bool = True

    @cached_property
    def bins(self) -> Bins:
        """The thresholds as bytes."""
        return make_bins(self.forest, self.dtype)

    @cached_property
    def ranks(self) -> Bins:
        """The thresholds as ranks of two bytes."""
        return make_bins(self.forest, self.dtype, RANKS_PER_COLUMN)

    @cached_property
    def leaf_splits(self) -> LeafSplits:
        """The trees halved by their leaves."""
        return split_leaves(self.forest)

    @cached_property
    def level_splits(self) -> npt.NDArray[np.int64] | None:
        """One split of each level of each tree; None where a tree is not oblivious."""
        return find_level_splits(self.forest)


class LeafForm(Protocol):
    """A form in which kernels hand leaves over: the modules of ``leaves/``.

    Either function yields what a kernel calls with the leaves that it has found.
    """

    def adding(
        self, k: Kernel, out: Place, forest: Forest, trees: Trees
    ) -> AbstractContextManager[HandOver]:
        """Add the values of the leaves, tree after tree."""

    def writing(
        self, k: Kernel, out: Place, forest: Forest, trees: Trees
    ) -> AbstractContextManager[HandOver]:
        """Write the numbers of the leaves, counted over the forest."""


class TreeKernel(Protocol):
    """A way to find the leaves that rows reach.

    Attributes
    ----------
    name : str
    form : LeafForm
        How it hands leaves over.
    binned : bool
        Whether it compares bytes, not the values themselves.
    """

    name: ClassVar[str]
    form: ClassVar[LeafForm]
    binned: ClassVar[bool] = False

    def fits(self, task: TreeTask) -> bool:
        """Say whether this is the kernel for a task, where none before it in the list is."""

    def group(self, task: TreeTask) -> int:  # noqa: ARG002
        """Return how many trees are evaluated together."""
        return 1

    def numbers(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Return the number by which it names each leaf: that over the forest."""
        return np.arange(task.forest.n_leaves)

    def numbers_added(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Return the number by which it names each leaf where the values of leaves are added."""
        return self.numbers(task)

    def trees(self, task: TreeTask) -> Trees:
        """Return the trees in the order in which they are evaluated."""
        if task.added:
            return Trees.by_output(task.forest, self.group(task), self.numbers_added(task))
        return Trees.by_number(task.forest, self.group(task), self.numbers(task))

    def tables(self, task: TreeTask, trees: Trees) -> Any:
        """Return what the trees become: numpy arrays, the only part that depends on the model."""

    def find_leaves(self, k: Kernel, x: Place, tables: Any, hand_over: HandOver) -> None:
        """Emit the loops that find the leaves, and hand them over in this kernel's form."""
