"""A converted model inside another estimator: its graph, over what that estimator gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hbconv.containers import (
    Cast,
    Codes,
    Columns,
    Conventions,
    Entries,
    Graph,
    Node,
    Output,
    Schema,
)
from hbconv.containers.node import rewrite
from hbconv.names import INVERSE
from hbconv.parse.common.text_columns import refuse_na
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, select


def _schema_of_inverse(model: Any, width: int) -> Schema:
    inverse = model.parsed.inverse
    return Schema.matrix(width) if inverse is None else inverse.schema


@parses(
    "hbconv.Model",
    features=lambda model: model.parsed.schema,
    takes_sparse=True,
    frames=lambda model: model.parsed.traits.frame_format or "",
)
def parse_converted_model(step: Step) -> dict[str, Output]:
    """Predict as the model that it was made of does."""
    return _place_graph(step, step.estimator.parsed)


@inverts("hbconv.Model", takes_sparse=True, columns=_schema_of_inverse)
def invert_converted_model(step: Step) -> Output:
    """Invert as the model that it was made of does."""
    parsed: Graph = step.estimator.parsed
    if parsed.inverse is None:
        raise step.refuse(None, None, parsed.refused.get(INVERSE, "It has no inverse."))
    return _place_graph(step, parsed.inverse)[INVERSE]


def _place_graph(step: Step, graph: Graph) -> dict[str, Output]:
    """Return the outputs of a graph over the step's input, and record its checks."""
    _require_same_reading(step, graph.schema)
    if graph.why_dense or not graph.accepts_sparse:
        step.refuse_sparse()
    if step.x_sparse is not None:
        graph = graph.for_rows(sparse=step.x_sparse)

    def visit(node: Node) -> Node:
        return _reread_leaf(step, node) if isinstance(node, Columns | Codes | Entries) else node

    mapping = rewrite(graph.roots, visit)
    conditions = step.conditions
    conditions.checks += [replace(check, node=mapping[check.node]) for check in graph.checks]
    conditions.warnings += [replace(check, node=mapping[check.node]) for check in graph.warnings]
    conditions.refused.update(graph.refused)
    for column, why in graph.without_na.items():
        refuse_na(step, select(step.x, [column]), why)
    return {name: output.mapped(mapping) for name, output in graph.outputs.items()}


def _require_same_reading(step: Step, schema: Schema) -> None:
    """Refuse a model that reads its rows otherwise than as the step's input is read."""
    conventions = schema.conventions
    read = step.x.schema.conventions if isinstance(step.x, Columns) else _of_arrays(conventions)
    # other_arrays is about other dtypes alone.
    if step.x.type.dtype.startswith("float"):
        conventions = replace(
            conventions, other_arrays=read.other_arrays
        )  # which tells of other dtypes alone
    if conventions != read:
        raise step.refuse(
            None,
            None,
            "It is a converted model that reads tables by rules of its own, and another step "
            "reads its rows. Convert the estimator that it was made of in its place.",
        )


def _of_arrays(conventions: Conventions) -> Conventions:
    """Return the conventions of arrays, and of a model those that tell of tables alone."""
    return Conventions(
        underscored=conventions.underscored,
        names_as_text=conventions.names_as_text,
        no_categories=conventions.no_categories,
    )


def _reread_leaf(step: Step, leaf: Columns | Codes | Entries) -> Node:
    """Return what a leaf of the graph reads, of the step's input."""
    x = step.x
    if isinstance(leaf, Columns):
        picked = select(x, leaf.columns)
        if not leaf.dtype:
            return picked
        return (
            replace(picked, dtype=leaf.dtype)
            if isinstance(picked, Columns)
            else Cast(picked, leaf.dtype)
        )
    if not isinstance(x, Columns):
        raise step.refuse(
            None,
            None,
            "It is a converted model that reads texts or categories, and another step makes its "
            "rows. Convert the estimator that it was made of in its place.",
        )
    return replace(leaf, schema=x.schema, column=x.columns[leaf.column])
