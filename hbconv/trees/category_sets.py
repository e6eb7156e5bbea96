"""Category sets: the sets of codes that splits of a feature ask for, each one once.

Splits often ask for equal sets, and sets seldom distinguish many codes. So a group of sets of one
feature maps codes to classes, few enough for a byte, and a class decides each set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["MAX_CLASSES", "CategorySets", "SetGroup", "find_sets"]

MAX_CLASSES = 256
"""Classes of codes that a byte distinguishes."""
MAX_SETS_PER_GROUP = 1024
"""What is computed from all pairs of sets stays small."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SetGroup:
    """Sets of the codes of one feature.

    Codes of which each set holds all or none are a class, so that a byte decides all sets.

    Parameters
    ----------
    feature : int
    class_of : uint8 (n_codes,)
        Class of each code; the last one's is that of all codes beyond it.
    goes_left : bool (n_classes, n_sets)
        Whether a class is in a set.
    """

    feature: int
    class_of: npt.NDArray[np.uint8]
    goes_left: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CategorySets:
    """All sets of a forest, group after group.

    Parameters
    ----------
    groups : tuple of SetGroup
    of_test : int32 (n_splits,)
        Set of each split; -1 for one on a threshold.
    """

    groups: tuple[SetGroup, ...]
    of_test: npt.NDArray[np.int32]

    @property
    def count(self) -> int:
        """Number of sets."""
        return sum(group.goes_left.shape[1] for group in self.groups)

    @property
    def feature(self) -> npt.NDArray[np.int32]:
        """Feature of each group."""
        return np.array([group.feature for group in self.groups], np.int32)

    @property
    def start(self) -> npt.NDArray[np.int32]:
        """First set of each group, and the number of sets."""
        return np.cumsum([0, *(group.goes_left.shape[1] for group in self.groups)], dtype=np.int32)

    @property
    def code_start(self) -> npt.NDArray[np.int32]:
        """Position of each group's first code in ``class_of``, and the number of codes."""
        return np.cumsum([0, *(len(group.class_of) for group in self.groups)], dtype=np.int32)

    @property
    def class_of(self) -> npt.NDArray[np.uint8]:
        """Classes of the codes of all groups."""
        return np.concatenate([np.zeros(0, np.uint8), *(group.class_of for group in self.groups)])

    def by_class(
        self, left: int, right: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Return what all sets decide for a class, as bytes, class after class.

        The second array has the position of each group's first class.
        """
        decisions = [
            np.where(group.goes_left, left, right).astype(np.uint8).ravel() for group in self.groups
        ]
        begin = np.cumsum([0, *map(len, decisions)], dtype=np.int32)[:-1]
        return np.concatenate([np.zeros(0, np.uint8), *decisions]), begin


@lru_cache(maxsize=2)
def find_sets(forest: Forest) -> CategorySets:
    """Find the sets that a forest's splits ask for.

    They are remembered: the choice of a kernel and the tables of each kernel need them, and 12,000
    sets take 1.4 s to find.
    """
    of_test = np.full(forest.n_tests, -1, np.int32)
    if not forest.tables:
        return CategorySets((), of_test)
    table_of_split = forest.tables.of_test.data[forest.on_category]
    feature_of_table = forest.tables.features(forest)
    used = np.unique(table_of_split)
    set_of_table = np.full(forest.tables.count, -1, np.int32)
    groups = []
    n_sets = 0
    for feature in np.unique(feature_of_table[used]):
        tables = used[feature_of_table[used] == feature]
        for same, group in _group_sets(forest.tables, int(feature), tables):
            sizes = [len(equal) for equal in same]
            set_of_table[np.concatenate(same)] = n_sets + np.repeat(np.arange(len(same)), sizes)
            groups.append(group)
            n_sets += len(same)
    of_test[forest.on_category] = set_of_table[table_of_split]
    return CategorySets(tuple(groups), of_test)


def _group_sets(
    tables: CategoryTables, feature: int, numbers: Ints
) -> Iterator[tuple[list[list[int]], SetGroup]]:
    """Yield the groups of a feature, with the tables of each of their sets."""
    equal: dict[bytes, list[int]] = {}
    for table in numbers.tolist():
        entries = slice(tables.start.data[table], tables.start.data[table + 1])
        equal.setdefault(tables.goes_left.data[entries].tobytes(), []).append(table)
    sets = list(equal.values())
    for begin in range(0, len(sets), MAX_SETS_PER_GROUP):
        yield from _split(tables, feature, sets[begin : begin + MAX_SETS_PER_GROUP])


def _split(
    tables: CategoryTables, feature: int, sets: list[list[int]]
) -> Iterator[tuple[list[list[int]], SetGroup]]:
    """Halve groups of more classes than a byte distinguishes: one set alone has two."""
    group = _group(tables, feature, np.array([same[0] for same in sets]))
    if len(group.goes_left) <= MAX_CLASSES:
        yield sets, group
        return
    half = len(sets) // 2
    yield from _split(tables, feature, sets[:half])
    yield from _split(tables, feature, sets[half:])


def _group(tables: CategoryTables, feature: int, numbers: Ints) -> SetGroup:
    """Find the classes of the codes of some tables.

    1. Most codes are decided as those beyond a table's end, by every table: they are one class.
    2. The others are in one class where all tables decide them alike.
    """
    sizes = tables.last[numbers] + 1  # 1
    code = np.concatenate([np.arange(size) for size in sizes])
    decided = tables.decide(np.repeat(numbers, sizes), code)
    beyond = np.repeat(tables.decide(numbers, sizes), sizes)
    codes = np.unique(np.append(code[decided != beyond], sizes.max()))
    goes_left = tables.decide(numbers, codes[:, None])  # 2
    _, first, classes = np.unique(
        # Eight tables a byte: rows of bytes sort faster than rows of bools.
        np.packbits(goes_left, axis=1),
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    # The last code lies beyond the ends of all tables, as all codes do that no table singles out.
    class_of = np.full(sizes.max() + 1, classes.ravel()[-1])
    class_of[codes] = classes.ravel()
    return SetGroup(feature, class_of.astype(np.uint8), goes_left[first])
