"""scikit-learn's single trees, and how its forests read theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    Cast,
    Concat,
    LabelColumns,
    Labels,
    Map,
    MatrixList,
    Node,
    Output,
    Paths,
    Select,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.common.node_tables import (
    FlatTrees,
    NodeTable,
    assemble,
    contribution_outputs,
    cover_forest,
    node_shares,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.trees.forest import Forest

__all__ = [
    "fraction_outputs",
    "leaf_outputs",
    "read_trees",
    "require_own_counts",
    "shares_of",
    "tree_contributions",
    "tree_forest",
    "tree_input",
]


@parses("sklearn.tree.DecisionTreeClassifier", "sklearn.tree.ExtraTreeClassifier")
def parse_tree_classifier(step: Step) -> dict[str, Output]:
    """Return the class fractions of the leaf; predict takes the largest."""
    x = tree_input(step, step.estimator)
    forest = tree_forest(step, [step.estimator])
    return {
        **fraction_outputs(step, TreeEnsemble(x, forest)),
        **_leaf_outputs_of_one(step, x, forest),
        **tree_contributions(step, x, forest, [step.estimator]),
    }


@parses("sklearn.tree.DecisionTreeRegressor", "sklearn.tree.ExtraTreeRegressor")
def parse_tree_regressor(step: Step) -> dict[str, Output]:
    """Return the values of the leaf, a column for each target."""
    x = tree_input(step, step.estimator)
    forest = tree_forest(step, [step.estimator])
    return {
        "predict": Output(
            TreeEnsemble(x, forest), VECTOR if step.estimator.n_outputs_ == 1 else MATRIX
        ),
        **_leaf_outputs_of_one(step, x, forest),
        **tree_contributions(step, x, forest, [step.estimator]),
    }


def tree_input(step: Step, tree: Any) -> Node:
    """Round to float32, as the trees do, and refuse what they refuse.

    That is infinity, and NaN unless the tree handles it.
    """
    x = Cast(step.x, "float32")
    return step.require_finite(
        x,
        # The method asks only whether its argument is sparse, and the tags.
        allow_nan=not step.x_sparse and bool(tree._support_missing_values(np.zeros(0))),
    )


def tree_forest(step: Step, members: Sequence[Any]) -> Forest:
    """Make the forest of fitted trees, whose values are summed from zero."""
    require_own_counts(step, members)
    trees = read_trees([member.tree_ for member in members])
    declared = getattr(step.estimator, "n_outputs_", None)
    if declared not in (None, *(member.tree_.n_outputs for member in members[:1])):
        raise step.damaged(
            f"n_outputs_={declared}, but its trees have {members[0].tree_.n_outputs}"
        )
    return assemble(
        trees, np.zeros(trees.values.shape[1]), strict=False, n_features=step.x.type.width
    )


def tree_contributions(
    step: Step, x: Node, forest: Forest, members: Sequence[Any]
) -> dict[str, Output]:
    """Return the contributions to the mean of the members, by the weights of training rows.

    Classifiers of several targets have none: their fractions are a list.
    """
    est = step.estimator
    if est.n_outputs_ > 1 and hasattr(est, "n_classes_") and hasattr(est, "predict_proba"):
        return {}
    covered = cover_forest(forest, shares_of([member.tree_ for member in members]))
    return contribution_outputs(x, covered, count=len(members))


def shares_of(trees: Sequence[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the part of the weight of training rows that each split sends left, and right."""
    left, right, weight = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("children_left", "children_right", "weighted_n_node_samples")
    )
    return node_shares([tree.node_count for tree in trees], left, right, weight)


def require_own_counts(step: Step, members: Sequence[Any]) -> None:
    """Refuse trees whose counts of outputs and classes are not those of their ``tree_``.

    The source model cuts off what is beyond the counts, or repeats one column for all classes.
    """
    for member in members:
        tree = member.tree_
        for name, held in (("n_outputs_", tree.n_outputs), ("n_classes_", tree.n_classes)):
            declared = getattr(member, name, None)
            if declared is not None and not np.array_equal(np.ravel(declared), np.ravel(held)):
                raise step.damaged(f"a tree has {name}={declared!s:.30}, but its tree_ has {held}")


def read_trees(
    trees: Sequence[Any],
    scale: float = 1.0,
    *,
    values: Sequence[npt.NDArray[Any]] | None = None,
    columns: Sequence[npt.NDArray[Any]] | None = None,
) -> FlatTrees:
    """Read the ``tree_`` arrays: float64 thresholds, and values times scale.

    Values have the shape (n_nodes, n_outputs * n_classes).
    ``values`` (n_nodes, n_values) replace those of each tree where they are given.
    ``columns`` are those that each tree was fitted on.
    """

    def join(name: str) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees])

    values = values or [_values(tree) for tree in trees]
    feature = (
        join("feature")
        if columns is None
        else np.concatenate(
            [_original(tree, own_columns) for own_columns, tree in zip(columns, trees, strict=True)]
        )
    )
    children = join("children_left"), join("children_right")
    sizes = [tree.node_count for tree in trees]
    return NodeTable(
        sizes,
        feature,
        join("threshold"),
        join("missing_go_to_left"),
        *children,
        np.concatenate(values) * scale,
    ).split()


def _original(tree: Any, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the columns that splits read, among all columns.

    Negative numbers stay: leaves have them, and damaged splits.
    """
    feature: npt.NDArray[Any] = tree.feature
    # A negative index would read columns from their end.
    return np.where(feature < 0, feature, columns[feature.clip(0)])


def leaf_outputs(x: Node, forest: Forest, members: Sequence[Any]) -> dict[str, Output]:
    """Return ``apply``, the number of the leaf in each tree, and ``decision_path``."""
    trees = [member.tree_ for member in members]
    first = np.cumsum([0, *(tree.node_count for tree in trees)], dtype=np.int64)
    # decision_path numbers the nodes of all trees one after another.
    numbered = forest.leaf_id.data + np.repeat(first[:-1], np.diff(forest.first_leaf.data))
    paths = Paths(Array.of(_parents(trees, first), np.int32), Array(first))
    return {
        "apply": Output(TreeLeaves(x, forest), dtype="int64"),
        "decision_path": Output(
            TreeLeaves(x, replace(forest, leaf_id=Array.of(numbered, np.int32))), paths
        ),
    }


def _leaf_outputs_of_one(step: Step, x: Node, forest: Forest) -> dict[str, Output]:
    tree = step.estimator.tree_
    parent = _parents([tree], np.array([0, tree.node_count]))
    leaves = TreeLeaves(x, forest)
    return {
        "apply": Output(leaves, VECTOR, "int64"),
        "decision_path": Output(leaves, Paths(Array.of(parent, np.int32))),
    }


def _values(tree: Any) -> npt.NDArray[Any]:
    """Return values side by side for all outputs, without the padding of missing classes."""
    # Each output has room for the classes of the one that has most.
    return np.asarray(tree.value[:, np.arange(tree.max_n_classes) < tree.n_classes[:, None]])


def _parents(trees: Sequence[Any], first: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    parent = np.full(first[-1], -1)
    for tree, start in zip(trees, first[:-1], strict=True):
        for children in (tree.children_left, tree.children_right):
            inner = np.flatnonzero(children >= 0)
            parent[start + children[inner]] = start + inner
    return parent


def fraction_outputs(step: Step, fractions: Node) -> dict[str, Output]:
    """Return the methods of a classifier from its class fractions.

    Those with fractions give a list where there are several outputs.
    """
    widths = tuple(int(n) for n in np.atleast_1d(step.estimator.n_classes_))
    if sum(widths) != fractions.type.width:
        raise step.damaged(
            f"n_classes_={step.estimator.n_classes_}, but its trees have {fractions.type.width}"
        )
    several = step.estimator.n_outputs_ > 1
    classes = step.estimator.classes_
    labels = LabelColumns(tuple(map(Array, classes))) if several else Labels(Array(classes))
    form = MatrixList(widths) if several else MATRIX
    return {
        "predict": Output(_largest(fractions, widths), labels),
        "predict_proba": Output(fractions, form),
        "predict_log_proba": Output(Map(fractions, "log"), form),
    }


def _largest(fractions: Node, widths: Sequence[int]) -> Node:
    """Return the position of the largest fraction within each block of columns."""
    # One primitive serves blocks of one width.
    if len(set(widths)) == 1:
        return ArgMax(fractions, len(widths))
    blocks = np.split(np.arange(sum(widths), dtype=np.int32), np.cumsum(widths)[:-1])
    return Concat(tuple(ArgMax(Select(fractions, Array(block))) for block in blocks))
