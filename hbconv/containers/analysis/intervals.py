"""Interval analysis: how large the values of a node get, from how large the input columns are.

Most checks ask whether a value is finite. An interval of the input that no node can leave for
infinity answers that for ordinary rows, so that the values themselves are not looked at.
"""

from __future__ import annotations

from hbconv.containers import Node
from hbconv.containers.interval import FINITE, LARGEST, Interval

__all__ = ["find_interval"]


def find_interval(node: Node, bound: float) -> Interval | None:
    """Return the interval of a node, given that of the input; None if it cannot be told.

    Parameters
    ----------
    node : Node
    bound : float
        All float columns are within ``[-bound, bound]`` or NaN, and all sparse entries within it.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> found = find_interval(Affine.of(x, sub=[1.0, 2.0], div=0.5), 10.0)
    >>> found.bound, sorted(found.nan_from)
    (24.0, [0, 1])
    """
    return _find(node, Interval(bound), {})


def _find(node: Node, given: Interval, known: dict[int, Interval | None]) -> Interval | None:
    """Visit each node once: where each column is computed from all before it, paths are many."""
    if id(node) not in known:
        known[id(node)] = _computed(node, given, known)
    return known[id(node)]


def _computed(node: Node, given: Interval, known: dict[int, Interval | None]) -> Interval | None:
    if node.always_finite or node.type.dtype in ("int32", "bool"):
        return Interval(FINITE)
    inputs: list[Interval] = []
    for operand in node.inputs:
        interval = _find(operand, given, known)
        if interval is None:
            return None
        inputs.append(interval)
    if not node.inputs:
        return node.interval(given)
    found = node.interval(*inputs)
    if found is None or not found.bound < LARGEST.get(node.type.dtype, 0.0):
        return None
    return found
