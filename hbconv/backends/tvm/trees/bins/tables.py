"""Bins: a forest's thresholds as bytes, exactly; and tables of a search for them in registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL, Cells, find_cells
from hbconv.trees.category_sets import CategorySets, find_sets
from hbconv.trees.forest import Forest
from hbconv.trees.ranked import EDGES_PER_COLUMN, RankedFeature, rank_features

__all__ = [
    "ENTRIES",
    "LEFT_BYTE",
    "MAX_EDGES_COUNTED",
    "RANKS_PER_COLUMN",
    "RIGHT_BYTE",
    "SIGNED_BYTE_BIAS",
    "Bins",
    "can_search_bytes",
    "find_halved_cells",
    "make_bins",
    "make_search_tables",
]

SIGNED_BYTE_BIAS = 128
"""Bytes are stored less 128, as signed ones: AVX2 compares no others."""
LEFT_BYTE = 0 ^ SIGNED_BYTE_BIAS
RIGHT_BYTE = 255 ^ SIGNED_BYTE_BIAS
"""What the column of a category set holds for a row that goes left or right."""
RANKS_PER_COLUMN = (1 << 16) - 1
"""Edges that a column of two bytes tells apart."""
# No timings of this choice are kept.
MAX_EDGES_COUNTED = 15
"""Edges up to which counting them all beats a look-up."""

# 2,000 trees of 31 leaves in 11 parts took 4.9 ns a feature with up to 4,096 cells, and 2.9 with
# 256 (Zen 3, 512 kB of second-level cache).
MAX_CELLS = 1024
"""Cells of a feature: more take longer to come from the caches than their edges to be halved."""

Ints = npt.NDArray[np.int64]
ENTRIES = 256
"""Entries of each table: what a byte tells apart."""
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Bins:
    """How values become bytes, and what each split compares.

    The edges of a feature are its thresholds. The bin of a value is the number of edges it lies
    right of, ``not x <= edge``. A column holds ``clip(bin - first, 0, 255)``, so that any number of
    edges fits, 255 to a column. A split goes right where ``column > threshold_bin``.

    NaN has a bin in each column. One bin serves all splits of a feature if those where NaN goes
    right come before those where it goes left, as where NaN counts as zero. Else the
    feature has columns for either side.

    Parameters
    ----------
    feature : int32 (n_features,)
        Features that are binned.
    edges : float (n_edges,)
        Their edges, ascending. Each list is padded with infinity, to one less than a power of two
        at least, and by as many as a cell may hold. NaN comes first: every value lies right of it.
    edge_start : int32 (n_features + 1,)
    edge_count : int32 (n_features,)
        How many edges are no padding.
    cells : tuple of Cells or None
        How to find a value among many edges; None where those in a cell must be halved.
    halved : tuple of HalvedCells or None
        How those are found.
    column_start : int32 (n_features + 1,)
        Columns of each feature.
    first : int32 (n_columns,)
    missing : int32 (n_columns,)
        Bin of NaN, -1 where it lies right of all edges.
    column, threshold_bin : int32 (n_splits,)
    sets : CategorySets
        Of the categorical splits. Each has a column after the others, 0 where a row goes left and
        255 where not: its threshold is 0.
    edges_per_column : int
    """

    feature: npt.NDArray[np.int32]
    edges: npt.NDArray[Any]
    edge_start: npt.NDArray[np.int32]
    edge_count: npt.NDArray[np.int32]
    cells: tuple[Cells | None, ...]
    halved: tuple[HalvedCells | None, ...]
    column_start: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    missing: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    threshold_bin: npt.NDArray[np.int32]
    sets: CategorySets
    edges_per_column: int = EDGES_PER_COLUMN

    @property
    def columns(self) -> int:
        """Number of columns; one where nothing is split, for trees of a single leaf to read."""
        return max(1, len(self.first) + self.sets.count)

    @property
    def bytes_per_column(self) -> int:
        """Bytes that hold an entry of a column, the lowest first, each a column of bytes."""
        return 1 if self.edges_per_column == EDGES_PER_COLUMN else 2


def make_bins(forest: Forest, dtype: str, edges_per_column: int = EDGES_PER_COLUMN) -> Bins:
    """Sort the thresholds of each feature, for values of the given dtype."""
    features = rank_features(forest, dtype)
    columns = _find_columns(features, edges_per_column)
    sets = find_sets(forest)
    column = np.zeros(forest.n_tests, np.int32)
    threshold_bin = np.zeros(forest.n_tests, np.int32)
    column[forest.on_category] = len(columns.first) + sets.of_test[forest.on_category]
    splits = _concatenate(f.tests for f in features)
    column[splits] = columns.of_split
    threshold_bin[splits] = _concatenate(f.rank for f in features) % edges_per_column
    cells = [_cells_of(f.edges) for f in features]
    halved = [
        find_halved_cells(f.edges) if found is None and len(f.edges) > MAX_EDGES_COUNTED else None
        for f, found in zip(features, cells, strict=True)
    ]
    padded = [_pad(f.edges, found) for f, found in zip(features, halved, strict=True)]
    return Bins(
        feature=np.array([f.number for f in features], np.int32),
        edges=np.concatenate([np.zeros(0, dtype), *padded]),
        edge_start=np.cumsum([0, *map(len, padded)], dtype=np.int32),
        edge_count=np.array([len(f.edges) for f in features], np.int32),
        cells=tuple(cells),
        halved=tuple(halved),
        column_start=columns.start.astype(np.int32),
        first=columns.first.astype(np.int32),
        missing=columns.missing.astype(np.int32),
        column=column,
        threshold_bin=threshold_bin,
        sets=sets,
        edges_per_column=edges_per_column,
    )


def _concatenate(parts: Iterable[npt.NDArray[Any]]) -> Ints:
    """Put the arrays of all features one after another, as int64."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of bytes.

    Parameters
    ----------
    of_split : int64 (n_splits,)
    start : int64 (n_features + 1,)
        Columns of each feature.
    first : int64 (n_columns,)
        Edges before each column.
    missing : int64 (n_columns,)
        Bin of NaN, -1 for the last.
    """

    of_split: Ints
    start: Ints
    first: Ints
    missing: Ints


def _find_columns(features: list[RankedFeature], edges_per_column: int) -> _Columns:
    """Give each feature a column for each segment of its edges, and for each side of NaN.

    A side is where NaN goes, for features whose splits are mixed; else 0.

    1. One integer names a feature, a segment and a side, which sorts fast: ``(feature * segments +
       segment) * 2 + side``.
    2. A feature and a side, ``feature * 2 + side``, have one bin of NaN: right of all edges where
       NaN goes right.
    3. A bin of NaN right of all edges is written as -1.
    """
    n_features = len(features)
    counts = np.array([len(f.tests) for f in features], np.int64)
    of_feature = np.repeat(np.arange(n_features), counts)
    side = _concatenate(f.to_left if f.mixed else np.zeros(len(f.tests), bool) for f in features)
    rank = _concatenate(f.rank for f in features)
    segments = int(rank.max(initial=0)) // edges_per_column + 1
    # Sorting single numbers: rows of three took long for a million splits.
    key = (of_feature * segments + rank // edges_per_column) * 2 + side  # 1
    keys, of_split = np.unique(key, return_inverse=True)
    missing = np.zeros(2 * n_features, np.int64)  # 2
    bins = _concatenate(np.where(f.to_left, 0, f.rank + 1) for f in features)
    np.maximum.at(missing, of_feature * 2 + side, bins)
    n_edges = np.repeat([len(f.edges) for f in features], 2)  # 3
    missing = np.where(missing == n_edges, -1, missing)
    feature = keys // (2 * segments)
    return _Columns(
        of_split=of_split,
        start=np.searchsorted(feature, np.arange(n_features + 1)),
        first=keys // 2 % segments * edges_per_column,
        missing=missing[feature * 2 + keys % 2],
    )


def _cells_of(edges: npt.NDArray[Any]) -> Cells | None:
    # NaN as an edge has no cell: it must be searched.
    if len(edges) <= MAX_EDGES_COUNTED or np.isnan(edges[0]):
        return None
    cells = find_cells(edges)
    return cells if cells and cells.last < MAX_CELLS else None


def _pad(edges: npt.NDArray[Any], halved: HalvedCells | None) -> npt.NDArray[Any]:
    # Halving all needs one less than a power of two, and a cell some edges past the last.
    in_cell = 1 << halved.steps if halved else MAX_EDGES_IN_CELL
    size = max((1 << len(edges).bit_length()) - 1, len(edges) + in_cell)
    return np.concatenate([edges, np.full(size - len(edges), np.inf, edges.dtype)])


@dataclass(frozen=True, eq=False)
class HalvedCells:
    """Cells whose edges are halved ``steps`` times."""

    cells: Cells
    steps: int


def find_halved_cells(edges: npt.NDArray[Any]) -> HalvedCells:
    """Find cells for any edges.

    Edges whose range gives no cells of one width are in a single cell. An edge NaN comes first and
    lies before all cells, since every value lies right of it.
    """
    n_nan = int(np.isnan(edges[:1]).any())
    numbers = edges[n_nan:]
    steps = len(numbers).bit_length()
    found = (HalvedCells(cells, n) for n in range(2, steps) if (cells := _few_cells(numbers, n)))
    zero = edges.dtype.type(0)
    one_cell = HalvedCells(Cells(zero, zero, np.array([0, len(numbers)])), steps)
    chosen = next(found, one_cell)
    # Forests of many parts have many of these tables, and 16 bits count most edges.
    dtype = np.uint16 if len(edges) <= np.iinfo(np.uint16).max else np.int32
    before = (chosen.cells.before + n_nan).astype(dtype)
    return replace(chosen, cells=replace(chosen.cells, before=before))


def _few_cells(edges: npt.NDArray[Any], steps: int) -> Cells | None:
    """Find cells whose edges are halved in so many steps, as few as a table of the least size."""
    cells = find_cells(edges, (1 << steps) - 1)
    return cells if cells and cells.last < ENTRIES else None


@dataclass(frozen=True, eq=False)
class SearchTables:
    """What is looked up for some features.

    Parameters
    ----------
    low, scale : float (n_features,)
        The cell of a value is ``(value - low) * scale``, held between 0 and 255.
    before : uint8 (n_features, 256)
        Edges in lower cells.
    steps : int32 (n_features,)
        How often the edges of the fullest cell must be halved.
    edges : uint8 (n_features, bytes of an edge, 256)
        The lowest bytes of all edges, then the next ones; behind the last edge is infinity.
    """

    low: npt.NDArray[Any]
    scale: npt.NDArray[Any]
    before: Bytes
    steps: npt.NDArray[np.int32]
    edges: Bytes


def can_search_bytes(bins: Bins) -> npt.NDArray[np.bool_]:
    """Say for each feature whether a byte numbers its edges, and all of them are numbers."""
    first = np.append(bins.edges, 0)[bins.edge_start[:-1]]
    can: npt.NDArray[np.bool_] = (bins.edge_count <= EDGES_PER_COLUMN) & ~np.isnan(first)
    return can


def make_search_tables(bins: Bins, features: Ints) -> SearchTables:
    """Cut the range of each feature into 256 cells of equal width, as far as that can be done."""
    dtype = bins.edges.dtype
    # No value is right of infinity, so padding is never counted.
    padded = np.full((len(features), ENTRIES), np.inf, dtype)
    low, scale = np.zeros((2, len(features)), dtype)
    before = np.zeros((len(features), ENTRIES), np.uint8)
    fullest = np.zeros(len(features), np.int64)
    for i, feature in enumerate(features):
        begin, count = bins.edge_start[feature], bins.edge_count[feature]
        edges = padded[i, :count] = bins.edges[begin : begin + count]
        fullest[i] = count
        cells = find_cells(edges, EDGES_PER_COLUMN)
        if cells:
            low[i], scale[i], before[i] = cells.low, cells.scale, cells.before[:ENTRIES]
            fullest[i] = np.diff(cells.before).max()
    # Bytes of all edges are looked up one after another, the lowest first.
    parts = padded.view(np.uint8).reshape(len(features), ENTRIES, dtype.itemsize)
    return SearchTables(
        low=low,
        scale=scale,
        before=before,
        # Halving n edges takes as many steps as n has bits.
        steps=np.frexp(fullest)[1].astype(np.int32),
        edges=np.ascontiguousarray(parts.transpose(0, 2, 1)),
    )
