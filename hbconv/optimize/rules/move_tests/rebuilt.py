"""The forest over the columns that its tests were moved to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Node
from hbconv.optimize.rules.move_tests.distinct_tests import DistinctTests
from hbconv.optimize.rules.move_tests.lineage import codes_of
from hbconv.optimize.rules.move_tests.mirrored import swap_children
from hbconv.optimize.rules.move_tests.new_columns import (
    NewColumn,
    order_columns,
    write_columns,
)
from hbconv.optimize.rules.move_tests.places import CategorySets, Destination
from hbconv.optimize.rules.move_tests.ranks import rank_codes
from hbconv.optimize.rules.move_tests.switches import Switches
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["rebuild"]

Bools = npt.NDArray[np.bool_]


def rebuild(
    forest: Forest, places: Sequence[Destination], tests: DistinctTests
) -> tuple[Node, Forest]:
    """Return what the forest reads now, and the forest.

    1. Take the tests as they are, in the form ``value <= threshold``.
    2. Write those that moved on their new columns, sets of codes as ranks where they allow it.
    3. Give them to the tests of the trees, and exchange the children of those that are mirrored.
    """
    places = rank_codes(places)
    columns = order_columns(_column_of(place) for place in places)
    x = write_columns(columns)
    feature = np.zeros(len(tests), np.int64)  # 1
    never = np.isnan(tests.threshold)
    threshold = np.where(never, np.inf, tests.threshold)
    mirrored = never & (tests.table < 0)
    default_left = tests.default_left.copy()
    sets = _Sets()
    for place in places:  # 2
        own = np.flatnonzero(tests.column == place.column)
        feature[own] = columns.index(_column_of(place))
        if isinstance(place.written, Switches):
            threshold[own] = place.written.threshold
            mirrored[own] = place.written.mirrored
            default_left[own] = place.written.default_left
        tables = _tables_of(place, own, tests)
        threshold[own[: len(tables)]] = 0.0  # a set decides
        mirrored[own[: len(tables)]] = False
        for test, table in zip(own, tables, strict=False):
            sets.add(int(test), int(feature[test]), table)
    at = tests.of_test  # 3
    moved = replace(
        forest,
        feature=Array.of(feature[at], np.int32),
        threshold=Array.of(threshold[at], x.type.dtype),
        default_left=Array((default_left ^ mirrored)[at]),
        strict=False,
        n_features=x.type.width,
        tables=sets.tables(at),
    )
    return x, swap_children(moved, mirrored[at])


def _column_of(place: Destination) -> NewColumn:
    if isinstance(place.written, CategorySets):
        return NewColumn(place.cut, is_code=True)
    if place.written is None:
        return NewColumn(place.cut)
    is_rank = codes_of(place.cut) is not None
    return NewColumn(place.cut, is_rank=is_rank, numbers=place.written.numbers)


def _tables_of(place: Destination, own: npt.NDArray[np.int64], tests: DistinctTests) -> list[Bools]:
    """Return the tables of the tests on a column, none where they are tests on thresholds."""
    if isinstance(place.written, CategorySets):
        return list(place.written.goes_left)
    tables = tests.forest.tables
    if place.written or tables is None or not (tests.table[own] >= 0).all():
        return []
    parts = np.split(tables.goes_left.data, tables.start.data[1:-1])
    return [parts[table] for table in tests.table[own]]


class _Sets:
    """Tables of categories, equal ones of one column once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._of_test: dict[int, int] = {}

    def add(self, test: int, feature: int, goes_left: Bools) -> None:
        """Give a test its table."""
        known = (feature, goes_left.tobytes())
        self._of_test[test] = self._numbers.setdefault(known, len(self._numbers))

    def tables(self, of_test: npt.NDArray[np.int64]) -> CategoryTables | None:
        """Return all tables, for tests of which each is one of those given."""
        if not self._numbers:
            return None
        numbers = np.full(int(of_test.max()) + 1, -1, np.int32)
        numbers[list(self._of_test)] = list(self._of_test.values())
        tables = [np.frombuffer(content, np.bool_) for _, content in self._numbers]
        start = np.cumsum([0, *map(len, tables)])
        return CategoryTables(
            Array(numbers[of_test]), Array.of(start, np.int32), Array(np.concatenate(tables))
        )
