"""Write the look-ups of codes as simpler primitives, for backends that do not emit them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hbconv.tensor.builder import Builder, Value

__all__ = ["compare_codes", "compare_small_tables", "read_tables"]

Rewrite = Callable[[Builder, Value, Value, tuple[int, ...]], Value]


def read_tables(b: Builder, table: Value, codes: Value, sizes: tuple[int, ...]) -> Value:
    """Read all tables as one, in which those of each column have a place."""
    firsts = np.cumsum([1, *sizes])[:-1]
    return b.lookup(table, codes + b.constant(firsts, "int32"))


def compare_codes(b: Builder, codes: Value, sizes: Value, width: int, dtype: str) -> Value:
    """Write ``one_hot`` as a compare of each code with all numbers that it may be."""
    counts = b.known(sizes)
    repeated = b.take(codes, np.repeat(np.arange(len(counts)), counts))
    numbers = np.arange(width) - np.repeat(np.cumsum(counts) - counts, counts)
    return b.cast(b.op("eq", repeated, b.constant(numbers, "int32")), dtype)


def compare_small_tables(most_values: int, *, of_all_entries: bool) -> Rewrite:
    """Return the rewrite that compares codes with each one of a small table, and reads others.

    A compare and a choice take all columns and many rows at once, which a read does not.

    Parameters
    ----------
    most_values : int
        Longest table that is small.
    of_all_entries : bool
        The numbers in the entries count, because a read takes as long for all numbers of an entry.

    Examples
    --------
    >>> b = Builder()
    >>> codes = b.input("codes", "int32", 2)
    >>> rewrite = compare_small_tables(4, of_all_entries=True)
    >>> table = b.constant([0.0, 1.0, 2.0, 9.0])
    >>> sorted(b.program({"y": rewrite(b, table, codes, (3, 1))}).primitives)
    ['eq', 'expand', 'where']
    """

    def rewrite(b: Builder, table: Value, codes: Value, sizes: tuple[int, ...]) -> Value:
        values = max(sizes, default=0)
        if of_all_entries:
            values *= int(np.prod(table.shape[1:]))
        if not 0 < values <= most_values:
            return read_tables(b, table, codes, sizes)
        return _compare(b, table, codes, sizes)

    return rewrite


def _compare(b: Builder, table: Value, codes: Value, sizes: tuple[int, ...]) -> Value:
    """Start with the entries for -1, and take another where the code says so."""
    entries = b.known(table)
    firsts = np.cumsum([0, *sizes])[:-1]
    found = b.op("expand", codes, b.constant(entries[firsts]))
    each = b.reshape(codes, *codes.shape, *(1 for _ in table.shape[1:]))
    for code in range(max(sizes) - 1):
        places = firsts + np.minimum(code + 1, np.array(sizes) - 1)
        own = b.op("eq", each, b.constant(code, "int32"))
        found = b.where(own, b.constant(entries[places]), found)
    return found
