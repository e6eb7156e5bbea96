"""What is written on a node, and what is told of it on request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hbconv.containers import (
    Affine,
    Cast,
    Codes,
    Columns,
    Compare,
    Entries,
    Map,
    NearestPoints,
    Node,
    Polynomial,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.picture.text import shorten

__all__ = ["detail_of", "facts_of", "name_columns", "title_of", "type_of"]

MOST_NAMES = 3
"""Columns that are named one by one."""
MOST_TOLD = 400
"""Characters of a node's constants that are told on request."""

_SIGNS = {"add": "+", "sub": "−", "mul": "×", "div": "÷"}
_OPERATORS = {"gt": "> ", "ge": "≥ ", "lt": "< ", "le": "≤ ", "eq": "= ", "ne": "≠ "}


def title_of(members: Sequence[Node]) -> str:
    """Return the heading of equal members: names of columns, or what the nodes do."""
    node = members[0]
    if isinstance(node, Codes | Columns | Entries):
        return name_columns(_columns(members))
    if isinstance(node, Map):
        return node.function.replace("_", " ")
    return node.name.replace("_", " ")


def detail_of(members: Sequence[Node]) -> str:
    """Return the line below the heading: what all members have in common, without long constants.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.containers import Affine, Columns, Schema
    >>> detail_of([Affine.of(Columns.of(Schema.table(["a", "b"])), sub=[1.0, 2.0], div=[2.0, 3.0])])
    '(x − a) ÷ b'
    """
    parts = [_parts(node) for node in members]
    return ", ".join(part for part in parts[0] if all(part in others for others in parts))


def type_of(node: Node) -> str:
    """Return the type of a node's values, as they are written on lines."""
    return node.type.dtype if node.type.width == 1 else f"{node.type.dtype}[{node.type.width}]"


def name_columns(names: Sequence[str]) -> str:
    """Return names of columns on one line: all of a few, the first and the last of many.

    Examples
    --------
    >>> name_columns(["age", "fare"]), name_columns(["x0", "x1", "x2", "x3"])
    ('age, fare', 'x0 … x3')
    """
    plain = [shorten(name, 60) for name in names]
    return ", ".join(plain) if len(plain) <= MOST_NAMES else f"{plain[0]} … {plain[-1]}"


def facts_of(members: Sequence[Node]) -> dict[str, str]:
    """Return what is told of equal members on request, by heading."""
    node = members[0]
    facts = {"node": node.name, "returns": type_of(node)}
    if len(members) > 1:
        facts["members"] = f"{len(members)} of one shape; constants of the first"
    if isinstance(node, Codes | Columns | Entries):
        facts["columns"] = shorten(", ".join(_columns(members)), MOST_TOLD)
    if isinstance(node, TreeEnsemble | TreeLeaves):
        facts["strategy"] = node.strategy
    if node.detail:
        facts["constants"] = shorten(node.detail, MOST_TOLD)
    return facts


def _columns(leaves: Sequence[Node]) -> list[str]:
    """Return the names of the columns that leaves read."""
    known = [leaf for leaf in leaves if isinstance(leaf, Codes | Columns | Entries)]
    return [leaf.schema.columns[place].name for leaf in known for place in leaf.columns]


def _parts(node: Node) -> list[str]:
    """Return the facts on one node that are short enough to be read in passing."""
    if isinstance(node, Columns):
        count = f", {node.type.width} columns" if node.type.width > MOST_NAMES else ""
        return [f"{node.type.dtype}{count}"]
    if isinstance(node, Codes):
        return ["text", str(node.vocabulary)]
    if isinstance(node, Entries):
        return ["text", f"{node.type.width:,} words"]
    if isinstance(node, TreeEnsemble | TreeLeaves):
        return [f"{node.forest.n_trees:,} trees", f"{node.forest.n_tests:,} tests"]
    if isinstance(node, Compare):
        return [_comparison(node.detail)]
    if isinstance(node, Affine):
        return [_formula(node)]
    return _plain_parts(node.detail) if isinstance(node, Cast | Polynomial | NearestPoints) else []


def _comparison(detail: str) -> str:
    operator, _, rest = detail.partition(" ")
    values = re.match(r"\[([^\],]*)\]", rest)
    return f"{_OPERATORS.get(operator, operator)}{values[1] if values else ''}".strip()


def _formula(node: Affine) -> str:
    """Return what is computed of x, with a letter for each constant."""
    formula = "x"
    for letter, step in zip("abcdefgh", node.steps, strict=False):
        binds = step.op in ("mul", "div") and set(formula) & set("+−")
        formula = f"{f'({formula})' if binds else formula} {_SIGNS[step.op]} {letter}"
    return formula


def _plain_parts(detail: str) -> list[str]:
    """Return a detail without widths, which lines have, cut at its commas."""
    parts = re.sub(r"\bwidth \d+", "", detail).split(",")
    return [part.strip() for part in parts if part.strip()]
