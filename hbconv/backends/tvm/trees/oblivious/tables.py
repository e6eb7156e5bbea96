"""Oblivious trees as one split a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.float_keys.tables import KEY_DTYPES, keys_of, signed_keys
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.forest import Forest

__all__ = ["ObliviousTables", "make_oblivious_tables"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ObliviousTables:
    """One split for each level of each tree, tree after tree, top level first.

    A row has a key for each column: a feature in one of the two directions that NaN can take. It
    goes right at a split where the key of the split's column exceeds the split's threshold.

    Parameters
    ----------
    feature, nan_left : int32 (n_columns,)
    column : int32 (n_levels,)
        Of each split.
    threshold : int32 or int64 (n_levels,)
        Signed key of each split's threshold.
    start : int32 (n_trees + 1,)
        First split of each tree.
    first_leaf : int32 (n_trees,)
    """

    feature: npt.NDArray[np.int32]
    nan_left: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    threshold: npt.NDArray[Any]
    start: npt.NDArray[np.int32]
    first_leaf: npt.NDArray[np.int32]


def make_oblivious_tables(
    forest: Forest, dtype: str, splits: Ints, trees: Trees
) -> ObliviousTables:
    """Lay out the given splits of the levels, for values of a dtype, in the order of the trees."""
    place = np.empty(forest.n_trees, np.int64)
    place[trees.order] = np.arange(forest.n_trees)
    splits = splits[np.argsort(place[forest.tree_of_tests[splits]], kind="stable")]
    direction = forest.feature.data[splits] * 2 + forest.default_left.data[splits]
    pairs, column = np.unique(direction, return_inverse=True)
    keys = keys_of(forest.less_equal_thresholds(dtype)[splits])
    tree = place[forest.tree_of_tests[splits]]
    return ObliviousTables(
        feature=(pairs // 2).astype(np.int32),
        nan_left=(pairs % 2).astype(np.int32),
        column=column.astype(np.int32),
        threshold=signed_keys(keys, KEY_DTYPES[dtype]),
        start=np.searchsorted(tree, np.arange(forest.n_trees + 1)).astype(np.int32),
        first_leaf=forest.first_leaf.data[:-1][trees.order],
    )
