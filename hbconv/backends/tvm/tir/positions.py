"""Positions: sums of integers with their constants last, as processors address memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx

__all__ = ["beyond", "position"]


def position(*terms: Any) -> Any:
    """Add terms, all that is constant in them last.

    Neighbouring reads differ by a constant then, which takes no instruction of its own.

    Examples
    --------
    >>> i, j = (tirx.Var(name, "int32") for name in "ij")
    >>> position((i + 2) * 8, j + 5)
    i * 8 + j + 21
    """
    rest, constant = None, 0
    for term in terms:
        variable, known = _split(term)
        rest, constant = _sum(rest, variable), constant + known
    if rest is None:
        return tirx.IntImm("int32", constant)
    return rest + constant if constant else rest


def beyond(first: Any, row: Any) -> Any:
    """Return the position of a row, or those of a vector of rows, counted from a first one."""
    if isinstance(row, tirx.Ramp):
        return tirx.Ramp(position(first, row.base), row.stride, row.lanes)
    return position(first, row)


def _split(term: Any) -> tuple[Any, int]:
    """Return what varies in a term, None for nothing, and what does not."""
    if isinstance(term, int | np.integer | tirx.IntImm):
        return None, int(term)
    if isinstance(term, tirx.Add):
        (left, low), (right, high) = _split(term.a), _split(term.b)
        return _sum(left, right), low + high
    if isinstance(term, tirx.Mul) and isinstance(term.b, tirx.IntImm):
        factor = int(term.b)
        varying, known = _split(term.a)
        return (None if varying is None else varying * factor), known * factor
    return term, 0


def _sum(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return left + right
