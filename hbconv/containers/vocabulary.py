"""Vocabularies: the values of a column of categories, and the codes that programs are given.

Columns of dates are given to programs as codes too (``DateCodes``).

The ``misfit`` functions check the counts of nodes, since a file may hold any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.errors import InputError

__all__ = [
    "ISO",
    "NO_DATE",
    "PARTS",
    "CodeTable",
    "DateCodes",
    "DatePart",
    "DateReading",
    "Missing",
    "Vocabulary",
    "misfit_of_groups",
    "misfit_of_pairs",
    "misfit_of_rounds",
    "misfit_of_table",
    "missing_of",
]

Missing = Literal["none", "nan", "na"]
"""The ways to say that a value is missing: None, NaN and ``pandas.NA``."""


@dataclass(frozen=True)
class Vocabulary:
    """Known values and their codes (positions), with codes of None, NaN and ``pandas.NA``.

    These are -1 where they are unknown, as other values are.

    In nearly all models the values are texts. A column of objects may hold numbers and bytes too.
    Python's equality holds for these: 1, 1.0 and True are one value.

    Parameters
    ----------
    values : tuple
    none, nan, na : int
    blank : int
        Code of texts of whitespace alone, and of those in ``nulls``, that are not among the
        values. The source treats them so in columns of texts, but not of categories.
    only_texts : bool
        Objects of other types are no unknown values: a look-up raises TypeError.
    nulls : tuple of str
    spelled : bool
        All values are texts, and a value of another type counts as its text: ``"1"`` for 1,
        ``"true"`` for True, and the text that bytes encode in UTF-8. Null characters at the end
        of a text do not count.
    """

    values: tuple[str | bytes | float | bool | None, ...]
    none: int = -1
    nan: int = -1
    na: int = -1
    blank: int = -1
    only_texts: bool = False
    nulls: tuple[str, ...] = ()
    spelled: bool = field(default=False, kw_only=True)

    @cached_property
    def codes(self) -> Mapping[object, int]:
        """Codes by value, for every value that can be hashed.

        Examples
        --------
        >>> codes = Vocabulary(("a", 1), none=2).codes
        >>> [codes[value] for value in ("a", 1.0, None, "b", float("nan"))]
        [0, 1, 2, -1, -1]
        >>> codes = Vocabulary(("7", "true"), spelled=True).codes
        >>> [codes[value] for value in ("7", 7, b"7", True, 1)]
        [0, 0, 0, 1, -1]
        """
        # Built once: ordinary values are then found at the
        # speed of a dict, and rules serve the others alone.
        return _SpelledCodes(self) if self.spelled else CodeTable(self)

    @cached_property
    def texts(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The values that are texts, and their codes."""
        texts = [(value, code) for code, value in enumerate(self.values) if isinstance(value, str)]
        return [text for text, _ in texts], np.array([code for _, code in texts], np.int32)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What those who look values up make of them once, under keys of their own."""
        return {}

    @property
    def is_text(self) -> bool:
        """Whether all values are texts."""
        return all(isinstance(value, str) for value in self.values)

    def code_of_unknown(self, text: str) -> int:
        """Return the code of a text that is not among the values.

        Examples
        --------
        >>> known = Vocabulary(("a",), blank=1, nulls=("N/A",))
        >>> [known.code_of_unknown(text) for text in ("  ", "N/A", "b")]
        [1, 1, -1]
        """
        return self.blank if text in self.nulls or not text.strip() else -1

    def __str__(self) -> str:
        return f"{len(self.values)} categories"


def missing_of(vocabularies: Iterable[Vocabulary]) -> Missing:
    """Return what a null stands for in a column: the missing value that is known there.

    It is None before NaN before ``pandas.NA``, and NaN where none of them is known.

    Examples
    --------
    >>> missing_of([Vocabulary(("a",), nan=1), Vocabulary(("a",), none=1)]), missing_of([])
    ('none', 'nan')
    """
    listed = list(vocabularies)
    ways: tuple[Missing, ...] = ("none", "nan", "na")
    return next((way for way in ways if any(getattr(v, way) != -1 for v in listed)), "nan")


class CodeTable(dict[object, int]):
    """Codes by value, with the rules for values that no dict finds."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(zip(vocabulary.values, range(len(vocabulary.values)), strict=True))
        self[None] = vocabulary.none
        self._vocabulary = vocabulary

    def __missing__(self, value: object) -> int:
        if isinstance(value, str):
            return self._vocabulary.code_of_unknown(value)
        # By name, so that rows without pandas do not import it.
        if type(value).__name__ == "NAType":
            return self._vocabulary.na
        # NaN equals nothing, not even itself, so no dict finds it.
        if isinstance(value, float | np.floating) and value != value:
            return self._vocabulary.nan
        if self._vocabulary.only_texts:
            raise TypeError(value)
        return -1


class _SpelledCodes(CodeTable):
    def __missing__(self, value: object) -> int:
        text = value if isinstance(value, str) else _spell(value)
        # YDF drops null characters at the end of a text.
        if text is not None and text.endswith("\0"):
            return self[text.rstrip("\0")]
        if text is None or text is value:
            return super().__missing__(value)
        return self.get(text, -1)


def _spell(value: object) -> str | None:
    """Return the text of a value that is none; None for texts and what is missing.

    Raises
    ------
    InputError
        It is a number with a fraction, which no text of a category spells.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    # Bools are ints in Python, so they are asked for first.
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if not isinstance(value, float | np.floating) or value != value:
        return None
    if not value.is_integer():
        raise InputError(f"{value!r} is no category: give text or a whole number.")
    return str(int(value))


_FEW_ROUNDS = 1000
"""Rounds that a row may always take: sources take 100 to 1,000 unless they are set otherwise."""
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
    """Return why columns are not one for each pair of classes; None where they are.

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
    # Solvers hold the products of all rows with each other as one constant.
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
    # Written so that a tolerance of NaN is refused too.
    if not tolerance >= 0:
        return f"has the tolerance {tolerance}"
    # A file of 5 KB that claimed 2**60 rounds was predicted with for ever.
    most = max(_FEW_ROUNDS, _ROW_WORK // (len(table) * max(table.shape)))
    if 0 <= rounds <= most:
        return None
    return f"repeats up to {rounds:,} rounds, and takes up to {most:,} over a table of its size"


DatePart = Literal["day", "second", "nanosecond"]
PARTS: tuple[DatePart, ...] = ("day", "second", "nanosecond")
"""Days since 1970 in UTC, seconds of that day, and nanoseconds of that second."""

# The least int32 is no day of any calendar in use: it lies 5.8 million years before 1970.
NO_DATE = -(2**31)
"""The day of a missing date."""


ISO = "ISO"
"""Format of texts that are all ISO dates of one form, which pandas guesses of the first."""


@dataclass(frozen=True)
class DateReading:
    """How a column becomes dates: instants in UTC, to which dates without a time zone belong.

    Parameters
    ----------
    unit : {"", "s", "ms", "us", "ns"}
        Unit that dates are rounded down to; empty where each column keeps its own.
    parses : bool
        Texts and objects are parsed, and those that are no dates are missing. Else they are
        refused, and so are dates of a time zone other than UTC.
    format : str or None
        What texts look like. pandas guesses it of the first text where it is None; ``ISO`` takes
        those texts alone of which it guesses the same.
    nulls : tuple of str
        Texts that are missing, whatever they look like.
    within : tuple of int, or None
        First and last second since 1970 that the source takes. None where it takes all.
    naive : bool
        Dates of any time zone are refused, since the source computes with those that have none.
    raises : bool
        Texts that are no dates are refused too, and no longer missing.
    """

    unit: str = ""
    parses: bool = False
    format: str | None = None
    nulls: tuple[str, ...] = ()
    within: tuple[int, int] | None = None
    naive: bool = field(default=False, kw_only=True)
    raises: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class DateCodes:
    """A number of each date: an int32 that programs are given where other columns give codes.

    Examples
    --------
    >>> str(DateCodes(DateReading(), "day"))
    'day of dates'
    """

    reading: DateReading
    part: DatePart

    def __str__(self) -> str:
        return f"{self.part} of dates"
