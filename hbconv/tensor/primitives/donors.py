"""Donors: constant points that have a value which a row misses, compared by what both have.

A point's distance is the sum of the squared differences over the features that neither side has
missing, scaled up to all features. It is NaN where they share none, and counts as NaN for a column
that the point misses too, or that the row has. NaN stands for what is missing.
"""

from __future__ import annotations

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.primitives.products import infer_pairwise, pairwise, topk
from hbconv.tensor.types import NumpyArray, TensorType, require


def infer_nearest_donors(x: TensorType, points: TensorType, k: int) -> TensorType:
    """Type ``nearest_donors(x, points, k)``: indices of the k nearest donors of each column.

    For each row of (n_rows, d) and each constant point of (m, d), the result is (n_rows, d, k). The
    nearest comes first, ties keep the order of the points, and NaN is last. A column that the row
    has holds zeros.
    """
    (count,) = infer_pairwise(x, points, "present", 2.0).shape
    require(0 < k <= count, f"nearest_donors({k}) of {count} points")
    return TensorType("int32", (*x.shape, k))


def nearest_donors(x: NumpyArray, points: NumpyArray, k: int) -> NumpyArray:
    """Rank the points by their distances."""
    shared = (~np.isnan(x)).astype(x.dtype) @ (~np.isnan(points)).T.astype(x.dtype)
    squares = pairwise(x, points, "present", 2.0) / shared * x.dtype.type(x.shape[1])
    return topk_donors(squares, x, points, k)


def infer_topk_donors(squares: TensorType, x: TensorType, points: TensorType, k: int) -> TensorType:
    """Type ``topk_donors(squares, x, points, k)``: what ``nearest_donors`` finds by given squares.

    There is a square for each point.
    """
    fits = squares == infer_pairwise(x, points, "present", 2.0)
    require(fits, f"squares {squares} of {x} and {points}")
    return infer_nearest_donors(x, points, k)


def topk_donors(squares: NumpyArray, x: NumpyArray, points: NumpyArray, k: int) -> NumpyArray:
    """Sort, column by column, and take the first."""
    has = ~np.isnan(points)
    found = np.zeros((*x.shape, k), np.int32)
    for column, missing in enumerate(np.isnan(x).T):
        found[missing, column] = topk(np.where(has[:, column], squares[missing], np.nan), k)
    return found


def infer_donor_distances(x: TensorType, positions: TensorType, points: TensorType) -> TensorType:
    """Type ``donor_distances(x, positions, points)``: distances to the points at the positions.

    The positions are int32 (n_rows, d, k), k of them for each column, and so is the result.
    """
    infer_pairwise(x, points, "present", 2.0)
    fits = positions.rows and positions.dtype == "int32" and positions.shape[:-1] == x.shape
    require(fits, f"donors at {positions} for {x}")
    return TensorType(x.dtype, positions.shape)


def donor_distances(x: NumpyArray, positions: NumpyArray, points: NumpyArray) -> NumpyArray:
    """Fold the terms, one feature after another."""
    total = np.zeros(positions.shape, x.dtype)
    shared = np.zeros(positions.shape, x.dtype)
    for values, others in zip(x.T, points.T, strict=True):
        apart = values[:, None, None] - others[positions]
        total = total + np.where(np.isnan(apart), x.dtype.type(0), np.square(apart))
        shared += ~np.isnan(values)[:, None, None] & ~np.isnan(others)[positions]
    columns = np.arange(x.shape[1])[:, None]
    counts = np.isnan(x)[:, :, None] & ~np.isnan(points[positions, columns])
    squares = total / shared * x.dtype.type(x.shape[1])
    return np.asarray(np.where(counts, squares, x.dtype.type(np.nan)))


define("nearest_donors", infer_nearest_donors, nearest_donors, OpKind.PRODUCT)
define("topk_donors", infer_topk_donors, topk_donors, OpKind.REDUCTION)
define("donor_distances", infer_donor_distances, donor_distances, OpKind.READ)
