"""Work: what an algorithm does for a row, counted on the primitives it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from hbconv.target import Target

__all__ = ["Work", "total_work"]


@dataclass(frozen=True)
class Work:
    """The work of an algorithm.

    Counts are per row unless stated otherwise. A word has four bytes.

    Parameters
    ----------
    operators : float
        Primitives in all, not per row. Reshapes are free.
    elementwise : float
        Words computed by arithmetic, or copied side by side.
    takes : float
        Words read at fixed positions.
    reads : float
        Entries read at computed positions (``lookup``, ``gather``).
    multiplications : float
        Multiply-adds of matrix products, those of doubles twice.
    visits : float
        Splits that a backend's own kernel evaluates.
    tables : int
        Bytes of constants, not per row.
    temporaries : int
        Largest number of bytes in use at once.
    columns : float
        Columns that a tree kernel prepares before it decides splits.
    sums : float
        Leaf values that a tree kernel adds up.
    functions : tuple of (str, float)
        Words computed by each primitive that has a price of its own.
    spans : float
        Operators that meet a constant anew in each row: one entry for each column, or of one column
        alone.
    tile : int
        Least number of rows that a tree kernel computes, wanted or not.
    """

    operators: float = 0
    elementwise: float = 0
    takes: float = 0
    reads: float = 0
    multiplications: float = 0
    padding: float = 0
    visits: float = 0
    tables: int = 0
    temporaries: int = 0
    columns: float = 0
    sums: float = 0
    spans: float = 0
    functions: tuple[tuple[str, float], ...] = ()
    tile: int = 1

    def rows_at_once(self, target: Target) -> int:
        """Return the rows of one run: a typical call, in chunks where temporaries are large."""
        return min(target.rows, target.rows_at_once(self.temporaries))


def total_work(works: Sequence[Work]) -> Work:
    """Add up counts and tables of steps one after another, and take the largest temporaries.

    Examples
    --------
    >>> total = total_work([Work(takes=2, temporaries=8), Work(takes=1, temporaries=4)])
    >>> total.takes, total.temporaries
    (3, 8)
    """
    summed = {field.name for field in fields(Work)} - {"temporaries", "tile", "functions"}
    return Work(
        **{name: sum(getattr(work, name) for work in works) for name in summed},
        temporaries=max(work.temporaries for work in works),
        tile=max(work.tile for work in works),
        functions=tuple(entry for work in works for entry in work.functions),
    )
