"""Weighted sums of a few columns each, which oblique splits compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Add, Affine, ConstantRows, Impute, Node
from hbconv.parse.step import concat, select

__all__ = ["least_factor", "project"]

Terms = tuple[npt.NDArray[Any], tuple[float, ...]]
"""Columns of a sum, and their weights."""


def project(x: Node, fill: Array, sums: Sequence[Terms]) -> Node:
    """Compute ``weights[0] * x[0] + weights[1] * x[1] + ...`` for each sum, in float32.

    Missing numbers are filled before. Each product and each sum is rounded, one after another.
    A product of matrices would add in another order, and would make NaN of infinity times 0.

    1. Sums of as many terms are computed together.
    2. All first terms are one node, all second terms another.
    3. The sums go back to their order.
    """
    filled = Impute(x, fill)
    lengths = np.array([len(weights) for _, weights in sums])
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]  # 1
    made = [_of_length(filled, [sums[i] for i in group.tolist()]) for group in groups]
    order = np.argsort(np.concatenate(groups))
    return select(concat(made), order.tolist())  # 3


def _of_length(x: Node, sums: Sequence[Terms]) -> Node:
    places = np.array([own for own, _ in sums], np.int64)
    weights = np.array([own for _, own in sums], np.float32)
    if not weights.shape[1]:
        return ConstantRows(x, Array(np.zeros(len(sums), np.float32)))
    terms = [
        Affine.of(select(x, own.tolist()), mul=weight)
        for own, weight in zip(places.T, weights.T, strict=True)
    ]  # 2
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def least_factor(weight: float, bound: float) -> float:
    """Return the least float32 x for which ``weight * x``, rounded to float32, reaches a bound.

    The weight is positive, so the product never falls. Floats are halved by their order.

    Examples
    --------
    >>> least_factor(0.5, 3.0)
    6.0
    """
    low = -_INFINITE - 1
    high = _INFINITE
    while high - low > 1:
        middle = (low + high) // 2
        with np.errstate(over="ignore", under="ignore"):
            reached = np.float32(weight) * _float_at(middle) >= np.float32(bound)
        if reached:
            high = middle
        else:
            low = middle
    return float(_float_at(high))


_INFINITE = 0x7F800000
"""Place of infinity among the floats of float32, of which 0 is the one of zero."""


def _float_at(place: int) -> np.float32:
    """Return the float at a place in their order; negative places have negative floats."""
    magnitude = np.array(abs(place), np.uint32).view(np.float32)
    return np.float32(-magnitude if place < 0 else magnitude)
