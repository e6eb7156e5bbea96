"""Functions of numpy that are formulas of others, written as numpy computes them.

They are applied to arrays that record, so each line is what its operators record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from hbconv.parse.tracing.array_functions import MAKERS, reduce_rows
from hbconv.parse.tracing.arrays import (
    FORMULAS,
    FUNCTIONS,
    Traced,
    TracedMatrix,
    TracedVector,
    Transposed,
    holds_traced,
    join,
)
from hbconv.parse.tracing.trace import refuse

__all__: list[str] = []

_OTHER_ROWS = "Its answer for a row depends on the other rows. Compute it when fitting."
_LOG_2 = 0.693147180559945309417232121458176568
MOST_SORTED = 8
"""Columns up to which a row is sorted by comparing pairs of them."""


def logaddexp(x: Any, y: Any) -> Any:
    """``np.logaddexp``, as npy_logaddexp has it."""
    gap = x - y
    above = x + np.log1p(np.exp(-gap))
    below = y + np.log1p(np.exp(gap))
    apart = np.where(gap > 0, above, np.where(gap <= 0, below, gap))
    return np.where(x == y, x + _LOG_2, apart)


def heaviside(x: Any, at_zero: Any) -> Any:
    """``np.heaviside``: NaN stays."""
    sides = np.where(x == 0, at_zero, np.where(x < 0, 0.0, 1.0))
    return np.where(np.isnan(x), np.nan, sides)


def signbit(x: Any) -> Any:
    """``np.signbit``: a zero has a sign, which its reciprocal tells."""
    return (x < 0) | (np.reciprocal(x.astype(float)) == -np.inf)


def copysign(x: Any, y: Any) -> Any:
    """``np.copysign``."""
    size = np.abs(x)
    return np.where(signbit(y), -size, size)


def modf(x: Any) -> tuple[Any, Any]:
    """``np.modf``: the fraction and the whole part."""
    whole = np.trunc(x)
    return np.where(np.isinf(x), np.copysign(0.0, x), x - whole), whole


def divmod_(x: Any, y: Any) -> tuple[Any, Any]:
    """``np.divmod``."""
    return np.floor_divide(x, y), np.remainder(x, y)


FORMULAS.update(
    {
        np.logaddexp: logaddexp,
        np.heaviside: heaviside,
        np.signbit: signbit,
        np.copysign: copysign,
        np.modf: modf,
        np.divmod: divmod_,
    }
)


def sinc(x: Any) -> Any:
    """``np.sinc``."""
    turned = np.pi * np.where(x == 0, 1.0e-20, x)
    return np.sin(turned) / turned


def polyval(p: Any, x: Any) -> Any:
    """``np.polyval`` of constant coefficients, by Horner's rule."""
    if holds_traced(p):
        refuse("computes a polynomial whose coefficients are rows", "Use constants.")
    return reduce(
        lambda y, coefficient: y * x + coefficient, np.asarray(p), MAKERS["zeros_like"](x)
    )


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:  # noqa: N803
    """``np.vander`` of a column."""
    if not isinstance(x, TracedVector) or N is None:
        refuse("makes a Vandermonde matrix of other than one column", "Name the degree.")
    powers = [MAKERS["ones_like"](x), x]
    while len(powers) < N:
        powers.append(powers[-1] * x)
    return join(powers[:N] if increasing else powers[:N][::-1])


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any]) -> Any:
    """``np.piecewise``: the last condition that holds decides, and the others' default."""
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    rest = funclist[len(conditions) :]
    answer: Any = MAKERS["zeros_like"](x)
    branches = list(zip(conditions, funclist, strict=False))
    if rest:
        answer = _of_piece(rest[0], x)
    for condition, function in branches:
        answer = np.where(condition, _of_piece(function, x), answer)
    return answer if answer.dtype == x.dtype else answer.astype(x.dtype)


def _of_piece(function: Any, x: Any) -> Any:
    return function(x) if callable(function) else function


def einsum(subscripts: str, *operands: Any) -> Any:
    """``np.einsum`` that multiplies rows by constant weights."""
    if subscripts.replace(" ", "") not in ("ij,jk->ik", "ij,j->i", "ij,jk", "ij,j"):
        refuse(f"calls numpy.einsum with {subscripts!r}", "Use x @ weights.")
    first, second = operands
    return first @ second


def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    """``np.average`` of the columns, by constant weights."""
    if weights is None:
        return np.mean(a, axis=axis)
    scale = np.asarray(weights, np.float64)
    return np.multiply(a, scale).sum(axis=axis) / scale.sum()


def ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """``np.ptp`` of the columns."""
    return a.max(axis=axis, keepdims=keepdims) - a.min(axis=axis, keepdims=keepdims)


def argmin(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """``np.argmin`` of the columns."""
    return reduce_rows("argmax", -a, axis, keepdims)


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """``np.count_nonzero`` of the columns."""
    return (a != 0).sum(axis=axis, keepdims=keepdims)


def cumprod(a: Any, axis: Any = None) -> Any:
    """``np.cumprod`` along the columns."""
    _need_columns(axis, a)
    made = [a[:, 0]]
    for place in range(1, a.width):
        made.append(made[-1] * a[:, place])
    return join(made)


def sort(a: Any, axis: Any = -1) -> Any:
    """``np.sort`` of the columns of each row, where NaN is last."""
    _need_columns(axis, a)
    if not 0 < a.width <= MOST_SORTED or a.dtype.kind == "b":
        refuse(f"sorts {a.width} columns", f"Sort up to {MOST_SORTED} columns of numbers.")
    if a.dtype.kind == "i":
        return join(_sorted([a[:, place] for place in range(a.width)]))
    infinite = [np.where(np.isnan(a[:, place]), np.inf, a[:, place]) for place in range(a.width)]
    n_missing = np.isnan(a).sum(axis=1)
    ordered = enumerate(_sorted(infinite))
    return join([np.where(n_missing >= a.width - place, np.nan, value) for place, value in ordered])


def _sorted(columns: list[Any]) -> list[Any]:
    """Sort by exchanging neighbours, as often as there are columns."""
    for start in range(len(columns)):
        for place in range(start % 2, len(columns) - 1, 2):
            low, high = columns[place], columns[place + 1]
            columns[place], columns[place + 1] = np.minimum(low, high), np.maximum(low, high)
    return columns


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """``np.repeat`` of columns."""
    _need_columns(axis, a)
    return a[:, np.repeat(np.arange(a.width), repeats).tolist()]


def take(a: Any, indices: Any, axis: Any = None) -> Any:
    """``np.take`` of columns."""
    _need_columns(axis, a)
    return a[:, indices]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """``np.split`` of columns."""
    _need_columns(axis, ary)
    places = np.split(np.arange(ary.width), indices_or_sections)
    return [ary[:, part[0] : part[-1] + 1] for part in places if len(part)]


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """``np.insert`` of one column."""
    _need_columns(axis, arr)
    if not isinstance(obj, int):
        refuse("inserts several columns", "Join them: np.column_stack.")
    column = values if isinstance(values, Traced) else MAKERS["zeros_like"](arr[:, 0]) + values
    place = obj % (arr.width + 1) if obj < 0 else obj
    parts = [arr[:, j] for j in range(arr.width)]
    parts.insert(place, column.astype(arr.dtype))
    return join(parts)


def _need_columns(axis: Any, x: Any) -> None:
    if not (isinstance(x, TracedMatrix) and axis in (1, -1)):
        refuse("reduces or orders along the rows", _OTHER_ROWS)


def _of_members(name: str) -> Callable[..., Any]:
    """Return a reduction that also takes a list of arrays, of each of which a row has one value."""
    of_rows = FUNCTIONS[name]

    def function(a: Any, axis: Any = None, **options: Any) -> Any:
        if isinstance(a, Transposed) and axis == 0:
            return of_rows(a.T, axis=1, **options)
        if not isinstance(a, list | tuple):
            return of_rows(a, axis=axis, **options)
        if axis != 0 or options or not all(isinstance(x, Traced) for x in a):
            refuse(f"calls numpy.{name} of a list", f"Write np.{name}(arrays, axis=0).")
        return _REDUCED[name](list(a))

    return function


_REDUCED: dict[str, Callable[[list[Any]], Any]] = {
    "sum": lambda arrays: reduce(np.add, arrays),
    "mean": lambda arrays: reduce(np.add, arrays) / len(arrays),
    "max": lambda arrays: reduce(np.maximum, arrays),
    "min": lambda arrays: reduce(np.minimum, arrays),
}
"""Reductions over several arrays: numpy combines them one after another."""

FUNCTIONS.update(
    {
        **{name: _of_members(name) for name in _REDUCED},
        "argmin": argmin,
        "average": average,
        "count_nonzero": count_nonzero,
        "cumprod": cumprod,
        "einsum": einsum,
        "hsplit": lambda ary, indices_or_sections: split(ary, indices_or_sections, axis=1),
        "insert": insert,
        "piecewise": piecewise,
        "polyval": polyval,
        "ptp": ptp,
        "repeat": repeat,
        "sinc": sinc,
        "sort": sort,
        "split": split,
        "take": take,
        "vander": vander,
    }
)
for _name in _REDUCED:
    setattr(Transposed, _name, FUNCTIONS[_name])
for _name in ("argmin", "cumprod", "repeat", "take"):
    setattr(TracedMatrix, _name, FUNCTIONS[_name])
