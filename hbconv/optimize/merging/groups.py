"""Sort nodes into groups that may become one node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from hbconv.containers import Graph, Node

__all__ = ["find_levels", "group_by", "group_sharing"]

N = TypeVar("N", bound=Node)


def group_by(nodes: Iterable[N], key: Callable[[N], Hashable]) -> list[list[N]]:
    """Sort nodes by a key, each group in the order of its first node."""
    groups: dict[Hashable, list[N]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    return list(groups.values())


def group_sharing(nodes: Sequence[N], names: Mapping[N, frozenset[Hashable]]) -> list[list[N]]:
    """Sort nodes so that those with a name in common, or with one between them, are together.

    Examples
    --------
    >>> from hbconv.containers import Columns, Map, Schema
    >>> x = Columns.of(Schema.matrix(1))
    >>> a, b, c = (Map(x, name) for name in ("exp", "log", "sqrt"))
    >>> groups = group_sharing([a, b, c], {a: frozenset("xy"), b: frozenset("z"),
    ...                                    c: frozenset("yz")})
    >>> [[node.function for node in group] for group in groups]
    [['exp', 'log', 'sqrt']]
    """
    groups: list[tuple[set[Hashable], list[N]]] = []
    for node in nodes:
        near = [group for group in groups if not group[0].isdisjoint(names[node])]
        groups = [group for group in groups if group[0].isdisjoint(names[node])]
        shared = set(names[node]).union(*(group[0] for group in near))
        groups.append((shared, [*(n for group in near for n in group[1]), node]))
    place = {node: i for i, node in enumerate(nodes)}
    return [sorted(group, key=place.__getitem__) for _, group in groups]


def find_levels(graph: Graph, counts: Callable[[Node], bool]) -> dict[Node, int]:
    """Count the counted nodes on the longest way to each node, itself left out.

    None of two counted nodes of one level is an input, near or far, of the other.
    """
    level: dict[Node, int] = {}
    for node in graph.nodes():
        level[node] = max((level[x] + counts(x) for x in node.inputs), default=0)
    return level
