"""List scheduling: an order of nodes in runs of one kind, and memory for their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["assign_slots", "in_runs", "lay_out"]

Ints = npt.NDArray[Any]


def in_runs(kind: Ints, parent: Ints, group: Ints) -> Ints:
    """Order nodes in runs of one kind, each node after those that it reads.

    Runs matter: the processor mispredicts the branch to the next kind about once a run.

    1. A node is ready when all that it reads has its turn.
    2. Each turn takes, in every group, all ready nodes of the kind with the most of them.
    3. Nodes above those that had their turn wait for fewer others.
    4. Groups follow one another; in each, nodes are ordered by their turns.

    Parameters
    ----------
    kind, parent, group : int (n_nodes,)
        ``parent`` is the node that reads a node, -1 for none; at most one node reads it.

    Returns
    -------
    int64 (n_nodes,)

    Examples
    --------
    >>> in_runs(np.array([0, 1, 0, 1]), np.array([1, -1, 3, -1]), np.zeros(4, int)).tolist()
    [0, 2, 1, 3]
    """
    n_kinds = kind.max(initial=0) + 1
    n_groups = group.max(initial=0) + 1
    turn = np.zeros(len(kind), np.int64)
    n_turns = 0
    waiting = np.bincount(parent[parent >= 0], minlength=len(kind))  # 1
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        named = group[ready] * n_kinds + kind[ready]  # 2
        counts = np.bincount(named, minlength=n_groups * n_kinds).reshape(n_groups, n_kinds)
        now = kind[ready] == counts.argmax(axis=1)[group[ready]]
        # A turn of each group at once, since groups do not depend on each other.
        turn[ready[now]] = n_turns
        n_turns += 1
        above = parent[ready[now]]  # 3
        above, n_read = np.unique(above[above >= 0], return_counts=True)
        waiting[above] -= n_read
        ready = np.concatenate([ready[~now], above[waiting[above] == 0]])
    return np.lexsort((turn, group))  # 4


def assign_slots(order: Ints, parent: Ints, width: Ints, group: Ints) -> tuple[Ints, int]:
    """Give each result as many neighbouring slots as it is wide, until it has been read.

    Slots that came free last are taken first: they are in the nearest cache.

    Parameters
    ----------
    order : int (n_nodes,)
        All nodes, group after group, each after those that it reads. Groups share slots.
    parent, width, group : int (n_nodes,)
        A result that no node reads (-1) keeps its slots.

    Returns
    -------
    tuple
        The first slot of each, int64 (n_nodes,), and the number of slots.

    Examples
    --------
    >>> order = np.arange(4)
    >>> assign_slots(order, np.array([2, 2, -1, -1]), np.array([1, 1, 1, 2]), np.zeros(4, int))
    (array([0, 1, 1, 2]), 4)
    """
    read = order[np.argsort(parent[order], kind="stable")]
    # Flat lists: a list for each node made the garbage collector take most of the time.
    inputs = read.tolist()
    first = np.searchsorted(parent[read], np.arange(len(parent) + 1)).tolist()
    widths = width.tolist()
    groups = group.tolist()
    slot = [0] * len(parent)
    n_slots = 0
    used = 0
    current = -1
    free: list[list[int]] = [[] for _ in range(width.max(initial=0) + 1)]
    for node in order.tolist():
        if groups[node] != current:
            current = groups[node]
            used = 0
            # Groups run one after another, so each begins with all slots.
            free = [[] for _ in free]
        for child in inputs[first[node] : first[node + 1]]:
            # A node may write to slots of what it reads: kernels read first.
            free[widths[child]].append(slot[child])
        if free[widths[node]]:
            slot[node] = free[widths[node]].pop()
            continue
        slot[node] = used
        used += widths[node]
        n_slots = max(n_slots, used)
    return np.array(slot, np.int64), n_slots


def lay_out(
    words: list[Ints], kind: Ints, group: Ints, order: Ints, n_groups: int
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Write the words of all nodes one after another.

    1. Nodes of a kind have as many words as each other, and begin where those before end.
    2. A run ends where the kind or the group changes.

    Parameters
    ----------
    words : list of int (n_nodes_of_kind, n_words_of_kind)
        For each kind.
    kind, group, order : int (n_nodes,)
    n_groups : int

    Returns
    -------
    words : int64 (n_words,)
    runs : int32 (n_runs, 3)
        For nodes of one kind one after another: their kind, first word and number.
    group_start : int32 (n_groups + 1,)
        The first run of each group.
    """
    n_words = np.array([block.shape[1] for block in words])[kind[order]]  # 1
    start = np.concatenate([[0], np.cumsum(n_words)])
    begin = np.empty(len(order), np.int64)
    begin[order] = start[:-1]
    flat = np.zeros(start[-1], np.int64)
    for i, block in enumerate(words):
        flat[begin[kind == i][:, None] + np.arange(block.shape[1])] = block
    changes = (np.diff(kind[order]) != 0) | (np.diff(group[order]) != 0)  # 2
    first = np.flatnonzero(np.append(True, changes)[: len(order)])
    counts = np.diff(np.append(first, len(order)))
    runs = np.stack([kind[order][first], start[first], counts], axis=1)
    group_start = np.searchsorted(group[order][first], np.arange(n_groups + 1))
    return flat, runs.astype(np.int32), group_start.astype(np.int32)
