"""Trees of Spark ML: single ones, forests and boosted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    CategoryCodes,
    Compare,
    Concat,
    GroupSums,
    Map,
    Node,
    Output,
    Quotient,
    TreeEnsemble,
)
from hbconv.parse.common.category_tables import category_sizes, category_tables
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.node_tables import NodeTable, assemble
from hbconv.parse.spark.saved_model import SparkStage, class_output, stage
from hbconv.trees.forest import Forest

Rows = Sequence[dict[str, Any]]


@stage("DecisionTreeRegressionModel")
def read_tree_regressor(at: SparkStage) -> None:
    """Predict the number of the leaf."""
    sums = _sums(at, _predictions)
    at.frame.answers = {"predict": Output(sums, VECTOR)}


@stage("RandomForestRegressionModel")
def read_forest_regressor(at: SparkStage) -> None:
    """Predict the mean of the trees' numbers."""
    mean = Affine.of(_sums(at, _predictions), div=float(len(_trees(at))))
    at.frame.answers = {"predict": Output(mean, VECTOR)}


@stage("GBTRegressionModel")
def read_boosted_regressor(at: SparkStage) -> None:
    """Predict the sum of the trees' numbers, each times its weight."""
    at.frame.answers = {"predict": Output(_sums(at, _predictions, _weights(at)), VECTOR)}


@stage("GBTClassificationModel")
def read_boosted_classifier(at: SparkStage) -> None:
    """Predict by the sign of the sum; probabilities are logistic in twice the sum."""
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    margin = _sums(at, _predictions, _weights(at))
    p = Map(Affine.of(margin, mul=2.0), "sigmoid")
    codes = Compare.of(margin, "gt", 0.0, "int32")
    at.frame.answers = {
        "predict": class_output(codes, 2),
        "predict_proba": Output(beside_complement(p)),
        "raw_scores": Output(Concat((Map(margin, "neg"), margin))),
    }


@stage("DecisionTreeClassificationModel", "RandomForestClassificationModel")
def read_forest_classifier(at: SparkStage) -> None:
    """Sum the trees' class counts, of a forest's tree as shares, and divide by their total."""
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    forest = at.model.kind.startswith("RandomForest")
    raw = _sums(at, _shares if forest else _counts)
    at.frame.answers = {
        "predict": class_output(ArgMax(raw), raw.type.width),
        "predict_proba": Output(Quotient((raw, GroupSums(raw, 1)))),
        "raw_scores": Output(raw),
    }


def _trees(at: SparkStage) -> list[Rows]:
    """Return the nodes of each tree, in the order of their numbers."""
    rows = at.model.rows
    # A single tree has its nodes as rows; a forest wraps them with the number of their tree.
    if not rows or "nodeData" not in rows[0]:
        return [sorted(rows, key=_node_id)]
    trees: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        trees.setdefault(row["treeID"], []).append(row["nodeData"])
    return [sorted(trees[number], key=_node_id) for number in sorted(trees)]


def _node_id(node: dict[str, Any]) -> int:
    return int(node["id"])


def _weights(at: SparkStage) -> npt.NDArray[np.float64]:
    """Return the weight of each tree, which Spark keeps beside the nodes."""
    rows = sorted(at.model.table("treesMetadata"), key=lambda row: int(row["_1"]))
    return np.array([row["_3"] for row in rows], np.float64)


def _predictions(node: dict[str, Any]) -> list[float]:
    return [node["prediction"]]


def _counts(node: dict[str, Any]) -> list[float]:
    return list(node["impurityStats"])


def _shares(node: dict[str, Any]) -> list[float]:
    total = sum(node["impurityStats"])
    return [count / total if total else 0.0 for count in node["impurityStats"]]


def _sums(at: SparkStage, values: Any, weights: npt.NDArray[np.float64] | None = None) -> Node:
    """Add what the leaf of each tree holds, tree after tree."""
    trees = _trees(at)
    # A leaf times its weight is one product either way, so it is taken when the model is read.
    each = np.ones(len(trees)) if weights is None else weights
    x: Node = Cast(at.column(at.inputs()[0]), "float64")
    nodes = [node for tree in trees for node in tree]
    leaf_values = np.array([values(node) for node in nodes], np.float64)
    scaled = leaf_values * np.repeat(each, [len(tree) for tree in trees])[:, None]
    forest, sizes = _forest(nodes, [len(tree) for tree in trees], scaled, x.type.width)
    return TreeEnsemble(CategoryCodes(x, sizes) if sizes.data.any() else x, forest)


def _forest(
    nodes: Rows, counts: list[int], values: npt.NDArray[np.float64], n_features: int
) -> tuple[Forest, Array]:
    """Make the forest."""
    splits = [node["split"] for node in nodes]
    left = np.array([node["leftChild"] for node in nodes], np.int64)
    feature = np.array([split["featureIndex"] for split in splits], np.int64)
    categorical = np.array([split["numCategories"] >= 0 for split in splits]) & (left >= 0)
    tests = np.flatnonzero(categorical)
    # Leaves and thresholds have numCategories=-1.
    kept = [_kept_categories(splits[i]) for i in tests]
    lists = [categories for categories, _ in kept]
    counts_of = np.array([len(categories) for categories in lists], np.int64)
    listed_left = np.array([goes_left for _, goes_left in kept], np.bool_)
    set_of = np.full(len(nodes), -1)
    set_of[tests] = np.arange(len(tests))
    tables = category_tables(
        set_of,
        counts_of,
        np.concatenate(lists) if lists else np.zeros(0, np.int64),
        listed_left=np.repeat(listed_left, counts_of),
        nan_left=~listed_left,
        other_left=~listed_left,
    )
    table = NodeTable(
        counts,
        feature,
        np.array([(split["leftCategoriesOrThreshold"] or [0.0])[0] for split in splits]),
        np.zeros(len(nodes), np.bool_),
        left,
        np.array([node["rightChild"] for node in nodes], np.int64),
        values,
        tables,
    )
    sizes = category_sizes(
        n_features,
        feature[tests],
        np.array([categories.max(initial=-1) for categories in lists], np.int64),
    )
    start = np.zeros(values.shape[1])
    return assemble(table.split(), start, strict=False, n_features=n_features), sizes


def _kept_categories(split: dict[str, Any]) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the categories that Spark looks for, and whether they go left.

    It keeps those of the smaller side; all others go to the other side, also those never seen.
    """
    left = np.array(split["leftCategoriesOrThreshold"], np.int64)
    # Spark's CategoricalSplit decides by this size which side unknown categories take.
    if len(left) <= split["numCategories"] // 2:
        return left, True
    return np.setdiff1d(np.arange(split["numCategories"]), left), False
