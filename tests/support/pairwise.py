"""Cases of a test that has several factors: a table of all pairs of values, and all that fail."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from traceback import extract_tb

import pytest

__all__ = ["failing", "pairs_covered"]


def pairs_covered(
    factors: Mapping[str, Sequence[str]], allowed: Callable[..., bool] = lambda **row: True
) -> list[tuple[str, ...]]:
    """Choose rows of the product of factors that hold each pair of values of two factors.

    Greedy: the next row is the first of those that hold most pairs that no row holds yet.

    Parameters
    ----------
    factors : mapping of str to sequence of str
        The values of each factor, by its name.
    allowed : callable
        Takes a row as keywords, and tells whether it may be chosen. A pair that stands in no such
        row is left out.

    Examples
    --------
    >>> pairs_covered({"size": "sl", "color": "rg", "form": "xy"})
    [('s', 'r', 'x'), ('s', 'g', 'y'), ('l', 'r', 'y'), ('l', 'g', 'x')]
    >>> pairs_covered({"size": "sl", "color": "rg"}, lambda size, color: size + color != "lg")
    [('s', 'r'), ('s', 'g'), ('l', 'r')]
    """
    names = tuple(factors)
    rows = [r for r in product(*factors.values()) if allowed(**dict(zip(names, r, strict=True)))]
    left = {pair for row in rows for pair in combinations(enumerate(row), 2)}
    held = [(-len(left), place) for place in range(len(rows))]  # at most; counted when taken
    table = []
    while left:
        _, place = heapq.heappop(held)
        new = left.intersection(combinations(enumerate(rows[place]), 2))
        if held and (-len(new), place) > held[0]:
            heapq.heappush(held, (-len(new), place))
            continue
        table.append(rows[place])
        left -= new
    return table


def failing(check: Callable[..., object], rows: Iterable[Sequence[object]]) -> dict[str, str]:
    """Call a check with each row, and return the errors of those that fail, with their lines."""
    found = {}
    for row in rows:
        try:
            check(*row)
        except (Exception, pytest.fail.Exception) as error:
            place = extract_tb(error.__traceback__)[-1]
            found[", ".join(map(str, row))] = f"{error!r}, {place.name} in line {place.lineno}"
    return found
