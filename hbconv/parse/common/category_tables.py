"""Turn category sets, as tree libraries store them, into the category tables of a forest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import FIRST_CODE
from hbconv.errors import UnsupportedError
from hbconv.trees.forest import CategoryTables

__all__ = ["category_sizes", "category_tables"]

LARGEST = 2**24 - FIRST_CODE - 1
"""The largest category whose code float32 holds exactly."""

MOST_ENTRIES = 2**28
"""Entries that all tables together may have, a byte each."""

Numbers = npt.NDArray[Any]


def category_tables(
    tests: Numbers,
    counts: Numbers,
    categories: Numbers,
    *,
    listed_left: npt.ArrayLike,
    nan_left: npt.ArrayLike,
    other_left: npt.ArrayLike,
) -> CategoryTables | None:
    """Write a category table for each set; None where there are no sets.

    Tables are over the codes of the container CategoryCodes, with sizes from ``category_sizes``.

    Parameters
    ----------
    tests : array of int, shape (n_tests,)
        Set of each test, -1 for tests on thresholds.
    counts : array of int, shape (n_sets,)
        Number of categories in each set.
    categories : array of int, shape (sum of counts,)
        The categories of all sets, one set after another.
    listed_left : array_like of bool, shape (sum of counts,) or ()
        Whether a category of the set goes left.
    nan_left, other_left : array_like of bool, shape (n_sets,) or ()
        Whether NaN, and whatever is not in the set, go left.

    Examples
    --------
    >>> sets = np.array([-1, 0]), np.array([2]), np.array([0, 2])
    >>> tables = category_tables(*sets, listed_left=True, nan_left=False, other_left=False)
    >>> tables.goes_left.data.astype(int), tables.start.data
    (array([0, 0, 1, 0, 1, 0]), array([0, 6], dtype=int32))
    """
    if not len(counts):
        return None
    _require_small(categories)
    owner = np.repeat(np.arange(len(counts)), counts)
    largest = np.full(len(counts), -1)
    np.maximum.at(largest, owner, categories)
    start = np.concatenate([[0], np.cumsum(largest + FIRST_CODE + 2)])
    if start[-1] > MOST_ENTRIES:
        raise UnsupportedError(
            "tests on categories",
            "",
            "categories",
            int(start[-1]),
            f"hbconv holds {MOST_ENTRIES}: number the categories from 0.",
        )
    goes_left = np.repeat(np.broadcast_to(other_left, (len(counts),)), np.diff(start))
    goes_left[start[:-1] + 1] = nan_left
    goes_left[start[owner] + FIRST_CODE + categories] = listed_left
    return CategoryTables(
        Array.of(tests, np.int32), Array.of(start, np.int32), Array.of(goes_left, np.bool_)
    )


def category_sizes(n_features: int, features: Numbers, largest: Numbers) -> Array:
    """Return the sizes for CategoryCodes: one more than a feature's largest tested category.

    A feature with a categorical split has a size of at least one.

    Examples
    --------
    >>> category_sizes(3, np.array([1, 1, 2]), np.array([4, 7, -1])).data
    array([0, 8, 1], dtype=int32)
    """
    _require_small(largest)
    sizes = np.zeros(n_features, np.int64)
    np.maximum.at(sizes, features, np.maximum(largest, 0) + 1)
    return Array.of(sizes, np.int32)


def _require_small(categories: Numbers) -> None:
    if np.any(categories > LARGEST):
        raise UnsupportedError(
            "tests on categories",
            "",
            "category",
            int(categories.max()),
            f"hbconv handles categories up to {LARGEST}.",
        )
