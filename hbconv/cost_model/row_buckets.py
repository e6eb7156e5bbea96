"""Buckets: the numbers of rows that may have a plan, and so a program, of their own."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BUCKETS", "Bucket", "find_bucket"]


@dataclass(frozen=True)
class Bucket:
    """Numbers of rows that one plan serves.

    Parameters
    ----------
    least : int
    most : int or None
        None for any number.
    typical : int
        The number that costs are predicted for.
    """

    least: int
    most: int | None
    typical: int

    def __contains__(self, rows: int) -> bool:
        return self.least <= rows and (self.most is None or rows <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"more than {self.least - 1:,} rows"
        return "1 row" if self.most == 1 else f"{self.least} to {self.most:,} rows"


BUCKETS = (Bucket(1, 1, 1), Bucket(2, 16, 8), Bucket(17, 1_000, 256), Bucket(1_001, None, 10_000))
"""All numbers of rows. One row is apart, because torch has modules of its own for it."""


def find_bucket(rows: int) -> Bucket:
    """Return the bucket of a number of rows.

    Examples
    --------
    >>> [str(find_bucket(rows)) for rows in (1, 16, 17, 5_000)]
    ['1 row', '2 to 16 rows', '17 to 1,000 rows', 'more than 1,000 rows']
    """
    return next(bucket for bucket in BUCKETS if rows in bucket)
