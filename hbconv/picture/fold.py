"""Fold equal members: fifty heads of one shape, between the same nodes, are drawn once.

Two nodes are equal members if they do the same with other constants, and so do all nodes before and
behind them. The classes are the coarsest stable partition, refined from the nodes' own looks (as
Hopcroft's algorithm does for automata). A pass goes along the inputs and back along the users, so
what tells two nodes of a chain apart reaches all others at once: 3,000 took 3,000 passes.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hbconv.containers import Codes, Columns, Entries, Node

__all__ = ["fold", "join_steps", "pattern"]

Edges = Mapping[int, Sequence[int]]


def fold(nodes: Sequence[Node], inputs: Edges, names: Mapping[int, str]) -> list[tuple[int, ...]]:
    """Return the classes of equal members, in the order of their first ones.

    Parameters
    ----------
    nodes : sequence of Node
    inputs : mapping of int to sequence of int
        Positions of the inputs of each node, which come before it.
    names : mapping of int to str
        Of nodes that are answers; these stay apart.
    """
    users = defaultdict(list)
    for node, given in inputs.items():
        for before in given:
            users[before].append(node)
    colours = _numbered([(_look(node), names.get(i, "")) for i, node in enumerate(nodes)])
    count = 0
    while len(set(colours)) > count:
        count = len(set(colours))
        colours = _refined(colours, inputs, range(len(nodes)), tuple)
        colours = _refined(colours, users, range(len(nodes) - 1, -1, -1), frozenset)
    classes = defaultdict(list)
    for i, colour in enumerate(colours):
        classes[colour].append(i)
    return [tuple(members) for members in classes.values()]


def pattern(step: str) -> str:
    """Return the path of a step without its numbers, which tell equal members apart.

    Examples
    --------
    >>> pattern("estimators_[12]/SVC")
    'estimators_[#]/SVC'
    """
    return re.sub(r"\d+", "#", step)


def join_steps(steps: Sequence[str]) -> str:
    """Return one path for steps of one pattern, with the range of each number that differs.

    Examples
    --------
    >>> join_steps(["estimators_[0]/SVC", "estimators_[1]/SVC", "estimators_[12]/SVC"])
    'estimators_[0…12]/SVC'
    """
    cut = [re.split(r"(\d+)", step) for step in steps]
    joined = []
    for parts in zip(*cut, strict=True):
        numbers = sorted({int(part) for part in parts if part.isdecimal()})
        joined.append(f"{numbers[0]}…{numbers[-1]}" if len(numbers) > 1 else parts[0])
    return "".join(joined)


def _numbered(colours: Sequence[Any]) -> list[int]:
    known: dict[Any, int] = {}
    return [known.setdefault(colour, len(known)) for colour in colours]


def _refined(
    colours: Sequence[int],
    nearest: Edges,
    order: Iterable[int],
    gather: Callable[[Iterable[int]], Any],
) -> list[int]:
    """Tell nodes apart by the colours of those nearest, which come before them in the order."""
    found = list(colours)
    known: dict[Any, int] = {}
    for i in order:
        told = (colours[i], gather(found[n] for n in nearest[i]))
        found[i] = known.setdefault(told, len(known))
    return found


def _look(node: Node) -> tuple[Any, ...]:
    """Return what must be equal of equal members: class, type, step, and plain settings."""
    kind = (type(node).__name__, node.type.width, node.type.dtype, pattern(node.step))
    if isinstance(node, Codes | Columns | Entries):
        return kind
    plain = [
        getattr(node, field.name) for field in dataclasses.fields(node) if field.name != "step"
    ]
    return (*kind, *(repr(value) for value in plain if isinstance(value, str | bool | int)))
