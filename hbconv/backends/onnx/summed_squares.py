"""Squared distances that are only added up, by two products of parts that do not round.

Another form may take the place of their sums of squares, if it errs no more. Coordinates are cut
into heads, multiples of a grid, and rests. The heads have so few digits that their products and
sums are exact, in whatever order (K. Ozaki, T. Ogita, S. Oishi, S. Rump, "Error-free
transformations of matrix multiplication", 2012). What is left is small, and so is its rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.onnx.distances import measure_others, pairwise
from hbconv.backends.onnx.shapes import write_expand
from hbconv.backends.onnx.writer import Tensor
from hbconv.tensor import TensorType

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter

__all__ = ["summed_squares"]

_Array = npt.NDArray[Any]

MIN_FEATURES = 3
"""Features from which on products win.

Of 1,000 points and 3 features a distance takes 4.4 ns instead of 5.4 (by 128 rows), of 4 features
3.2 instead of 6.1, of 8 features 5.0 instead of 21, and of 30 features 8.6 instead of 73.
"""

MAX_BYTES = 1 << 26
"""Bytes of points up to which a file holds them four times."""

REACH = 2.0
"""Size of rows, relative to that of the points, up to which heads are exact."""

DIGITS = 53
SAMPLE = 64
"""Points that tell whether most are far enough from each other."""

SMALLEST, LARGEST = 1e-100, 1e100
"""Sizes of points of which no square underflows or overflows."""


@dataclass(frozen=True, eq=False)
class SplitPoints:
    """Constant points, as heads and rests.

    Parameters
    ----------
    grid : float
        A power of two; heads are multiples of it.
    centre : ndarray, shape (n_features,)
        A point of the grid, which heads are relative to.
    reach : float
        Size of a head up to which all is exact.
    heads, rests : ndarray, shape (n_points, n_features)
        ``centre + heads + rests`` are the points.
    least : float
        A squared distance from which on it errs no more than a sum of squares may.
    """

    grid: float
    centre: _Array
    reach: float
    heads: _Array
    rests: _Array
    least: float


def split_points(points: _Array) -> SplitPoints | None:
    """Cut points into heads and rests; None where the sum of squares is better.

    Let d be the features, u half a unit in the last place of 1, and g the grid.

    - A sum of heads is at most ``5 d reach^2``, which is below ``g^2 / u``. So it is exact.
    - The terms of the rests add up to at most ``4 d reach g``, and ``3 (d + 2)`` roundings err by a
      share of u each.
    - A sum of squares may err by ``d + 2`` shares of u. The last addition here errs by one, so from
      ``least`` on the rests may err by the others.
    """
    count, width = points.shape
    small = points.dtype != np.float64 or width < MIN_FEATURES or points.nbytes > MAX_BYTES
    if small or not np.isfinite(points).all():
        return None
    lowest, highest = points.min(axis=0), points.max(axis=0)
    reach = REACH * float((highest / 2 - lowest / 2).max())
    if not SMALLEST < reach < LARGEST:
        return None
    grid = 2.0 ** math.ceil(math.log2(reach * math.sqrt(5 * width)) - DIGITS / 2)
    if np.abs(points).max() > grid * 2.0 ** (DIGITS - 2):
        return None
    centre = np.rint((lowest / 2 + highest / 2) / grid) * grid
    on_grid = np.rint(points / grid) * grid
    least = 16 * width * reach * grid
    split = SplitPoints(grid, centre, reach, on_grid - centre, points - on_grid, least)
    return split if _lie_apart(points[:: -(-count // SAMPLE)], points, least) else None


def _lie_apart(some: _Array, points: _Array, least: float) -> bool:
    """Whether most of some points have no other one too near."""
    squares = np.zeros((len(some), len(points)))
    for mine, others in zip(some.T, points.T, strict=True):
        squares += (mine[:, None] - others) ** 2
    nearest = np.partition(squares, min(1, len(points) - 1), axis=1)[:, min(1, len(points) - 1)]
    return bool(np.median(nearest) > least)


def summed_squares(w: GraphWriter, x: Tensor, points: Tensor, kind: str, p: float) -> str:
    """Write squared distances that are only added up.

    Rows that are too near to a point, or too far from all, are measured feature by feature.
    """
    split = split_points(np.asarray(points.value))
    if split is None:
        return pairwise(w, x, points, kind, p)
    squares, settled = _add_products(w, x, split)

    def measure(inner: GraphWriter, others: Tensor) -> str:
        return pairwise(inner, others, points, kind, p)

    result = TensorType(x.dtype, points.shape[:1])
    return measure_others(w, x, settled, Tensor(squares, result), measure)


def _add_products(w: GraphWriter, x: Tensor, split: SplitPoints) -> tuple[str, str]:
    """Return the squares, and which rows have all of them.

    1. ``x = centre + head + rest``.
    2. The heads' squared distance: ``|h|^2 - 2 h heads + |heads|^2``.
    3. What the rests r add: ``2 (h - heads) (r - rests) + |r - rests|^2``.
    """
    one, grid = w.constant([1], "int64"), w.constant(split.grid, x.dtype)
    scaled = w.node("Mul", x.name, w.constant(1 / split.grid, x.dtype))  # 1
    on_grid = w.node("Mul", w.node("Round", scaled), grid)
    head = w.node("Sub", on_grid, w.constant(split.centre))
    rest = w.node("Sub", x.name, on_grid)
    ones = write_expand(w, x.name, w.constant([1.0], x.dtype), (1,))
    unit = np.ones(len(split.heads))
    norm = w.node("ReduceSumSquare", head, one, keepdims=1)  # 2
    weights = np.vstack([-2 * split.heads.T, (split.heads**2).sum(axis=1), unit])
    of_heads = w.node("Concat", head, ones, norm, axis=1)
    squares = w.node("MatMul", of_heads, w.constant(weights))
    twice = w.node("Add", w.node("Add", head, head), rest)  # 3
    norm = w.node("ReduceSum", w.node("Mul", rest, twice), one, keepdims=1)
    norms = (split.rests * (2 * split.heads + split.rests)).sum(axis=1)
    weights = np.vstack([-2 * split.rests.T, -2 * (split.heads + split.rests).T, norms, unit])
    of_rests = w.node("Concat", head, rest, ones, norm, axis=1)
    squares = w.node("Add", squares, w.node("MatMul", of_rests, w.constant(weights)))
    within = w.node("LessOrEqual", w.node("Abs", head), w.constant(split.reach, x.dtype))
    all_within = w.cast(w.node("ReduceMin", w.cast(within, "int32"), one, keepdims=1), "bool")
    nearest = w.node("ReduceMin", squares, one, keepdims=1)
    is_apart = w.node("GreaterOrEqual", nearest, w.constant(split.least, x.dtype))
    return squares, w.node("And", is_apart, all_within)
