"""Adaptive boosting: weighted votes, probabilities or medians of members of any kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Clip,
    Compare,
    Labels,
    Map,
    Node,
    Output,
    Pool,
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
from hbconv.parse.common.versions import votes_by_probabilities
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.tree import read_trees, require_own_counts, tree_input
from hbconv.parse.step import Step, concat

Numbers = npt.NDArray[Any]
Decision = tuple[Node, Node, Node]
"""Scores, codes of classes, and probabilities."""


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
    if votes_by_probabilities(est):
        return _probability_outputs(step)
    read = _tree_votes if are_trees(step) else _member_votes
    sums, stages = read(step)
    members = len(est.estimators_)
    classes = Array(est.classes_)
    weights = est.estimator_weights_
    return _outputs(classes, _decide(sums, weights.sum()[None], len(classes))) | _stages(
        classes, members, _decide(stages, np.cumsum(weights[:members]), len(classes))
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
    labels = set(est.classes_.tolist())
    for i, member in enumerate(est.estimators_):
        if not labels.issuperset(np.ravel(member.classes_).tolist()):
            raise step.damaged(f"estimators_[{i}] has classes_ that are not among its own")


def _ballot(est: Any) -> tuple[Numbers, Numbers, Numbers]:
    """Return the classes that votes are counted for, and each member's weight for and against.

    Of two classes the second is enough: votes for the first are exactly the opposite.
    """
    n = len(est.classes_)
    weights = est.estimator_weights_[: len(est.estimators_)]
    # With n == 2 this begins at class 1.
    return np.arange(n == 2, n), weights, -1 / (n - 1) * weights


def _member_votes(step: Step) -> tuple[Node, Node]:
    """Return the sum of all members' votes, and the sums after each member."""
    est = step.estimator
    outputs = _read_boosted_members(step)
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
        np.where(places[:, None] == candidates, *weights)
        for places, *weights in zip(labels, for_it, against, strict=True)
    ]
    trees = read_trees([m.tree_ for m in members], values=votes)
    of_leaves = np.concatenate(
        [places[m.tree_.children_left < 0] for places, m in zip(labels, members, strict=True)]
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


def _probability_outputs(step: Step) -> dict[str, Output]:
    """Add up what each member's probabilities say for each class.

    That is a share of the logarithm of the class, less the mean of all classes: SAMME.R (J. Zhu, H.
    Zou, S. Rosset, T. Hastie, "Multi-class AdaBoost", 2009).
    """
    est = step.estimator
    classes = Array(est.classes_)
    members = len(est.estimators_)
    shares = (_tree_shares if are_trees(step) else _member_shares)(step)
    stages = RunningSums(concat(shares), members)
    sums = columns_of_array(stages, np.arange(stages.type.width)[-len(classes) :])
    weights = est.estimator_weights_
    return _outputs(classes, _compare_shares(sums, weights.sum()[None], len(classes))) | _stages(
        classes, members, _compare_shares(stages, np.cumsum(weights[:members]), len(classes))
    )


def _tree_shares(step: Step) -> list[Node]:
    """Return the shares of each tree: each leaf has its own."""
    members = step.estimator.estimators_
    x = tree_input(step, members[0])
    require_own_counts(step, members)
    shares: list[Node] = []
    for member in members:
        _require_all_classes(step, member)
        trees = read_trees([member.tree_], values=[_shares_of(member.tree_.value[:, 0])])
        start = np.zeros(len(step.estimator.classes_))
        forest = assemble(trees, start, strict=False, n_features=x.type.width)
        shares.append(TreeEnsemble(x, forest))
    return shares


def _member_shares(step: Step) -> list[Node]:
    """Return the same for members of any kind."""
    shares: list[Node] = []
    for member, outputs in zip(
        step.estimator.estimators_, _read_boosted_members(step), strict=True
    ):
        _require_all_classes(step, member)
        if "predict_proba" not in outputs:
            hint = "A member has no predict_proba, which SAMME.R adds up."
            raise step.refuse("algorithm", "SAMME.R", hint)
        p = outputs["predict_proba"].node
        n = p.type.width
        logs = Map(Clip.of(p, float(np.finfo(p.type.dtype).eps), np.inf), "log")
        total = Pool(logs, (tuple(range(n)),), "sum")
        mean = Select(Affine.of(total, mul=1.0 / n), Array(np.zeros(n, np.int32)))
        shares.append(Affine.of(_subtract(logs, mean), mul=n - 1))
    return shares


def _shares_of(probabilities: Numbers) -> Numbers:
    """Return shares of probabilities, (n_rows, n_classes), as ``_samme_proba`` computes them."""
    n = probabilities.shape[1]
    logs = np.log(np.clip(probabilities, np.finfo(probabilities.dtype).eps, None))
    shares: Numbers = (n - 1) * (logs - (1.0 / n) * logs.sum(axis=1)[:, np.newaxis])
    return shares


def _require_all_classes(step: Step, member: Any) -> None:
    if not np.array_equal(member.classes_, step.estimator.classes_):
        raise step.damaged("a member has other classes_, whose probabilities cannot be added")


def _compare_shares(sums: Node, weights: Numbers, n_classes: int) -> Decision:
    """Return scores, class codes and probabilities from sums of shares.

    Those of two classes are opposites but for their rounding, so both are asked.
    """
    scores = Affine.of(sums, div=np.repeat(weights, n_classes))
    if n_classes > 2:
        return _choose(scores, len(weights), n_classes)
    places = np.arange(scores.type.width, dtype=np.int32)
    of_class = [Select(scores, Array(places[k::2])) for k in range(2)]
    return _choose_second(_subtract(of_class[1], of_class[0]))


def _subtract(x: Node, y: Node) -> Node:
    return Add((x, Affine.of(y, mul=-1.0)))


def _places(labels: Numbers, classes: Numbers) -> Numbers:
    """Return the places of labels among classes, which may be in any order."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places[label] for label in labels.tolist()])


def _outputs(classes: Array, decision: Decision) -> dict[str, Output]:
    scores, codes, probabilities = decision
    outputs = {
        "predict": Output(codes, Labels(classes)),
        "decision_function": Output(scores, VECTOR if len(classes) == 2 else MATRIX),
    }
    return with_probabilities(outputs, probabilities)


def _stages(classes: Array, stages: int, decision: Decision) -> dict[str, Output]:
    scores, codes, probabilities = decision
    form = VECTOR if len(classes) == 2 else MATRIX
    return {
        "staged_predict": Output(codes, Stages(stages, Labels(classes))),
        "staged_predict_proba": Output(probabilities, Stages(stages)),
        "staged_decision_function": Output(scores, Stages(stages, form)),
    }


def _decide(sums: Node, weights: Numbers, n_classes: int) -> Decision:
    """Return scores, class codes and probabilities from sums of votes.

    ``sums`` are side by side; each has its total weight.
    """
    if n_classes > 2:
        scores = Affine.of(sums, div=np.repeat(weights, n_classes))
        return _choose(scores, len(weights), n_classes)
    # Votes for two classes are exact opposites: their difference is twice one of them.
    return _choose_second(Affine.of(sums, div=weights, mul=2.0))


def _choose(scores: Node, groups: int, n_classes: int) -> Decision:
    """Choose the first of the largest scores in each group."""
    probabilities = Softmax(Affine.of(scores, div=n_classes - 1), groups=groups)
    return scores, ArgMax(scores, groups), probabilities


def _choose_second(scores: Node) -> Decision:
    """Choose the second class where a score is positive."""
    groups = scores.type.width
    # Softmax of (-score / 2, score / 2), as in _compute_proba_from_decision.
    both = Select(scores, Array(np.repeat(np.arange(groups, dtype=np.int32), 2)))
    signed = Affine.of(both, mul=np.tile([-1.0, 1.0], groups), div=2.0)
    return scores, Compare.of(scores, "gt", 0.0, "int32"), Softmax(signed, groups=groups)


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
    return concat([output["predict"].node for output in _read_boosted_members(step)])


def _read_boosted_members(step: Step) -> list[dict[str, Output]]:
    return read_members(step, [np.arange(step.x.type.width)] * len(step.estimator.estimators_))
