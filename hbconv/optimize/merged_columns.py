"""Columns that several nodes have in common: find them, and compute them once, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Columns, Concat, Node, Select

__all__ = [
    "Ints",
    "United",
    "find_columns",
    "join_columns",
    "join_nodes",
    "kind_of",
    "unite_columns",
    "way_of",
]

# Naming the columns of 50 scalers of 500 columns took 2.4 s for each graph that the search met.
MAX_COLUMNS = 256
"""Widest node whose columns are compared one by one; wider ones are equal as a whole or not."""

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True)
class United:
    """The columns of several nodes, each once.

    Parameters
    ----------
    x : Node
        The columns side by side.
    places : tuple of arrays of int
        For each node, where its columns are in x.
    """

    x: Node
    places: tuple[Ints, ...]


# The search asks for the same nodes again for each graph that it derives.
@lru_cache(maxsize=64)
def find_columns(x: Node) -> tuple[Hashable, ...]:
    """Name each column by a node of its own, with selections pushed as far as they go.

    Columns that are equal by construction then have equal names, whatever is next to them.

    Examples
    --------
    >>> from hbconv.containers import Affine, Schema
    >>> columns = Columns.of(Schema.table(["a", "b"]))
    >>> both = Affine.of(columns, sub=[1.0, 2.0])
    >>> second = Affine.of(Select(columns, Array([1])), sub=[2.0])
    >>> find_columns(second)[0] == find_columns(both)[1]
    True
    """
    places = range(x.type.width)
    if len(places) > MAX_COLUMNS:
        return tuple((x.key, place) for place in places)
    pushed: dict[Node, Node] = {}
    return tuple(_push_once(Select(x, Array.of([place], "int32")), pushed) for place in places)


def _push_once(node: Node, pushed: dict[Node, Node]) -> Node:
    """Push a selection of one column towards the input, once where several nodes read it."""
    if node not in pushed:
        pushed[node] = _push(node, pushed)
    return pushed[node]


def _push(node: Node, pushed: dict[Node, Node]) -> Node:
    if not isinstance(node, Select):
        return node
    narrow = node.x if node.x.type.width == 1 else node.x.narrowed(node.indices)
    if narrow is None:
        return node
    if isinstance(narrow, Select):
        return _push_once(narrow, pushed)
    return narrow.with_inputs({part: _push_once(part, pushed) for part in narrow.inputs})


def unite_columns(xs: Sequence[Node], names: Sequence[Sequence[Hashable]]) -> United:
    """Put the columns of nodes side by side, those of one name once.

    The widest node comes first, because the others' columns often are among its own. Columns of the
    input are read as one matrix, in the order of the schema.

    Examples
    --------
    >>> from hbconv.containers import Schema
    >>> schema = Schema.table(["a", "b", "c"])
    >>> xs = [Columns(schema, Array.of(i, "int32")) for i in ([2, 0], [1, 2])]
    >>> united = unite_columns(xs, [find_columns(x) for x in xs])
    >>> united.x.detail, [places.tolist() for places in united.places]
    ('a, b, c', [[2, 0], [1, 2]])
    """
    place: dict[Hashable, int] = {}
    parts: list[Node] = []
    # Stable, so that nodes of one width stay in the order of the graph.
    for i in sorted(range(len(xs)), key=lambda i: -xs[i].type.width):
        new = [j for j, name in enumerate(names[i]) if name not in place]
        place |= {names[i][j]: len(place) + k for k, j in enumerate(new)}
        if new:
            parts.append(_select(xs[i], new))
    places = tuple(np.array([place[name] for name in columns], np.int32) for columns in names)
    return _in_schema_order(_concat(parts), places)


def _select(x: Node, columns: list[int]) -> Node:
    whole = columns == list(range(x.type.width))
    return x if whole else Select(x, Array.of(columns, "int32"))


def _concat(parts: list[Node]) -> Node:
    """Put parts of one dtype side by side; columns of one schema become one node."""
    narrow = [_pushed_columns(part) for part in parts]
    columns = [part for part in narrow if isinstance(part, Columns)]
    # Columns that are converted to different dtypes cannot be one matrix.
    if len(columns) < len(parts) or len({(c.schema, c.dtype) for c in columns}) > 1:
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))
    together = np.concatenate([part.indices.data for part in columns])
    return replace(columns[0], indices=Array.of(together, "int32"))


def _pushed_columns(part: Node) -> Node:
    if not (isinstance(part, Select) and isinstance(part.x, Columns)):
        return part
    return part.x.narrowed(part.indices)


def _in_schema_order(x: Node, places: tuple[Ints, ...]) -> United:
    if not isinstance(x, Columns):
        return United(x, places)
    # Columns in the order of the schema are read in place, without a copy of each.
    order = np.argsort(x.indices.data, kind="stable")
    ordered = replace(x, indices=Array(x.indices.data[order]))
    rank = np.argsort(order, kind="stable").astype(np.int32)
    return United(ordered, tuple(rank[columns] for columns in places))


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
    # Being narrowed back is the proof: nothing else says that a node computes column by column.
    if any(_narrow(node, 0, node.type.width) is None for node in nodes):
        return None
    parts = [_constants(node) for node in nodes]
    constants = {name: _join_constants([part[name] for part in parts]) for name in parts[0]}
    joined = _with_x(dataclasses.replace(nodes[0], **constants), x)
    first = 0
    for node in nodes:
        last = first + node.type.width
        if _narrow(joined, first, last) != _with_x(node, _columns(x, first, last)):
            return None
        first = last
    return joined


def _constants(node: Node) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(node) if f.name not in ("x", "step")]
    return {name: getattr(node, name) for name in names}


def _narrow(node: Node, first: int, last: int) -> Node | None:
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


def _join_constants(values: Sequence[Any]) -> Any:
    """Put arrays side by side, at any depth; what is no array is equal already."""
    first = values[0]
    if isinstance(first, Array):
        # A constant without axes serves all columns, and is equal in all nodes.
        return Array(np.concatenate([v.data for v in values])) if first.data.ndim else first
    if isinstance(first, tuple):
        return tuple(_join_constants(parts) for parts in zip(*values, strict=True))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        fields = [f.name for f in dataclasses.fields(first)]
        joined = {name: _join_constants([getattr(v, name) for v in values]) for name in fields}
        return dataclasses.replace(first, **joined)
    return first
