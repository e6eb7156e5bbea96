"""Voting: the mean of the members' predictions, or their votes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import VECTOR, Add, Affine, ArgMax, Labels, Node, OneHot, Output, Schema
from hbconv.parse.common.members import class_codes, read_named_members
from hbconv.parse.common.promotion import promoted
from hbconv.parse.common.responses import as_numbers, as_vector
from hbconv.parse.registry import parses
from hbconv.parse.schema import common_schema
from hbconv.parse.step import Step, concat


def _columns(voting: Any) -> Schema:
    return common_schema(voting.estimators_)


@parses("sklearn.ensemble.VotingRegressor", features=_columns)
def parse_voting_regressor(step: Step) -> dict[str, Output]:
    """Average what the members predict."""
    predictions = [as_vector(step, member["predict"]) for member in read_named_members(step)]
    return {
        "predict": Output(_average(step, predictions), VECTOR),
        "transform": Output(concat(predictions)),
    }


@parses("sklearn.ensemble.VotingClassifier", features=_columns)
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
    given = _weights(step)
    weights = [1.0] * len(members) if given is None else given
    if min(weights) < 0:
        raise step.refuse(
            "weights",
            step.estimator.weights,
            "The source model counts votes up to the largest class voted for: give weights "
            "of at least 0.",
        )
    codes = [_voted_for(step, member["predict"]) for member in members]
    votes = tuple(
        Affine.of(OneHot(code, (n_classes,)), mul=weight)
        for code, weight in zip(codes, weights, strict=True)
    )
    return Add(votes), {
        "transform": Output(concat([as_vector(step, member["predict"]) for member in members]))
    }


def _voted_for(step: Step, predict: Output) -> Node:
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
        Affine.of(promoted(x, weights), mul=weight) for x, weight in zip(xs, weights, strict=True)
    )
    return Affine.of(Add(products), div=total)


def _weights(step: Step) -> list[float] | None:
    """Return the weights of the members that were not dropped."""
    weights: list[float] | None = step.estimator._weights_not_none
    return weights
