"""Answers of ``radius_neighbors``: lists of neighbours, of another length for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import AdjacencyLists

__all__ = ["list_adjacent"]

Lists = npt.NDArray[np.object_]


def list_adjacent(form: AdjacencyLists, values: npt.NDArray[Any]) -> tuple[Lists, Lists]:
    """Return the values of each row that are not below 0, and the positions of their columns.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> form = AdjacencyLists(Array([2, 0, 1]))
    >>> distances, positions = list_adjacent(form, np.array([[0.5, -1.0, 2.0], [-1.0, 3.0, -1.0]]))
    >>> [row.tolist() for row in distances], [row.tolist() for row in positions]
    ([[2.0, 0.5], [3.0]], [[2, 0], [1]])
    """
    order = form.order.data
    listed = values[:, order]
    adjacent = listed >= 0
    ends = np.cumsum(adjacent.sum(axis=1))
    positions = np.broadcast_to(order, adjacent.shape)[adjacent]
    return _split(listed[adjacent], ends), _split(positions, ends)


def _split(values: npt.NDArray[Any], ends: npt.NDArray[np.int64]) -> Lists:
    """Cut values into an array for each row."""
    lists = np.empty(len(ends), dtype=object)
    for row, part in enumerate(np.split(values, ends)[:-1]):
        lists[row] = part
    return lists
