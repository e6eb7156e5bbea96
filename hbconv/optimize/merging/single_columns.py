"""Join nodes of one column each: one node computes all columns, where they are alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import Columns, Concat, Node, Select
from hbconv.optimize.merging.constants import join_nodes, kind_of

__all__ = ["join_columns", "way_of"]


def way_of(node: Node) -> Hashable:
    """Say what columns must have in common to be joined: the way from the input, and each dtype.

    Constants of a column each may differ.
    """
    if isinstance(node, Columns):
        return Columns, node.dtype, node.type.dtype
    if isinstance(node, Select):
        return Select, node.x
    if len(node.inputs) == 1 and hasattr(node, "x"):
        return kind_of(node), node.type.dtype, way_of(node.x)
    return type(node), node.type.dtype


def join_columns(nodes: Sequence[Node]) -> Node:
    """Return a node with the given columns, which have one way.

    Equal arithmetic on columns becomes arithmetic on all of them; what cannot be joined is put side
    by side.

    Examples
    --------
    >>> from hbconv.containers import Impute, Schema, show_rule
    >>> x = Schema.table(["a", "b"])
    >>> columns = [Columns(x, Array.of([i], "int32")) for i in range(2)]
    >>> filled = [Impute(column, Array([i + 1.0])) for i, column in enumerate(columns)]
    >>> show_rule(lambda node: join_columns(filled), Concat(tuple(filled)))
    concat(impute(columns(a), [1.] nan), impute(columns(b), [2.] nan), width 2)
    -> impute(columns(a, b), [1., 2.] nan)
    """
    first = nodes[0]
    if len(nodes) == 1:
        return first
    if isinstance(first, Columns | Select):
        picks = [node.indices.data for node in nodes if isinstance(node, Columns | Select)]
        return replace(first, indices=Array(np.concatenate(picks)))
    if len(first.inputs) == 1 and hasattr(first, "x"):
        joined = join_nodes(nodes, join_columns([node.inputs[0] for node in nodes]))
        if joined is not None:
            return joined
    return Concat(tuple(nodes))
