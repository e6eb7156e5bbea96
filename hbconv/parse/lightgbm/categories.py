"""LightGBM's category sets, stored as bits, and the categorical splits on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    FIRST_CODE,
    Affine,
    Cast,
    CategoryCodes,
    Concat,
    FindCode,
    Node,
    Select,
)
from hbconv.parse.common.category_tables import category_sizes, category_tables
from hbconv.trees.forest import CategoryTables

__all__ = ["CategorySets", "Codes"]

_FEW = 256
"""Up to so many categories a table has an entry for each number, listed or not."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Codes:
    """From category numbers to the codes of category tables.

    Parameters
    ----------
    sizes : Array of int32, shape (n_columns,)
        Number of categories of each column, as CategoryCodes wants it.
    sparse : tuple of int
        Columns whose few categories of large numbers are numbered anew, each in a further column.
    listed : tuple of Array
        Categories of these columns, ascending.
    """

    sizes: Array
    sparse: tuple[int, ...] = ()
    listed: tuple[Array, ...] = ()

    def of(self, x: Node) -> Node:
        """Replace the columns of categories by codes."""
        if not self.sizes.data.any():
            return x
        codes = CategoryCodes(x, self.sizes, cut_first=True)
        anew = (
            self._numbered(codes, column, listed.data)
            for column, listed in zip(self.sparse, self.listed, strict=True)
        )
        return Concat((codes, *anew)) if self.sparse else codes

    def _numbered(self, codes: Node, column: int, listed: Ints) -> Node:
        """Keep the codes of no category and of NaN, then number the listed ones without gaps."""
        known = np.concatenate([[FIRST_CODE - 1], FIRST_CODE + listed]).astype(codes.type.dtype)
        place = FindCode(Select(codes, Array(np.array([column], np.int32))), (Array(known),))
        return Affine.of(Cast(place, codes.type.dtype), add=1.0)


@dataclass(frozen=True)
class CategorySets:
    """The category sets of all trees, one after another.

    Parameters
    ----------
    tests : array of int, shape (n_tests,)
        Set of each test, -1 for tests on thresholds.
    owner, categories : array of int, shape (n_listed,)
        Set that lists each category, and its number.
    count : int
        Number of sets.
    """

    tests: Ints
    owner: Ints
    categories: Ints
    count: int

    @staticmethod
    def read(words: npt.NDArray[np.uint32], sizes: Ints, tests: Ints) -> CategorySets:
        """Find the bits that are set; ``sizes`` are the numbers of 32-bit words of each set.

        Examples
        --------
        >>> words = np.array([5, 0, 1], np.uint32)
        >>> sets = CategorySets.read(words, np.array([1, 2]), np.array([-1, 0, 1]))
        >>> sets.owner, sets.categories
        (array([0, 0, 1]), array([ 0,  2, 32]))
        """
        some = np.flatnonzero(words)
        bits = np.flatnonzero(
            np.unpackbits(words[some].astype("<u4").view(np.uint8), bitorder="little")
        )
        word = some[bits // 32]
        owner = np.repeat(np.arange(len(sizes)), sizes)[word]
        return CategorySets(
            tests, owner, bits % 32 + 32 * (word - (np.cumsum(sizes) - sizes)[owner]), len(sizes)
        )

    def tables(self, column: Ints, n_columns: int) -> tuple[CategoryTables | None, Ints, Codes]:
        """Write the category tables: listed categories go left.

        Returns the tables, the column of each split, and what makes the codes.
        """
        on_category = self.tests >= 0
        of_set = np.zeros(self.count, np.int64)
        of_set[self.tests[on_category]] = column[on_category]
        of_listed = of_set[self.owner]
        categories = self.categories.copy()
        column = column.copy()
        sizes = category_sizes(
            n_columns,
            np.concatenate([column[on_category], of_listed]),
            np.concatenate([np.full(on_category.sum(), -1), categories]),
        )
        sparse: list[int] = []
        lists: list[Array] = []
        for place in np.flatnonzero(sizes.data > _FEW).tolist():
            here = of_listed == place
            listed = np.unique(categories[here])
            if 4 * len(listed) < sizes.data[place]:
                categories[here] = np.searchsorted(listed, categories[here])
                column[on_category & (column == place)] = n_columns + len(sparse)
                sparse = [*sparse, place]
                lists = [*lists, Array(listed)]
        counts = np.bincount(self.owner, minlength=self.count)
        tables = category_tables(
            self.tests, counts, categories, listed_left=True, nan_left=False, other_left=False
        )
        return tables, column, Codes(sizes, tuple(sparse), tuple(lists))
