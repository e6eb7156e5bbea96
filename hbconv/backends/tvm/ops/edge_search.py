"""Bucket lookup: find a value's position among sorted edges by one read and a few compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_EDGES_IN_CELL", "Cells", "find_cells"]

COUNTS = (256, 1024, 4096)
"""Numbers of cells that are tried, the smallest first; their tables fit the nearest cache."""
MAX_EDGES_IN_CELL = 2
"""Edges that a cell may hold by default."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells (buckets) of equal width over the range of some edges.

    The cell of a value is ``(value - low) * scale``, clamped and truncated. It never falls as the
    value grows, whatever the rounding. So the edges of lower cells are below the value, and those
    of higher cells are not. Only the edges in its own cell are left to compare with.

    Parameters
    ----------
    low, scale : float
    before : ndarray of int, shape (n_cells + 1,)
        Edges in lower cells. The last entry is the cell of NaN: all edges are before it.
    """

    low: Any
    scale: Any
    before: npt.NDArray[Any]

    @property
    def last(self) -> int:
        """Number of the last cell."""
        return len(self.before) - 2


def find_cells(edges: npt.NDArray[Any], compares: int = MAX_EDGES_IN_CELL) -> Cells | None:
    """Find the fewest cells that hold at most ``compares`` edges each.

    Returns None if that takes more cells than are tried.

    Parameters
    ----------
    edges : ndarray of float, shape (n_edges,)
        Ascending, without NaN.
    compares : int
        Edges that a cell may hold.

    Examples
    --------
    >>> cells = find_cells(np.array([0.0, 1.0, 2.0, 4.0], np.float32))
    >>> cells.last, cells.before[[0, 64, 255, 256]].tolist()
    (255, [0, 1, 3, 4])
    """
    finite = edges[np.isfinite(edges)]
    # The counts of ``before`` are stored in 16 bits.
    if len(finite) < 2 or len(edges) > np.iinfo(np.uint16).max:
        return None
    with np.errstate(all="ignore"):
        for count in COUNTS:
            scale = edges.dtype.type(count) / (finite[-1] - finite[0])
            # Edges a denormal apart, or a range that overflows, give no usable width.
            if not 0 < scale < np.inf:
                return None
            held = np.bincount(_cell_of(edges, finite[0], scale, count - 1), minlength=count)
            if held.max() <= compares:
                # Infinite edges are counted in the first or last cell, to which the clip brings
                # them.
                before = np.concatenate([[0], np.cumsum(held)[:-1], [len(edges)]])
                return Cells(finite[0], scale, before.astype(np.uint16))
    return None


def _cell_of(values: npt.NDArray[Any], low: Any, scale: Any, last: int) -> npt.NDArray[np.int64]:
    # In the dtype of the values, as kernels compute: other rounding could move an edge to another
    # cell.
    cells: npt.NDArray[np.int64] = np.clip((values - low) * scale, 0, last).astype(np.int64)
    return cells
