"""Oblivious trees as one split a level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bytewise.tables import number_dtype, threshold_words
from hbconv.backends.tvm.trees.tree_order import NO_TREE, Trees
from hbconv.trees.forest import Forest

__all__ = ["ObliviousTables", "make_oblivious_tables"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ObliviousTables:
    """One split for each level of each tree, tree after tree, top level first.

    Parameters
    ----------
    bins : Bins
    column : int32 (n_levels,)
        Of bytes, of each split.
    threshold : int32 (n_levels,)
        Four times the byte that is larger than those of rows that go left, and than no others.
    start : int32 (n_places + 1,)
        First split of the tree at each place; a place without a tree has none.
    group : int
        Trees of a group.
    dtype : str
        Of the numbers of leaves.
    """

    bins: Bins
    column: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.int32]
    start: npt.NDArray[np.int32]
    group: int
    dtype: str

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return (len(self.start) - 1) // self.group


def make_oblivious_tables(
    forest: Forest, bins: Bins, splits: Ints, trees: Trees
) -> ObliviousTables:
    """Lay out the given splits of the levels in the order of the trees."""
    place = np.empty(forest.n_trees, np.int64)
    real = np.flatnonzero(trees.order != NO_TREE)
    place[trees.order[real]] = real
    # Stable, so that the levels of a tree keep their order.
    splits = splits[np.argsort(place[forest.tree_of_tests[splits]], kind="stable")]
    place_of_split = place[forest.tree_of_tests[splits]]
    # Repeated bytes may exceed 2**31; the bits are kept.
    words = threshold_words(bins.threshold_bin[splits]).astype(np.uint32).view(np.int32)
    return ObliviousTables(
        bins=bins,
        column=bins.column[splits],
        threshold=words,
        start=np.searchsorted(place_of_split, np.arange(len(trees.order) + 1)).astype(np.int32),
        group=trees.group,
        dtype=number_dtype(forest),
    )
