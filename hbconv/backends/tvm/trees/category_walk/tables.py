"""A forest with categorical splits as fields of nodes, and the category tables beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["CategoryLookUps", "CategoryWalkTables", "make_category_walk_tables"]


@dataclass(frozen=True, eq=False)
class CategoryLookUps:
    """The table of each split: those of splits on thresholds have one entry, which never holds.

    Parameters
    ----------
    start : int32 (n_splits,)
        First entry of a split's table.
    last : float (n_splits,)
        Last code of it, in the dtype of the values.
    goes_left : uint8 (n_entries,)
    """

    start: npt.NDArray[np.int32]
    last: npt.NDArray[Any]
    goes_left: npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class CategoryWalkTables:
    """Splits that send a row to their first child where ``value <= threshold``.

    NaN is never ``<=``. So a split that sends NaN left asks about ``-x`` instead, in a column of
    its own: ``-x <= (largest value below -t)``, that is ``x > t``. Its first child is the right
    one. The threshold of a categorical split never holds: its table tells.

    Parameters
    ----------
    roots : int32 (n_trees,)
        In the order of evaluation.
    threshold : float (n_splits,)
    fields : int32 (n_splits, 3)
        Column, of x and then of -x; child where the split does not hold; child where it does.
    look_ups : CategoryLookUps or None
    n_features : int
    """

    roots: npt.NDArray[np.int32]
    threshold: npt.NDArray[Any]
    fields: npt.NDArray[np.int32]
    look_ups: CategoryLookUps | None
    n_features: int


def make_category_walk_tables(forest: Forest, dtype: str, trees: Trees) -> CategoryWalkTables:
    """Write the fields of the splits, for values of the given dtype."""
    mirrored = forest.default_left.data & ~forest.on_category
    below = forest.less_equal_thresholds(dtype)
    left = forest.left.data
    right = forest.right.data
    column = forest.feature.data + mirrored * forest.n_features
    children = np.where(mirrored, [right, left], [left, right])
    return CategoryWalkTables(
        roots=forest.roots.data[trees.order],
        threshold=np.where(mirrored, _mirror_thresholds(below), below),
        fields=np.stack([column, children[1], children[0]], axis=1).astype(np.int32),
        look_ups=_look_ups(dtype, forest.tables) if forest.tables else None,
        n_features=forest.n_features,
    )


def _look_ups(dtype: str, tables: CategoryTables) -> CategoryLookUps:
    table = tables.of_test.data
    return CategoryLookUps(
        start=np.where(table >= 0, tables.start.data[table] + 1, 0).astype(np.int32),
        last=np.where(table >= 0, tables.last[table], 0).astype(dtype),
        goes_left=np.concatenate([[0], tables.goes_left.data]).astype(np.uint8),
    )


def _mirror_thresholds(thresholds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return thresholds u such that ``-x <= u`` where ``x > t``.

    Nothing is below NaN, so it becomes infinity; and infinity becomes NaN.
    """
    infinity = np.array(np.inf, thresholds.dtype)
    nan = np.array(np.nan, thresholds.dtype)
    with np.errstate(over="ignore"):
        beyond = np.nextafter(-thresholds, -infinity)
    mirrored = np.where(thresholds == infinity, nan, beyond)
    return np.where(np.isnan(thresholds), infinity, mirrored)
