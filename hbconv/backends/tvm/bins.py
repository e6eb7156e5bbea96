"""Bins: a forest's thresholds as bytes, exactly. A test asks only on which side of a threshold a value lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.forest import Forest

__all__ = ["Bins", "make_bins"]

SEGMENT = 255
"""Thresholds that a column of bytes tells apart."""


@dataclass(frozen=True, eq=False)
class Bins:
    """How values become bytes, and what each test asks of them.

    The bin of a value is the number of its feature's edges it lies right of, ``not x <= edge``; NaN lies right of all. A
    column of a feature holds ``clip(bin - first, 0, 255)``, so that any number of edges fits, 255 to a column; where
    ``nan_left``, NaN is 0 in it. A test goes right where ``column > place``.

    Parameters
    ----------
    feature : int32 (n,)
        Features that are binned.
    edges : float (m,)
        Their edges, ascending, each list padded with infinity to one less than a power of two. NaN, of which all lies
        right, comes first.
    edge_start : int32 (n + 1,)
    column_start : int32 (n + 1,)
        Columns of each feature.
    first, nan_left : int32 (c,)
    column, place : int32 (n_tests,)
    """

    feature: npt.NDArray[np.int32]
    edges: npt.NDArray[Any]
    edge_start: npt.NDArray[np.int32]
    column_start: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    nan_left: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]

    @property
    def columns(self) -> int:
        """Number of columns; one where nothing is tested, for trees of a single leaf to read."""
        return max(1, len(self.first))


def make_bins(forest: Forest, dtype: str) -> Bins:
    """Sort the thresholds of each feature, for values of the given dtype."""
    thresholds = forest.less_equal_thresholds(dtype)
    lists, index = [], np.zeros(forest.n_tests, np.int32)
    for feature in forest.used_features:
        tests = np.flatnonzero(forest.feature.data == feature)
        edges, index[tests] = _rank(thresholds[tests])
        lists.append(edges)
    owner = np.searchsorted(forest.used_features, forest.feature.data)
    # A column for each segment and NaN direction in use: feature by feature, as np.unique sorts.
    keys, column = np.unique(np.stack([owner, index // SEGMENT, forest.default_left.data], axis=1), axis=0, return_inverse=True)
    return Bins(
        feature=forest.used_features.astype(np.int32),
        edges=np.concatenate([np.zeros(0, dtype), *lists]),
        edge_start=np.cumsum([0, *map(len, lists)], dtype=np.int32),
        column_start=np.searchsorted(keys[:, 0], np.arange(len(lists) + 1)).astype(np.int32),
        first=(keys[:, 1] * SEGMENT).astype(np.int32),
        nan_left=keys[:, 2].astype(np.int32),
        column=column.reshape(-1).astype(np.int32),
        place=index % SEGMENT,
    )


def _rank(thresholds: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int_]]:
    """Return the padded edges, and the place of each threshold among them."""
    never = np.isnan(thresholds)
    edges = np.unique(thresholds[~never])
    places = np.where(never, 0, np.searchsorted(edges, thresholds) + never.any())
    edges = np.concatenate([np.full(int(never.any()), np.nan, edges.dtype), edges])
    size = (1 << len(edges).bit_length()) - 1
    return np.concatenate([edges, np.full(size - len(edges), np.inf, edges.dtype)]), places
