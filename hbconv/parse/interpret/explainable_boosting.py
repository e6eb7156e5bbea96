"""Explainable boosting machines: sums of look-ups, behind a link."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    ArgMax,
    Choose,
    Compare,
    ConstantRows,
    Labels,
    Map,
    Node,
    Output,
    Quotient,
    Schema,
    Softmax,
)
from hbconv.parse.common.probabilities import beside_complement
from hbconv.parse.interpret.terms import sum_terms
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


def _features(machine: Any) -> Schema:
    """Return the columns of a frame, found by name; of an array, whose columns it numbers."""
    names = [str(name) for name in machine.feature_names_in_]
    numbered = [f"feature_{position:04}" for position in range(len(names))]
    return Schema.matrix(len(names)) if names == numbered else Schema.table(names)


@parses("interpret.glassbox.ExplainableBoostingClassifier", features=_features)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Compare the score of two classes with 0, or take the class of the greatest score."""
    step.refuse_sparse("reads categories, which no sparse matrix holds")
    scores = sum_terms(step)
    classes = Labels(Array(np.asarray(step.estimator.classes_)))
    if _link(step, "logit", "mlogit") == "mlogit":
        return {
            "predict": Output(ArgMax(scores), classes),
            "predict_proba": Output(Softmax(scores)),
            "decision_function": Output(scores),
        }
    return {
        "predict": Output(Compare.of(scores, "gt", 0.0, "int32"), classes),
        "predict_proba": Output(beside_complement(_odds_share(scores))),
        "decision_function": Output(scores, VECTOR),
    }


@parses("interpret.glassbox.ExplainableBoostingRegressor", features=_features)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Return the scores, or their exponentials."""
    step.refuse_sparse("reads categories, which no sparse matrix holds")
    scores = sum_terms(step)
    if _link(step, "identity", "log") == "log":
        scores = Map(scores, "exp")
    return {"predict": Output(scores, VECTOR)}


def _link(step: Step, *known: str) -> str:
    link = str(step.estimator.link_)
    if link not in known:
        raise step.refuse("link_", link, f"hbconv handles {' and '.join(known)}.")
    return link


def _odds_share(scores: Node) -> Node:
    """Return ``odds / (1 + odds)``, which is 1 where the odds exceed all floats."""
    odds = Map(scores, "exp")
    share = Quotient((odds, Affine.of(odds, add=1.0)))
    return Choose(Compare.of(odds, "eq", np.inf), ConstantRows(odds, Array([1.0])), share)
