"""scikit-learn's single trees and averaged forests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Node, Output
from hbconv.containers.affine import Affine
from hbconv.containers.decide import ArgMax
from hbconv.containers.elementwise import Map
from hbconv.containers.trees import TreeEnsemble, TreeLeaves
from hbconv.containers.wiring import Cast
from hbconv.forest import Forest
from hbconv.parse.forests import FlatTrees, NodeTable, assemble
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["read_trees"]


@parses("sklearn.tree.DecisionTreeClassifier", "sklearn.tree.ExtraTreeClassifier")
def parse_tree_classifier(step: Step) -> dict[str, Output]:
    """Class fractions of the leaf; predict takes the largest."""
    x, forest = _input(step, step.estimator), _forest(step, [step.estimator])
    return {**_classified(step, TreeEnsemble(x, forest)), "apply": Output(TreeLeaves(x, forest), vector=True, dtype="int64")}


@parses("sklearn.tree.DecisionTreeRegressor", "sklearn.tree.ExtraTreeRegressor")
def parse_tree_regressor(step: Step) -> dict[str, Output]:
    """Value of the leaf, a column for each target."""
    x, forest = _input(step, step.estimator), _forest(step, [step.estimator])
    return {
        "predict": Output(TreeEnsemble(x, forest), vector=step.estimator.n_outputs_ == 1),
        "apply": Output(TreeLeaves(x, forest), vector=True, dtype="int64"),
    }


@parses("sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.ExtraTreesClassifier")
def parse_forest_classifier(step: Step) -> dict[str, Output]:
    """Sum the trees' class fractions in float64, divide by their number; predict takes the largest mean."""
    members = step.estimator.estimators_
    x, forest = _input(step, members[0]), _forest(step, members)
    mean = Affine.of(TreeEnsemble(x, forest), div=len(members))
    return {**_classified(step, mean), "apply": Output(TreeLeaves(x, forest), dtype="int64")}


@parses("sklearn.ensemble.RandomForestRegressor", "sklearn.ensemble.ExtraTreesRegressor")
def parse_forest_regressor(step: Step) -> dict[str, Output]:
    """Sum the trees' values in float64, divide by their number."""
    members = step.estimator.estimators_
    x, forest = _input(step, members[0]), _forest(step, members)
    return {
        "predict": Output(Affine.of(TreeEnsemble(x, forest), div=len(members)), vector=step.estimator.n_outputs_ == 1),
        "apply": Output(TreeLeaves(x, forest), dtype="int64"),
    }


def read_trees(
    trees: Sequence[Any], scale: float = 1.0, *, values: Sequence[npt.NDArray[Any]] | None = None, columns: Sequence[npt.NDArray[Any]] | None = None
) -> FlatTrees:
    """Read the ``tree_`` arrays: float64 thresholds, values (n_nodes, n_outputs * n_classes) times scale.

    Where they are given, ``values`` (n_nodes, n_values) of each tree stand in place of its own, and ``columns`` are those
    that each tree was fitted on.
    """

    def joined(name: str) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees])

    values = values or [tree.value.reshape(tree.node_count, -1) for tree in trees]
    feature = joined("feature") if columns is None else np.concatenate([own[tree.feature.clip(0)] for own, tree in zip(columns, trees, strict=True)])
    children = joined("children_left"), joined("children_right")
    sizes = [tree.node_count for tree in trees]
    return NodeTable(sizes, feature, joined("threshold"), joined("missing_go_to_left"), *children, np.concatenate(values) * scale).split()


def _input(step: Step, tree: Any) -> Node:
    """Round to float32, as the trees do, then refuse what they refuse: infinity, and NaN unless the tree handles it."""
    x = Cast(step.x, "float32")
    return step.require_finite(x, allow_nan=bool(tree._support_missing_values(np.zeros(0))))  # noqa: SLF001


def _forest(step: Step, members: Sequence[Any]) -> Forest:
    trees = read_trees([member.tree_ for member in members])
    return assemble(trees, np.zeros(trees.values.shape[1]), strict=False, n_features=step.x.type.width)


def _classified(step: Step, fractions: Node) -> dict[str, Output]:
    outputs = step.estimator.n_outputs_
    if outputs > 1:
        raise step.refuse("n_outputs_", outputs, "Fit one classifier for each target.")
    return {
        "predict": Output(ArgMax(fractions), Array(step.estimator.classes_), vector=True),
        "predict_proba": Output(fractions),
        "predict_log_proba": Output(Map(fractions, "log")),
    }
