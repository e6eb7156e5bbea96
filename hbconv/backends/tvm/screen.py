"""Screen: how the points nearest to a row are told from the others by one product, and how far that errs.

The error of a sum of d products is at most about ``d u sum |x_i y_i|``, u being half a unit in the last place (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.matmul import PANEL

__all__ = ["CHAINS", "Screen"]

CHAINS = 4
"""Sums in flight of distances computed in order."""
BLOCKS = 8
"""Blocks of points for each that is asked for, of which most hold at most one of those: so the least scores of blocks bound theirs well."""
SAMPLE = 64
"""Points that are tried as rows."""
FAR = {"float32": 1e9, "float64": 1e100}
"""Distances between points, and one by them, within which no square overflows or vanishes."""


@dataclass(frozen=True)
class Screen:
    """Points as they are scored: about their mean, and scaled so that none is farther from it than 1.

    Parameters
    ----------
    centre : ndarray of shape (width,)
        In the rows' dtype.
    scale : float
        A power of two.
    weights : ndarray of shape (blocks, panels, width, PANEL)
        ``-2 y`` of each point; zeros for points that fill the last block up.
    norms : ndarray of shape (blocks, panels, PANEL)
        ``|y|^2``, infinite for those.
    margin : tuple of float
        c and d of ``c + d |x|^2``: how much more than the last of the nearest a point may score that is among them.
    wanted, most : int
        Number of points to be found, and of candidates that are kept.
    """

    centre: npt.NDArray[Any]
    scale: float
    weights: npt.NDArray[Any]
    norms: npt.NDArray[Any]
    margin: tuple[float, float]
    wanted: int
    most: int

    @classmethod
    def of(cls, points: npt.NDArray[Any], wanted: int) -> Screen | None:
        """Return how points are scored, in float32 if that tells them apart; None where nothing does, or they are too few."""
        with np.errstate(all="ignore"):
            centre = points.astype(np.float64).mean(axis=0).astype(np.float32).astype(points.dtype)
            apart = points.astype(np.float64) - centre
            reach = float(np.sqrt((apart**2).sum(axis=1)).max())
        if len(points) < 2 * PANEL * wanted or not 1 / FAR[points.dtype.name] < reach < FAR[points.dtype.name]:
            return None
        scale, most = 2.0 ** -math.ceil(math.log2(reach)), -(-2 * wanted // CHAINS) * CHAINS + CHAINS
        for dtype in (np.dtype(np.float32), points.dtype):
            margin = _margin(points, dtype)
            if _tells_apart(apart * scale, margin, wanted, most):
                return cls(centre, scale, *_scored(apart * scale, wanted, dtype), margin, wanted, most)
        return None


def _margin(points: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[float, float]:
    """Bound twice the error of ``|y|^2 - 2 x y``, at most ``e (1 + 2 |x|)`` with ``2 |x| <= 1 + |x|^2``, and that of distances, at most ``f (2 + 2 |x|^2)``.

    Rounding x, y and the norm adds six units to those of the sum; a quarter more, and a small number, are for what is rounded here and what vanishes.
    """
    units = 1.25 * (points.shape[1] + 8)
    product_error, distance_error = (units * float(np.finfo(d).eps) / 2 for d in (dtype, points.dtype))
    return 4 * product_error + 4 * distance_error + 1e-30, 2 * product_error + 4 * distance_error


def _tells_apart(y: npt.NDArray[np.float64], margin: tuple[float, float], wanted: int, most: int) -> bool:
    """Whether most points, had they been rows, would have few candidates among the others."""
    chosen = np.linspace(0, len(y) - 1, SAMPLE).astype(np.int64)
    norms = (y**2).sum(axis=1)
    scores = norms - 2.0 * y[chosen] @ y.T
    scores[np.arange(SAMPLE), chosen] = np.inf
    bound = np.partition(scores, wanted, axis=1)[:, wanted] + margin[0] + margin[1] * norms[chosen]
    return bool(np.mean((scores <= bound[:, None]).sum(axis=1) <= most) > 0.9)


def _scored(y: npt.NDArray[np.float64], wanted: int, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Lay points out in panels, and these in blocks: gives weights and norms."""
    count, width = y.shape
    panels = max(1, count // (PANEL * BLOCKS * wanted))
    filled = np.concatenate([y, np.zeros((-count % (panels * PANEL), width))])
    norms = np.where(np.arange(len(filled)) < count, (filled**2).sum(axis=1), np.inf).reshape(-1, panels, PANEL)
    weights = (-2.0 * filled).reshape(-1, panels, PANEL, width).transpose(0, 1, 3, 2)
    return weights.astype(dtype), norms.astype(dtype)
