"""Prefilter for nearest points: one product in few dimensions finds the points that may be near.

Projected on some of the points' principal axes, no two points are farther apart than they are.
A point is not nearer than another one if its projection is farther from the row's projection than
the other point is from the row. Fewer dimensions make the product cheaper and leave more
candidates.

The error of a sum of d products is at most about ``d u sum |x_i y_i|``; u is half a unit in the
last place. Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.packed_weights import PANEL

__all__ = ["CHAINS", "Prefilter"]

CHAINS = 4
"""Sums in flight of distances that are computed in order."""
# No timings of the constants below are kept.
BLOCKS_PER_POINT = 8
"""PointBlocks of points for each point wanted.

Most blocks hold at most one wanted point, so the least scores of blocks bound theirs well.
"""
SAMPLE = 64
"""Points that are tried as rows."""
MOST_DISTANCES = 1 << 20
"""Distances that are held at once: those of 64 of 10**6 points took 0.5 GB, and 3 s a time."""
BASE_CANDIDATES = 192
"""Candidates of a row, in addition to twice as many as are wanted; a multiple of CHAINS."""
MAX_WIDTH = 1024
"""Columns up to which principal axes are computed."""
RANK_STEP = 8
"""Numbers of axes are multiples of this."""
CANDIDATE_COST = 160
"""Cost of listing a candidate, in terms of the sum that is its distance."""
MAX_DISTANCE = {"float32": 1e9, "float64": 1e100}
"""Distances up to this, and from its inverse on, have squares that are normal numbers."""
MIN_ENOUGH = 0.9
"""Share of the sample whose candidates must fit half of the room."""


@dataclass(frozen=True)
class Prefilter:
    """Points as they are scored: about their mean, scaled to distances up to 1, and projected.

    Parameters
    ----------
    centre : ndarray of shape (width,)
        In the rows' dtype.
    scale : float
        A power of two.
    axes : ndarray of shape (width, rank) or None
        What rows are multiplied by, in their dtype; None if points keep all dimensions.
    weights : ndarray of shape (blocks, panels, rank, PANEL)
        ``-2 y`` of each point; zeros for the padding of the last block.
    norms : ndarray of shape (blocks, panels, PANEL)
        ``|y|^2``; infinite for the padding.
    margin : float
        Error bound: a point at squared distance d scores at most ``d + margin (3 + 2 d)``, less
        the square of the row.
    wanted : int
        Number of points to be found.
    most : int
        Number of candidates that a row can list.
    sample : ndarray of shape (rows, rank)
        Some of the points.
    sample_reaches : ndarray of shape (rows,)
        The squared distance from each of these to the last of its nearest points.
    """

    centre: npt.NDArray[Any]
    scale: float
    axes: npt.NDArray[Any] | None
    weights: npt.NDArray[Any]
    norms: npt.NDArray[Any]
    margin: float
    wanted: int
    most: int
    sample: npt.NDArray[np.float64]
    sample_reaches: npt.NDArray[np.float64]

    @classmethod
    def of(cls, points: npt.NDArray[Any], wanted: int) -> Prefilter | None:
        """Return the cheapest prefilter; None if none separates the points, or they are few.

        1. Move the points about their mean, rounded to float32, and scale them.
        2. Rotate them to their principal axes.
        3. Choose the number of axes and the dtype of the least cost.
        """
        centre, reach = _centre_and_reach(points)
        limit = MAX_DISTANCE[points.dtype.name]
        if len(points) < 2 * PANEL * wanted or not 1 / limit < reach < limit:
            return None
        # A power of two rounds nothing, but for underflow.
        scale = 2.0 ** -math.ceil(math.log2(reach))
        most = BASE_CANDIDATES + -(-2 * wanted // CHAINS) * CHAINS
        y = (points.astype(np.float64) - centre) * scale  # 1.
        axes = _principal_axes(y).astype(points.dtype)  # 2.
        z = y @ axes.astype(np.float64)
        rows = np.linspace(0, len(y) - 1, SAMPLE).astype(np.int64)
        reaches, n_candidates = _search_sample(y, z, rows, points.dtype, wanted)
        choices = list(_choices(n_candidates, y.shape, points.dtype, most))
        if not choices:
            return None
        _, rank, dtype = min(choices, key=lambda choice: choice[0])  # 3.
        margin = _margin(y.shape[1], rank, points.dtype, dtype)
        chosen = None if rank == y.shape[1] else np.ascontiguousarray(axes[:, :rank])
        projected = y if chosen is None else y @ chosen.astype(np.float64)
        weights, norms = _arrange(projected, wanted, dtype)
        sample = projected[rows]
        return cls(centre, scale, chosen, weights, norms, margin, wanted, most, sample, reaches)


def _centre_and_reach(points: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], float]:
    """Return the mean of the points, and the largest distance from it."""
    with np.errstate(all="ignore"):
        # Rounded to float32, so that both dtypes hold the very same centre.
        centre = points.astype(np.float64).mean(axis=0).astype(np.float32).astype(points.dtype)
        apart = points.astype(np.float64) - centre
        return centre, float(np.sqrt((apart**2).sum(axis=1)).max())


def _principal_axes(y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return orthonormal axes as columns, in order of falling variance."""
    if y.shape[1] > MAX_WIDTH:
        return np.eye(y.shape[1])
    # eigh sorts eigenvalues ascending; reversed, the first axes have the largest variance.
    axes: npt.NDArray[np.float64] = np.linalg.eigh(y.T @ y)[1][:, ::-1]
    return axes


def _choices(
    n_candidates: dict[tuple[int, np.dtype[Any]], npt.NDArray[np.int64]],
    shape: tuple[int, int],
    row_dtype: np.dtype[Any],
    most: int,
) -> Iterator[tuple[float, int, np.dtype[Any]]]:
    """Yield the cost, the number of axes and the dtype of each product that leaves few candidates.

    Half of the room for nine samples in ten leaves the other half for rows unlike them.
    """
    count, width = shape
    for (rank, dtype), found in n_candidates.items():
        if np.mean(found <= most // 2) > MIN_ENOUGH:
            projection = (rank < width) * width * rank * row_dtype.itemsize
            products = (count * rank * dtype.itemsize + projection) / 64
            yield products + found.mean() * (width + CANDIDATE_COST), rank, dtype


def _search_sample(
    y: npt.NDArray[np.float64],
    z: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    row_dtype: np.dtype[Any],
    wanted: int,
) -> tuple[npt.NDArray[np.float64], dict[tuple[int, np.dtype[Any]], npt.NDArray[np.int64]]]:
    """Return how far the nearest points of some points reach, and how many are candidates.

    Candidates are counted for each number of axes and dtype.

    1. Find how far the last of the nearest points is.
    2. Add axes step by step: distances on them grow towards the whole distance.
    3. Count the points within the error bound: they would be candidates.
    """
    count, width = y.shape
    # All axes come last, which is the exact product without a rotation.
    ranks = (*range(RANK_STEP, width, RANK_STEP), width) if width <= MAX_WIDTH else (width,)
    steps = [z[:, done:rank] for done, rank in pairwise((0, *ranks))]
    norms, *step_norms = ((part**2).sum(axis=1) for part in (y, *steps))
    reaches = []
    found: dict[tuple[int, np.dtype[Any]], list[npt.NDArray[np.int64]]] = {}
    for some in np.array_split(rows, min(SAMPLE, -(-SAMPLE * count // MOST_DISTANCES))):
        distances = _squared_distances(y, norms, some)  # 1.
        last = np.partition(distances, wanted - 1, axis=1)[:, wanted - 1 : wanted]
        reaches.append(last[:, 0])
        near = np.zeros_like(distances)
        for rank, step, norm in zip(ranks, steps, step_norms, strict=True):
            near += _squared_distances(step, norm, some)  # 2.
            for dtype in {np.dtype(np.float32), row_dtype}:
                margin = _margin(width, rank, row_dtype, dtype)
                inside = (near <= last + margin * (3 + 2 * last)).sum(axis=1)  # 3.
                found.setdefault((rank, dtype), []).append(inside)
    counts = {key: np.concatenate(parts) for key, parts in found.items()}
    return np.concatenate(reaches), counts


def _squared_distances(
    y: npt.NDArray[np.float64], norms: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the squared distances of some points to all others, infinite to themselves."""
    distances: npt.NDArray[np.float64] = norms[rows, None] + norms - 2.0 * y[rows] @ y.T
    # Rows to come are no points, so a sample must not count itself.
    distances[np.arange(len(rows)), rows] = np.inf
    return distances


def _margin(width: int, rank: int, row_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> float:
    """Bound the errors of scores and distances, by ``|x|^2 <= 2 + 2 d``.

    Scores err by at most ``e (1 + |x|)^2``, distances by at most ``f (1 + |x|)^2``. Rounding x, y,
    the norm and what is compared adds some units to those of the sums. A quarter more, and a small
    number, cover what is rounded here and what underflows. Each coordinate on an axis errs as a
    sum of ``width`` terms does.
    """
    # A quarter more covers the rounding of this bound itself.
    unit = 1.25 * float(np.finfo(dtype).eps) / 2
    row_unit = 1.25 * float(np.finfo(row_dtype).eps) / 2
    projection = (width + 8) * math.sqrt(rank) * row_unit if rank < width else 0.0
    return 2 * ((rank + 12) * unit + projection + 2 * (width + 8) * row_unit) + 1e-30


def _arrange(
    y: npt.NDArray[np.float64], wanted: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return weights and norms of points that are arranged in panels, and panels in blocks."""
    count, width = y.shape
    panels = max(1, count // (PANEL * BLOCKS_PER_POINT * wanted))
    filled = np.concatenate([y, np.zeros((-count % (panels * PANEL), width))])
    # Padding has infinite norms, so its scores are never among the best.
    norms = np.where(np.arange(len(filled)) < count, (filled**2).sum(axis=1), np.inf)
    weights = (-2.0 * filled).reshape(-1, panels, PANEL, width).transpose(0, 1, 3, 2)
    return weights.astype(dtype), norms.reshape(-1, panels, PANEL).astype(dtype)
