"""The combinations of categories that CatBoost's statistics are about, each hashed once.

Most statistics are about some categories and the outcomes of a few tests of other columns. CatBoost
hashes all of these together, anew for each statistic. A hash is a sum of multiples by odd numbers,
modulo 2**64, so it can be taken apart again. So categories get a code, which is found once, and the
outcomes choose among the values that a statistic has for that code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.parse.catboost.statistics import CATEGORY, Element, Statistic

__all__ = ["Combinations", "Elements", "Reading", "combine", "weights_of"]

MULTIPLIER = 0x4906BA494954CB65
"""Hashes are mixed by ``h = m * (h + m * next)``, modulo 2**64."""
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
MOST_TESTS = 3
"""Tests of which a code of categories is multiplied by all outcomes."""

Words = npt.NDArray[np.uint64]
Elements = tuple[Element, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """How a statistic is read: ``values[1 + (code + 1) * 2**len(tests) + outcomes]``.

    Parameters
    ----------
    combination : int
        What the code is of.
    tests : tuple of Element
        The outcome of the first is the lowest bit.
    values : Array of float32
    """

    combination: int
    tests: Elements
    values: Array


@dataclass(frozen=True, eq=False)
class Combinations:
    """What is hashed, the known hashes of each, ascending, and how each statistic is read."""

    elements: tuple[Elements, ...]
    hashes: tuple[Array, ...]
    readings: tuple[Reading, ...]


def combine(statistics: Sequence[Statistic]) -> Combinations:
    """Share the codes of categories among statistics.

    A statistic shares them if the categories that are known explain each hash of its table. Others
    are read by the hash of all their elements.

    A row of unknown categories whose hash is that of other categories with other outcomes, one of
    2**64, may be read as unknown.
    """
    tables = _tables(statistics)
    known = _known_categories(tables)
    read_by = {e: _read_by(e, table, known) for e, table in tables.items()}
    hashes = {
        by: known[by] if by in known else tables[by] for by in dict.fromkeys(read_by.values())
    }
    ascending = {by: np.sort(found.view(np.int64)) for by, found in hashes.items()}
    order = list(ascending)
    readings = [
        _reading(s, order.index(by), ascending[by], s.elements[len(by) :])
        for s, by in ((s, read_by[s.elements]) for s in statistics)
    ]
    return Combinations(tuple(order), tuple(map(Array, ascending.values())), tuple(readings))


def weights_of(count: int) -> Words:
    """Return what each of several elements is multiplied by: the last by the square."""
    return np.array([_power(power) for power in range(count + 1, 1, -1)], np.uint64)


def _power(power: int) -> np.uint64:
    return np.uint64(pow(MULTIPLIER if power >= 0 else INVERSE, abs(power), 1 << 64))


def _tables(statistics: Sequence[Statistic]) -> dict[Elements, Words]:
    """Return all hashes that tables of the same elements hold, of each kind of statistic."""
    found: dict[Elements, list[Words]] = {}
    for statistic in statistics:
        found.setdefault(statistic.elements, []).append(statistic.hashes.data.view(np.uint64))
    return {elements: np.unique(np.concatenate(own)) for elements, own in found.items()}


def _known_categories(tables: Mapping[Elements, Words]) -> dict[Elements, Words]:
    """Return the hashes of the categories alone that were seen in training.

    A table without tests holds them. Else each of them is in all tables of these categories, and
    few others are: each outcome of a test suggests other categories, of which one is right.
    """
    suggested: dict[Elements, Words] = {}
    for elements in sorted(tables, key=len):
        categories = _categories(elements)
        tests = len(elements) - len(categories)
        if not categories or tests > MOST_TESTS or categories in tables.keys() & suggested.keys():
            continue
        found = np.unique((tables[elements][:, None] - _outcomes(tests)) * _power(-tests))
        suggested[categories] = np.intersect1d(suggested.get(categories, found), found)
    return suggested


def _read_by(elements: Elements, table: Words, known: Mapping[Elements, Words]) -> Elements:
    """Return the elements whose code a statistic is read by."""
    categories = _categories(elements)
    tests = len(elements) - len(categories)
    if not categories or tests > MOST_TESTS:
        return elements
    explained = np.isin(table, _mixed(known[categories], tests))
    return categories if explained.all() else elements


def _categories(elements: Elements) -> Elements:
    return tuple(element for element in elements if element.kind == CATEGORY)


def _outcomes(tests: int) -> Words:
    """Return what the outcomes of tests add to a hash: (2**tests,); the first is the lowest bit."""
    bits = np.arange(1 << tests)[:, None] >> np.arange(tests) & 1
    added: Words = (bits.astype(np.uint64) * weights_of(tests)).sum(axis=1, dtype=np.uint64)
    return added


def _mixed(categories: Words, tests: int) -> Words:
    """Return the hashes of categories with all outcomes of tests: (n, 2**tests)."""
    hashes: Words = categories[:, None] * _power(tests) + _outcomes(tests)
    return hashes


def _reading(
    statistic: Statistic, combination: int, hashes: npt.NDArray[np.int64], tests: Elements
) -> Reading:
    """Lay out the values of a statistic by code and outcomes; the code -1 knows none.

    Look-ups have a first entry for unknown places, which there are none of.
    """
    mixed = _mixed(hashes.view(np.uint64), len(tests)).view(np.int64)
    held = statistic.hashes.data
    place = np.minimum(np.searchsorted(held, mixed), max(len(held) - 1, 0))
    entry = np.where(held[place] == mixed, place + 1, 0) if len(held) else np.zeros_like(place)
    unknown = np.zeros(1 + entry.shape[1], np.intp)
    values = statistic.values.data[np.concatenate([unknown, entry.ravel()])]
    return Reading(combination, tests, Array(values))
