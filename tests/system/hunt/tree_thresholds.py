"""Thresholds of the trees inside a fitted model, as each library tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from hunt.members import members

__all__ = ["find_thresholds"]

Threshold = tuple[int, float]
"""A column of what the trees read, and a number of it."""


def find_thresholds(model: Any) -> list[Threshold]:
    """List the thresholds of all trees of a model and of its members, once for each split."""
    return [
        (int(column), float(value))
        for member in members(model)
        for column, value in _own_thresholds(member)
    ]


def _own_thresholds(member: Any) -> Iterator[tuple[Any, Any]]:
    """Yield those that an estimator holds itself; none of what it cannot list."""
    for mark, list_thresholds in SPELLINGS.items():
        if mark in type(member).__name__ or hasattr(member, mark):
            with suppress(Exception):
                yield from list_thresholds(member)


def _of_tree(tree: Any) -> Iterator[tuple[Any, Any]]:
    splits = zip(tree.tree_.feature, tree.tree_.threshold, strict=True)
    return (split for split in splits if split[0] >= 0)


def _of_histograms(model: Any) -> Iterator[tuple[Any, Any]]:
    trees = (tree for stage in model._predictors for tree in stage)
    nodes = (node for tree in trees for node in tree.nodes if not node["is_leaf"])
    return ((node["feature_idx"], node["num_threshold"]) for node in nodes)


def _of_lightgbm(model: Any) -> Iterator[tuple[Any, Any]]:
    table = model.booster_.trees_to_dataframe()
    splits = table[table["split_feature"].notna() & (table["decision_type"] == "<=")]
    columns = splits["split_feature"].str.rpartition("_")[2]
    return zip(columns, splits["threshold"], strict=True)


def _of_xgboost(model: Any) -> Iterator[tuple[Any, Any]]:
    table = model.get_booster().trees_to_dataframe()
    splits = table[table["Feature"] != "Leaf"]
    return zip(splits["Feature"].str[1:], splits["Split"], strict=True)


def _of_catboost(model: Any) -> Iterator[tuple[Any, Any]]:
    borders = model.get_borders().values()
    return ((column, border) for column, found in enumerate(borders) for border in found)


SPELLINGS: dict[str, Callable[[Any], Iterator[tuple[Any, Any]]]] = {
    "tree_": _of_tree,
    "_predictors": _of_histograms,
    "LGBM": _of_lightgbm,
    "XGB": _of_xgboost,
    "CatBoost": _of_catboost,
}
"""How thresholds are listed, by an attribute or a part of the class's name."""
