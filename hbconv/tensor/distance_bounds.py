"""Lower bounds of squared distances to constant points, by one product: which may be the nearest.

``|y|^2 - 2 x y`` plus ``|x|^2`` is the squared distance, and one product gives it for all points.
It rounds otherwise than a sum of squares does, so it settles no order. Less a share of ``|x|^2 +
|y|^2`` it is never above that sum, as the source adds it up. So the candidates are the points of
the least bounds, and their sums decide, unless the last of the k is not below all other bounds.

A product of float32 takes half the time. Its bounds are lower, so they do where points are not
much nearer to one another than to their centre.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST", "MARGIN", "DistanceBounds", "find_bounds", "find_share"]

MARGIN = 4
"""Candidates beyond k: the last of these bounds all points that are none."""

SAMPLE = 32
"""Points that tell whether bounds in float32 settle as many rows."""

LEAST_POINTS = 2
"""Points for each candidate from which on candidates are worth a product."""

LARGEST = {"float32": 1e15, "float64": 1e140}
"""Size of numbers up to which nothing overflows in a square, nor in a sum of a million of them.

Rows have no bounds that hold larger ones, infinities, or NaN.
"""

TINY = {"float32": 1e-30, "float64": 1e-290}
"""Far more than a million squares lose that are too small for a dtype to keep all their digits."""

MAX_FEATURES = 1_000_000


@dataclass(frozen=True, eq=False)
class DistanceBounds:
    """Constants of the bounds ``(x - centre) @ weights + norms + share * |x - centre|^2``.

    Parameters
    ----------
    centre : ndarray, shape (n_features,)
        It keeps terms small, and so their rounding. Its dtype is that of the points.
    weights : ndarray, shape (n_features, n_points)
    norms : ndarray, shape (n_points,)
        The dtype of these two, perhaps a narrower one, is that of the product.
    """

    centre: npt.NDArray[np.floating]
    weights: npt.NDArray[np.floating]
    norms: npt.NDArray[np.floating]


def find_bounds(points: npt.NDArray[np.floating], k: int) -> DistanceBounds | None:
    """Compute the constants for a search of the k nearest.

    Returns None for few points, and for points with infinities, NaN, or numbers out of all measure.

    Examples
    --------
    >>> bounds = find_bounds(np.arange(11.0)[:, None] ** 2, 1)
    >>> bounds.centre, bounds.weights[:, :4]
    (array([25.]), array([[50., 48., 42., 32.]], dtype=float32))
    """
    if len(points) < LEAST_POINTS * (k + MARGIN) or points.shape[1] > MAX_FEATURES:
        return None
    dtype = _find_dtype(points, k)
    if dtype is None:
        return None
    centre = np.median(points, axis=0).astype(points.dtype)
    apart = points - centre
    share = find_share(points.shape[1], dtype)
    norms = (apart**2).sum(axis=1) * points.dtype.type(share) - points.dtype.type(TINY[dtype])
    return DistanceBounds(centre, (-2 * apart.T).astype(dtype), norms.astype(dtype))


def _find_dtype(points: npt.NDArray[np.floating], k: int) -> str | None:
    """Return float32 where its bounds settle as many of some points, else the points' own dtype."""
    size = np.abs(points).max()
    own = points.dtype.name
    # A comparison with NaN is False.
    if not size <= LARGEST[own]:
        return None
    if own == "float32" or size > LARGEST["float32"]:
        return own
    settled = [_count_settled(points, k, dtype) for dtype in ("float32", own)]
    return "float32" if settled[0] == settled[1] else own


def _count_settled(points: npt.NDArray[np.floating], k: int, dtype: str) -> int:
    """Count those of a sample whose k-th nearest point is below the bounds of all but MARGIN."""
    apart = points - np.median(points, axis=0)
    rows = apart[:: -(-len(apart) // SAMPLE)]
    norms = (apart**2).sum(axis=1)
    sizes = norms + (rows**2).sum(axis=1, keepdims=True)
    squares = sizes - 2 * rows @ apart.T
    bounds = squares - (1 - find_share(points.shape[1], dtype)) * sizes - TINY[dtype]
    last = np.partition(squares, k - 1, axis=1)[:, k - 1]
    others = np.partition(bounds, k + MARGIN - 1, axis=1)[:, k + MARGIN - 1]
    return int((last < others).sum())


def find_share(width: int, dtype: str) -> float:
    """Return the share of ``|x|^2 + |y|^2`` that rounding leaves for certain.

    Let d be the features and u half a unit in the last place of 1. A sum of d products, added in
    any order, errs by a share of d u at most (N. Higham, "Accuracy and Stability of Numerical
    Algorithms", 2002, 3.1). So the centred numbers, the product, the norms and the sum of squares
    that decides err by less than ``4 (d + 4) u (|x| + |y|)^2`` together. That is at most ``8 (d +
    4) u (|x|^2 + |y|^2)``, of which twice as much is taken off.

    Examples
    --------
    >>> find_share(4, "float32")
    0.9999923706054688
    """
    return 1.0 - 8.0 * (width + 4) * float(np.finfo(dtype).eps)
