"""Points in blocks of neighbours, and the boxes that these lie in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.nearest.best_lists import NARROW
from hbconv.backends.tvm.ops.nearest.tables import Prefilter

__all__ = ["VECTORS", "PointBlocks"]

VECTORS = 4
"""Vectors of points in a block, whose sums are in flight together."""
ROW = 1000.0
"""Nanoseconds of a row that visits blocks."""
BOX, BOX_ENTRY = 0.3, 0.15
"""Nanoseconds of each box, and of each of its coordinates."""
VISIT, VISIT_ENTRY = 0.2, 0.045
"""Nanoseconds of each point that is visited, and of each of its coordinates."""
POINT, POINT_ENTRY = 0.15, 0.017
"""Nanoseconds of each point where a tile of rows scores all, and of each of its coordinates.

These prices were fitted to ten sets of 10**4 to 10**6 points of 3 to 20 columns (Zen 4, vectors of
64 and of 32 bytes). They name the faster search of each set, up to 25 times as fast as the other.
"""


@dataclass(frozen=True, eq=False)
class PointBlocks:
    """Points as they are scored, in blocks of neighbours, for vectors along them.

    Parameters
    ----------
    weights : ndarray of shape (blocks, rank, VECTORS, lanes)
    norms : ndarray of shape (blocks, VECTORS, lanes)
        Infinite for the padding.
    numbers : ndarray of shape (blocks * VECTORS * lanes,)
        Which point each one is.
    lows, highs : ndarray of shape (groups, rank, lanes)
        The box of each block, in groups of as many as a vector has lanes.
    """

    weights: npt.NDArray[Any]
    norms: npt.NDArray[Any]
    numbers: npt.NDArray[np.int32]
    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]

    @property
    def rank(self) -> int:
        """Coordinates of a point."""
        return int(self.weights.shape[1])

    @property
    def lanes(self) -> int:
        """Points of a vector."""
        return int(self.weights.shape[-1])

    @property
    def size(self) -> int:
        """Points of a block."""
        return VECTORS * self.lanes

    @property
    def n_boxes(self) -> int:
        """Boxes and their padding."""
        return len(self.lows) * self.lanes

    @classmethod
    def of(cls, prefilter: Prefilter, vector: int) -> PointBlocks:
        """Arrange the points of a prefilter for vectors of so many bytes."""
        rank = prefilter.weights.shape[2]
        weights = prefilter.weights.transpose(0, 1, 3, 2).reshape(-1, rank)
        norms = prefilter.norms.reshape(-1)
        lanes = max(NARROW, vector // weights.itemsize)
        size = VECTORS * lanes
        numbers = _by_neighbourhood(weights[np.isfinite(norms)], size)
        count = -(-len(numbers) // size)
        padding = (0, count * size - len(numbers))
        ordered = weights[numbers]
        arranged = np.pad(ordered, (padding, (0, 0))).reshape(count, size, rank)
        # The padding repeats the last point, which moves no side of a box.
        boxed = np.pad(ordered, (padding, (0, 0)), mode="edge").reshape(count, size, rank) / -2
        return cls(
            np.ascontiguousarray(arranged.transpose(0, 2, 1)).reshape(count, rank, VECTORS, lanes),
            np.pad(norms[numbers], padding, constant_values=np.inf).reshape(count, VECTORS, lanes),
            np.pad(numbers, padding).astype(np.int32),
            _in_groups(boxed.min(axis=1), lanes),
            _in_groups(boxed.max(axis=1), lanes),
        )

    def are_cheaper(self, prefilter: Prefilter) -> bool:
        """Whether rows are better off by blocks than by a product of a tile with all points."""
        sides = (side.transpose(0, 2, 1).reshape(-1, self.rank) for side in (self.lows, self.highs))
        lows, highs = (side[: len(self.weights)] for side in sides)
        visited = 0
        for row, reach in zip(prefilter.sample, prefilter.sample_reaches, strict=True):
            outside = np.maximum(np.maximum(lows - row, row - highs), 0.0)
            visited += int(((outside**2).sum(axis=1) <= reach).sum())
        boxes = len(self.weights) * (BOX + BOX_ENTRY * self.rank)
        points = self.size * visited / len(prefilter.sample)
        visits = points * (VISIT + VISIT_ENTRY * self.rank)
        by_tile = self.norms.size * (POINT + POINT_ENTRY * self.rank)
        return bool(ROW + boxes + visits < by_tile)


def _in_groups(sides: npt.NDArray[Any], lanes: int) -> npt.NDArray[Any]:
    """Put the sides of as many boxes together as a vector has lanes; NaN is no box."""
    padding = ((0, -len(sides) % lanes), (0, 0))
    padded = np.pad(sides, padding, constant_values=np.nan).reshape(-1, lanes, sides.shape[1])
    return np.ascontiguousarray(padded.transpose(0, 2, 1))


def _by_neighbourhood(points: npt.NDArray[Any], size: int) -> npt.NDArray[np.intp]:
    """Return the order of points in which blocks of a size hold neighbours.

    The points are halved along the axis on which they spread most, until they fill a block.
    """
    order = np.arange(len(points))
    waiting = [order]
    while waiting:
        part = waiting.pop()
        if len(part) <= size:
            continue
        here = points[part]
        axis = int(np.argmax(here.max(axis=0) - here.min(axis=0)))
        half = -(-len(part) // (2 * size)) * size
        part[:] = part[np.argpartition(here[:, axis], half)]
        waiting += [part[:half], part[half:]]
    return order
