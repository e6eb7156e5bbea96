"""The outputs of inner estimators, as the estimators around them use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    Cube,
    LabelColumns,
    Labels,
    Node,
    Output,
    Paths,
    Recode,
    Select,
    Sparse,
    Stages,
)
from hbconv.parse.step import Step, concat

__all__ = ["as_numbers", "as_vector", "is_a", "response", "side_by_side"]


def is_a(estimator: Any, kind: str) -> bool:
    """Tell whether scikit-learn counts an estimator as a "classifier" or as a "regressor"."""
    return bool(estimator.__sklearn_tags__().estimator_type == kind)


def as_numbers(step: Step, output: Output) -> Node:
    """Return an output as numbers, in the dtype of the source model; labels must be numbers."""
    if isinstance(output.form, Sparse | Cube | Stages | Paths):
        raise step.refuse(
            None, None, "An inner estimator answers with something else than one array of numbers."
        )
    node = output.node
    if output.classes is not None:
        tables = (
            [output.classes] * node.type.width
            if isinstance(output.classes, Array)
            else output.classes
        )
        node = Recode(node, tuple(_table(step, labels.data) for labels in tables))
    return node if output.dtype is None else Cast(node, output.dtype)


def as_vector(step: Step, output: Output) -> Node:
    """Return an output of one number for each row."""
    if not output.is_vector:
        raise step.refuse(
            None, None, "An inner estimator answers with several columns, where one is needed."
        )
    return as_numbers(step, output)


def side_by_side(step: Step, outputs: list[Output]) -> Output:
    """Return outputs of one value a row as columns, with their labels where all have some."""
    classes = [
        output.form.classes
        for output in outputs
        if isinstance(output.form, Labels) and output.form.vector
    ]
    if len(classes) < len(outputs):
        return Output(concat([as_vector(step, output) for output in outputs]))
    return Output(concat([output.node for output in outputs]), LabelColumns(tuple(classes)))


def response(
    step: Step, member: Any, outputs: dict[str, Output], *methods: str, positive: int = 1
) -> tuple[Node, str]:
    """Return the node of the first of ``methods`` that a member has, and the name of that method.

    A classifier of two classes gives one column.
    It is the probability, or the score, of the class at the ``positive`` position.
    """
    method = next((m for m in methods if m in outputs), None)
    if method is None:
        raise step.refuse(
            None,
            None,
            f"Its inner estimator {type(member).__name__} has none of {', '.join(methods)}.",
        )
    node = as_numbers(step, outputs[method])
    if not is_a(member, "classifier") or len(member.classes_) != 2:
        return node, method
    if method in ("predict_proba", "predict_log_proba"):
        return Select(node, Array.of([positive], np.int32)), method
    return (
        Affine.of(node, mul=-1.0) if method == "decision_function" and positive == 0 else node
    ), method


def _table(step: Step, labels: npt.NDArray[Any]) -> Array:
    """Return labels by their codes, behind an entry for the code -1, which nothing predicts."""
    if labels.dtype.kind not in "biuf":
        raise step.refuse(
            None,
            None,
            "It computes with the labels of an inner estimator, such as "
            f"{labels.tolist()[:2]}, which are not numbers.",
        )
    wide = labels.astype(np.int64) if labels.dtype.kind in "iu" else labels
    return Array(np.concatenate([wide[:1], wide]))
