"""Put the constants of equal column-wise nodes side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Node, Select

__all__ = ["join_nodes", "kind_of"]


def kind_of(node: Node) -> Hashable:
    """Say what nodes must have in common to be joined: all but the rows of their constants."""
    return type(node), *(_kind(value) for value in _constants(node).values())


def join_nodes(nodes: Sequence[Node], x: Node) -> Node | None:
    """Return the node that computes over x, side by side, what the nodes compute of its columns.

    None where narrowing it to the columns of each does not give that node back.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Schema
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> one, two = (Affine.of(Select(x, Array.of([i], "int32")), add=i + 1.0) for i in range(2))
    >>> join_nodes([one, two], x) == Affine.of(x, add=[1.0, 2.0])
    True
    """
    if any(_narrowed(node, 0, node.type.width) is None for node in nodes):
        return None
    parts = [_constants(node) for node in nodes]
    constants = {name: _joined([part[name] for part in parts]) for name in parts[0]}
    joined = _with_x(dataclasses.replace(nodes[0], **constants), x)
    first = 0
    for node in nodes:
        last = first + node.type.width
        if _narrowed(joined, first, last) != _with_x(node, _columns(x, first, last)):
            return None
        first = last
    return joined


def _constants(node: Node) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(node) if f.name not in ("x", "step")]
    return {name: getattr(node, name) for name in names}


def _narrowed(node: Node, first: int, last: int) -> Node | None:
    """Narrow a node of one input to some columns; None where it is no column-wise node."""
    (x,) = node.inputs
    narrow = node.narrowed(Array.of(np.arange(first, last), "int32"))
    if narrow is None or type(narrow) is not type(node):
        return None
    return narrow if narrow.inputs == (_columns(x, first, last),) else None


def _columns(x: Node, first: int, last: int) -> Select:
    return Select(x, Array.of(np.arange(first, last), "int32"))


def _with_x(node: Node, x: Node) -> Node:
    return node.with_inputs({node.inputs[0]: x})


def _kind(value: Any) -> Hashable:
    if isinstance(value, Array):
        return value.dtype, value.shape[1:]
    if isinstance(value, tuple):
        return tuple(_kind(v) for v in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), *(_kind(getattr(value, f.name)) for f in dataclasses.fields(value))
    return repr(value)


def _joined(values: Sequence[Any]) -> Any:
    """Put arrays side by side, wherever they stand; what is no array is equal already."""
    first = values[0]
    if isinstance(first, Array):
        return Array(np.concatenate([v.data for v in values])) if first.data.ndim else first
    if isinstance(first, tuple):
        return tuple(_joined(parts) for parts in zip(*values, strict=True))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        fields = [f.name for f in dataclasses.fields(first)]
        joined = {name: _joined([getattr(v, name) for v in values]) for name in fields}
        return dataclasses.replace(first, **joined)
    return first
