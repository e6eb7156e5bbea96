"""Ranks: the thresholds of each feature, ascending, and the position of each split among them.

A split asks only on which side of a threshold a value lies. So kernels compare small integers: the
number of thresholds that a value lies right of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["EDGES_PER_COLUMN", "RankedFeature", "rank_features"]

EDGES_PER_COLUMN = 255
"""Edges that a column of bytes distinguishes: a byte counts from 0 to 255 of them."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankedFeature:
    """The splits of a feature on thresholds.

    Parameters
    ----------
    number : int
    tests, rank : int64 (n_own_splits,)
        The splits, and the position of each one's threshold among the edges.
    to_left : bool (n_own_splits,)
        Where NaN goes.
    edges : float (n_edges,)
        The different thresholds, ascending. A threshold NaN, which no number is at or below,
        comes first: all numbers lie right of it.
    """

    number: int
    tests: Ints
    rank: Ints
    to_left: npt.NDArray[np.bool_]
    edges: npt.NDArray[Any]

    @property
    def mixed(self) -> bool:
        """Whether no one rank of NaN serves all splits.

        NaN goes left at some edge, and right at one that is not below it.
        """
        to_left = self.to_left
        return bool(to_left.any() and (self.rank[~to_left] >= self.rank[to_left].min()).any())

    @property
    def missing(self) -> int:
        """Least rank of NaN that lies right of all edges where it goes right."""
        return int(self.rank[~self.to_left].max(initial=-1)) + 1

    @property
    def segment(self) -> Ints:
        """The column, among the feature's own, that each split reads."""
        return self.rank // EDGES_PER_COLUMN

    def parts(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Yield the edges of each column, with the number of those before."""
        for first in range(0, len(self.edges), EDGES_PER_COLUMN):
            yield first, self.edges[first : first + EDGES_PER_COLUMN]

    def with_nan_apart(self) -> RankedFeature:
        """Put an edge NaN below all others if splits are mixed: then rank 0 is NaN's alone."""
        if not self.mixed or np.isnan(self.edges[0]):
            return self
        edges = np.concatenate([np.full(1, np.nan, self.edges.dtype), self.edges])
        return replace(self, rank=self.rank + 1, edges=edges)


def rank_features(forest: Forest, dtype: str) -> list[RankedFeature]:
    """Rank the splits of each feature that has some on thresholds, for values of a dtype.

    Features ascend. Splits keep their order in the forest.
    """
    splits = np.flatnonzero(~forest.on_category)
    thresholds = forest.less_equal_thresholds(dtype)[splits]
    order = np.argsort(forest.feature.data[splits], kind="stable")
    features, start = np.unique(forest.feature.data[splits][order], return_index=True)
    ranked = []
    # The first start is 0, so the first part is empty.
    for number, of_feature in zip(features, np.split(order, start)[1:], strict=True):
        edges, rank = _rank(thresholds[of_feature])
        to_left = forest.default_left.data[splits[of_feature]]
        ranked.append(RankedFeature(int(number), splits[of_feature], rank, to_left, edges))
    return ranked


def _rank(thresholds: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Ints]:
    """Return the edges, and the position of each threshold among them."""
    never = np.isnan(thresholds)
    edges = np.unique(thresholds[~never])
    # An edge NaN in front moves all others up by one.
    rank = np.where(never, 0, np.searchsorted(edges, thresholds) + never.any())
    return np.concatenate([np.full(int(never.any()), np.nan, edges.dtype), edges]), rank
