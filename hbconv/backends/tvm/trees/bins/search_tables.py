"""Tables of a search for bins that looks bytes up in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.edge_search import find_cells
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = ["ENTRIES", "SearchTables", "can_search_bytes", "make_search_tables"]

ENTRIES = 256
"""Entries of each table: what a byte tells apart."""

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


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
    parts = padded.view(np.uint8).reshape(len(features), ENTRIES, dtype.itemsize)
    return SearchTables(
        low=low,
        scale=scale,
        before=before,
        steps=np.frexp(fullest)[1].astype(np.int32),
        edges=np.ascontiguousarray(parts.transpose(0, 2, 1)),
    )
