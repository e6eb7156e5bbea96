"""The cover of trees: how a library counted the training rows that reached each node."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    Affine,
    Cube,
    Node,
    Output,
    TreeContributions,
    TreeInteractions,
)
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest

__all__ = ["contribution_outputs", "cover_forest", "interaction_outputs", "node_shares"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
    with np.errstate(all="ignore"):  # a cover of zero gives no share, which cover_forest sees
        return whole[first + left[test]] / whole[test], whole[first + right[test]] / whole[test]


def cover_forest(
    forest: Forest,
    shares: tuple[Floats, Floats],
    feature: npt.ArrayLike | Array | None = None,
    n_features: int | None = None,
) -> CoveredForest | None:
    """Return the forest with its shares; None where they, or its leaves, tell no contributions.

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
        Array.of(_expected(forest, left, right), np.float64),
    )


def _are_shares(shares: Floats) -> bool:
    return bool(np.all((shares >= 0) & (shares <= 1)))


def _expected(forest: Forest, left: Floats, right: Floats) -> Floats:
    """Average the leaves of each tree over the training rows, bottom-up, and add the trees up."""
    values = forest.values.data.astype(np.float64)
    means = np.zeros((forest.n_tests, values.shape[1]))

    def mean_of(children: npt.NDArray[np.int32]) -> Floats:
        found = np.empty((len(children), values.shape[1]))
        inner = children >= 0
        found[inner] = means[children[inner]]
        found[~inner] = values[~children[~inner]]
        return found

    for depth in range(forest.depth - 1, -1, -1):
        level = np.flatnonzero(forest.depth_of_tests == depth)
        means[level] = left[level, None] * mean_of(forest.left.data[level])
        means[level] += right[level, None] * mean_of(forest.right.data[level])
    trees = mean_of(forest.roots.data)
    expected: Floats = forest.start.data.astype(np.float64)
    if trees.shape[1] > 1:
        expected += trees.sum(axis=0)
        return expected
    np.add.at(expected, forest.target.data, trees[:, 0])
    return expected


def contribution_outputs(
    x: Node, covered: CoveredForest | None, dtype: str | None = None, *, count: int = 1
) -> dict[str, Output]:
    """Return the method ``contributions``, where there are covers.

    Its answer is (n_rows, n_features + 1), or (n_rows, n_outputs, n_features + 1) of several.

    Parameters
    ----------
    x : Node
        What the trees read.
    covered : CoveredForest or None
    dtype : str, optional
        Of the answer; by default float64.
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

    Its answer has a matrix of the features where that of contributions has a row.
    """
    if covered is None:
        return {}
    outputs, width = covered.shape
    shape = (width, width) if outputs == 1 else (outputs, width, width)
    node = TreeInteractions(x, covered)
    return {"interactions": Output(node, Cube(shape), dtype, on_demand=True)}
