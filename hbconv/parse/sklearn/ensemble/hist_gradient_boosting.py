"""Histogram-based gradient boosting, over float64 columns and categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import FIRST_CODE, Cast, Concat, ConstantRows, Node, Output, Recode, Schema
from hbconv.parse.common.category_tables import category_tables
from hbconv.parse.common.covers import node_shares
from hbconv.parse.common.node_tables import NodeTable
from hbconv.parse.common.text_columns import columns_of
from hbconv.parse.registry import parses
from hbconv.parse.schema import picked_by_name
from hbconv.parse.sklearn.ensemble.boosting_stages import Boosted, boost, classified, regressed
from hbconv.parse.sklearn.preprocessing.encoders import category_matrix
from hbconv.parse.step import Step
from hbconv.trees.forest import CategoryTables

MISSING = FIRST_CODE - 1
"""Code of a missing value, and of a category never seen."""


def _columns(est: Any) -> Schema | None:
    """Return the input columns, found by name, where there are categories.

    The model then has a ColumnTransformer inside, which picks columns by name.
    """
    return None if est.is_categorical_ is None else picked_by_name(est)


@parses("sklearn.ensemble.HistGradientBoostingClassifier", features=_columns)
def parse_histogram_classifier(step: Step) -> dict[str, Output]:
    """Return labels and probabilities; a score of exactly zero is the first class."""
    return classified(step, _boosted(step), "gt")


@parses("sklearn.ensemble.HistGradientBoostingRegressor", features=_columns)
def parse_histogram_regressor(step: Step) -> dict[str, Output]:
    """Follow the sums by the loss's inverse link."""
    return regressed(step, _boosted(step))


def _boosted(step: Step) -> Boosted:
    """Add the leaves to the baseline; infinite values are allowed."""
    est = step.estimator
    x = Cast(step.x, "float") if est.is_categorical_ is None else _with_categories(step)
    if any(len(iteration) != est.n_trees_per_iteration_ for iteration in est._predictors):
        raise step.damaged(
            f"an iteration has other than n_trees_per_iteration_={est.n_trees_per_iteration_} trees"
        )
    trees = [tree for iteration in est._predictors for tree in iteration]
    baseline = Array.of(np.ravel(est._baseline_prediction), np.float64)
    table = _table(trees)
    count = np.concatenate([tree.nodes["count"] for tree in trees])
    shares = node_shares(table.sizes, table.left, table.right, count)
    return boost(x, table.split(), shares, ConstantRows(x, baseline), _order(est))


def _order(est: Any) -> npt.NDArray[np.int64]:
    """Return the feature behind each column of the trees: those of categories come first."""
    if est.is_categorical_ is None:
        return np.arange(est.n_features_in_)
    return np.argsort(~est.is_categorical_, kind="stable")


def _with_categories(step: Step) -> Node:
    """Return codes of the categorical columns, then the others, as the trees count them."""
    listed = step.estimator.is_categorical_
    encoder = step.estimator._preprocessor.named_transformers_["encoder"]
    codes = _codes(
        replace(step, estimator=encoder, x=columns_of(step.x, np.flatnonzero(listed).tolist()))
    )
    if listed.all():
        return Cast(codes, "float32")
    numbers = Cast(columns_of(step.x, np.flatnonzero(~listed).tolist()), "float")
    return Concat((Cast(codes, "float32"), numbers))


def _codes(step: Step) -> Node:
    """Recode the encoder's categories to the codes of the forest's tables."""
    est = step.estimator
    tables = []
    for j, categories in enumerate(est.categories_):
        codes = FIRST_CODE + np.arange(len(categories))
        codes[codes == FIRST_CODE + est._missing_indices.get(j, -1)] = MISSING
        tables.append(Array.of(np.append(MISSING, codes), np.int32))
    return Recode(category_matrix(step), tuple(tables))


def _table(trees: list[Any]) -> NodeTable:
    nodes = np.concatenate([tree.nodes for tree in trees])
    left, right = (
        np.where(nodes["is_leaf"], -1, nodes[side].astype(np.int64)) for side in ("left", "right")
    )
    sizes = [len(tree.nodes) for tree in trees]
    columns = nodes["feature_idx"], nodes["num_threshold"], nodes["missing_go_to_left"]
    return NodeTable(
        sizes, *columns, left, right, nodes["value"][:, None], tables=_sets(trees, nodes)
    )


def _sets(trees: list[Any], nodes: npt.NDArray[Any]) -> CategoryTables | None:
    """Return the category sets: categories of a set go left, other known ones right.

    Unknown categories go where missing values go.
    """
    bits = np.concatenate([tree.raw_left_cat_bitsets for tree in trees])
    first = np.cumsum([0, *(len(tree.raw_left_cat_bitsets) for tree in trees)])[:-1]
    listed = np.unpackbits(bits.astype("<u4").view(np.uint8), axis=1, bitorder="little")
    own = np.repeat(first, [len(tree.nodes) for tree in trees]) + nodes["bitset_idx"]
    tests = np.where(nodes["is_categorical"] & ~nodes["is_leaf"].astype(bool), own, -1)
    missing_left = np.zeros(len(bits), np.bool_)
    missing_left[tests[tests >= 0]] = nodes["missing_go_to_left"][tests >= 0]
    return category_tables(
        tests,
        listed.sum(axis=1, dtype=np.int64),
        np.nonzero(listed)[1],
        listed_left=True,
        nan_left=missing_left,
        other_left=False,
    )
