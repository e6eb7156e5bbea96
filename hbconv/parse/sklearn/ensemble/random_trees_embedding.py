"""Random trees embedding: each leaf is a column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import Compare, OneHot, Output, TreeLeaves, sparse_form
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.tree import leaf_outputs, tree_forest, tree_input
from hbconv.parse.step import Step
from hbconv.trees.forest import Forest


@parses("sklearn.ensemble.RandomTreesEmbedding")
def parse_random_trees_embedding(step: Step) -> dict[str, Output]:
    """Set the columns of the leaves that a row reaches.

    A leaf that the encoder has not seen is refused, as the source model does.
    """
    est = step.estimator
    x = tree_input(step, est.estimators_[0])
    forest = tree_forest(step, est.estimators_)
    encoder = est.one_hot_encoder_
    codes = TreeLeaves(x, replace(forest, leaf_id=_known(forest, encoder.categories_)))
    if np.any(codes.forest.leaf_id.data < 0):
        step.check(
            Compare.of(codes, "eq", -1),
            f"Found unknown leaves during transform (step {step.where!r}).",
        )
    sizes = tuple(len(known) for known in encoder.categories_)
    return {
        "transform": Output(OneHot(codes, sizes), sparse_form(bool(encoder.sparse_output))),
        **leaf_outputs(x, forest, est.estimators_),
    }


def _known(forest: Forest, categories: list[np.ndarray]) -> Array:
    """Return the place of each leaf among the leaves that the encoder knows, -1 for none."""
    own = np.split(forest.leaf_id.data, forest.first_leaf.data[1:-1])
    places = [
        np.where(np.isin(leaves, known), np.searchsorted(known, leaves), -1)
        for leaves, known in zip(own, categories, strict=True)
    ]
    return Array.of(np.concatenate(places), np.int32)
