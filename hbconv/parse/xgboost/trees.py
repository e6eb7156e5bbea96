"""The trees of XGBoost's model files: scalar and vector leaves, thresholds, category sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.errors import ConversionError
from hbconv.parse.common.category_tables import category_sizes, category_tables
from hbconv.parse.common.covers import cover_forest, node_shares
from hbconv.parse.common.node_tables import NodeTable, assemble
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["XGBoostTrees", "read_trees"]

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class XGBoostTrees:
    """The trees of the boosters gbtree and dart.

    Parameters
    ----------
    nodes : NodeTable
        All trees; values are leaf values before weights, float32.
    target : array of int, shape (n_trees,)
        Output that each tree adds to.
    cover : array of float32, shape (n_nodes,), or None
        Sum of the hessians of each node; None where the file lacks some.
    weights : array of float32, shape (n_trees,), or None
        Weights of dart's trees.
    ends : sequence of int
        Number of trees after each iteration, zero before the first.
    sizes : Array
        Of the container CategoryCodes, which makes what the trees read.
    """

    nodes: NodeTable
    target: Ints
    cover: Floats | None
    weights: Floats | None
    ends: Sequence[int]
    sizes: Array

    def forest(self, margin: Floats, *, inplace: bool) -> Forest:
        """Make the forest, whose sums start from the margin.

        Dart scales each leaf by the weight of its tree.
        The in-place prediction of XGBoost's scikit-learn wrappers adds the margin to a leaf first.
        It takes the margin off again, both in float32.
        """
        values = self.nodes.values
        table = self.nodes
        if self.weights is not None:
            first = np.repeat(margin[self.target], table.sizes)[:, None]
            values = ((first + values) - first if inplace else values) * np.repeat(
                self.weights, table.sizes
            )[:, None]
        return assemble(
            replace(table, values=values).split(),
            margin,
            strict=True,
            n_features=len(self.sizes),
            target=self.target,
        )

    def covered(self, margin: Floats) -> CoveredForest | None:
        """Return the forest with its covers; XGBoost explains no trees of vector leaves."""
        if self.cover is None or self.nodes.values.shape[1] > 1:
            return None
        table = self.nodes
        shares = node_shares(table.sizes, table.left, table.right, self.cover)
        return cover_forest(self.forest(margin, inplace=False), shares)

    def between(self, first: int, last: int) -> XGBoostTrees:
        """Keep the trees of some boosting stages."""
        trees = slice(int(self.ends[first]), int(self.ends[last]))
        weights = None if self.weights is None else self.weights[trees]
        nodes = np.concatenate([[0], np.cumsum(self.nodes.sizes, dtype=np.int64)])
        own = slice(nodes[trees.start], nodes[max(trees.start, trees.stop)])
        return replace(
            self,
            cover=None if self.cover is None else self.cover[own],
            nodes=self.nodes.part(trees),
            target=self.target[trees],
            weights=weights,
            ends=self.ends[: last + 1 - first],
        )


def read_trees(
    model: Mapping[str, Any], weights: Floats | None, n_features: int, n_outputs: int
) -> XGBoostTrees:
    """Read the ``model`` of a booster gbtree; dart's weights are apart."""
    trees = model["trees"]
    _require(len(model["tree_info"]) == len(trees), "tree_info has another length than the trees")
    numbered = all(tree.get("id", place) == place for place, tree in enumerate(trees))
    _require(numbered, "its trees are not in the order of their ids, by which XGBoost places them")
    _require(
        weights is None or len(weights) == len(trees),
        "weight_drop has another length than the trees, as after booster[::2] of a dart",
    )
    nodes = _table(trees)
    sets = _read_sets(trees)
    if sets.nodes.size:
        _require(
            sets.nodes.max() < len(nodes.feature),
            "a set of categories is at a node that does not exist",
        )
    sizes = category_sizes(n_features, nodes.feature[sets.nodes], sets.largest)
    nodes = replace(nodes, tables=sets.tables(nodes.default_left))
    return XGBoostTrees(
        nodes,
        np.asarray(model["tree_info"], np.int64),
        _cover(trees, len(nodes.feature)),
        weights,
        _iteration_ends(model, n_outputs),
        sizes,
    )


def _table(trees: Sequence[Mapping[str, Any]]) -> NodeTable:
    """Join the arrays of the trees.

    A leaf's value stands where a split has its threshold, unless it is a vector.
    """
    threshold = _joined(trees, "split_conditions", np.float32)
    vectors = any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees)
    nodes = NodeTable(
        [len(tree["left_children"]) for tree in trees],
        _joined(trees, "split_indices", np.int64),
        threshold,
        _joined(trees, "default_left", np.bool_),
        _joined(trees, "left_children", np.int64),
        _joined(trees, "right_children", np.int64),
        np.concatenate([_vectors(tree) for tree in trees]) if vectors else threshold[:, None],
    )
    lengths = {
        len(a)
        for a in (
            nodes.feature,
            nodes.threshold,
            nodes.default_left,
            nodes.left,
            nodes.right,
            nodes.values,
        )
    }
    _require(len(lengths) == 1, "the arrays of its trees differ in length")
    return nodes


def _cover(trees: Sequence[Mapping[str, Any]], n_nodes: int) -> Floats | None:
    """Return the sums of hessians."""
    if not all("sum_hessian" in tree for tree in trees):
        return None
    cover: Floats = _joined(trees, "sum_hessian", np.float32)
    _require(len(cover) == n_nodes, "sum_hessian has another length than the nodes")
    return cover


def _joined(trees: Sequence[Mapping[str, Any]], key: str, dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(_listed(tree, key, dtype) for tree in trees)])


def _listed(tree: Mapping[str, Any], key: str, dtype: Any) -> npt.NDArray[Any]:
    """Return one list of a tree.

    XGBoost refuses fractions where whole numbers belong.
    """
    values = numbers(tree.get(key, ()))
    _require(values.ndim == 1, f"{key} is not a list")
    _require(
        not len(values) or np.dtype(dtype).kind == "f" or values.dtype.kind in "iub",
        f"{key} holds {values.dtype}",
    )
    return values.astype(dtype)


def _vectors(tree: Mapping[str, Any]) -> Floats:
    """Return the value of each node.

    Since XGBoost 3.2 only leaves have one, whose right child is its number; before, all nodes.
    """
    width = int(tree["tree_param"]["size_leaf_vector"])
    if "leaf_weights" not in tree:
        return np.asarray(tree["base_weights"], np.float32).reshape(-1, width)
    leaf = np.asarray(tree["left_children"], np.int64) < 0
    number = np.where(leaf, np.asarray(tree["right_children"], np.int64), 0)
    _require(not np.any(number < 0), "a leaf has a negative number")
    weights = np.asarray(tree["leaf_weights"], np.float32).reshape(-1, width)
    _require(np.count_nonzero(leaf) <= len(weights), "leaves share their weights")
    return weights[number]


def _iteration_ends(model: Mapping[str, Any], n_outputs: int) -> Sequence[int]:
    if "iteration_indptr" in model:
        ends = [int(end) for end in model["iteration_indptr"]]
        _require(
            ends[0] == 0 and ends[-1] == len(model["trees"]) and ends == sorted(ends),
            "iteration_indptr does not cover the trees",
        )
        return ends
    step = n_outputs * int(model["gbtree_model_param"]["num_parallel_tree"])
    return range(0, len(model["trees"]) + 1, max(step, 1))


@dataclass(frozen=True)
class _Sets:
    """The category sets of all trees: the node of each, its size, and its categories."""

    nodes: Ints
    counts: Ints
    categories: Ints

    @property
    def largest(self) -> Ints:
        """Return the largest category of each set, -1 of an empty one."""
        largest = np.full(len(self.nodes), -1)
        np.maximum.at(largest, np.repeat(np.arange(len(self.nodes)), self.counts), self.categories)
        return largest

    def tables(self, default_left: npt.NDArray[np.bool_]) -> CategoryTables | None:
        """Write the category tables: listed categories go right, others left, NaN by default."""
        set_of = np.full(len(default_left), -1)
        set_of[self.nodes] = np.arange(len(self.nodes))
        return category_tables(
            set_of,
            self.counts,
            self.categories,
            listed_left=False,
            nan_left=default_left[self.nodes],
            other_left=True,
        )


def _read_sets(trees: Sequence[Mapping[str, Any]]) -> _Sets:
    def counted(key: str, past: str) -> Ints:
        """Return indices into the arrays of one tree as indices into those of all trees."""
        sizes = np.array([len(tree.get(past, ())) for tree in trees], np.int64)
        each = [len(tree.get(key, ())) for tree in trees]
        own = _joined(trees, key, np.int64)
        _require(
            not np.any((own < 0) | (own > np.repeat(sizes, each))), f"{key} points beyond its tree"
        )
        return own + np.repeat(np.cumsum(sizes) - sizes, each)

    nodes = counted("categories_nodes", "left_children")
    counts = _joined(trees, "categories_sizes", np.int64)
    start = counted("categories_segments", "categories")
    categories = _joined(trees, "categories", np.int64)
    _require(
        len(nodes) == len(counts) == len(start),
        "the arrays of its sets of categories differ in length",
    )
    _require(not np.any(categories < 0), "a category is negative")
    _require(
        not np.any(counts < 0) and counts.sum() == len(categories),
        "categories_sizes is not the number of its categories",
    )
    places = np.arange(counts.sum()) + np.repeat(start - (np.cumsum(counts) - counts), counts)
    return _Sets(nodes, counts, categories[places])


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ConversionError(f"The XGBoost model is damaged: {message}.")
