"""Forest: the one flat-array form that every tree ensemble becomes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array

__all__ = ["Forest"]


@dataclass(frozen=True)
class Forest:
    """A tree ensemble as flat arrays, inner nodes ("tests") and leaves apart.

    A child is ``>= 0`` for a test, and ``~leaf`` (negative) for a leaf; both are numbered over the whole
    forest. The leaves of a tree are contiguous and stand left to right, tree after tree, so that a leaf number
    minus the tree's first leaf is its left-to-right place.

    Parameters
    ----------
    feature, left, right : Array of int32, shape (n_tests,)
        Column tested; children where the test holds and where it does not.
    threshold : Array of float32 or float64, shape (n_tests,)
        In the source's dtype.
    default_left : Array of bool, shape (n_tests,)
        Where NaN goes. A source that first replaces NaN by zero is read as "where zero goes".
    roots : Array of int32, shape (n_trees,)
        Encoded as a child is: a tree of a single leaf has a negative root.
    first_leaf : Array of int32, shape (n_trees + 1,)
        First leaf of each tree, and the number of leaves.
    values : Array, shape (n_leaves, n_values)
        Leaf values in the accumulation dtype. One column: the tree adds to output ``target[tree]``.
        More: each leaf is a vector over all outputs.
    target : Array of int32, shape (n_trees,)
        Output that a tree of scalar leaves adds to; zeros where leaves are vectors.
    start : Array, shape (n_outputs,)
        What the sums start from, in the accumulation dtype.
    strict : bool
        The test is ``x < threshold`` (True) or ``x <= threshold`` (False).
    n_features : int
        Width of the input.
    leaf_id : Array of int32, shape (n_leaves,)
        The source library's own number of each leaf, within its tree.
    """

    feature: Array
    threshold: Array
    default_left: Array
    left: Array
    right: Array
    roots: Array
    first_leaf: Array
    values: Array
    target: Array
    start: Array
    strict: bool
    n_features: int
    leaf_id: Array

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @property
    def n_tests(self) -> int:
        """Number of inner nodes of all trees."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return len(self.leaf_id)

    @property
    def n_outputs(self) -> int:
        """Number of sums."""
        return len(self.start)

    @property
    def accumulate(self) -> str:
        """Dtype of leaf values and sums."""
        return self.values.dtype

    @cached_property
    def used_features(self) -> npt.NDArray[np.int32]:
        """Columns that some test reads, ascending."""
        return np.unique(self.feature.data)

    @cached_property
    def depth_of_tests(self) -> npt.NDArray[np.int32]:
        """Number of tests above each test."""
        depth = np.zeros(self.n_tests, np.int32)
        level = self.roots.data[self.roots.data >= 0]
        while len(level):
            children = np.concatenate([self.left.data[level], self.right.data[level]])
            depths = np.tile(depth[level] + 1, 2)
            inner = children >= 0
            level = children[inner]
            depth[level] = depths[inner]
        return depth

    @property
    def depth(self) -> int:
        """Largest number of tests on a path (0: single leaves)."""
        return int(self.depth_of_tests.max(initial=-1)) + 1

    @cached_property
    def tree_of_tests(self) -> npt.NDArray[np.int32]:
        """Tree that each test belongs to."""
        tree = np.zeros(self.n_tests, np.int32)
        inner = self.roots.data >= 0
        level = self.roots.data[inner]
        tree[level] = np.flatnonzero(inner)
        while len(level):
            children = np.concatenate([self.left.data[level], self.right.data[level]])
            owners = np.tile(tree[level], 2)
            inner = children >= 0
            level = children[inner]
            tree[level] = owners[inner]
        return tree

    def less_equal_thresholds(self, dtype: str) -> npt.NDArray[Any]:
        """Thresholds t such that ``x <= t`` decides as the source does, for x of the given dtype.

        ``x <= t64`` for float32 x is ``x <= (largest float32 not above t64)``; ``x < t`` is ``x <= (largest
        value below t)``, and NaN (never true) where there is none.
        """
        exact = self.threshold.data
        with np.errstate(over="ignore"):
            rounded = exact.astype(dtype)
            down = np.nextafter(rounded, np.array(-np.inf, dtype))
        above = rounded.astype(np.float64) > exact.astype(np.float64)
        if not self.strict:
            return np.where(above, down, rounded)
        below = np.where(rounded.astype(np.float64) >= exact.astype(np.float64), down, rounded)
        return np.where(exact == -np.inf, np.array(np.nan, dtype), below)

    def leaves(self, x: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Find the leaf that each row of x reaches in each tree: int32, shape (n_rows, n_trees).

        Compares in the wider of the two dtypes, which no rounding precedes: the definition all strategies must meet.
        """
        at = np.tile(self.roots.data, (len(x), 1))
        rows, trees = np.nonzero(at >= 0)
        while len(rows):
            test = at[rows, trees]
            value, threshold = x[rows, self.feature.data[test]], self.threshold.data[test]
            holds = value < threshold if self.strict else value <= threshold
            goes_left = np.where(np.isnan(value), self.default_left.data[test], holds)
            at[rows, trees] = np.where(goes_left, self.left.data[test], self.right.data[test])
            inner = at[rows, trees] >= 0
            rows, trees = rows[inner], trees[inner]
        return (~at).astype(np.int32)

    def scores(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add up the leaf values in the order of the trees: accumulation dtype, shape (n_rows, n_outputs)."""
        leaves = self.leaves(x)
        total = np.tile(self.start.data, (len(x), 1))
        for tree, output in enumerate(self.target.data):
            if self.values.shape[1] > 1:
                total += self.values.data[leaves[:, tree]]
            else:
                total[:, output] += self.values.data[leaves[:, tree], 0]
        return total

    def with_features(self, columns: npt.NDArray[Any]) -> "Forest":
        """Read only the given columns (ascending, covering all used ones), renumbered from zero."""
        return replace(self, feature=Array(np.searchsorted(columns, self.feature.data).astype(np.int32)), n_features=len(columns))

    def with_accumulation(self, dtype: str) -> "Forest":
        """Leaf values and sums in another dtype."""
        return replace(self, values=Array.of(self.values, dtype), start=Array.of(self.start, dtype))
