"""Category sets: what tests on categories ask of a feature's codes, every set once, and which codes they tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hbconv.forest import CategoryTables, Forest

__all__ = ["MOST_CLASSES", "CategorySets", "Group", "find_sets"]

MOST_CLASSES = 256
"""Classes of codes that a byte tells apart."""
MOST_SETS = 1024
"""Sets of a group: what is computed from all pairs of them stays small."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Sets of the codes of one feature. Codes of which each set holds all or none are a class, so that a byte tells what all sets say.

    Parameters
    ----------
    feature : int
    class_of : uint8 (n_codes,)
        Class of each code; the last one's is that of all beyond it.
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
    groups : tuple of Group
    of_test : int32 (n_tests,)
        Set of each test; -1 for one on a threshold.
    """

    groups: tuple[Group, ...]
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
        """First set of each group, and their number."""
        return np.cumsum([0, *(group.goes_left.shape[1] for group in self.groups)], dtype=np.int32)

    @property
    def code_start(self) -> npt.NDArray[np.int32]:
        """Place of each group's first code in ``class_of``, and the number of codes."""
        return np.cumsum([0, *(len(group.class_of) for group in self.groups)], dtype=np.int32)

    @property
    def class_of(self) -> npt.NDArray[np.uint8]:
        """Classes of the codes of all groups."""
        return np.concatenate([np.zeros(0, np.uint8), *(group.class_of for group in self.groups)])

    def by_class(
        self, left: int, right: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """Return what all sets of a group say to a class, class after class in bytes, and where each group's first class begins."""
        said = [
            np.where(group.goes_left, left, right).astype(np.uint8).ravel() for group in self.groups
        ]
        return np.concatenate([np.zeros(0, np.uint8), *said]), np.cumsum(
            [0, *map(len, said)], dtype=np.int32
        )[:-1]


@lru_cache(maxsize=2)
def find_sets(forest: Forest) -> CategorySets:
    """Find the sets that a forest's tests ask for."""
    of_test, groups, first = np.full(forest.n_tests, -1, np.int32), [], 0
    if forest.tables:
        owner, set_of_table = (
            forest.tables.features(forest),
            np.full(forest.tables.count, -1, np.int32),
        )
        used = np.unique(forest.tables.of_test.data[forest.on_category])
        for feature in np.unique(owner[used]):
            for same, group in _grouped(forest.tables, int(feature), used[owner[used] == feature]):
                set_of_table[np.concatenate(same)] = first + np.repeat(
                    np.arange(len(same)), [len(tables) for tables in same]
                )
                groups.append(group)
                first += len(same)
        of_test[forest.on_category] = set_of_table[forest.tables.of_test.data[forest.on_category]]
    return CategorySets(tuple(groups), of_test)


def _grouped(
    tables: CategoryTables, feature: int, numbers: Ints
) -> Iterator[tuple[list[list[int]], Group]]:
    """Yield the groups of a feature, with the tables that each of their sets stands for."""
    alike: dict[bytes, list[int]] = {}
    for table, first, last in zip(
        numbers.tolist(),
        tables.start.data[numbers].tolist(),
        tables.start.data[numbers + 1].tolist(),
        strict=True,
    ):
        alike.setdefault(tables.goes_left.data[first:last].tobytes(), []).append(table)
    sets = list(alike.values())
    for begin in range(0, len(sets), MOST_SETS):
        yield from _split(tables, feature, sets[begin : begin + MOST_SETS])


def _split(
    tables: CategoryTables, feature: int, sets: list[list[int]]
) -> Iterator[tuple[list[list[int]], Group]]:
    """Halve sets that tell more classes apart than a byte does: one set alone has two."""
    group = _group(tables, feature, np.array([same[0] for same in sets]))
    if len(group.goes_left) <= MOST_CLASSES:
        yield sets, group
        return
    half = len(sets) // 2
    yield from _split(tables, feature, sets[:half])
    yield from _split(tables, feature, sets[half:])


def _group(tables: CategoryTables, feature: int, numbers: Ints) -> Group:
    """Find the classes of the codes at which some table does not say what it says to all codes beyond; those others are a class."""
    sizes = tables.last[numbers] + 1
    code = np.concatenate([np.arange(size) for size in sizes])
    said = tables.decide(np.repeat(numbers, sizes), code)
    codes = np.unique(
        np.append(code[said != np.repeat(tables.decide(numbers, sizes), sizes)], sizes.max())
    )
    goes_left = tables.decide(numbers, codes[:, None])
    _, first, classes = np.unique(
        np.packbits(goes_left, axis=1), axis=0, return_index=True, return_inverse=True
    )
    class_of = np.full(sizes.max() + 1, classes.ravel()[-1])
    class_of[codes] = classes.ravel()
    return Group(feature, class_of.astype(np.uint8), goes_left[first])
