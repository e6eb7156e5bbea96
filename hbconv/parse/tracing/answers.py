"""What a traced function returns, as an output, and its conditions on rows, as the step's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hbconv.array import Array
from hbconv.containers import VECTOR, Columns, Labels, Node, Output, Recode, sparse_form
from hbconv.parse.step import Conditions, Step
from hbconv.parse.tracing.arrays import TracedMatrix, TracedVector
from hbconv.parse.tracing.labels import TracedLabels
from hbconv.parse.tracing.sparse import TracedSparse
from hbconv.parse.tracing.trace import refuse

__all__ = ["as_output", "hand_on", "is_column", "with_classes"]


def as_output(result: Any) -> Output:
    """Return what a function of rows returned as an output."""
    if isinstance(result, TracedLabels):
        return Output(result.codes, Labels(Array(result.table)))
    if isinstance(result, TracedVector) and not getattr(result, "leads", False):
        return Output(result.node, VECTOR)
    if isinstance(result, TracedMatrix):
        return Output(result.node)
    if isinstance(result, TracedSparse):
        return Output(result.node, sparse_form(True, result.layout, arrays=True))
    return refuse(f"returns {type(result).__name__}", "Return an array with a row for each row.")


def with_classes(output: Output, classes: Any) -> Output:
    """Return labels that are looked up among the classes of an estimator as places of them."""
    node = output.node
    if not (output.form == VECTOR and isinstance(node, Recode)):
        return output
    table = node.tables[0].data[1:]
    if getattr(classes, "dtype", None) != table.dtype or classes.tolist() != table.tolist():
        return output
    return replace(output, node=node.codes, form=Labels(Array(table)))


def is_column(result: Any) -> bool:
    """Tell whether a function returned an array of shape (n_rows,), and no series."""
    is_vector = isinstance(result, TracedVector) and not getattr(result, "leads", False)
    return is_vector or isinstance(result, TracedLabels)


def hand_on(
    step: Step,
    conditions: Conditions,
    over: Callable[[Node], Node],
    column_of: Callable[[int], Node] | None = None,
) -> None:
    """Hand conditions on rows of the trace's own columns on to a step."""
    for found, kept in (
        (conditions.checks, step.conditions.checks),
        (conditions.warnings, step.conditions.warnings),
    ):
        kept.extend(replace(check, node=over(check.node)) for check in found)
    for column, why in conditions.without_na.items():
        read = column_of(column) if column_of is not None else None
        if isinstance(read, Columns):
            step.conditions.without_na.setdefault(read.columns[0], why)
