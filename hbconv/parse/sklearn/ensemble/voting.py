"""Voting and stacking, over members of any kind.

Members vote, are averaged, or are read by a final estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    Codes,
    Columns,
    Entries,
    LabelColumns,
    Labels,
    Node,
    OneHot,
    Output,
    Schema,
    Select,
    sparse_form,
    topological,
)
from hbconv.parse.common.linear_scores import promote
from hbconv.parse.common.members import (
    as_numbers,
    as_vector,
    class_codes,
    pass_on,
    read_named_members,
)
from hbconv.parse.registry import parses
from hbconv.parse.schema import common_schema, in_order
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
