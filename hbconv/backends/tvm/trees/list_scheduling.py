"""List scheduling: an order of nodes in which those of one kind stand together, after all that they read; and where their results lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["assign_slots", "in_runs", "lay_out"]

Ints = npt.NDArray[Any]


def in_runs(kind: Ints, parent: Ints, group: Ints) -> Ints:
    """Order nodes: group after group, and in each the kind of which the most are ready, all of these at once.

    Runs of one kind matter: the processor mispredicts the branch to the next kind about once a run.

    Parameters
    ----------
    kind, parent, group : int (n,)
        ``parent`` is the node that reads it, -1 for none; every node is read by one at most.

    Returns
    -------
    int64 (n,)

    Examples
    --------
    >>> in_runs(np.array([0, 1, 0, 1]), np.array([1, -1, 3, -1]), np.zeros(4, int)).tolist()
    [0, 2, 1, 3]
    """
    kinds, groups = kind.max(initial=0) + 1, group.max(initial=0) + 1
    waiting, turn, turns = (
        np.bincount(parent[parent >= 0], minlength=len(kind)),
        np.zeros(len(kind), np.int64),
        0,
    )
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        chosen = (
            np.bincount(group[ready] * kinds + kind[ready], minlength=groups * kinds)
            .reshape(groups, kinds)
            .argmax(axis=1)
        )
        now = kind[ready] == chosen[group[ready]]
        turn[ready[now]] = turns
        above = parent[ready[now]]
        above, read = np.unique(above[above >= 0], return_counts=True)
        waiting[above] -= read
        ready, turns = np.concatenate([ready[~now], above[waiting[above] == 0]]), turns + 1
    return np.lexsort((turn, group))


def assign_slots(order: Ints, parent: Ints, width: Ints, group: Ints) -> tuple[Ints, int]:
    """Give each result as many neighbouring slots as it is wide until it has been read, those that came free last first: they are in the nearest cache.

    Parameters
    ----------
    order : int (n,)
        All nodes, group after group, each after those that it reads; groups begin anew.
    parent, width, group : int (n,)
        What no node reads (-1) keeps its slots.

    Returns
    -------
    tuple
        The first slot of each, int64 (n,), and the number of slots.

    Examples
    --------
    >>> assign_slots(np.arange(4), np.array([2, 2, -1, -1]), np.array([1, 1, 1, 2]), np.zeros(4, int))
    (array([0, 1, 1, 2]), 4)
    """
    read = order[np.argsort(parent[order], kind="stable")]
    inputs, first = (
        read.tolist(),
        np.searchsorted(parent[read], np.arange(len(parent) + 1)).tolist(),
    )
    widths, groups, slot = width.tolist(), group.tolist(), [0] * len(parent)
    used, most, now = 0, 0, -1
    free: list[list[int]] = [[] for _ in range(width.max(initial=0) + 1)]
    for node in order.tolist():
        if groups[node] != now:
            used, now, free = 0, groups[node], [[] for _ in free]
        for child in inputs[first[node] : first[node + 1]]:
            free[widths[child]].append(slot[child])
        if free[widths[node]]:
            slot[node] = free[widths[node]].pop()
        else:
            slot[node], used = used, used + widths[node]
            most = max(most, used)
    return np.array(slot, np.int64), most


def lay_out(
    words: list[Ints], kind: Ints, group: Ints, order: Ints, groups: int
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Write the words of all nodes one after another.

    Parameters
    ----------
    words : list of int (n_nodes_of_a_kind, n_words_of_a_kind)
        For each kind.
    kind, group : int (n,)
    order : int (n,)
    groups : int

    Returns
    -------
    tuple
        The words; int32 (n_runs, 3), for nodes of one kind one after another: their kind, first word and number; and int32 (groups + 1,), the first
        run of each group.
    """
    start = np.concatenate(
        [[0], np.cumsum(np.array([block.shape[1] for block in words])[kind[order]])]
    )
    flat, place = np.zeros(start[-1], np.int64), np.empty(len(order), np.int64)
    place[order] = start[:-1]
    for i, block in enumerate(words):
        flat[place[kind == i][:, None] + np.arange(block.shape[1])] = block
    new = (np.diff(kind[order]) != 0) | (np.diff(group[order]) != 0)
    first = np.flatnonzero(np.append(True, new)[: len(order)])
    runs = np.stack(
        [kind[order][first], start[first], np.diff(np.append(first, len(order)))], axis=1
    )
    return (
        flat,
        runs.astype(np.int32),
        np.searchsorted(group[order][first], np.arange(groups + 1)).astype(np.int32),
    )
