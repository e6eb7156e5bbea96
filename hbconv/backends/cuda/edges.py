"""Edges: the thresholds of each feature, ascending, and the place of each test among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["EDGES_PER_COLUMN", "RankedFeature", "rank_features"]

EDGES_PER_COLUMN = 255
"""Edges that a byte tells apart."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankedFeature:
    """The tests of a feature on thresholds.

    Parameters
    ----------
    number : int
    tests, place : int64 (n_own_tests,)
        The tests, and the position of each one's threshold among the edges.
    to_left : bool (n_own_tests,)
        Where NaN goes.
    edges : float (n_edges,)
        Ascending; NaN first, of which all numbers lie right, if a test or NaN itself needs it.
    mixed : bool
        No code of NaN does for all tests.
    """

    number: int
    tests: Ints
    place: Ints
    to_left: npt.NDArray[np.bool_]
    edges: npt.NDArray[Any]
    mixed: bool

    @property
    def missing(self) -> int:
        """The one code of NaN, right of all edges where it goes right."""
        return int(self.place[~self.to_left].max(initial=-1)) + 1

    @property
    def segment(self) -> Ints:
        """The column, among the feature's own, that each test reads."""
        return self.place // EDGES_PER_COLUMN

    def parts(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Yield the edges of each column, with the number of those before."""
        for first in range(0, len(self.edges), EDGES_PER_COLUMN):
            yield first, self.edges[first : first + EDGES_PER_COLUMN]


def rank_features(forest: Forest, dtype: str) -> Iterator[RankedFeature]:
    """Yield the features that have tests on thresholds, for values of a dtype."""
    splits = np.flatnonzero(~forest.on_category)
    thresholds = forest.less_equal_thresholds(dtype)[splits]
    order = np.lexsort((thresholds, forest.feature.data[splits]))
    features, start = np.unique(forest.feature.data[splits][order], return_index=True)
    for number, own in zip(features, np.split(order, start)[1:], strict=True):
        yield _rank(
            int(number), splits[own], thresholds[own], forest.default_left.data[splits[own]]
        )


def _rank(
    number: int, tests: Ints, thresholds: npt.NDArray[Any], to_left: npt.NDArray[np.bool_]
) -> RankedFeature:
    """Sort a feature's thresholds.

    1. A threshold NaN, which no number is at or below, is the first edge.
    2. Tests are mixed if NaN goes left at some edge and right at one not below it.
    3. Mixed tests need a code for NaN alone, below an edge NaN.
    """
    never = np.isnan(thresholds)  # 1
    edges = np.unique(thresholds[~never])
    place = np.where(never, 0, np.searchsorted(edges, thresholds) + never.any())
    mixed = bool(  # 2
        to_left.any() and (place[~to_left] >= place[to_left].min()).any()
    )
    if mixed and not never.any():  # 3
        place = place + 1
    if mixed or never.any():
        edges = np.concatenate([np.full(1, np.nan, edges.dtype), edges])
    return RankedFeature(number, tests, place, to_left, edges, mixed)
