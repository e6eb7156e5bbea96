"""Several classes by classifiers of two: one a class, one a pair, or one a bit of a code."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    Cast,
    Compare,
    ConstantRows,
    Labels,
    Linear,
    Node,
    Output,
    PairVotes,
    Proportions,
    Select,
    sparse_form,
)
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.members import as_numbers, as_vector, class_codes, columns_of_array, is_a
from hbconv.parse.registry import parses
from hbconv.parse.schema import as_validated, common_schema
from hbconv.parse.step import Step, concat

Outputs = dict[str, Output]


def _columns(estimator: Any) -> Any:
    members = [member for member in estimator.estimators_ if not _is_constant(member)]
    return common_schema(members) if members else None


@parses("sklearn.multiclass.OneVsRestClassifier", features=_columns)
def parse_one_vs_rest_classifier(step: Step) -> Outputs:
    """Take the class of the largest score.

    Several labels a row are decided each by itself.
    """
    est = step.estimator
    members = _members(step, step.x)
    scores = concat(_scores(step, members))
    outputs = {"predict": _decide(step, scores)}
    if all("predict_proba" in member for member in members):
        outputs["predict_proba"] = Output(_probabilities(step, members))
    if all("decision_function" in member for member in members):
        each = [as_vector(step, member["decision_function"]) for member in members]
        outputs["decision_function"] = Output(
            concat(each), VECTOR if len(est.estimators_) == 1 else MATRIX
        )
    return outputs


def _decide(step: Step, scores: Node) -> Output:
    est = step.estimator
    if est.label_binarizer_.y_type_ == "multiclass":
        return Output(ArgMax(scores), Labels(Array(est.classes_)))
    if est.multilabel_:
        return Output(
            Compare.of(scores, "gt", _threshold(est.estimators_[0]), "int64"),
            sparse_form(bool(est.label_binarizer_.sparse_input_)),
        )
    above = Compare.of(scores, "gt", _threshold(est.estimators_[0]), "int32")
    # Fitted on one class, the source predicts that class.
    codes = above if len(est.classes_) == 2 else ConstantRows(step.x, Array(np.zeros(1, np.int32)))
    return Output(codes, Labels(Array(est.classes_)))


def _probabilities(step: Step, members: list[Outputs]) -> Node:
    """Return the probability of each class, normalized unless a row may have several labels."""
    each = concat(
        [
            Select(as_numbers(step, member["predict_proba"]), Array.of([1], np.int32))
            for member in members
        ]
    )
    p = beside_complement(each) if len(members) == 1 else each
    return p if step.estimator.multilabel_ else Proportions(p, of_nothing=0.0)


@parses(
    "sklearn.multiclass.OneVsOneClassifier", features=lambda est: as_validated(est, _columns(est))
)
def parse_one_vs_one_classifier(step: Step) -> Outputs:
    """Take the class that wins most pairs, and most clearly."""
    est = step.estimator
    if est.pairwise_indices_ is not None:
        raise step.refuse(
            "estimator",
            type(est.estimator).__name__,
            "It reads a precomputed kernel: use one that hbconv can compute.",
        )
    members = _members(step, columns_of_array(step.x, range(step.x.type.width)))
    winners = concat([_winner(step, member["predict"]) for member in members])
    scores = PairVotes(winners, concat(_scores(step, members)), len(est.classes_))
    classes = Array(est.classes_)
    if len(classes) > 2:
        return {
            "predict": Output(ArgMax(scores), Labels(classes)),
            "decision_function": Output(scores),
        }
    # Of two classes the source returns the column of the second alone.
    score = Select(scores, Array.of([1], np.int32))
    codes = Compare.of(score, "gt", _threshold(est.estimators_[0]), "int32")
    return {
        "predict": Output(codes, Labels(classes)),
        "decision_function": Output(score, VECTOR),
    }


def _winner(step: Step, predict: Output) -> Node:
    """Return 0 or 1, which a classifier predicts as a label or a regressor as a number."""
    return (
        as_vector(step, predict)
        if predict.classes is None
        else class_codes(step, predict, np.arange(2))
    )


@parses("sklearn.multiclass.OutputCodeClassifier", features=_columns)
def parse_output_code_classifier(step: Step) -> Outputs:
    """Take the class whose code is nearest to the scores, the first of equals.

    It has the least ``|code|**2 - 2 * scores @ code``.
    """
    est = step.estimator
    code = step.estimator.code_book_
    scores = Cast(concat(_scores(step, _members(step, step.x))), "float64")
    # The term |scores|**2 is the same for all classes, so it is left out.
    nearness = Linear.of(scores, 2.0 * code.T, -np.einsum("ij,ij->i", code, code))
    return {"predict": Output(ArgMax(nearness), Labels(Array(est.classes_)))}


def _members(step: Step, x: Node) -> list[Outputs]:
    members = enumerate(step.estimator.estimators_)
    return [
        _constant(member, x)
        if _is_constant(member)
        else step.child(member, x, f"estimators_[{i}]", x_sparse=step.x_sparse)
        for i, member in members
    ]


def _constant(member: Any, x: Node) -> Outputs:
    """Return the output of the constant classifier that saw rows of one class only."""
    label = Output(ConstantRows(x, Array(member.y_)), VECTOR)
    # The constant is 0 or 1: the one label that was seen.
    (y,) = member.y_.astype(np.float64)
    return {
        "predict": label,
        "decision_function": label,
        "predict_proba": Output(ConstantRows(x, Array([1.0 - y, y]))),
    }


def _is_constant(member: Any) -> bool:
    return type(member).__name__ == "_ConstantPredictor"


def _scores(step: Step, members: list[Outputs]) -> list[Node]:
    """Return predictions of regressors, else scores, else probabilities of the second class."""
    return [
        _score(step, member, outputs)
        for member, outputs in zip(step.estimator.estimators_, members, strict=True)
    ]


def _score(step: Step, member: Any, outputs: Outputs) -> Node:
    if is_a(member, "regressor"):
        return as_vector(step, outputs["predict"])
    if "decision_function" in outputs:
        return as_vector(step, outputs["decision_function"])
    if "predict_proba" in outputs:
        return Select(as_numbers(step, outputs["predict_proba"]), Array.of([1], np.int32))
    raise step.refuse(
        "estimator", type(member).__name__, "It has neither decision_function nor predict_proba."
    )


def _threshold(member: Any) -> float:
    """Return what a score must exceed.

    Where the first member is a constant, all are compared as probabilities are.
    """
    return 0.0 if hasattr(member, "decision_function") and is_a(member, "classifier") else 0.5
