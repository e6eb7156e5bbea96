"""What ensembles of any estimators share: trees are read together, others one by one.

What pipelines of any library share: which columns they read, and which steps pass rows on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Codes,
    Columns,
    Concat,
    ConstantRows,
    Node,
    Output,
    Recode,
    Schema,
    Select,
    topological,
)
from hbconv.names import EXPLANATIONS, METHODS
from hbconv.parse.registry import declared_columns, find_parser
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step

__all__ = [
    "are_trees",
    "class_codes",
    "columns_of_array",
    "columns_of_first",
    "find_source",
    "is_passed",
    "passed_on",
    "read_members",
    "read_named_members",
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
    for i, (member, own) in enumerate(zip(step.estimator.estimators_, columns, strict=True)):
        outputs.append(
            step.child(
                member, columns_of_array(step.x, own), f"estimators_[{i}]", x_sparse=step.x_sparse
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


def passed_on(step: Step, outputs: dict[str, Output]) -> dict[str, Output]:
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
    known = {label: position for position, label in enumerate(classes.tolist())}
    table = [-1, *(known.get(label, -1) for label in predict.classes.data.tolist())]
    return (
        predict.node
        if table == list(range(-1, len(table) - 1))
        else Recode(predict.node, (Array.of(table, np.int32),))
    )


def spread_classes(values: Node, classes: npt.NDArray[Any], n_classes: int, fill: float) -> Node:
    """Return columns for some of the classes as columns for all classes.

    ``values`` are float64, and ``fill`` stands for the classes that it lacks.
    Classes outside of ``n_classes``, or given twice, raise ValueError.
    """
    if len(np.unique(classes)) != len(classes) or np.any((classes < 0) | (classes >= n_classes)):
        raise ValueError(f"a member knows the classes {classes.tolist()[:9]}, of {n_classes}")
    if np.array_equal(classes, np.arange(n_classes)):
        return values
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
        ((name, step) for name, step in pipeline.steps if not is_passed(step)), ("", None)
    )
    if first is None:
        return None
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
    return name if is_passed(inner) else find_source(inner)


def is_passed(estimator: object) -> bool:
    """Tell whether a step passes rows on as they are."""
    return estimator is None or (isinstance(estimator, str) and estimator == "passthrough")
