"""The weights of CatBoost's leaves: what its contributions of features are averaged by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.errors import ConversionError
from hbconv.parse.catboost.inputs import Inputs
from hbconv.parse.checks.damage import finite_numbers
from hbconv.parse.common.covers import cover_forest
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest

__all__ = ["cover_leaves"]

Floats = npt.NDArray[np.float64]

LEAST_WEIGHT = 1e-13
"""Weight below which CatBoost takes a branch for empty."""


def cover_leaves(
    forest: Forest,
    trees: Sequence[Mapping[str, Any]],
    inputs: Inputs,
    scale: float,
    bias: Floats,
) -> CoveredForest | None:
    """Return the forest with its shares, scaled; None where the model has no weights of leaves.

    Sets of features that statistics share are features too, behind those of the source.
    None too where CatBoost computes other values than these: for a leaf that has a value but no
    weight, and for a split that has one leaf and one further split. Its contributions of the latter
    do not add up to the raw score.
    """
    weights = _weights(trees)
    if weights is None or ((forest.left.data < 0) != (forest.right.data < 0)).any():
        return None
    if len(weights) != forest.n_leaves:
        raise ConversionError("The CatBoost model is damaged: leaf_weights has the wrong length.")
    if forest.values.data[weights < LEAST_WEIGHT].any():
        return None
    scaled = replace(forest, values=Array(forest.values.data * scale), start=Array(bias))
    players = [*((place,) for place in range(len(inputs.names))), *inputs.shared]
    place_of = {own: place for place, own in enumerate(players)}
    feature = np.array([place_of[own] for own in inputs.features], np.int32)
    shares = _shares(forest, weights)
    return cover_forest(scaled, shares, feature[forest.feature.data], len(players))


def _weights(trees: Sequence[Mapping[str, Any]]) -> Floats | None:
    """Read the weights of all leaves, left to right; None where some tree has none."""
    found: list[Any] = []
    for tree in trees:
        own = list(tree.get("leaf_weights") or ()) if "leaf_values" in tree else [*_below(tree)]
        if not own or None in own:
            return None
        found += own
    return finite_numbers(found)


def _below(tree: Mapping[str, Any]) -> Iterator[float | None]:
    """Yield the weights of the leaves of a tree that is not symmetric."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if "value" in node:
            yield node.get("weight")
        else:
            waiting += (node["right"], node["left"])


def _shares(forest: Forest, weights: Floats) -> tuple[Floats, Floats]:
    """Share the weights out bottom-up; a branch without weight has nothing to share."""
    cover = np.zeros((2, forest.n_tests))
    for depth in range(forest.depth - 1, -1, -1):
        level = np.flatnonzero(forest.depth_of_tests == depth)
        for side, children in enumerate((forest.left.data[level], forest.right.data[level])):
            inner = children >= 0
            cover[side, level[inner]] = cover[:, children[inner]].sum(axis=0)
            cover[side, level[~inner]] = weights[~children[~inner]]
    whole = cover.sum(axis=0)
    shares = np.where(cover < LEAST_WEIGHT, 0.0, cover / np.where(whole > 0, whole, 1.0))
    return shares[0], shares[1]
