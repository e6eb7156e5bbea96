"""Squared distances that are only added up: which they are, and their form by products.

A kernel over points sums a smooth function of each squared distance, and nothing compares one or
returns it. So a backend may compute them in another form than the sum of squares, if that form
errs no more, and a cost may know a kernel by them.

That form is two products. Coordinates are cut into heads, multiples of a grid, and rests. The heads
have so few digits that their products and sums are exact, in whatever order (K. Ozaki, T. Ogita, S.
Oishi, S. Rump, "Error-free transformations of matrix multiplication", 2012). What is left is small,
and so is its rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.program import Op, TensorProgram

__all__ = ["MIN_FEATURES", "SplitPoints", "find_summed_squares", "split_points"]

_Array = npt.NDArray[Any]

MIN_FEATURES = {"onnx": 3, "torch": 5, "torchscript": 5}
"""Features from which on products take less time than a sum of squares, by backend.

On ONNX, of 1,000 points and 3 features a distance takes 4.4 ns instead of 5.4 (by 128 rows), of 4
features 3.2 instead of 6.1, of 8 features 5.0 instead of 21, and of 30 features 8.6 instead of 73.
On torch, of 1,000 points and 3 features 2.5 instead of 2.3 (by 100 rows), of 4 features 2.5 instead
of 2.9, of 8 features 3.0 instead of 5.1, and of 30 features 5.8 instead of 15. Of 100 points and 4
features it takes 6.6 instead of 3.8, and of 8 features 7.2 instead of 8.2.
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

    def of_heads(self) -> _Array:
        """Return what the product with ``[h, 1, |h|^2]`` of a row takes."""
        norms = (self.heads**2).sum(axis=1)
        return np.vstack([-2 * self.heads.T, norms, np.ones(len(norms))])

    def of_rests(self) -> _Array:
        """Return what the product with ``[h, r, 1, r (2 h + r)]`` of a row takes."""
        norms = (self.rests * (2 * self.heads + self.rests)).sum(axis=1)
        weights = [-2 * self.rests.T, -2 * (self.heads + self.rests).T]
        return np.vstack([*weights, norms, np.ones(len(norms))])


def split_points(points: _Array, backend: str) -> SplitPoints | None:
    """Cut points into heads and rests; None where the sum of squares is better on a backend.

    Let d be the features, u half a unit in the last place of 1, and g the grid.

    - A sum of heads is at most ``5 d reach^2``, which is below ``g^2 / u``. So it is exact.
    - The terms of the rests add up to at most ``4 d reach g``, and ``3 (d + 2)`` roundings err by a
      share of u each.
    - A sum of squares may err by ``d + 2`` shares of u. The last addition here errs by one, so from
      ``least`` on the rests may err by the others.
    """
    count, width = points.shape
    small = points.dtype != np.float64 or width < MIN_FEATURES[backend] or points.nbytes > MAX_BYTES
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


SMOOTH = frozenset({
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "exp", "log", "pow", "tanh", "sin", "cos",
    "maximum", "minimum", "relu", "isnan", "isinf", "where", "expand", "reshape", "reduce_max",
})  # fmt: skip
"""Primitives whose result moves as little as what they read, if it does not overflow."""

SUMS = frozenset({"matmul", "reduce_sum", "ordered_sum", "logsumexp", "ordered_logsumexp"})


def find_summed_squares(program: TensorProgram) -> frozenset[int]:
    """Return the positions of squared distances that reach sums, and nothing else, smoothly.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x, points = b.input("x", "float64", 3), b.constant(np.ones((5, 3)))
    >>> squares = b.op("pairwise", x, points, kind="square", p=2.0)
    >>> total = b.matmul(b.op("exp", -squares), b.constant(np.ones((5, 1))))
    >>> find_summed_squares(b.program({"y": total}))
    frozenset({2})
    >>> find_summed_squares(b.program({"y": total, "squares": squares}))
    frozenset()
    """
    summed: dict[int, bool] = dict.fromkeys(program.outputs.values(), False)
    found = set()
    for position in reversed(range(len(program.instructions))):
        op = program.instructions[position]
        if not isinstance(op, Op):
            continue
        is_summed = summed.get(position, True)
        if op.primitive == "pairwise" and op.attributes["kind"] == "square" and is_summed:
            found.add(position)
        passes = op.primitive in SUMS or (op.primitive in SMOOTH and is_summed)
        for operand in op.operands:
            summed[operand] = summed.get(operand, True) and passes
    return frozenset(found)
