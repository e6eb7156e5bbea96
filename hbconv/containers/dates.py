"""How a column of dates is read, and which number of each date a program is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["NO_DATE", "PARTS", "DateCodes", "DatePart", "DateReading"]

DatePart = Literal["day", "second", "nanosecond"]
PARTS: tuple[DatePart, ...] = ("day", "second", "nanosecond")
"""Days since 1970 in UTC, seconds of that day, and nanoseconds of that second."""

NO_DATE = -(2**31)
"""The day of a missing date."""


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
        What texts look like. pandas guesses it of the first text where it is None.
    nulls : tuple of str
        Texts that are missing, whatever they look like.
    within : tuple of int, or None
        First and last second since 1970 that the source takes. None where it takes all.
    """

    unit: str = ""
    parses: bool = False
    format: str | None = None
    nulls: tuple[str, ...] = ()
    within: tuple[int, int] | None = None


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
