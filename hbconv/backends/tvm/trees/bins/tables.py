"""Bins: a forest's thresholds as bytes, exactly. A test asks only on which side of a threshold a value lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.edge_search import COMPARES, Cells, cut
from hbconv.backends.tvm.trees.categories.tables import CategorySets, find_sets
from hbconv.forest import Forest

__all__ = ["BIAS", "FEW_EDGES", "SEGMENT", "Bins", "make_bins"]

SEGMENT = 255
"""Thresholds that a column of bytes tells apart."""
BIAS = 128
"""Bytes are kept less 128, as signed ones: AVX2 compares no others."""
FEW_EDGES = 15
"""Edges up to which counting them all beats a look-up."""


@dataclass(frozen=True, eq=False)
class Bins:
    """How values become bytes, and what each test asks of them.

    The bin of a value is the number of its feature's edges it lies right of, ``not x <= edge``. That of NaN is the column's own; a feature has
    one for all its tests if those where NaN goes right stand before those where it goes left, as they do where NaN counts as zero. A column holds
    ``clip(bin - first, 0, 255)``, so that any number of edges fits, 255 to a column. A test goes right where ``column > place``.

    Parameters
    ----------
    feature : int32 (n,)
        Features that are binned.
    edges : float (m,)
        Their edges, ascending, each list padded with infinity to one less than a power of two, and by as many as a cell may
        hold. NaN, of which all lies right, comes first.
    edge_start : int32 (n + 1,)
    edge_count : int32 (n,)
        How many are no padding.
    cells : tuple of Cells or None
        How to find a value among many edges; None where it must be searched.
    column_start : int32 (n + 1,)
        Columns of each feature.
    first : int32 (c,)
    missing : int32 (c,)
        Bin of NaN, -1 where it lies right of all edges.
    column, place : int32 (n_tests,)
    sets : CategorySets
        Of the tests on categories. Each has a column after the others, 0 where a row goes left and 255 where not: its place is 0.
    """

    feature: npt.NDArray[np.int32]
    edges: npt.NDArray[Any]
    edge_start: npt.NDArray[np.int32]
    edge_count: npt.NDArray[np.int32]
    cells: tuple[Cells | None, ...]
    column_start: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    missing: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    sets: CategorySets

    @property
    def columns(self) -> int:
        """Number of columns; one where nothing is tested, for trees of a single leaf to read."""
        return max(1, len(self.first) + self.sets.count)


def make_bins(forest: Forest, dtype: str) -> Bins:
    """Sort the thresholds of each feature, for values of the given dtype."""
    plain = np.flatnonzero(~forest.on_category)
    tested, index, side, lists = (
        forest.feature.data[plain],
        np.zeros(len(plain), np.int64),
        np.zeros(len(plain), np.int64),
        [],
    )
    thresholds, features, default_left = (
        forest.less_equal_thresholds(dtype)[plain],
        np.unique(tested),
        forest.default_left.data[plain],
    )
    for feature in features:
        tests = np.flatnonzero(tested == feature)
        edges, index[tests] = _rank(thresholds[tests])
        side[tests] = default_left[tests] if _mixed(index[tests], default_left[tests]) else 0
        lists.append(edges)
    padded = [_padded(edges) for edges in lists]
    # A column for each segment, and for each side of NaN where they are mixed, feature by feature: one number tells them apart, which sorts fast.
    segments = int(index.max(initial=0)) // SEGMENT + 1
    key = (np.searchsorted(features, tested) * segments + index // SEGMENT) * 2 + side
    keys, own = np.unique(key, return_inverse=True)
    missing, group = np.zeros(2 * len(lists), np.int64), key // (2 * segments) * 2 + side
    np.maximum.at(missing, group, np.where(default_left, 0, index + 1))
    missing = np.where(missing == np.repeat([len(edges) for edges in lists], 2), -1, missing)
    column, place = (np.zeros(forest.n_tests, np.int32) for _ in range(2))
    column[plain], place[plain], sets = own, index % SEGMENT, find_sets(forest)
    column[forest.on_category] = len(keys) + sets.of_test[forest.on_category]
    return Bins(
        feature=features.astype(np.int32),
        edges=np.concatenate([np.zeros(0, dtype), *padded]),
        edge_start=np.cumsum([0, *map(len, padded)], dtype=np.int32),
        edge_count=np.array([len(edges) for edges in lists], np.int32),
        cells=tuple(
            cut(edges) if len(edges) > FEW_EDGES and not np.isnan(edges[0]) else None
            for edges in lists
        ),
        column_start=np.searchsorted(keys // (2 * segments), np.arange(len(lists) + 1)).astype(
            np.int32
        ),
        first=(keys // 2 % segments * SEGMENT).astype(np.int32),
        missing=missing[keys // (2 * segments) * 2 + keys % 2].astype(np.int32),
        column=column,
        place=place,
        sets=sets,
    )


def _rank(thresholds: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int_]]:
    """Return the edges, and the place of each threshold among them."""
    never = np.isnan(thresholds)
    edges = np.unique(thresholds[~never])
    places = np.where(never, 0, np.searchsorted(edges, thresholds) + never.any())
    return np.concatenate([np.full(int(never.any()), np.nan, edges.dtype), edges]), places


def _mixed(index: npt.NDArray[np.int64], default_left: npt.NDArray[np.bool_]) -> bool:
    """Whether NaN goes left at some edge and right at one not below it."""
    return bool(default_left.any() and (index[~default_left] >= index[default_left].min()).any())


def _padded(edges: npt.NDArray[Any]) -> npt.NDArray[Any]:
    size = max((1 << len(edges).bit_length()) - 1, len(edges) + COMPARES)
    return np.concatenate([edges, np.full(size - len(edges), np.inf, edges.dtype)])
