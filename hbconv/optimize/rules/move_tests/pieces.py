"""Pieces: runs of values of a column in which a function of it is monotone by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hbconv.optimize.rules.move_tests.evaluator import Evaluator
from hbconv.optimize.rules.move_tests.functions import Function, describe
from hbconv.optimize.rules.move_tests.keys import Keys, keys_of
from hbconv.optimize.rules.move_tests.lineage import Lineage, Ref, dtype_of

__all__ = ["bisect", "find_pieces"]

Bools = npt.NDArray[np.bool_]


def bisect(decide: Callable[[Keys], Bools], low: Keys, high: Keys) -> Keys:
    """Return the last key from ``low`` on that is decided as ``low``, where ``high`` is not.

    There is one change between them. Where low equals high, that key is returned.

    Examples
    --------
    >>> bisect(lambda keys: keys <= 5, np.array([-100]), np.array([100]))
    array([5])
    """
    first = decide(low)
    while True:
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        if (middle == low).all():
            return low
        same = decide(middle) == first
        low = np.where(same, middle, low)
        high = np.where(same, high, middle)


def find_pieces(
    lineage: Lineage, functions: Sequence[Function], cuts: Sequence[Ref]
) -> list[Keys | None]:
    """Return the first and the last key of each piece, alternating, for each function.

    A function breaks where a column on its way reaches one of some values. That column must itself
    be monotone and without breaks; otherwise the result is None.
    """
    wanted = [(ref, cut) for f, cut in zip(functions, cuts, strict=True) for ref, _ in f.breaks]
    ways = {pair: describe(lineage, *pair) for pair in dict.fromkeys(wanted)}
    plain = {pair for pair, way in ways.items() if _is_plain(way)}
    points = [
        (pair, _with_values_below(values))
        for f, cut in zip(functions, cuts, strict=True)
        for ref, values in f.breaks
        if (pair := (ref, cut)) in plain
    ]
    found = _places_of(lineage, points) if points else {}
    return [
        _ends(dtype_of(cut), [found[ref, cut] for ref, _ in f.breaks])
        if all((ref, cut) in plain for ref, _ in f.breaks)
        else None
        for f, cut in zip(functions, cuts, strict=True)
    ]


def _with_values_below(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore", under="ignore"):
        return np.append(points, np.nextafter(points, -np.inf))


def _is_plain(way: Function) -> bool:
    return way.is_monotone and way.is_exact and not way.breaks


def _places_of(
    lineage: Lineage, points: Sequence[tuple[tuple[Ref, Ref], npt.NDArray[np.float64]]]
) -> dict[tuple[Ref, Ref], Keys]:
    """Return the last keys at which each column is on one side of each of its points."""
    pairs = list(dict.fromkeys(pair for pair, _ in points))
    evaluator = Evaluator(lineage, [ref for ref, _ in pairs], [cut for _, cut in pairs])
    which = np.concatenate([np.full(len(v), pairs.index(pair)) for pair, v in points])
    values = np.concatenate([v for _, v in points])
    limits = np.array([_limits(dtype_of(cut)) for _, cut in pairs], np.int64)

    def decide(keys: Keys) -> Bools:
        return evaluator.at(which, keys) <= values

    low = limits[which, 0]
    high = limits[which, 1]
    turns = decide(low) != decide(high)
    keys = bisect(decide, low, np.where(turns, high, low))
    return {pair: keys[turns & (which == place)] for place, pair in enumerate(pairs)}


def _limits(dtype: str) -> tuple[int, int]:
    """Return the keys of the least and of the largest finite value."""
    limits = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    low, high = keys_of(np.array([limits.min, limits.max], dtype), dtype)
    return int(low), int(high)


def _ends(dtype: str, breaks: Sequence[Keys]) -> Keys:
    """Return the ends of the pieces between breaks; infinities are pieces of their own."""
    low, high = _limits(dtype)
    edges = [low - 1, high, high + 1] if dtype.startswith("float") else [high]
    lasts = np.unique(np.concatenate([np.array(edges, np.int64), *breaks]))
    firsts = np.append(edges[0] if dtype.startswith("float") else low, lasts[:-1] + 1)
    return np.stack([firsts, lasts], axis=1).ravel()
