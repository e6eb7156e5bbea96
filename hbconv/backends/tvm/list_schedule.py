"""List scheduling: an order of nodes in which those of one kind stand together, after all that they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["in_runs"]

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
    kinds, parents = kind.tolist(), parent.tolist()
    waiting = np.bincount(parent[parent >= 0], minlength=len(kinds)).tolist()
    by_group = np.argsort(group, kind="stable")
    order: list[int] = []
    for members in np.split(by_group, np.flatnonzero(np.diff(group[by_group])) + 1):
        ready: list[list[int]] = [[] for _ in range(max(kinds, default=0) + 1)]
        for node in members.tolist():
            if not waiting[node]:
                ready[kinds[node]].append(node)
        while run := max(ready, key=len):
            ready[kinds[run[0]]] = []
            order += run
            for above in (parents[node] for node in run if parents[node] >= 0):
                waiting[above] -= 1
                if not waiting[above]:
                    ready[kinds[above]].append(above)
    return np.array(order, np.int64)
