"""What estimators around other estimators share: how members are read, and their outputs used.

Trees are read together as one forest, other members one by one.
Pipelines of any library share which columns they read, and which steps pass rows on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Beside,
    Cast,
    Codes,
    Columns,
    Concat,
    ConstantRows,
    Cube,
    LabelColumns,
    Labels,
    Node,
    Output,
    Paths,
    Recode,
    Schema,
    Select,
    Sparse,
    Stages,
    topological,
)
from hbconv.names import EXPLANATIONS, METHODS
from hbconv.parse.common.versions import estimator_type
from hbconv.parse.registry import declared_columns, find_parser
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step, concat

__all__ = [
    "are_trees",
    "as_numbers",
    "as_vector",
    "class_codes",
    "columns_of_array",
    "columns_of_first",
    "find_source",
    "is_a",
    "is_frame",
    "is_passthrough",
    "pass_on",
    "read_members",
    "read_named_members",
    "response",
    "side_by_side",
    "spread_classes",
]


def are_trees(step: Step) -> bool:
    """Tell whether all members are single trees of scikit-learn."""
    return all(
        find_parser(member, step.where).name.startswith("sklearn.tree.")
        for member in step.estimator.estimators_
    )


def read_members(step: Step, columns: Sequence[npt.ArrayLike]) -> list[dict[str, Output]]:
    """Return the methods of each member, which reads its own columns."""
    outputs = []
    for i, (member, member_columns) in enumerate(
        zip(step.estimator.estimators_, columns, strict=True)
    ):
        outputs.append(
            step.child(
                member,
                columns_of_array(step.x, member_columns),
                f"estimators_[{i}]",
                x_sparse=step.x_sparse,
            )
        )
    _refuse_text_beside_numbers(step, outputs)
    return outputs


def read_named_members(step: Step) -> list[dict[str, Output]]:
    """Return the methods of each named member that was not dropped; it reads x unchanged."""
    est = step.estimator
    names = (
        name
        for name, member in est.estimators
        if not (isinstance(member, str) and member == "drop")
    )
    return [
        step.child(member, step.x, name, x_sparse=step.x_sparse)
        for name, member in zip(names, est.estimators_, strict=True)
    ]


def pass_on(step: Step, outputs: dict[str, Output]) -> dict[str, Output]:
    """Keep the methods of an inner estimator that the outer one has too, and explanations."""
    return {
        method: output
        for method, output in outputs.items()
        if method in EXPLANATIONS or (method in METHODS and hasattr(step.estimator, method))
    }


def columns_of_array(x: Node, columns: npt.ArrayLike) -> Node:
    """Select columns of what the source model first makes one array of the common dtype."""
    return Select(x, Array.of(columns, np.int32))


def class_codes(step: Step, predict: Output, classes: npt.NDArray[Any]) -> Node:
    """Return the positions among ``classes`` of what a member predicts, -1 for others."""
    if not isinstance(predict.classes, Array):
        raise step.refuse(None, None, "Its members must predict class labels.")
    position_of = {label: position for position, label in enumerate(classes.tolist())}
    # Recode looks up code + 1, so the first entry is for the code -1.
    table = [-1, *(position_of.get(label, -1) for label in predict.classes.data.tolist())]
    return (
        predict.node
        if table == list(range(-1, len(table) - 1))
        else Recode(predict.node, (Array.of(table, np.int32),))
    )


def spread_classes(values: Node, classes: npt.NDArray[Any], n_classes: int, fill: float) -> Node:
    """Return columns for some of the classes as columns for all classes.

    ``values`` are float64, and ``fill`` is the value of the classes that it lacks.
    Classes outside of ``n_classes``, or given twice, raise ValueError.
    """
    if len(np.unique(classes)) != len(classes) or np.any((classes < 0) | (classes >= n_classes)):
        raise ValueError(f"a member knows the classes {classes.tolist()[:9]}, of {n_classes}")
    if np.array_equal(classes, np.arange(n_classes)):
        return values
    # Absent classes read the constant column, which is behind all others.
    places = np.full(n_classes, len(classes))
    places[classes] = np.arange(len(classes))
    return columns_of_array(Concat((values, ConstantRows(values, Array([fill])))), places)


def _refuse_text_beside_numbers(step: Step, outputs: list[dict[str, Output]]) -> None:
    """Refuse members that compute with the numbers of an object array.

    They read one dtype, for which hbconv has no name.
    """
    nodes = topological(
        (
            *(output.node for methods in outputs for output in methods.values()),
            *(check.node for check in step.conditions.checks),
        )
    )
    text = {node.column for node in nodes if isinstance(node, Codes)}
    if any(
        isinstance(node, Select) and isinstance(node.x, Columns) and text & set(node.x.columns)
        for node in nodes
    ):
        hint = (
            "Its members read text and numbers from one array: encode the text before the "
            "ensemble, as a step of a pipeline."
        )
        raise step.refuse("estimator", type(step.estimator.estimator_).__name__, hint)


def columns_of_first(pipeline: Any) -> Sequence[str] | int | Schema | None:
    """Return the input columns of the first step, where the pipeline does not show them.

    Its parser may declare them, or a step before it is ``"passthrough"``.
    """
    name, first = next(
        ((name, step) for name, step in pipeline.steps if not is_passthrough(step)), ("", None)
    )
    if first is None:
        return None
    # Pipeline.n_features_in_ asks its very first step, and "passthrough" has no such attribute.
    is_hidden = hasattr(first, "n_features_in_") and not hasattr(pipeline, "n_features_in_")
    return read_schema(first) if is_hidden else declared_columns(first, name)


def find_source(estimator: Any) -> str:
    """Return the public name of the class whose arguments the methods of an estimator take.

    A pipeline hands them to its last step, and a frozen estimator to the one inside.
    """
    name = find_parser(estimator).name
    inner = None
    if name.endswith(".Pipeline"):
        inner = estimator.steps[-1][1]
    elif name.endswith(".FrozenEstimator"):
        inner = estimator.estimator
    return name if is_passthrough(inner) else find_source(inner)


def is_passthrough(estimator: object) -> bool:
    """Tell whether a step passes rows on as they are."""
    return estimator is None or (isinstance(estimator, str) and estimator == "passthrough")


def is_frame(x: Node) -> bool:
    """Whether the source hands x on as a frame of pandas, whose columns pass as they are."""
    return isinstance(x, Beside) or (isinstance(x, Columns) and x.schema.named)


def is_a(estimator: Any, kind: str) -> bool:
    """Tell whether scikit-learn counts an estimator as a "classifier" or as a "regressor"."""
    return estimator_type(estimator) == kind


def as_numbers(step: Step, output: Output) -> Node:
    """Return an output as numbers, in the dtype of the source model; labels must be numbers."""
    if isinstance(output.form, Sparse | Cube | Stages | Paths):
        raise step.refuse(
            None, None, "An inner estimator returns something else than one array of numbers."
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
            None, None, "An inner estimator returns several columns, where one is needed."
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
        # The two probabilities are complements, so one column says all.
        return Select(node, Array.of([positive], np.int32)), method
    return (
        # A score of two classes is for the second; its opposite is for the first.
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
