"""Stacking: a final estimator reads what the others predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    Codes,
    Columns,
    Entries,
    LabelColumns,
    Labels,
    Node,
    Output,
    Schema,
    Select,
    sparse_form,
    topological,
)
from hbconv.parse.common.members import passed_on, read_named_members
from hbconv.parse.common.responses import as_numbers
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
    answers = _answers(step)
    return passed_on(step, {**_final(step, answers), "transform": answers})


@parses("sklearn.ensemble.StackingClassifier", features=_columns)
def parse_stacking_classifier(step: Step) -> Outputs:
    """Decide as the final classifier, which was fitted on codes of the labels."""
    answers = _answers(step)
    decode = _decode_each if isinstance(step.estimator.classes_, list) else _decode
    return passed_on(step, {**decode(step, _final(step, answers)), "transform": answers})


def _final(step: Step, answers: Output) -> Outputs:
    return step.child(
        step.estimator.final_estimator_,
        answers.node,
        "final_estimator_",
        x_sparse=answers.returns_sparse,
    )


def _answers(step: Step) -> Output:
    """Return the members' outputs side by side, with the input where it is passed through."""
    est = step.estimator
    members = zip(read_named_members(step), est.stack_method_, strict=True)
    columns = [_informative(step, member[method], method) for member, method in members]
    passes = [_passed_through(step, columns)] if est.passthrough else []
    return Output(
        concat([*columns, *passes]),
        sparse_form(bool(passes) and step.x_sparse, "kept", arrays=True),
    )


def _passed_through(step: Step, answers: list[Node]) -> Node:
    """Return the input, and refuse columns that a member reads as text.

    The source model would make one array of objects of them.
    """
    text = {
        column
        for node in topological(tuple(answers))
        if isinstance(node, Codes | Entries)
        for column in node.columns
    }
    if isinstance(step.x, Columns) and text & set(step.x.columns):
        raise step.refuse(
            "passthrough",
            value=True,
            hint=(
                "The final estimator would be given text beside numbers: encode the text before "
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
