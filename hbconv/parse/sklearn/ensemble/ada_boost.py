"""Adaptive boosting, over members of any kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Compare,
    Labels,
    Node,
    Output,
    RunningSums,
    Select,
    Softmax,
    Stages,
    TreeEnsemble,
    TreeLeaves,
    Votes,
    WeightedMedian,
)
from hbconv.parse.common.linear_scores import with_probabilities
from hbconv.parse.common.members import are_trees, class_codes, columns_of_array, read_members
from hbconv.parse.common.node_tables import assemble
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.tree import read_trees, require_own_counts, tree_input
from hbconv.parse.step import Step, concat

Numbers = npt.NDArray[Any]


@parses("sklearn.ensemble.AdaBoostClassifier")
def parse_ada_boost_classifier(step: Step) -> dict[str, Output]:
    """Sum weighted votes for the class that each member predicts.

    Each vote takes a share of its weight off the other classes.
    """
    est = step.estimator
    if len(est.classes_) < 2:
        raise step.refuse("classes_", est.classes_, "A model of one class predicts nothing else.")
    _require_known_classes(step)
    step.require_finite()
    read = _tree_votes if are_trees(step) else _votes
    sums, stages = read(step)
    members = len(est.estimators_)
    return _answers(step, sums, est.estimator_weights_.sum()) | _staged(
        step, stages, np.cumsum(est.estimator_weights_[:members])
    )


@parses("sklearn.ensemble.AdaBoostRegressor")
def parse_ada_boost_regressor(step: Step) -> dict[str, Output]:
    """Return the weighted median of the members' predictions."""
    step.require_finite()
    predictions = _predictions(step)
    weights = step.estimator.estimator_weights_
    if weights.dtype.kind != "f" or not len(weights) == np.size(weights) >= predictions.type.width:
        raise step.damaged(
            f"estimator_weights_ is {weights.dtype} of shape {weights.shape}, for "
            f"{predictions.type.width} estimators_"
        )
    stages = range(1, predictions.type.width + 1)
    medians = [
        WeightedMedian(columns_of_array(predictions, np.arange(n)), Array(weights[:n]))
        for n in stages
    ]
    return {
        "predict": Output(medians[-1], VECTOR),
        "staged_predict": Output(concat(medians), Stages(len(medians), VECTOR)),
    }


def _require_known_classes(step: Step) -> None:
    """Refuse members that may vote for a class of their own: of two classes one is counted."""
    est = step.estimator
    known = set(est.classes_.tolist())
    for i, member in enumerate(est.estimators_):
        if not known.issuperset(np.ravel(member.classes_).tolist()):
            raise step.damaged(f"estimators_[{i}] has classes_ that are not among its own")


def _ballot(est: Any) -> tuple[Numbers, Numbers, Numbers]:
    """Return the classes that votes are counted for, and each member's weight for and against.

    Of two classes the second is enough: votes for the first are exactly the opposite.
    """
    n = len(est.classes_)
    weights = est.estimator_weights_[: len(est.estimators_)]
    return np.arange(n == 2, n), weights, -1 / (n - 1) * weights


def _votes(step: Step) -> tuple[Node, Node]:
    """Return the sum of all members' votes, and the sums after each member."""
    est = step.estimator
    outputs = _members(step)
    candidates, for_it, against = _ballot(est)
    codes = concat([class_codes(step, output["predict"], est.classes_) for output in outputs])
    stages = RunningSums(
        Votes(codes, Array.of(candidates, np.int32), Array(for_it), Array(against)), len(outputs)
    )
    return columns_of_array(stages, np.arange(stages.type.width)[-len(candidates) :]), stages


def _tree_votes(step: Step) -> tuple[Node, Node]:
    """Do the same for trees, read as one forest whose leaves vote.

    The stages count what the leaves predict.
    """
    est = step.estimator
    members = est.estimators_
    candidates, for_it, against = _ballot(est)
    x = tree_input(step, members[0])
    require_own_counts(step, members)
    labels = [
        _places(m.classes_, est.classes_)[m.tree_.value[:, 0].argmax(axis=1)] for m in members
    ]
    votes = [
        np.where(own[:, None] == candidates, *weights)
        for own, *weights in zip(labels, for_it, against, strict=True)
    ]
    trees = read_trees([m.tree_ for m in members], values=votes)
    of_leaves = np.concatenate(
        [own[m.tree_.children_left < 0] for own, m in zip(labels, members, strict=True)]
    )
    forest = assemble(
        replace(trees, leaf_id=of_leaves),
        np.zeros(len(candidates)),
        strict=False,
        n_features=x.type.width,
    )
    cast = Votes(
        TreeLeaves(x, forest), Array.of(candidates, np.int32), Array(for_it), Array(against)
    )
    return TreeEnsemble(x, forest), RunningSums(cast, len(members))


def _places(labels: Numbers, classes: Numbers) -> Numbers:
    """Return the places of labels among classes, which may stand in any order."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places[label] for label in labels.tolist()])


def _answers(step: Step, sums: Node, weight: float) -> dict[str, Output]:
    classes = Array(step.estimator.classes_)
    scores, codes, probabilities = _decide(sums, np.array([weight]), len(classes))
    outputs = {
        "predict": Output(codes, Labels(classes)),
        "decision_function": Output(scores, VECTOR if len(classes) == 2 else MATRIX),
    }
    return with_probabilities(outputs, probabilities)


def _staged(step: Step, sums: Node, weights: Numbers) -> dict[str, Output]:
    classes = Array(step.estimator.classes_)
    stages = len(weights)
    scores, codes, probabilities = _decide(sums, weights, len(classes))
    width = sums.type.width // stages
    return {
        "staged_predict": Output(codes, Stages(stages, Labels(classes))),
        "staged_predict_proba": Output(probabilities, Stages(stages)),
        "staged_decision_function": Output(
            scores, Stages(stages, VECTOR if width == 1 else MATRIX)
        ),
    }


def _decide(sums: Node, weights: Numbers, n_classes: int) -> tuple[Node, Node, Node]:
    """Return scores, class codes and probabilities from sums of votes.

    ``sums`` stand side by side; each has its total weight.
    """
    groups = len(weights)
    if n_classes > 2:
        scores = Affine.of(sums, div=np.repeat(weights, n_classes))
        return (
            scores,
            ArgMax(scores, groups),
            Softmax(Affine.of(scores, div=n_classes - 1), groups=groups),
        )
    scores = Affine.of(sums, div=weights, mul=2.0)
    both = Select(scores, Array(np.repeat(np.arange(groups, dtype=np.int32), 2)))
    return (
        scores,
        Compare.of(scores, "gt", 0.0, "int32"),
        Softmax(Affine.of(both, mul=np.tile([-1.0, 1.0], groups), div=2.0), groups=groups),
    )


def _predictions(step: Step) -> Node:
    """Return the members' predictions side by side."""
    members = step.estimator.estimators_
    if are_trees(step):
        x = tree_input(step, members[0])
        require_own_counts(step, members)
        trees = read_trees([member.tree_ for member in members])
        forest = assemble(
            trees,
            np.zeros(len(members)),
            strict=False,
            n_features=x.type.width,
            target=np.arange(len(members)),
        )
        return TreeEnsemble(x, forest)
    return concat([output["predict"].node for output in _members(step)])


def _members(step: Step) -> list[dict[str, Output]]:
    return read_members(step, [np.arange(step.x.type.width)] * len(step.estimator.estimators_))
