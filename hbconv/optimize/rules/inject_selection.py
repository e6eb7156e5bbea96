"""Inject a column selection where a model ignores columns."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    ConstantRows,
    Entries,
    Linear,
    Node,
    Polynomial,
    Select,
    TreeEnsemble,
    TreeLeaves,
)

__all__ = ["inject_selection"]

_READERS = Linear | TreeEnsemble | TreeLeaves | Polynomial


def inject_selection(node: Node) -> Node | None:
    """Read only the columns that the output depends on.

    1. Linear: rows of weights that are all zero. The source model refuses infinite values, so zero
       times x is zero.
    2. Trees: features that no split reads.
    3. Polynomial: columns that no term multiplies.
    4. ConstantRows: a column of the input tells the number of rows as well as what is made of it.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b", "c"]))
    >>> show_rule(inject_selection, Linear.of(x, [0.0, 2.0, 0.0], 1.0))
    linear(columns(a, b, c), [[0.], [2.], [0.]] + [1.])
    -> linear(select(columns(a, b, c), [1]), [[2.]] + [1.])
    """
    if isinstance(node, _READERS) and not node.x.type.width:
        return None
    if isinstance(node, Linear):
        used = _at_least_one(np.flatnonzero(np.any(node.weights.data != 0, axis=1)))
        return _selected(node, used, weights=Array(node.weights.data[used]))
    if isinstance(node, TreeEnsemble | TreeLeaves):
        used = _at_least_one(node.forest.used_features)
        return _selected(node, used, forest=node.forest.with_features(used))
    if isinstance(node, Polynomial):
        used = _at_least_one(np.unique(node.terms.data[node.terms.data >= 0]))
        terms = np.where(node.terms.data < 0, -1, np.searchsorted(used, node.terms.data)).astype(
            np.int32
        )
        return _selected(node, used, terms=Array(terms))
    return _counted(node) if isinstance(node, ConstantRows) else None


def _selected(
    node: _READERS,
    used: npt.NDArray[np.int32],
    **changes: object,
) -> Node | None:
    if len(used) == node.x.type.width:
        return None
    return replace(node, x=Select(node.x, Array(used)), **changes)  # type: ignore[arg-type]


def _counted(node: ConstantRows) -> Node | None:
    x = node.x
    while x.inputs and not _moves(x):
        x = x.inputs[0]
    return None if x is node.x or isinstance(x, Entries) else replace(node, x=x)


def _moves(x: Node) -> bool:
    """Whether x is a selection on its way to the input."""
    return isinstance(x, Select) and x.x.narrowed(x.indices) is not None


def _at_least_one(used: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Keep one column where none matters, for the number of rows."""
    return (used if len(used) else np.zeros(1)).astype(np.int32)
