"""Windows: parts of trees of a few bits, which a kernel computes in its registers.

A window of b bits is as many levels of splits, as a heap: the split at i has those at ``2 i + 1``
and ``2 i + 2`` below it. A range of fewer bits than there are levels hangs right below a split that
nothing lies before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.trees.leaf_splits import LeafSplits

__all__ = ["WINDOW_BITS", "heaps"]

Ints = npt.NDArray[np.int64]

WINDOW_BITS = 5
"""Bits of a window up to which its planes stay in registers."""


def heaps(splits: LeafSplits, roots: Ints, bits: int, levels: int) -> tuple[Ints, Ints]:
    """Return the ranges at the splits of the uppermost levels, and those below them.

    Parameters
    ----------
    roots : int64 (n,)
        Ranges of at most so many bits, -1 for none.

    Returns
    -------
    tuple of int64 (n, 2 ** levels - 1) and int64 (n, 2 ** levels)
        Ranges; -1 where nothing lies before the split, and where there is nothing.
    """
    size = np.append(splits.bits, 0)
    left, right = (np.append(side, -1) for side in (splits.left, splits.right))
    found = np.full((len(roots), (2 << levels) - 1), -1)
    found[:, 0] = roots
    for level in range(levels):
        here = slice((1 << level) - 1, (2 << level) - 1)
        at = found[:, here]
        fills = size[at] == bits - level
        below = np.stack([np.where(fills, left[at], -1), np.where(fills, right[at], at)], axis=2)
        found[:, here.stop : 2 * here.stop + 1] = below.reshape(len(roots), 2 << level)
        found[:, here] = np.where(fills, at, -1)
    inside = (1 << levels) - 1
    return found[:, :inside], found[:, inside:]
