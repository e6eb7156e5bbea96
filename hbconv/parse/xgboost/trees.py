"""The trees of XGBoost's model files, and its objectives.

Leaves are numbers or vectors; splits compare thresholds or look for sets of categories. An
objective leads from ``base_score`` to raw scores, and from these to predictions.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers import Affine, ArgMax, Cast, Clip, Compare, Map, Node, Softmax
from hbconv.errors import ConversionError
from hbconv.parse.common.node_tables import (
    NodeTable,
    assemble,
    category_sizes,
    category_tables,
    cover_forest,
    node_shares,
)
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["LINKS", "XGBoostTrees", "base_scores", "margins", "predictions", "read_trees"]

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
            # (margin + leaf) - margin loses bits of the leaf in
            # float32, and XGBoost loses the same.
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
        kept_nodes = slice(nodes[trees.start], nodes[max(trees.start, trees.stop)])
        return replace(
            self,
            cover=None if self.cover is None else self.cover[kept_nodes],
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
    # Reversed trees of a dart model answered otherwise: XGBoost places a tree by its id.
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

    A leaf's value is where a split has its threshold, unless it is a vector.
    """
    threshold = _join_lists(trees, "split_conditions", np.float32)
    vectors = any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in trees)
    nodes = NodeTable(
        [len(tree["left_children"]) for tree in trees],
        _join_lists(trees, "split_indices", np.int64),
        threshold,
        _join_lists(trees, "default_left", np.bool_),
        _join_lists(trees, "left_children", np.int64),
        _join_lists(trees, "right_children", np.int64),
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
    cover: Floats = _join_lists(trees, "sum_hessian", np.float32)
    _require(len(cover) == n_nodes, "sum_hessian has another length than the nodes")
    return cover


def _join_lists(trees: Sequence[Mapping[str, Any]], key: str, dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(_read_list(tree, key, dtype) for tree in trees)])


def _read_list(tree: Mapping[str, Any], key: str, dtype: Any) -> npt.NDArray[Any]:
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
    # Files without iteration_indptr have a tree for each output and parallel tree in each round.
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
        within = _join_lists(trees, key, np.int64)
        _require(
            not np.any((within < 0) | (within > np.repeat(sizes, each))),
            f"{key} points beyond its tree",
        )
        return within + np.repeat(np.cumsum(sizes) - sizes, each)

    nodes = counted("categories_nodes", "left_children")
    counts = _join_lists(trees, "categories_sizes", np.int64)
    start = counted("categories_segments", "categories")
    categories = _join_lists(trees, "categories", np.int64)
    _require(
        len(nodes) == len(counts) == len(start),
        "the arrays of its sets of categories differ in length",
    )
    _require(not np.any(categories < 0), "a category is negative")
    _require(
        not np.any(counts < 0) and counts.sum() == len(categories),
        "categories_sizes is not the number of its categories",
    )
    # The segments of sets may come in any order, so entries are gathered by their starts.
    places = np.arange(counts.sum()) + np.repeat(start - (np.cumsum(counts) - counts), counts)
    return _Sets(nodes, counts, categories[places])


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ConversionError(f"The XGBoost model is damaged: {message}.")


LINKS: dict[str, str] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logit"),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "log"
    ),
    **dict.fromkeys(
        (
            "reg:squarederror",
            "reg:linear",
            "reg:squaredlogerror",
            "reg:pseudohubererror",
            "reg:absoluteerror",
        ),
        "identity",
    ),
    **dict.fromkeys(
        ("reg:quantileerror", "binary:logitraw", "binary:hinge", "multi:softprob", "multi:softmax"),
        "identity",
    ),
    **dict.fromkeys(("rank:pairwise", "rank:ndcg", "rank:map"), "identity"),
}
"""From ``base_score`` to the raw score that sums start from, by objective."""

_EDGE = np.float32(1e-6)
"""The logit is taken of probabilities no nearer to 0 and 1."""


def base_scores(text: str) -> Floats:
    """Read the base score of one output, or of each.

    Since XGBoost 3.1 the text holds a number for each, such as ``"[5E-1,2E-1]"``. XGBoost writes
    finite numbers, and reads others as if there were none.
    """
    scores = np.array([float(number) for number in str(text).strip("[]").split(",")], np.float32)
    if not np.isfinite(scores).all():
        raise ValueError(f"base_score {text!r:.50} is not finite")
    return scores


def margins(scores: Floats, objective: str) -> Floats:
    """Return what the sums start from, from base scores."""
    one = np.float32(1)
    link = LINKS[objective]
    if link == "logit":
        # The logit in float32: its rounding is part of XGBoost's raw scores.
        return np.array(
            [-_log(one / p - one) for p in np.clip(scores, _EDGE, one - _EDGE)], np.float32
        )
    return np.array([_log(p) for p in scores], np.float32) if link == "log" else scores


def predictions(margin: Node, objective: str) -> Node:
    """Return what ``Booster.predict`` makes of the raw scores."""
    return _TRANSFORMS[objective](margin) if objective in _TRANSFORMS else margin


def _log(x: np.float32) -> np.float32:
    """Return the float32 logarithm of the C library, which XGBoost calls.

    numpy's differs in the last bit.
    """
    try:
        # CDLL(None) is the process itself, which has the C library; Windows has none there.
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):
        return np.float32(math.log(x))
    logf.argtypes = [ctypes.c_float]
    logf.restype = ctypes.c_float
    return np.float32(logf(x))


def _exp(x: Node) -> Node:
    """Round the float64 exponential to float32: the value of the C library but for some ties."""
    # float64 has 29 more bits, so the rounded value is the
    # correctly rounded one except at near ties.
    return Cast(Map(Cast(x, "float64"), "exp"), "float32")


def _sigmoid(margin: Node) -> Node:
    """Return ``1 / (exp(min(-x, 88.7)) + 1)``, each step in float32."""
    # exp(88.73) exceeds float32, and infinity would make the reciprocal 0.
    return Map(Affine.of(_exp(Clip.of(Map(margin, "neg"), -np.inf, 88.7)), add=1.0), "reciprocal")


_TRANSFORMS: dict[str, Callable[[Node], Node]] = {
    **{name: _exp for name, link in LINKS.items() if link == "log"},
    **dict.fromkeys(("binary:logistic", "reg:logistic"), _sigmoid),
    "binary:hinge": lambda margin: Compare.of(margin, "gt", 0.0, "float32"),
    # XGBoost adds the exponentials in float64.
    "multi:softprob": lambda margin: Softmax(margin, within="float64"),
    "multi:softmax": ArgMax,
}
"""Objectives whose predictions are not the raw scores."""
