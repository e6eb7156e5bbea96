"""Voting, stacking and adaptive boosting, over members of any kind.

Members vote, are averaged, or are read by a final estimator.
"""

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
    Cast,
    Codes,
    Columns,
    Compare,
    Entries,
    LabelColumns,
    Labels,
    Node,
    OneHot,
    Output,
    RunningSums,
    Schema,
    Select,
    Softmax,
    Stages,
    TreeEnsemble,
    TreeLeaves,
    Votes,
    WeightedMedian,
    sparse_form,
    topological,
)
from hbconv.parse.common.linear_scores import promote, with_probabilities
from hbconv.parse.common.members import (
    are_trees,
    as_numbers,
    as_vector,
    class_codes,
    columns_of_array,
    pass_on,
    read_members,
    read_named_members,
)
from hbconv.parse.common.node_tables import assemble
from hbconv.parse.common.versions import votes_by_probabilities
from hbconv.parse.registry import parses
from hbconv.parse.schema import common_schema, in_order
from hbconv.parse.sklearn.tree import read_trees, require_own_counts, tree_input
from hbconv.parse.step import Step, concat

Outputs = dict[str, Output]


def _columns(stacking: Any) -> Schema:
    """Return the columns of the members; columns passed through are read by position."""
    schema = common_schema(stacking.estimators_)
    return in_order(schema) if stacking.passthrough else schema


@parses("sklearn.ensemble.StackingRegressor", features=_columns)
def parse_stacking_regressor(step: Step) -> Outputs:
    """Predict as the final regressor."""
    predictions = _member_predictions(step)
    return pass_on(step, {**_final(step, predictions), "transform": predictions})


@parses("sklearn.ensemble.StackingClassifier", features=_columns)
def parse_stacking_classifier(step: Step) -> Outputs:
    """Decide as the final classifier, which was fitted on codes of the labels."""
    predictions = _member_predictions(step)
    decode = _decode_each if isinstance(step.estimator.classes_, list) else _decode
    return pass_on(step, {**decode(step, _final(step, predictions)), "transform": predictions})


def _final(step: Step, predictions: Output) -> Outputs:
    return step.child(
        step.estimator.final_estimator_,
        predictions.node,
        "final_estimator_",
        x_sparse=predictions.returns_sparse,
    )


def _member_predictions(step: Step) -> Output:
    """Return the members' outputs side by side, with the input where it is passed through."""
    est = step.estimator
    members = zip(read_named_members(step), est.stack_method_, strict=True)
    columns = [_informative(step, member[method], method) for member, method in members]
    passes = [_pass_input_through(step, columns)] if est.passthrough else []
    return Output(
        concat([*columns, *passes]),
        sparse_form(bool(passes) and step.x_sparse, "kept", arrays=True),
    )


def _pass_input_through(step: Step, predictions: list[Node]) -> Node:
    """Return the input, and refuse columns that a member reads as text.

    The source model would make one array of objects of them.
    """
    text = {
        column
        for node in topological(tuple(predictions))
        if isinstance(node, Codes | Entries)
        for column in node.columns
    }
    if isinstance(step.x, Columns) and text & set(step.x.columns):
        raise step.refuse(
            "passthrough",
            value=True,
            hint=(
                "The final estimator would be given text next to numbers: encode the text before "
                "stacking."
            ),
        )
    return step.x


def _informative(step: Step, output: Output, method: str) -> Node:
    """Keep all columns but the first probability of each label of two classes."""
    node = as_numbers(step, output)
    if output.widths:
        firsts = np.cumsum([0, *output.widths[:-1]])
        return Select(node, Array.of(np.setdiff1d(np.arange(node.type.width), firsts), np.int32))
    # Of two classes the second probability says all.
    if output.is_vector or method != "predict_proba" or len(step.estimator.classes_) != 2:
        return node
    return Select(node, Array.of(np.arange(1, node.type.width), np.int32))


def _decode(step: Step, outputs: Outputs) -> Outputs:
    codes = Cast(as_numbers(step, outputs["predict"]), "int32")
    return {**outputs, "predict": Output(codes, Labels(Array(step.estimator.classes_)))}


def _decode_each(step: Step, outputs: Outputs) -> Outputs:
    """Return the labels of several columns.

    Of a list of probabilities the source model takes the first class of each.
    """
    codes = Cast(as_numbers(step, outputs["predict"]), "int32")
    p = outputs.pop("predict_proba", None)
    if p is not None and p.widths:
        firsts = np.cumsum([0, *p.widths[:-1]])
        outputs["predict_proba"] = Output(Select(as_numbers(step, p), Array.of(firsts, np.int32)))
    return {
        **outputs,
        "predict": Output(codes, LabelColumns(tuple(map(Array, step.estimator.classes_)))),
    }


def _voting_columns(voting: Any) -> Schema:
    return common_schema(voting.estimators_)


@parses("sklearn.ensemble.VotingRegressor", features=_voting_columns)
def parse_voting_regressor(step: Step) -> dict[str, Output]:
    """Average what the members predict."""
    predictions = [as_vector(step, member["predict"]) for member in read_named_members(step)]
    return {
        "predict": Output(_average(step, predictions), VECTOR),
        "transform": Output(concat(predictions)),
    }


@parses("sklearn.ensemble.VotingClassifier", features=_voting_columns)
def parse_voting_classifier(step: Step) -> dict[str, Output]:
    """Take the class that is likeliest on average, or that has most votes.

    Members were fitted on codes of the labels.
    """
    read = _probabilities if step.require("voting", "hard", "soft") == "soft" else _votes
    scores, outputs = read(step, read_named_members(step))
    return {
        "predict": Output(ArgMax(scores), Labels(Array(step.estimator.classes_))),
        **outputs,
    }


def _probabilities(step: Step, members: list[dict[str, Output]]) -> tuple[Node, dict[str, Output]]:
    if not all("predict_proba" in member for member in members):
        raise step.refuse("voting", "soft", "All its members must have predict_proba.")
    each = [as_numbers(step, member["predict_proba"]) for member in members]
    mean = _average(step, each)
    probabilities = {"predict_proba": Output(mean)}
    if step.estimator.flatten_transform:
        return mean, {**probabilities, "transform": Output(concat(each))}
    hint = "Set it to True: transform then returns rows, and nothing else depends on it."
    step.refuse_method("transform", "flatten_transform", False, hint)
    return mean, probabilities


def _votes(step: Step, members: list[dict[str, Output]]) -> tuple[Node, dict[str, Output]]:
    n_classes = len(step.estimator.classes_)
    listed = _weights(step)
    weights = [1.0] * len(members) if listed is None else listed
    # bincount is as long as the largest code voted for, so absent classes are no candidates.
    if min(weights) < 0:
        raise step.refuse(
            "weights",
            step.estimator.weights,
            "The source model counts votes up to the largest class voted for: give weights "
            "of at least 0.",
        )
    codes = [_vote_codes(step, member["predict"]) for member in members]
    votes = tuple(
        Affine.of(OneHot(code, (n_classes,)), mul=weight)
        for code, weight in zip(codes, weights, strict=True)
    )
    return Add(votes), {
        "transform": Output(concat([as_vector(step, member["predict"]) for member in members]))
    }


def _vote_codes(step: Step, predict: Output) -> Node:
    """Return codes of the classes that a member votes for.

    A member that was fitted elsewhere may predict other labels.
    """
    codes = np.arange(len(step.estimator.classes_))
    if isinstance(predict.classes, Array) and not np.isin(predict.classes.data, codes).all():
        raise step.refuse(
            "voting",
            "hard",
            f"A member predicts labels such as {predict.classes.data.tolist()[:2]}; votes are "
            "counted for 0, 1...",
        )
    return class_codes(step, predict, codes)


def _average(step: Step, xs: list[Node]) -> Node:
    """Return the weighted mean as ``numpy.average`` does, in the common dtype with the weights."""
    weights = _weights(step)
    if weights is None:
        return Affine.of(Add(tuple(xs)), div=len(xs))
    total = np.asarray(weights).sum()
    if total == 0:
        raise step.refuse("weights", step.estimator.weights, "They sum to zero.")
    products = tuple(
        Affine.of(promote(x, weights), mul=weight) for x, weight in zip(xs, weights, strict=True)
    )
    return Affine.of(Add(products), div=total)


def _weights(step: Step) -> list[float] | None:
    """Return the weights of the members that were not dropped."""
    weights: list[float] | None = step.estimator._weights_not_none
    return weights


Numbers = npt.NDArray[Any]


@parses("sklearn.ensemble.AdaBoostClassifier")
def parse_ada_boost_classifier(step: Step) -> dict[str, Output]:
    """Sum weighted votes for the class that each member predicts.

    Each vote takes a share of its weight off the other classes.
    """
    est = step.estimator
    if len(est.classes_) < 2:
        raise step.refuse("classes_", est.classes_, "A model of one class predicts nothing else.")
    if votes_by_probabilities(est):
        hint = "scikit-learn has it up to 1.5 alone. Fit it with algorithm='SAMME'."
        raise step.refuse("algorithm", est.algorithm, hint)
    _require_known_classes(step)
    step.require_finite()
    read = _tree_votes if are_trees(step) else _member_votes
    sums, stages = read(step)
    members = len(est.estimators_)
    return _summed_outputs(step, sums, est.estimator_weights_.sum()) | _staged_outputs(
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


def _places(labels: Numbers, classes: Numbers) -> Numbers:
    """Return the places of labels among classes, which may be in any order."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places[label] for label in labels.tolist()])


def _summed_outputs(step: Step, sums: Node, weight: float) -> dict[str, Output]:
    classes = Array(step.estimator.classes_)
    scores, codes, probabilities = _decide(sums, np.array([weight]), len(classes))
    outputs = {
        "predict": Output(codes, Labels(classes)),
        "decision_function": Output(scores, VECTOR if len(classes) == 2 else MATRIX),
    }
    return with_probabilities(outputs, probabilities)


def _staged_outputs(step: Step, sums: Node, weights: Numbers) -> dict[str, Output]:
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

    ``sums`` are side by side; each has its total weight.
    """
    groups = len(weights)
    if n_classes > 2:
        scores = Affine.of(sums, div=np.repeat(weights, n_classes))
        return (
            scores,
            ArgMax(scores, groups),
            Softmax(Affine.of(scores, div=n_classes - 1), groups=groups),
        )
    # Votes for two classes are exact opposites: their difference is twice one of them.
    scores = Affine.of(sums, div=weights, mul=2.0)
    # Softmax of (-score / 2, score / 2), as in _compute_proba_from_decision.
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
    return concat([output["predict"].node for output in _read_boosted_members(step)])


def _read_boosted_members(step: Step) -> list[dict[str, Output]]:
    return read_members(step, [np.arange(step.x.type.width)] * len(step.estimator.estimators_))
