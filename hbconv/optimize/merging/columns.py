"""Find the columns that several nodes have in common, and put them side by side once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Columns, Concat, Node, Select

__all__ = ["Ints", "United", "find_columns", "unite_columns"]

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


@lru_cache(maxsize=64)  # the search asks for the same nodes again and again
def find_columns(x: Node) -> tuple[Hashable, ...]:
    """Name each column by a node of its own, with selections pushed as far as they go.

    Columns that are equal by construction then have equal names, whatever they stand beside.

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
    known: dict[Node, Node] = {}
    return tuple(_pushed(Select(x, Array.of([place], "int32")), known) for place in places)


def _pushed(node: Node, known: dict[Node, Node]) -> Node:
    """Push a selection of one column towards the input, once where several nodes read it."""
    if node not in known:
        known[node] = _push(node, known)
    return known[node]


def _push(node: Node, known: dict[Node, Node]) -> Node:
    if not isinstance(node, Select):
        return node
    narrow = node.x if node.x.type.width == 1 else node.x.narrowed(node.indices)
    if narrow is None:
        return node
    if isinstance(narrow, Select):
        return _pushed(narrow, known)
    return narrow.with_inputs({part: _pushed(part, known) for part in narrow.inputs})


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
    for i in sorted(range(len(xs)), key=lambda i: -xs[i].type.width):
        new = [j for j, name in enumerate(names[i]) if name not in place]
        place |= {names[i][j]: len(place) + k for k, j in enumerate(new)}
        if new:
            parts.append(_select(xs[i], new))
    places = tuple(np.array([place[name] for name in own], np.int32) for own in names)
    return _in_schema_order(_concat(parts), places)


def _select(x: Node, columns: list[int]) -> Node:
    whole = columns == list(range(x.type.width))
    return x if whole else Select(x, Array.of(columns, "int32"))


def _concat(parts: list[Node]) -> Node:
    """Put parts of one dtype side by side; columns of one schema become one node."""
    narrow = [_pushed_columns(part) for part in parts]
    columns = [part for part in narrow if isinstance(part, Columns)]
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
    order = np.argsort(x.indices.data, kind="stable")
    ordered = replace(x, indices=Array(x.indices.data[order]))
    rank = np.argsort(order, kind="stable").astype(np.int32)
    return United(ordered, tuple(rank[own] for own in places))
