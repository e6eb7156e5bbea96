"""What the counts of a node may be: a file may say any number, and its tables are what there is."""

from __future__ import annotations

from hbconv.array import Array

__all__ = ["misfit_of_groups", "misfit_of_pairs", "misfit_of_rounds", "misfit_of_table"]

_FEW_ROUNDS = 1000
"""Rounds that a row may always take: sources take 100 to 1,000 unless they are told otherwise."""
_ROW_WORK = 1 << 31
"""Products of one row in all its rounds, where these are more: about a second."""
_MOST_PRODUCTS = 1 << 26
"""Products of a table's rows with each other: half a gigabyte, of 8,192 rows."""


def misfit_of_groups(groups: int, width: int) -> str | None:
    """Return why columns are not that many equal blocks; None where they are.

    Examples
    --------
    >>> misfit_of_groups(2, 6), misfit_of_groups(4, 6)
    (None, 'has 4 groups of 6 columns')
    """
    fits = 0 < groups <= width and width % groups == 0
    return None if fits else f"has {groups} groups of {width} columns"


def misfit_of_pairs(n_classes: int, *widths: int) -> str | None:
    """Return why columns are not one for each pair of so many classes; None where they are.

    Examples
    --------
    >>> misfit_of_pairs(3, 3), misfit_of_pairs(4, 3)
    (None, 'has 4 classes, and 3 columns for their pairs')
    """
    if n_classes > 1 and set(widths) == {n_classes * (n_classes - 1) // 2}:
        return None
    return f"has {n_classes} classes, and {widths[0]} columns for their pairs"


def misfit_of_table(table: Array, width: int) -> str | None:
    """Return why a table has no rows of that width, or too many; None where it has them."""
    if table.data.ndim != 2 or not len(table) or table.shape[1] != width:
        return f"has a table of shape {table.shape} for {width} columns"
    if len(table) ** 2 > _MOST_PRODUCTS:
        return f"has a table of {len(table):,} rows, whose products with each other are too many"
    return None


def misfit_of_rounds(rounds: int, table: Array, width: int, tolerance: float = 0.0) -> str | None:
    """Return why rounds over a table cannot be repeated so often; None where they can.

    A row takes that many rounds where it never comes within the tolerance.

    Parameters
    ----------
    rounds : int
    table : Array, shape (n_rows, width)
    width : int
        Of the rows that are read.
    tolerance : float

    Examples
    --------
    >>> import numpy as np
    >>> table = Array(np.zeros((4, 3)))
    >>> misfit_of_rounds(500, table, 3), misfit_of_rounds(500, table, 2)
    (None, 'has a table of shape (4, 3) for 2 columns')
    >>> misfit_of_rounds(500, table, 3, -1.0)
    'has the tolerance -1.0'
    >>> misfit_of_rounds(2**40, table, 3)
    'repeats up to 1,099,511,627,776 rounds, and takes up to 134,217,728 over a table of its size'
    """
    misfit = misfit_of_table(table, width)
    if misfit:
        return misfit
    if not tolerance >= 0:
        return f"has the tolerance {tolerance}"
    most = max(_FEW_ROUNDS, _ROW_WORK // (len(table) * max(table.shape)))
    if 0 <= rounds <= most:
        return None
    return f"repeats up to {rounds:,} rounds, and takes up to {most:,} over a table of its size"
