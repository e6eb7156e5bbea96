"""Forest: the one flat-array form that every tree ensemble becomes, and parts of it.

A part keeps some trees or some outputs; each sum has its own terms in its own order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array

__all__ = ["CategoryTables", "Forest", "Slopes", "keep_outputs", "keep_trees"]


@dataclass(frozen=True)
class CategoryTables:
    """Decisions of categorical splits: a table of bools for each, one after another.

    A split with a table reads a code, a whole number from 0. It goes left where
    ``goes_left[start[table] + min(code, last)]`` holds: the last entry of a table is for all
    codes beyond it. The meaning of a code is the reader's choice.

    Parameters
    ----------
    of_test : Array of int32, shape (n_tests,)
        Table of each test, -1 for a test on a threshold. Tests of one feature may share one.
    start : Array of int32, shape (n_tables + 1,)
        First entry of each table, and the number of entries.
    goes_left : Array of bool, shape (n_entries,)
    """

    of_test: Array
    start: Array
    goes_left: Array

    @property
    def count(self) -> int:
        """Number of tables."""
        return len(self.start) - 1

    @property
    def last(self) -> npt.NDArray[np.int32]:
        """Last code of each table."""
        return np.diff(self.start.data).astype(np.int32) - 1

    def features(self, forest: Forest) -> npt.NDArray[np.int32]:
        """Feature that each table is about; 0 for a table that no test has."""
        feature = np.zeros(self.count, np.int32)
        feature[self.of_test.data[forest.on_category]] = forest.feature.data[forest.on_category]
        return feature

    def decide(self, table: npt.NDArray[Any], code: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Look the codes up, each in its own table."""
        decided: npt.NDArray[np.bool_] = self.goes_left.data[
            self.start.data[table] + np.minimum(code.astype(np.int64), self.last[table])
        ]
        return decided


@dataclass(frozen=True)
class Slopes:
    """Leaves that are linear models: ``constant + coefficient * x[feature] + ...``.

    The terms are added in turn.

    A leaf with terms of which one is NaN gives its plain value in the forest's ``values``.

    Parameters
    ----------
    constant : Array, shape (n_leaves,)
    start : Array of int32, shape (n_leaves + 1,)
        First term of each leaf, and the number of terms.
    feature : Array of int32, shape (n_terms,)
    coefficient : Array, shape (n_terms,)
    """

    constant: Array
    start: Array
    feature: Array
    coefficient: Array

    def values(
        self, leaves: npt.NDArray[Any], x: npt.NDArray[Any], plain: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Value of one leaf for each row of x, where plain holds the leaves' plain values."""
        total = self.constant.data[leaves]
        missing = np.zeros(len(x), np.bool_)
        counts = np.diff(self.start.data)[leaves]
        for turn in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > turn)
            term = self.start.data[leaves[rows]] + turn
            value = x[rows, self.feature.data[term]].astype(total.dtype)
            missing[rows] |= np.isnan(value)
            total[rows] += self.coefficient.data[term] * value
        return np.where(missing, plain, total)


@dataclass(frozen=True)
class Forest:
    """A tree ensemble as flat arrays, inner nodes ("tests") and leaves apart.

    A child is ``>= 0`` for a test, and ``~leaf`` (negative) for a leaf. Both are numbered over the
    whole forest. The leaves of a tree are contiguous and numbered left to right, tree after tree.
    So a leaf number minus the tree's first leaf is its left-to-right place.

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
    tables : CategoryTables or None
        Of the tests on categories; their thresholds mean nothing.
    slopes : Slopes or None
        Of leaves that are linear models, in scalar trees.
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
    tables: CategoryTables | None = field(default=None, kw_only=True)
    slopes: Slopes | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        return f"<{self.n_trees} trees, {self.n_tests} tests>"

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
        """Columns that some test or linear leaf reads, ascending."""
        counts = np.bincount(self.feature.data, minlength=self.n_features)
        if self.slopes:
            counts += np.bincount(self.slopes.feature.data, minlength=self.n_features)
        return np.flatnonzero(counts).astype(np.int32)

    @cached_property
    def on_category(self) -> npt.NDArray[np.bool_]:
        """Whether each test is one on a category."""
        return self.tables.of_test.data >= 0 if self.tables else np.zeros(self.n_tests, np.bool_)

    @property
    def tests_alone(self) -> Forest:
        """The tests without trees, equal for forests that differ in children and leaves alone."""
        none = Array.of([], np.int32)
        return replace(
            self,
            left=none,
            right=none,
            roots=none,
            first_leaf=none,
            values=none,
            target=none,
            start=none,
            leaf_id=none,
            slopes=None,
        )

    @cached_property
    def depth_of_tests(self) -> npt.NDArray[np.int32]:
        """Number of tests above each test."""
        return _walk(self.left, self.right, self.roots)[0]

    @property
    def depth(self) -> int:
        """Largest number of tests on a path (0: single leaves)."""
        return int(self.depth_of_tests.max(initial=-1)) + 1

    @cached_property
    def tree_of_tests(self) -> npt.NDArray[np.int32]:
        """Tree that each test belongs to."""
        return _walk(self.left, self.right, self.roots)[1]

    @cached_property
    def parents(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The test above each test, -1 for a root, and whether it is the left child."""
        parent = np.full(self.n_tests, -1, np.int64)
        from_left = np.zeros(self.n_tests, np.bool_)
        for children, is_left in ((self.left.data, True), (self.right.data, False)):
            inner = np.flatnonzero(children >= 0)
            parent[children[inner]] = inner
            from_left[children[inner]] = is_left
        return parent, from_left

    def depth_below(self, codes: npt.NDArray[np.int64]) -> int:
        """Largest number of tests on a path from any of some children on."""
        level = codes[codes >= 0]
        depth = 0
        while len(level):
            level = np.concatenate([self.left.data[level], self.right.data[level]])
            depth = depth + 1
            level = level[level >= 0]
        return depth

    def leftmost(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """First leaf below each of some children."""
        codes = codes.astype(np.int64)
        while (inner := codes >= 0).any():
            codes[inner] = self.left.data[codes[inner]]
        return ~codes

    def count_thresholds(self, dtype: str) -> npt.NDArray[np.int64]:
        """Count the distinct thresholds of each feature that has some, for x of the dtype."""
        return _count_thresholds(self.tests_alone, dtype)

    def less_equal_thresholds(self, dtype: str) -> npt.NDArray[Any]:
        """Return thresholds t such that ``x <= t`` decides as the source, for x of the dtype.

        ``x <= t64`` for float32 x is ``x <= (largest float32 not above t64)``. ``x < t`` is
        ``x <= (largest value below t)``, and NaN (never true) where there is none. Tests on
        categories have NaN too.
        """
        exact = self.threshold.data
        with np.errstate(over="ignore"):
            rounded = exact.astype(dtype)
            down = np.nextafter(rounded, np.array(-np.inf, dtype))
        # Both are exact in float64, so this tells which way the threshold was rounded.
        above = rounded.astype(np.float64) > exact.astype(np.float64)
        # No value is <= NaN.
        never = np.array(np.nan, dtype)
        if not self.strict:
            return np.where(self.on_category, never, np.where(above, down, rounded))
        below = np.where(rounded.astype(np.float64) >= exact.astype(np.float64), down, rounded)
        # The number below -inf is -inf again, which x = -inf would reach.
        return np.where(self.on_category | (exact == -np.inf), never, below)

    def leaves(self, x: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Find the leaf that each row of x reaches in each tree: int32, shape (n_rows, n_trees).

        It compares in the wider of the two dtypes, without rounding before. All strategies must
        meet this definition.
        """
        at = np.tile(self.roots.data, (len(x), 1))
        rows, trees = np.nonzero(at >= 0)
        while len(rows):
            test = at[rows, trees]
            goes_left = self.decide(test, x[rows, self.feature.data[test]])
            at[rows, trees] = np.where(goes_left, self.left.data[test], self.right.data[test])
            inner = at[rows, trees] >= 0
            rows = rows[inner]
            trees = trees[inner]
        return (~at).astype(np.int32)

    def decide(self, test: npt.NDArray[Any], value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Tell whether values go left, each at a test of its own."""
        threshold = self.threshold.data[test]
        holds = value < threshold if self.strict else value <= threshold
        goes_left: npt.NDArray[np.bool_] = np.where(
            np.isnan(value), self.default_left.data[test], holds
        )
        if self.tables:
            listed = np.flatnonzero(self.on_category[test])
            goes_left[listed] = self.tables.decide(
                self.tables.of_test.data[test[listed]], value[listed]
            )
        return goes_left

    def scores(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add up the leaf values in the order of the trees.

        The result has shape (n_rows, n_outputs) and the accumulation dtype.
        """
        leaves = self.leaves(x)
        total = np.tile(self.start.data, (len(x), 1))
        for tree, output in enumerate(self.target.data):
            values = self.values.data[leaves[:, tree]]
            if self.values.shape[1] > 1:
                total += values
            elif self.slopes:
                total[:, output] += self.slopes.values(leaves[:, tree], x, values[:, 0])
            else:
                total[:, output] += values[:, 0]
        return total

    def with_features(self, columns: npt.NDArray[Any]) -> Forest:
        """Read only the given columns (ascending, covering all used ones), renumbered from zero."""
        if len(columns) == self.n_features:
            return self
        feature = Array.of(np.searchsorted(columns, self.feature.data), np.int32)
        slopes = self.slopes and replace(
            self.slopes,
            feature=Array.of(np.searchsorted(columns, self.slopes.feature.data), np.int32),
        )
        return replace(self, feature=feature, n_features=len(columns), slopes=slopes)

    def of_wider_rows(self, columns: npt.NDArray[Any], n_features: int) -> Forest:
        """Read the columns at their places among more features: undo ``with_features``."""
        slopes = self.slopes and replace(
            self.slopes, feature=Array.of(columns[self.slopes.feature.data], np.int32)
        )
        feature = Array.of(columns[self.feature.data], np.int32)
        return replace(self, feature=feature, n_features=n_features, slopes=slopes)

    def with_numbered_leaves(self) -> Forest:
        """Name the leaves by their numbers over the forest, for tables that are read at them."""
        return replace(self, leaf_id=Array(np.arange(self.n_leaves, dtype=np.int32)))

    def with_accumulation(self, dtype: str) -> Forest:
        """Leaf values and sums in another dtype."""
        values = Array.of(self.values, dtype)
        start = Array.of(self.start, dtype)
        slopes = self.slopes and replace(
            self.slopes,
            constant=Array.of(self.slopes.constant, dtype),
            coefficient=Array.of(self.slopes.coefficient, dtype),
        )
        return replace(self, values=values, start=start, slopes=slopes)


# Outputs of a model are forests of the same trees, and each is asked.
@lru_cache(maxsize=2)
def _walk(
    left: Array, right: Array, roots: Array
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the depth and the tree of each test."""
    depth = np.zeros(len(left), np.int32)
    tree = np.zeros(len(left), np.int32)
    owners = np.flatnonzero(roots.data >= 0)
    level = roots.data[owners]
    below = 0
    # A level of all trees at a time: the numpy calls grow with the depth, not with the tests.
    while len(level):
        depth[level] = below
        tree[level] = owners
        children = np.concatenate([left.data[level], right.data[level]])
        inner = children >= 0
        level = children[inner]
        owners = np.tile(owners, 2)[inner]
        below = below + 1
    return depth, tree


@lru_cache(maxsize=2)
def _count_thresholds(tests: Forest, dtype: str) -> npt.NDArray[np.int64]:
    # Ints of 16 bits are sorted by counting.
    feature = tests.feature.data.astype(np.min_scalar_type(tests.n_features))
    order = np.argsort(feature, kind="stable")
    ordered = feature[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1]))
    columns = np.split(tests.less_equal_thresholds(dtype)[order], starts)
    return np.array([_count_distinct(np.sort(c)) for c in columns if len(c)], np.int64)


def _count_distinct(ascending: npt.NDArray[Any]) -> int:
    return 1 + int(np.count_nonzero(ascending[1:] != ascending[:-1]))


Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]


def keep_outputs(forest: Forest, outputs: Ints) -> Forest:
    """Return the forest that computes only these outputs, in this order, none of them twice.

    Vector leaves lose entries. Scalar leaves go with their trees.

    Examples
    --------
    >>> none, leaf = Array.of([], "int32"), Array.of([0, 0], "int32")
    >>> forest = Forest(none, Array([]), Array.of([], "bool"), none, none,
    ...                 Array.of([-1, -2], "int32"), Array.of([0, 1, 2], "int32"),
    ...                 Array([[5.0], [7.0]]), Array.of([0, 1], "int32"), Array([0.0, 0.5]), False,
    ...                 2, leaf)
    >>> second = keep_outputs(forest, np.array([1]))
    >>> second.values, second.target, second.start
    ([[7.]], [0], [0.5])
    """
    start = Array(forest.start.data[outputs])
    if forest.values.shape[1] > 1:
        return replace(forest, values=Array(forest.values.data[:, outputs]), start=start)
    fewer = keep_trees(forest, np.flatnonzero(np.isin(forest.target.data, outputs)))
    place = np.zeros(forest.n_outputs, np.int32)
    place[outputs] = np.arange(len(outputs))
    return replace(fewer, target=Array(place[fewer.target.data]), start=start)


def keep_trees(forest: Forest, trees: Ints) -> Forest:
    """Return the forest of these trees alone, which ascend; their outputs and names stay."""
    kept = np.zeros(forest.n_trees, np.bool_)
    kept[trees] = True
    tests = kept[forest.tree_of_tests]
    leaves = np.repeat(kept, np.diff(forest.first_leaf.data))
    counts = np.diff(forest.first_leaf.data)[kept]
    return replace(
        forest,
        feature=Array(forest.feature.data[tests]),
        threshold=Array(forest.threshold.data[tests]),
        default_left=Array(forest.default_left.data[tests]),
        left=_renumber(forest.left.data[tests], tests, leaves),
        right=_renumber(forest.right.data[tests], tests, leaves),
        roots=_renumber(forest.roots.data[kept], tests, leaves),
        first_leaf=Array.of(np.append(0, np.cumsum(counts)), np.int32),
        values=Array(forest.values.data[leaves]),
        target=Array(forest.target.data[kept]),
        leaf_id=Array(forest.leaf_id.data[leaves]),
        tables=forest.tables and _tables_of(forest.tables, tests),
        slopes=forest.slopes and _slopes_of(forest.slopes, leaves),
    )


def _renumber(children: Ints, tests: Bools, leaves: Bools) -> Array:
    """Children by the numbers that their tests and leaves get."""
    # One entry more: children of the other kind look it up, and np.where drops what they read.
    test = np.append(np.cumsum(tests) - 1, 0)
    leaf = np.append(np.cumsum(leaves) - 1, 0)
    inner = children >= 0
    places = np.where(
        inner, test[np.where(inner, children, -1)], ~leaf[np.where(inner, -1, ~children)]
    )
    return Array.of(places, np.int32)


def _tables_of(tables: CategoryTables, tests: Bools) -> CategoryTables | None:
    """Keep the tables that a kept test has; None where no test has any."""
    of_test = tables.of_test.data[tests]
    kept = np.unique(of_test[of_test >= 0])
    if not len(kept):
        return None
    sizes = np.diff(tables.start.data)
    entries = np.repeat(np.isin(np.arange(tables.count), kept), sizes)
    return CategoryTables(
        Array.of(np.where(of_test >= 0, np.searchsorted(kept, of_test), -1), np.int32),
        Array.of(np.append(0, np.cumsum(sizes[kept])), np.int32),
        Array(tables.goes_left.data[entries]),
    )


def _slopes_of(slopes: Slopes, leaves: Bools) -> Slopes:
    """Keep the linear models of the kept leaves."""
    counts = np.diff(slopes.start.data)
    terms = np.repeat(leaves, counts)
    return Slopes(
        Array(slopes.constant.data[leaves]),
        Array.of(np.append(0, np.cumsum(counts[leaves])), np.int32),
        Array(slopes.feature.data[terms]),
        Array(slopes.coefficient.data[terms]),
    )
