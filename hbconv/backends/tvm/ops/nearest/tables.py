"""Screen: how the points that may be nearest to a row are told from the others by one product, in few dimensions, and how far that errs.

Projected on some of the points' principal axes, no two lie farther apart than they do. So a point whose projection is farther from a row's than
some point is from the row is not nearer than that point. Fewer dimensions make the product cheaper, and leave more candidates.

The error of a sum of d products is at most about ``d u sum |x_i y_i|``, u being half a unit in the last place (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.matmul import PANEL

__all__ = ["CHAINS", "Screen"]

CHAINS = 4
"""Sums in flight of distances computed in order."""
BLOCKS = 8
"""Blocks of points for each that is asked for, of which most hold at most one of those: so the least scores of blocks bound theirs well."""
SAMPLE = 64
"""Points that are tried as rows."""
MOST = 192
"""Candidates of a row that are kept, beside twice as many as are asked for; a multiple of CHAINS."""
WIDEST = 1024
"""Columns up to which principal axes are looked for."""
STEP = 8
"""What numbers of axes are multiples of."""
CANDIDATE = 160
"""What listing a candidate takes, in entries of the sum that is its distance."""
FAR = {"float32": 1e9, "float64": 1e100}
"""Distances between points, and one by them, within which no square overflows or vanishes."""


@dataclass(frozen=True)
class Screen:
    """Points as they are scored: about their mean, scaled so that none is farther from it than 1, and projected.

    Parameters
    ----------
    centre : ndarray of shape (width,)
        In the rows' dtype.
    scale : float
        A power of two.
    axes : ndarray of shape (width, rank) or None
        What rows are multiplied by, in their dtype; None where points keep all dimensions.
    weights : ndarray of shape (blocks, panels, rank, PANEL)
        ``-2 y`` of each point; zeros for points that fill the last block up.
    norms : ndarray of shape (blocks, panels, PANEL)
        ``|y|^2``, infinite for those.
    margin : float
        A point as near as another, whose squared distance is d, scores at most ``d + margin (3 + 2 d)``, less the square of the row.
    wanted, most : int
        Number of points to be found, and of candidates that are kept.
    """

    centre: npt.NDArray[Any]
    scale: float
    axes: npt.NDArray[Any] | None
    weights: npt.NDArray[Any]
    norms: npt.NDArray[Any]
    margin: float
    wanted: int
    most: int

    @classmethod
    def of(cls, points: npt.NDArray[Any], wanted: int) -> Screen | None:
        """Return how points are scored at the least cost; None where nothing tells them apart, or they are too few."""
        with np.errstate(all="ignore"):
            centre = points.astype(np.float64).mean(axis=0).astype(np.float32).astype(points.dtype)
            apart = points.astype(np.float64) - centre
            reach = float(np.sqrt((apart**2).sum(axis=1)).max())
        if (
            len(points) < 2 * PANEL * wanted
            or not 1 / FAR[points.dtype.name] < reach < FAR[points.dtype.name]
        ):
            return None
        scale, most = 2.0 ** -math.ceil(math.log2(reach)), MOST + -(-2 * wanted // CHAINS) * CHAINS
        y = apart * scale
        axes = _principal_axes(y).astype(points.dtype)
        choices = sorted(
            _choices(y, y @ axes.astype(np.float64), points.dtype, wanted, most),
            key=lambda choice: choice[0],
        )
        if not choices:
            return None
        _, rank, dtype = choices[0]
        chosen = None if rank == y.shape[1] else np.ascontiguousarray(axes[:, :rank])
        projected = y if chosen is None else y @ chosen.astype(np.float64)
        return cls(
            centre,
            scale,
            chosen,
            *_scored(projected, wanted, dtype),
            _margin(y.shape[1], rank, points.dtype, dtype),
            wanted,
            most,
        )


def _principal_axes(y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return orthonormal axes as columns, those along which points vary most first."""
    if y.shape[1] > WIDEST:
        return np.eye(y.shape[1])
    axes: npt.NDArray[np.float64] = np.linalg.eigh(y.T @ y)[1][:, ::-1]
    return axes


def _choices(
    y: npt.NDArray[np.float64],
    z: npt.NDArray[np.float64],
    given: np.dtype[Any],
    wanted: int,
    most: int,
) -> Iterator[tuple[float, int, np.dtype[Any]]]:
    """Try points as rows: gives the cost, the number of axes and the dtype of each product that leaves most of them few candidates among the others."""
    count, width = y.shape
    chosen = np.linspace(0, count - 1, SAMPLE).astype(np.int64)
    distances = _squared_distances(y, chosen)
    last = np.partition(distances, wanted - 1, axis=1)[:, wanted - 1 : wanted]
    near, done = np.zeros_like(distances), 0
    for rank in (*range(STEP, width, STEP), width) if width <= WIDEST else (width,):
        near, done = near + _squared_distances(z[:, done:rank], chosen), rank
        for dtype in {np.dtype(np.float32), given}:
            found = (near <= last + _margin(width, rank, given, dtype) * (3 + 2 * last)).sum(axis=1)
            if np.mean(found <= most // 2) > 0.9:
                products = (
                    count * rank * dtype.itemsize + (rank < width) * width * rank * given.itemsize
                ) / 64
                yield products + found.mean() * (width + CANDIDATE), rank, dtype


def _squared_distances(
    y: npt.NDArray[np.float64], chosen: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return those of some points from all others, infinite from themselves."""
    norms = (y**2).sum(axis=1)
    distances: npt.NDArray[np.float64] = norms[chosen, None] + norms - 2.0 * y[chosen] @ y.T
    distances[np.arange(len(chosen)), chosen] = np.inf
    return distances


def _margin(width: int, rank: int, given: np.dtype[Any], dtype: np.dtype[Any]) -> float:
    """Bound the errors of scores, at most ``e (1 + |x|)^2``, and of distances, at most ``f (1 + |x|)^2``, by ``|x|^2 <= 2 + 2 d``.

    Rounding x, y, the norm and what is compared adds some units to those of the sums; a quarter more, and a small number, are for what is rounded here
    and what vanishes. Each coordinate on an axis errs by as much as a sum of ``width`` terms.
    """
    unit, given_unit = 1.25 * float(np.finfo(dtype).eps) / 2, 1.25 * float(np.finfo(given).eps) / 2
    projection = (width + 8) * math.sqrt(rank) * given_unit if rank < width else 0.0
    return 2 * ((rank + 12) * unit + projection + 2 * (width + 8) * given_unit) + 1e-30


def _scored(
    y: npt.NDArray[np.float64], wanted: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Lay points out in panels, and these in blocks: gives weights and norms."""
    count, width = y.shape
    panels = max(1, count // (PANEL * BLOCKS * wanted))
    filled = np.concatenate([y, np.zeros((-count % (panels * PANEL), width))])
    norms = np.where(np.arange(len(filled)) < count, (filled**2).sum(axis=1), np.inf).reshape(
        -1, panels, PANEL
    )
    weights = (-2.0 * filled).reshape(-1, panels, PANEL, width).transpose(0, 1, 3, 2)
    return weights.astype(dtype), norms.astype(dtype)
