"""Estimators around others: thresholds, decays, priors, and classes in an order."""

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
    Choose,
    Compare,
    Concat,
    ConstantRows,
    Labels,
    LookupRows,
    Map,
    Multiply,
    Node,
    Normalize,
    Output,
    Schema,
    Select,
)
from hbconv.parse.common.responses import as_numbers, as_vector
from hbconv.parse.registry import parses
from hbconv.parse.schema import as_validated, read_schema
from hbconv.parse.step import Step, concat


def _columns(est: Any) -> Schema | None:
    return as_validated(est, read_schema(est.estimator_))


def _columns_of_classifier(est: Any) -> Schema | None:
    return as_validated(est, read_schema(est.classifier_))


def _columns_of_first(est: Any) -> Schema | None:
    return as_validated(est, read_schema(next(iter(est.estimators_.values()))))


def _validated(step: Step) -> Node:
    """Return the rows as floats; those that are not finite are refused."""
    step.refuse_sparse()
    return step.require_finite(Cast(step.x, "float"))


@parses("sklego.meta.Thresholder", features=_columns)
def parse_thresholder(step: Step) -> dict[str, Output]:
    """Take the second class where its probability is above the threshold."""
    est = step.estimator
    if est.check_input:
        step.refuse_sparse()
    inner = step.child(est.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    probabilities = inner["predict_proba"]
    second = Select(as_numbers(step, probabilities), Array.of([1], np.int32))
    weak = not isinstance(est.threshold, np.generic)
    above = Compare(second, "gt", Array([float(est.threshold)]), "int32", weak=weak)
    return {"predict": Output(above, Labels(Array(est.classes_))), "predict_proba": probabilities}


@parses("sklego.meta.DecayEstimator", features=_columns)
def parse_decay_estimator(step: Step) -> dict[str, Output]:
    """Predict as the estimator that was fitted with decaying weights."""
    inner = step.child(step.estimator.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    return {"predict": inner["predict"]}


@parses("sklego.meta.EstimatorTransformer", features=_columns)
def parse_estimator_transformer(step: Step) -> Node:
    """Return what a method of the estimator answers, as columns."""
    est = step.estimator
    inner = (
        step.child(est.estimator_, _validated(step), "estimator_")
        if est.check_input
        else step.child(est.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    )
    if est.predict_func not in inner:
        raise step.refuse("predict_func", est.predict_func, f"hbconv has {', '.join(inner)}.")
    answer = as_numbers(step, inner[est.predict_func])
    if answer.type.width > 1 and not est.multi_output_:
        hint = "The source lays several columns below each other; name a method that answers one."
        raise step.refuse("predict_func", est.predict_func, hint)
    return answer


@parses("sklego.meta.OrdinalClassifier", features=_columns_of_first)
def parse_ordinal_classifier(step: Step) -> dict[str, Output]:
    """Subtract neighbouring probabilities that the class is at most some one."""
    est = step.estimator
    step.refuse_sparse()
    x = step.require_finite()
    below = [
        Select(_probabilities(step, x, member, f"estimators_[{i}]"), Array.of([1], np.int32))
        for i, member in enumerate(est.estimators_.values())
    ]
    each = Cast(concat(below), "float64")
    none = ConstantRows(each, Array([0.0]))
    every = ConstantRows(each, Array([1.0]))
    lower = Map(Concat((none, each)), "neg")
    probabilities = Add((Concat((each, every)), lower))
    return _decided(step, probabilities)


@parses("sklego.meta.SubjectiveClassifier", features=_columns)
def parse_subjective_classifier(step: Step) -> dict[str, Output]:
    """Weigh probabilities by the priors, by what a predicted class tells, or by both."""
    est = step.estimator
    evidence = step.require("evidence", "predict_proba", "confusion_matrix", "both")
    given = Cast(_probabilities(step, _validated(step), est.estimator_, "estimator_"), "float64")
    if evidence == "predict_proba":
        prior = np.array([est.prior[label] for label in est.classes_])
        return _decided(step, Normalize(Affine.of(given, mul=prior), "l1"))
    told = LookupRows(ArgMax(given), Array(np.ascontiguousarray(est.posterior_matrix_.T)))
    if evidence == "confusion_matrix":
        return _decided(step, told)
    return _decided(step, Normalize(Multiply((told, given)), "l1"))


@parses("sklego.meta.ZeroInflatedRegressor", features=_columns_of_classifier)
def parse_zero_inflated_regressor(step: Step) -> dict[str, Output]:
    """Predict a number where the classifier tells that it is not zero."""
    est = step.estimator
    step.refuse_sparse()
    x = step.require_finite()
    classifier = step.child(est.classifier_, x, "classifier_")
    value = as_vector(step, step.child(est.regressor_, x, "regressor_")["predict"])
    is_other = Compare.of(Cast(as_vector(step, classifier["predict"]), "float64"), "ne", 0.0)
    zero = ConstantRows(x, Array([0.0]))
    outputs = {"predict": Output(Choose(is_other, Cast(value, "float64"), zero), VECTOR)}
    if "predict_proba" not in classifier:
        return outputs
    known = as_numbers(step, classifier["predict_proba"])
    chance = Select(known, Array.of([1], np.int32))
    return {**outputs, "score_samples": Output(Multiply((chance, value)), VECTOR)}


def _probabilities(step: Step, x: Node, member: Any, name: str) -> Node:
    return as_numbers(step, step.child(member, x, name)["predict_proba"])


def _decided(step: Step, probabilities: Node) -> dict[str, Output]:
    labels = Labels(Array(step.estimator.classes_))
    return {
        "predict": Output(ArgMax(probabilities), labels),
        "predict_proba": Output(probabilities),
    }
