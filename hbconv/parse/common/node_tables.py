"""Node tables and category sets of any tree library become one Forest, as array code.

The cover of trees is how a library counted the training rows that reached each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    FIRST_CODE,
    MATRIX,
    Affine,
    Cube,
    Node,
    Output,
    TreeContributions,
    TreeInteractions,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import CategoryTables, Forest, Slopes
from hbconv.trees.forest_check import ForestError, check_forest

__all__ = [
    "FlatTrees",
    "NodeTable",
    "assemble",
    "category_sizes",
    "category_tables",
    "contribution_outputs",
    "cover_forest",
    "interaction_outputs",
    "node_shares",
]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FlatTrees:
    """The splits of all trees, tree after tree, and the leaves in the order of the source model.

    ``left`` and ``right`` name splits (``>= 0``) or leaves (``~leaf``) of the whole forest.
    So does ``roots``, for each tree.
    ``values`` (n_leaves, n_values) and ``leaf_id`` have an entry for each leaf.
    Category tables and slopes, where there are any, have one for each of these splits and leaves.
    """

    feature: npt.NDArray[Any]
    threshold: npt.NDArray[Any]
    default_left: npt.NDArray[Any]
    left: Ints
    right: Ints
    roots: Ints
    values: npt.NDArray[Any]
    leaf_id: npt.NDArray[Any]
    tables: CategoryTables | None = None
    slopes: Slopes | None = None


@dataclass(frozen=True)
class NodeTable:
    """The trees of a library that numbers splits and leaves together, tree after tree.

    ``left`` and ``right`` are numbers within the tree, negative at a leaf.
    The first node of each tree is its root. ``tables`` has an entry for each node too.
    """

    sizes: Sequence[int]
    feature: npt.NDArray[Any]
    threshold: npt.NDArray[Any]
    default_left: npt.NDArray[Any]
    left: npt.NDArray[Any]
    right: npt.NDArray[Any]
    values: npt.NDArray[Any]
    tables: CategoryTables | None = None

    def part(self, trees: slice) -> NodeTable:
        """Keep some of the trees, one after another."""
        ends = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        first, last, _ = trees.indices(len(self.sizes))
        nodes = slice(ends[first], ends[max(first, last)])
        feature = self.feature[nodes]
        threshold = self.threshold[nodes]
        default_left = self.default_left[nodes]
        left = self.left[nodes]
        right = self.right[nodes]
        values = self.values[nodes]
        return NodeTable(
            self.sizes[trees],
            feature,
            threshold,
            default_left,
            left,
            right,
            values,
            _tables_of(self.tables, nodes),
        )

    def split(self) -> FlatTrees:
        """Separate splits from leaves.

        Examples
        --------
        >>> a = np.array
        >>> splits = a([7, 0, 0]), a([0.5, 0, 0]), a([1, 0, 0])
        >>> children = a([1, -1, -1]), a([2, -1, -1])
        >>> table = NodeTable([3], *splits, *children, a([[0.0], [4.0], [5.0]]))
        >>> trees = table.split()
        >>> trees.feature, trees.left, trees.right, trees.values[:, 0], trees.leaf_id
        (array([7]), array([-1]), array([-2]), array([4., 5.]), array([1, 2]))
        """
        sizes = np.asarray(self.sizes, dtype=np.int64)
        first = np.cumsum(sizes) - sizes
        offset = np.repeat(first, sizes)
        leaf = np.asarray(self.left) < 0
        # Splits are numbered 0, 1, ... and leaves ~0, ~1, ...: one array names both.
        number = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(~leaf) - 1)
        test = ~leaf
        for child in (self.left, self.right):
            within = np.asarray(child)[test]
            # Children are offset by the start of their tree below: these would reach another one.
            if np.any((within < 0) | (within >= np.repeat(sizes, sizes)[test])):
                raise ConversionError("The model is damaged: a child is in no tree, or in another.")
        left, right = (
            number[np.asarray(child, dtype=np.int64)[test] + offset[test]]
            for child in (self.left, self.right)
        )
        within = np.arange(len(leaf)) - offset
        return FlatTrees(
            self.feature[test],
            self.threshold[test],
            self.default_left[test],
            left,
            right,
            number[first],
            self.values[leaf],
            within[leaf],
            _tables_of(self.tables, test),
        )


def _tables_of(tables: CategoryTables | None, nodes: Any) -> CategoryTables | None:
    return tables and replace(tables, of_test=Array(tables.of_test.data[nodes]))


def assemble(
    trees: FlatTrees,
    start: npt.NDArray[Any],
    *,
    strict: bool,
    n_features: int,
    target: npt.ArrayLike | None = None,
) -> Forest:
    """Make the forest, with leaves numbered left to right, tree after tree.

    Leaves that nothing reaches are left out.

    Parameters
    ----------
    trees : FlatTrees
        Trees as the source model has them.
    start : array, shape (n_outputs,)
        What the sums start from, in the accumulation dtype.
    strict : bool
        The test is ``<`` (else ``<=``).
    n_features : int
        Width of the input.
    target : array_like of int, optional
        Output each tree adds to; by default the first.

    Raises
    ------
    ConversionError
        The arrays are not trees.
    """
    place, first_leaf = _left_to_right(trees)
    reached = np.flatnonzero(place >= 0)
    order = reached[np.argsort(place[reached])]
    # The columns of linear leaves are read as well.
    read = (
        np.concatenate([trees.feature, trees.slopes.feature.data])
        if trees.slopes
        else trees.feature
    )
    # Kernels index the columns unchecked, so a bad index must not get past here.
    if np.any((read < 0) | (read >= n_features)):
        raise ConversionError(
            "The model is damaged: a test reads a column that does not exist (there are "
            f"{n_features})."
        )
    forest = Forest(
        feature=Array.of(trees.feature, np.int32),
        threshold=Array(trees.threshold),
        default_left=Array.of(trees.default_left, np.bool_),
        left=Array.of(_renumber(trees.left, place), np.int32),
        right=Array.of(_renumber(trees.right, place), np.int32),
        roots=Array.of(_renumber(trees.roots, place), np.int32),
        first_leaf=Array.of(first_leaf, np.int32),
        values=Array.of(trees.values[order], start.dtype),
        target=Array.of(np.zeros(len(trees.roots)) if target is None else target, np.int32),
        start=Array(start),
        strict=strict,
        n_features=n_features,
        leaf_id=Array.of(trees.leaf_id[order], np.int32),
        tables=trees.tables,
        slopes=trees.slopes and _reorder_slopes(trees.slopes, order, start.dtype),
    )
    try:
        return check_forest(forest)
    except ForestError as error:
        raise ConversionError(f"The model is damaged. {error}") from error


def _reorder_slopes(slopes: Slopes, order: Ints, dtype: Any) -> Slopes:
    counts = np.diff(slopes.start.data)[order]
    start = np.concatenate([[0], np.cumsum(counts)])
    terms = np.arange(start[-1]) + np.repeat(slopes.start.data[order] - start[:-1], counts)
    feature = Array.of(slopes.feature.data[terms], np.int32)
    coefficient = Array.of(slopes.coefficient.data[terms], dtype)
    return Slopes(
        Array.of(slopes.constant.data[order], dtype),
        Array.of(start, np.int32),
        feature,
        coefficient,
    )


def _renumber(children: Ints, place: Ints) -> Ints:
    leaf = children < 0
    # Inner nodes look up place 0, which np.where discards.
    return np.where(leaf, ~place[~children * leaf], children)


def _left_to_right(trees: FlatTrees) -> tuple[Ints, Ints]:
    """Return the place of each leaf and the first place of each tree.

    A leaf that nothing reaches has -1. All trees are walked at once, level by level.
    """
    levels = _levels(trees)
    leaves_under = np.zeros(len(trees.left), np.int64)
    # Bottom-up: a split has as many leaves as both of its children.
    for level in reversed(levels):
        leaves_under[level] = _leaves(trees.left[level], leaves_under) + _leaves(
            trees.right[level], leaves_under
        )
    first_leaf = np.concatenate([[0], np.cumsum(_leaves(trees.roots, leaves_under))])
    place = np.full(len(trees.leaf_id), -1, np.int64)
    start = np.zeros(len(trees.left), np.int64)

    def put(children: Ints, places: Ints) -> None:
        leaf = children < 0
        place[~children[leaf]] = places[leaf]
        start[children[~leaf]] = places[~leaf]

    put(trees.roots, first_leaf[:-1])
    for level in levels:
        # Top-down: the left child begins where its split does, the right one behind its leaves.
        put(trees.left[level], start[level])
        put(trees.right[level], start[level] + _leaves(trees.left[level], leaves_under))
    return place, first_leaf


def _leaves(children: Ints, leaves_under: Ints) -> Ints:
    """Count the leaves under each child; a leaf counts one."""
    inner = children >= 0
    # Leaves look up entry 0, which is missing where no tree has a split.
    return np.where(inner, leaves_under[children * inner] if len(leaves_under) else 1, 1)


def _levels(trees: FlatTrees) -> list[Ints]:
    """List the splits by depth; raise unless each split, and each leaf at most, is reached once."""
    levels = [trees.roots[trees.roots >= 0]]
    reached = 0
    while len(levels[-1]):
        level = levels[-1]
        reached += len(level)
        # Nodes that form a cycle would be visited for ever.
        if reached > len(trees.left) or level.max() >= len(trees.left):
            break
        children = np.concatenate([trees.left[level], trees.right[level]])
        levels.append(children[children >= 0])
    leaves = ~np.concatenate(
        [children[children < 0] for children in (trees.left, trees.right, trees.roots)]
    )
    if (
        reached != len(trees.left)
        or _repeats(np.concatenate(levels), len(trees.left))
        or _repeats(leaves, len(trees.leaf_id))
    ):
        raise ConversionError("The model is damaged: its nodes do not form trees.")
    return levels


def _repeats(numbers: Ints, size: int) -> bool:
    """Tell whether a number comes twice, or is not below size."""
    return len(numbers) > 0 and (int(numbers.max()) >= size or int(np.bincount(numbers).max()) > 1)


Floats = npt.NDArray[np.float64]


def node_shares(
    sizes: npt.ArrayLike, left: npt.NDArray[Any], right: npt.NDArray[Any], cover: npt.NDArray[Any]
) -> tuple[Floats, Floats]:
    """Return the shares of each test, where a library numbers tests and leaves together.

    Parameters
    ----------
    sizes : array_like of int, shape (n_trees,)
        Nodes of each tree.
    left, right : int arrays, shape (n_nodes,)
        Children within the tree, negative at a leaf.
    cover : array, shape (n_nodes,)

    Examples
    --------
    >>> a = np.array
    >>> node_shares([3], a([1, -1, -1]), a([2, -1, -1]), a([8.0, 6.0, 2.0]))
    (array([0.75]), array([0.25]))
    """
    counts = np.asarray(sizes, np.int64)
    test = np.flatnonzero(left >= 0)
    first = np.repeat(np.cumsum(counts) - counts, counts)[test]
    whole = cover.astype(np.float64)
    # A cover of zero gives no share, which cover_forest sees.
    with np.errstate(all="ignore"):
        return whole[first + left[test]] / whole[test], whole[first + right[test]] / whole[test]


def cover_forest(
    forest: Forest,
    shares: tuple[Floats, Floats],
    feature: npt.ArrayLike | Array | None = None,
    n_features: int | None = None,
) -> CoveredForest | None:
    """Return the forest with its shares; None where they, or its leaves, give no contributions.

    Parameters
    ----------
    forest : Forest
    shares : two arrays of float64, shape (n_tests,)
        Part of the cover of each test that went left, and right.
    feature : array_like of int, shape (n_tests,), optional
        Feature that each test is about; by default its column.
    n_features : int, optional
        Number of features; by default that of the columns.
    """
    left, right = shares
    if forest.slopes is not None or not (_are_shares(left) and _are_shares(right)):
        return None
    return CoveredForest(
        forest,
        Array.of(left, np.float64),
        Array.of(right, np.float64),
        forest.feature if feature is None else Array.of(feature, np.int32),
        forest.n_features if n_features is None else n_features,
        Array.of(_average_leaves(forest, left, right), np.float64),
    )


def _are_shares(shares: Floats) -> bool:
    return bool(np.all((shares >= 0) & (shares <= 1)))


def _average_leaves(forest: Forest, left: Floats, right: Floats) -> Floats:
    """Average the leaves of each tree over the training rows, bottom-up, and add the trees up."""
    n_tests = forest.n_tests
    means = np.empty((n_tests + forest.n_leaves, forest.values.shape[1]))
    means[n_tests:] = forest.values.data

    def places(children: Array) -> npt.NDArray[np.int32]:
        return np.where(children.data >= 0, children.data, n_tests + ~children.data)

    left_child = places(forest.left)
    right_child = places(forest.right)
    depths = forest.depth_of_tests
    order = np.argsort(depths.astype(np.min_scalar_type(forest.depth)), kind="stable")
    sizes = np.bincount(depths, minlength=1)
    for level in reversed(np.split(order, np.cumsum(sizes)[:-1])):
        means[level] = left[level, None] * means[left_child[level]]
        means[level] += right[level, None] * means[right_child[level]]
    trees = means[places(forest.roots)]
    expected: Floats = forest.start.data.astype(np.float64)
    if trees.shape[1] > 1:
        expected += trees.sum(axis=0)
        return expected
    # Several trees add to one output: a plain += would keep only the last.
    np.add.at(expected, forest.target.data, trees[:, 0])
    return expected


def contribution_outputs(
    x: Node, covered: CoveredForest | None, dtype: str | None = None, *, count: int = 1
) -> dict[str, Output]:
    """Return the method ``contributions``, where there are covers.

    It returns (n_rows, n_features + 1), or (n_rows, n_outputs, n_features + 1) of several.

    Parameters
    ----------
    x : Node
        What the trees read.
    covered : CoveredForest or None
    dtype : str, optional
        Of the values returned; by default float64.
    count : int
        Number that the sums are divided by.
    """
    if covered is None:
        return {}
    sums: Node = TreeContributions(x, covered)
    form = MATRIX if covered.shape[0] == 1 else Cube(covered.shape)
    mean = Affine.of(sums, div=count) if count > 1 else sums
    return {"contributions": Output(mean, form, dtype, on_demand=True)}


def interaction_outputs(x: Node, covered: CoveredForest | None, dtype: str) -> dict[str, Output]:
    """Return the method ``interactions``, where there are covers.

    It returns a matrix over the features where ``contributions`` returns a row.
    """
    if covered is None:
        return {}
    outputs, width = covered.shape
    shape = (width, width) if outputs == 1 else (outputs, width, width)
    node = TreeInteractions(x, covered)
    return {"interactions": Output(node, Cube(shape), dtype, on_demand=True)}


LARGEST = 2**24 - FIRST_CODE - 1
"""The largest category whose code float32 holds exactly."""

MOST_ENTRIES = 2**28
"""Entries that all tables together may have, a byte each."""

Numbers = npt.NDArray[Any]


def category_tables(
    tests: Numbers,
    counts: Numbers,
    categories: Numbers,
    *,
    listed_left: npt.ArrayLike,
    nan_left: npt.ArrayLike,
    other_left: npt.ArrayLike,
) -> CategoryTables | None:
    """Write a category table for each set; None where there are no sets.

    Tables are over the codes of the container CategoryCodes, with sizes from ``category_sizes``.

    Parameters
    ----------
    tests : array of int, shape (n_tests,)
        Set of each test, -1 for tests on thresholds.
    counts : array of int, shape (n_sets,)
        Number of categories in each set.
    categories : array of int, shape (sum of counts,)
        The categories of all sets, one set after another.
    listed_left : array_like of bool, shape (sum of counts,) or ()
        Whether a category of the set goes left.
    nan_left, other_left : array_like of bool, shape (n_sets,) or ()
        Whether NaN, and whatever is not in the set, go left.

    Examples
    --------
    >>> sets = np.array([-1, 0]), np.array([2]), np.array([0, 2])
    >>> tables = category_tables(*sets, listed_left=True, nan_left=False, other_left=False)
    >>> tables.goes_left.data.astype(int), tables.start.data
    (array([0, 0, 1, 0, 1, 0]), array([0, 6], dtype=int32))
    """
    if not len(counts):
        return None
    _require_small(categories)
    owner = np.repeat(np.arange(len(counts)), counts)
    largest = np.full(len(counts), -1)
    np.maximum.at(largest, owner, categories)
    # A table has the codes of "no category", of NaN, of each category, and one for all larger.
    start = np.concatenate([[0], np.cumsum(largest + FIRST_CODE + 2)])
    if start[-1] > MOST_ENTRIES:
        raise UnsupportedError(
            "tests on categories",
            "",
            "categories",
            int(start[-1]),
            f"hbconv holds {MOST_ENTRIES}: number the categories from 0.",
        )
    goes_left = np.repeat(np.broadcast_to(other_left, (len(counts),)), np.diff(start))
    # Code 1 is NaN (see CategoryCodes).
    goes_left[start[:-1] + 1] = nan_left
    goes_left[start[owner] + FIRST_CODE + categories] = listed_left
    return CategoryTables(
        Array.of(tests, np.int32), Array.of(start, np.int32), Array.of(goes_left, np.bool_)
    )


def category_sizes(n_features: int, features: Numbers, largest: Numbers) -> Array:
    """Return the sizes for CategoryCodes: one more than a feature's largest tested category.

    A feature with a categorical split has a size of at least one.

    Examples
    --------
    >>> category_sizes(3, np.array([1, 1, 2]), np.array([4, 7, -1])).data
    array([0, 8, 1], dtype=int32)
    """
    _require_small(largest)
    sizes = np.zeros(n_features, np.int64)
    np.maximum.at(sizes, features, np.maximum(largest, 0) + 1)
    return Array.of(sizes, np.int32)


def _require_small(categories: Numbers) -> None:
    if np.any(categories > LARGEST):
        raise UnsupportedError(
            "tests on categories",
            "",
            "category",
            int(categories.max()),
            f"hbconv handles categories up to {LARGEST}.",
        )
