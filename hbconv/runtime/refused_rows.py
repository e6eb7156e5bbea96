"""Name the rows that a check refuses, and what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Cast,
    CastLike,
    Codes,
    Columns,
    Compare,
    Entries,
    FindCode,
    Graph,
    IsMissing,
    IsNonFinite,
    IsOutside,
    Node,
    Recode,
    topological,
)
from hbconv.errors import shown
from hbconv.lower import lower_nodes
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.text.categories import Categories, Text

__all__ = ["name_rows"]

_EACH = Cast | CastLike | Compare | IsMissing | IsNonFinite | IsOutside
"""Containers that look at each column alone."""

_LISTED = 3
"""Largest number of further values that a message lists."""
_LOOKED_AT = 1000
"""Refused rows in which further values are looked for."""


def name_rows(graph: Graph, node: Node, table: Table, holds: npt.NDArray[np.bool_]) -> str:
    """Return a sentence about the first of the rows that a condition holds for, and its value.

    The row's number is left out where there is one row alone: in a file or a request it has
    another. Its column is named where one column of the input decides.

    Parameters
    ----------
    graph : Graph
        Of the condition, in the dtypes of the table.
    node : Node
        The condition.
    table : Table
    holds : ndarray of bool, shape (n_rows, width)
        Where it holds, for one row or more.
    """
    row = int(np.argmax(holds.any(axis=1)))
    is_sparse = None in table.entries or hasattr(table.matrix, "tocsr")
    held = "" if is_sparse else _held(graph, node, table, holds, row)
    if table.rows == 1 and table.at is None:
        return f"The row holds {held}." if held else ""
    number = row if table.at is None else table.at[row]
    return f"Row {number} holds {held}." if held else f"Row {number} is the first."


def _held(graph: Graph, node: Node, table: Table, holds: npt.NDArray[np.bool_], row: int) -> str:
    """Return the value for which a row is refused, and its column; "" where it is not told."""
    only = {column for leaf in _leaves(node) for column in leaf.columns}
    if len(only) == 1:
        first, *others = _values(table.column(*only), np.flatnonzero(holds.any(axis=1)))
        further = f"; others hold {', '.join(others)}" if others else ""
        return f"{first}{_where(table, *only)}{further}"
    looked_at = _looked_at(node)
    if looked_at is node or looked_at.type.dtype == "string" or table.entries:
        return ""
    found = _computed(graph, looked_at, table.part(slice(row, row + 1)))
    place = _place(node, found, holds[row])
    if place is None:
        return ""
    where = _where(table, looked_at.columns[place]) if isinstance(looked_at, Columns) else ""
    return f"{shown(found[place].item())}{where}"


def _leaves(node: Node) -> list[Columns | Codes | Entries]:
    return [n for n in topological((node,)) if isinstance(n, Columns | Codes | Entries)]


def _where(table: Table, column: int) -> str:
    schema = table.reads.schema
    if schema.conventions.sequence:
        return ""
    return f" in column {(schema.names[column] if schema.named else column)!r}"


def _looked_at(node: Node) -> Node:
    """Return what a condition on each column looks at; of codes, the values that have them."""
    while isinstance(node, _EACH):
        node = node.inputs[0]
    coded: Node = node.inputs[0] if isinstance(node, Recode) else node
    return coded.x if isinstance(coded, FindCode) else node


def _computed(graph: Graph, node: Node, row: Table) -> npt.NDArray[Any]:
    """Return the values of a node for one row."""
    from hbconv.backends.reference import evaluate

    lowered = lower_nodes(graph, {"held": node})
    found: npt.NDArray[Any] = evaluate(lowered.program, row.inputs(lowered.feeds))["held"][0]
    return found


def _place(node: Node, values: npt.NDArray[Any], holds: npt.NDArray[np.bool_]) -> int | None:
    """Return the place of the value that a condition refuses; None where it is not told."""
    if isinstance(node, IsNonFinite):  # one answer for all columns
        holds = np.isinf(values) if node.allow_nan else ~np.isfinite(values)
    if holds.shape != values.shape or not holds.any():
        return None
    return int(np.argmax(holds))


def _values(held: Any, rows: npt.NDArray[np.integer[Any]]) -> list[str]:
    """Return the first values that the rows hold in a column, each once."""
    found: dict[str, None] = {}
    for row in rows[:_LOOKED_AT].tolist():
        found.setdefault(shown(_value(held, row)))
        if len(found) > _LISTED:
            break
    return list(found)


def _value(held: Any, row: int) -> object:
    if isinstance(held, Categories | Text):
        return held.part(slice(row, row + 1)).objects()[0]
    value = getattr(held, "values", held)[row]  # dates in a time zone have theirs in UTC
    return value.item() if isinstance(value, np.generic) else value
