"""Cells: where a value stands among sorted edges, by one look-up and a few compares, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COMPARES", "Cells", "cut"]

COUNTS = (256, 1024, 4096)
"""Numbers of cells that are tried, the smallest first: tables that stay in the nearest cache."""
COMPARES = 2
"""Edges that a cell may hold, if nothing else is said."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of equal width over the range of some edges.

    The cell of a value, ``(value - low) * scale`` held between 0 and the last and cut to a whole number, never falls where the
    value grows, whatever the rounding. So the edges of lower cells are below the value, those of higher cells are not, and
    only the edges in its own cell are left to compare with.

    Parameters
    ----------
    low, scale : float
    before : uint16 (cells + 1,)
        Edges in lower cells; of the entry after the last cell, which is NaN's, all edges.
    """

    low: Any
    scale: Any
    before: npt.NDArray[np.uint16]

    @property
    def last(self) -> int:
        """Number of the last cell."""
        return len(self.before) - 2


def cut(edges: npt.NDArray[Any], compares: int = COMPARES) -> Cells | None:
    """Find the fewest cells of which none holds more than so many edges; None where that takes too many.

    Parameters
    ----------
    edges : float (n,)
        Ascending, without NaN.
    compares : int
        Edges that a cell may hold.

    Examples
    --------
    >>> cells = cut(np.array([0.0, 1.0, 2.0, 4.0], np.float32))
    >>> cells.last, cells.before[[0, 64, 255, 256]].tolist()
    (255, [0, 1, 3, 4])
    """
    finite = edges[np.isfinite(edges)]
    if len(finite) < 2 or len(edges) > np.iinfo(np.uint16).max:
        return None
    with np.errstate(all="ignore"):
        for count in COUNTS:
            scale = edges.dtype.type(count) / (finite[-1] - finite[0])
            if not 0 < scale < np.inf:
                return None
            held = np.bincount(_cell_of(edges, finite[0], scale, count - 1), minlength=count)
            if held.max() <= compares:
                return Cells(
                    finite[0],
                    scale,
                    np.concatenate([[0], np.cumsum(held)[:-1], [len(edges)]]).astype(np.uint16),
                )
    return None


def _cell_of(values: npt.NDArray[Any], low: Any, scale: Any, last: int) -> npt.NDArray[np.int64]:
    cells: npt.NDArray[np.int64] = np.clip((values - low) * scale, 0, last).astype(np.int64)
    return cells
