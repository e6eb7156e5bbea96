"""Chains: what lies before a split of leaves, decided step after step.

A row lies before a split if it goes left at its test, and at another, or at a third, and so on. A
pair of steps is one operation: ``(decided and this) or that``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bitwise.masks import ONES_PLANE, ZEROS_PLANE
from hbconv.trees.leaf_splits import LeafSplits

__all__ = ["CHAIN_PAIRS", "Chains", "find_chains"]

Ints = npt.NDArray[np.int64]

CHAIN_PAIRS = (1, 2, 3, 4, 6)
"""Pairs of the chains that there is code for; shorter ones are filled with what changes nothing."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains of steps; that of a split with many steps goes on in the next one.

    Parameters
    ----------
    range : int64 (n_chains,)
        Whose split it decides.
    first, count : int64 (n_chains,)
        Its pairs.
    both, either : int64 (n_pairs,)
        Planes of the masks: a row lies before the split if so far it does and ``both`` says so, or
        if ``either`` says so.
    at_split : int64 (n_ranges,)
        The mask of the test at the split itself.
    """

    range: Ints
    first: Ints
    count: Ints
    both: Ints
    either: Ints
    at_split: Ints

    @property
    def size(self) -> Ints:
        """Pairs of the code that runs each."""
        sizes = np.array(CHAIN_PAIRS)
        return sizes[np.searchsorted(sizes, self.count)]

    def decided(self, result: Ints) -> Ints:
        """Return the plane of what lies before the split of each range, given those of chains."""
        planes = self.at_split.copy()
        planes[self.range] = result  # the last chain of a range wins
        return planes

    def words(self, size: int, result: Ints) -> Ints:
        """Return result, begin and pairs of the chains of a size."""
        chosen = np.flatnonzero(self.size == size)
        goes_on = np.append(False, self.range[1:] == self.range[:-1])[chosen]
        begin = np.where(goes_on, result[chosen - 1], self.at_split[self.range[chosen]])
        turn = np.arange(size)
        pair = self.first[chosen][:, None] + turn
        missing = turn >= self.count[chosen][:, None]
        pair[missing] = -1
        both = np.append(self.both, ONES_PLANE)[pair]
        either = np.append(self.either, ZEROS_PLANE)[pair]
        pairs = np.stack([both, either], axis=2).reshape(len(chosen), 2 * size)
        return np.concatenate([result[chosen][:, None], begin[:, None], pairs], axis=1)


def find_chains(splits: LeafSplits, mask: Ints) -> Chains:
    """Join the steps of each split to pairs, and the pairs to chains.

    1. A step opens a pair if all must hold; or if one suffices and the one before it does too.
    2. A chain has no more pairs than the longest code.

    Parameters
    ----------
    mask : int64 (n_tests,)
        The plane of each test.
    """
    either = splits.step_either
    plane = mask[splits.step_test]
    opens = ~either | _begins(splits.step_range) | np.append(True, either)[: len(either)]  # 1
    pair = np.cumsum(opens) - 1
    both = np.full(int(opens.sum()), ONES_PLANE)
    both[pair[~either]] = plane[~either]
    one = np.full(len(both), ZEROS_PLANE)
    one[pair[either]] = plane[either]
    of_range = splits.step_range[opens]
    begins = np.flatnonzero(_begins(of_range))  # 2
    turn = np.arange(len(of_range)) - np.repeat(begins, np.diff(np.append(begins, len(of_range))))
    first = np.flatnonzero(turn % CHAIN_PAIRS[-1] == 0)
    count = np.diff(np.append(first, len(of_range)))
    return Chains(of_range[first], first, count, both, one, mask[splits.test])


def _begins(of_range: Ints) -> npt.NDArray[np.bool_]:
    """Whether an entry is the first of its range."""
    return np.append(True, of_range[1:] != of_range[:-1])[: len(of_range)]
