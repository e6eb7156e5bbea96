"""Dates: what a calendar and a clock show of an instant, in a time zone or in UTC.

An instant is three floats: days since 1970, seconds of the day, nanoseconds of the second. All
computations are over whole numbers below 2**53, so they are exact in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import NO_DATE, DateReading
from hbconv.errors import UnsupportedError

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "CALENDAR_FIELDS",
    "CalendarField",
    "Carried",
    "DateColumn",
    "InstantRelation",
    "Instants",
    "LocalTime",
    "UnitCount",
]

DAY = 86_400
"""Seconds."""
CYCLE = 146_097 * DAY
"""Seconds of 400 years, after which the calendar repeats, and with it the rules of time zones."""
LAST_CYCLE = 4_102_444_800
"""The second at which 2100 begins: from there on, time zones follow one rule for all years."""


@container
class DateColumn(Node):
    """Read a text column as dates, in the time zone of the given offsets.

    It exists only between parsers, which fold it into codes.
    """

    x: Node
    reading: DateReading
    starts: Array
    offsets: Array

    def infer(self) -> Type:
        return Type(self.x.type.width, "string")

    def lower(self, b: Builder, *inputs: Value) -> Value:  # noqa: ARG002
        hint = "Answers are numbers or labels: put a DatetimeEncoder behind, or drop the column."
        raise UnsupportedError("date columns", self.step, hint=hint)


@container
class Instants(Node):
    """Make floats of the day, second and nanosecond of dates; NaN where a date is missing."""

    x: Node

    def check(self) -> str | None:
        fits = (self.x.type.width, self.x.type.dtype) == (3, "int32")
        return None if fits else "reads no dates"

    def infer(self) -> Type:
        return Type(3, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        # Only the day of a missing date is set apart, so one compare decides for all three parts.
        missing = b.op("eq", b.take(x, [0]), b.constant(NO_DATE, "int32"))
        return b.where(missing, b.constant(np.full(3, np.nan)), b.cast(x, "float64"))


@container
class LocalTime(Node):
    """Turn instants into what clocks of a time zone show.

    ``starts`` are the seconds since 1970 at which an offset begins, (1, m); ``offsets`` are in
    seconds, (m + 1,). They reach to 2500, and hold for the same times of later cycles.
    """

    x: Node
    starts: Array
    offsets: Array

    decides: ClassVar[bool] = True

    def check(self) -> str | None:
        fits = self.starts.shape == (1, len(self.offsets) - 1) and self.starts.ascends
        return None if fits else "has offsets that do not fit their times"

    def infer(self) -> Type:
        return Type(3, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        day, second, nanosecond = (b.take(inputs[0], [i]) for i in range(3))
        since_1970 = day * _number(b, DAY) + second
        begin = _number(b, LAST_CYCLE)
        # Before 2100 the table holds all changes of offset; later ones repeat every 400 years.
        cycle = _floor_divide(b, b.op("maximum", since_1970, begin) - begin, CYCLE)
        place = b.op(
            "bucketize", since_1970 - cycle * _number(b, CYCLE), _number(b, self.starts), right=True
        )
        local = second + b.lookup(_number(b, self.offsets), place)
        carried = _floor_divide(b, local, DAY)
        return b.concat([day + carried, local - carried * _number(b, DAY), nanosecond])


def _year(b: Builder, day: Value) -> Value:
    """Return the year of a day since 1970.

    Years that begin in March have their leap day at the end (Hinnant, 2013).
    """
    era, of_era = _cycles(b, day)
    year, of_year = _march_year(b, of_era)
    # March to December have 306 days, so January and February belong to the next year.
    begun = b.cast(b.op("ge", of_year, _number(b, 306)), "float64")
    return year + era * _number(b, 400) + begun


def _month(b: Builder, day: Value) -> Value:
    from_march = _march_month(b, day)[0]
    wraps = b.cast(b.op("ge", from_march, _number(b, 10)), "float64")
    return from_march + _number(b, 3) - wraps * _number(b, 12)


def _day(b: Builder, day: Value) -> Value:
    month, of_year = _march_month(b, day)
    # From March on, every five months have 153 days: the line counts the days before a month.
    before = _floor_divide(b, month * _number(b, 153) + _number(b, 2), 5)
    return of_year - before + _number(b, 1)


def _weekday(b: Builder, day: Value) -> Value:
    """Return 1 for Monday; 1970 began on a Thursday."""
    # 1 January 1970 was a Thursday, three days after a Monday.
    since_monday = day + _number(b, 3)
    return since_monday - _floor_divide(b, since_monday, 7) * _number(b, 7) + _number(b, 1)


def _day_of_year(b: Builder, day: Value) -> Value:
    """Count from the first of January, which is day 1."""
    before = _year(b, day) - _number(b, 1)
    leap_days = (
        _floor_divide(b, before, 4) - _floor_divide(b, before, 100) + _floor_divide(b, before, 400)
    )
    # 719,162 days lie between 1 January of year 1 and 1 January 1970.
    first = before * _number(b, 365) + leap_days - _number(b, 719_162)
    return day - first + _number(b, 1)


def _cycles(b: Builder, day: Value) -> tuple[Value, Value]:
    """Return the cycle of 400 years, counted from March of year 0, and the day in it."""
    # 719,468 days lie between 1 March of year 0 and 1 January 1970.
    since = day + _number(b, 719_468)
    cycle = _floor_divide(b, since, CYCLE // DAY)
    return cycle, since - cycle * _number(b, CYCLE // DAY)


def _march_year(b: Builder, of_era: Value) -> tuple[Value, Value]:
    """Return the year of a cycle, and the day in the year that begins in March."""
    # Taking the leap days off leaves years of 365 days (Hinnant, 2013).
    common = (
        of_era
        - _floor_divide(b, of_era, 1460)
        + _floor_divide(b, of_era, 36_524)
        - _floor_divide(b, of_era, 146_096)
    )
    year = _floor_divide(b, common, 365)
    days = year * _number(b, 365) + _floor_divide(b, year, 4) - _floor_divide(b, year, 100)
    return year, of_era - days


def _march_month(b: Builder, day: Value) -> tuple[Value, Value]:
    """Return the month, 0 for March, and the day in the year that begins in March."""
    of_year = _march_year(b, _cycles(b, day)[1])[1]
    return _floor_divide(b, of_year * _number(b, 5) + _number(b, 2), 153), of_year


_OF_DAY: dict[str, Callable[[Builder, Value], Value]] = {
    "year": _year,
    "month": _month,
    "day": _day,
    "weekday": _weekday,
    "day_of_year": _day_of_year,
}


def _hour(b: Builder, second: Value) -> Value:
    return _floor_divide(b, second, 3600)


def _minute(b: Builder, second: Value) -> Value:
    return _rest(b, _floor_divide(b, second, 60), 60)


def _second(b: Builder, second: Value) -> Value:
    return _rest(b, second, 60)


_OF_SECOND: dict[str, Callable[[Builder, Value], Value]] = {
    "hour": _hour,
    "minute": _minute,
    "second": _second,
}


def _microsecond(b: Builder, nanosecond: Value) -> Value:
    return _floor_divide(b, nanosecond, 1000)


def _nanosecond(b: Builder, nanosecond: Value) -> Value:
    return _rest(b, nanosecond, 1000)


_OF_NANOSECOND: dict[str, Callable[[Builder, Value], Value]] = {
    "microsecond": _microsecond,
    "nanosecond": _nanosecond,
}


def _total_seconds(b: Builder, x: Value) -> Value:
    """Divide the microseconds since 1970, or where there are any, the nanoseconds.

    Counts are rounded to float64 before, as the source does. Rounded to float32, both quotients are
    the same where the count of nanoseconds is one of microseconds.
    """
    day, second, nanosecond = (b.take(x, [i]) for i in range(3))
    below = _rest(b, nanosecond, 1000)
    quotients = []
    # float64 holds microseconds since 1970 exactly up to
    # the year 2255, and pandas rounds later ones too.
    for rate, rest in ((10**6, _floor_divide(b, nanosecond, 1000)), (10**9, nanosecond)):
        count = day * _number(b, DAY * rate) + (second * _number(b, rate) + rest)
        quotients.append(count / _number(b, rate))
    return b.where(b.op("eq", below, _number(b, 0)), *quotients)


@container
class Carried(Node):
    """Carry seconds into days, and nanoseconds into seconds, of instants and spans in three parts.

    What a sum of parts makes has too many of them, or fewer than none: an instant and a span, or an
    instant less another. All are whole numbers, so the result is exact.
    """

    x: Node

    decides: ClassVar[bool] = True

    def check(self) -> str | None:
        return _misfit(self.x)

    def infer(self) -> Type:
        return Type(3, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        day, second, nanosecond = (b.take(inputs[0], [i]) for i in range(3))
        more = _floor_divide(b, nanosecond, 10**9)
        second = second + more
        days = _floor_divide(b, second, DAY)
        return b.concat(
            [
                day + days,
                second - days * _number(b, DAY),
                nanosecond - more * _number(b, 10**9),
            ]
        )


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of numpy's dates, by how many a second has."""


@container
class UnitCount(Node):
    """Count the units of an instant since 1970, or of a span, as numpy's ``datetime64`` does.

    The int64 is rounded to float64 once. A quotient of two counts is that of two ``timedelta64``,
    and ``total_seconds`` of pandas is the count by the units of a second. NaN is missing.

    Parameters
    ----------
    unit : {"s", "ms", "us", "ns"}
        What is smaller is cut off.
    """

    x: Node
    unit: str

    def check(self) -> str | None:
        return _misfit(self.x) if self.unit in UNITS else f"counts no unit {self.unit:.50}"

    def infer(self) -> Type:
        return Type(1, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        rate = UNITS[self.unit]
        missing = b.op("isnan", b.take(inputs[0], [0]))
        parts = b.cast(b.where(missing, _number(b, 0), inputs[0]), "int64")
        day, second, nanosecond = (b.take(parts, [i]) for i in range(3))
        whole = day * b.constant(DAY, "int64") + second
        rest = b.op("trunc_divide", nanosecond, b.constant(10**9 // rate, "int64"))
        count = b.cast(whole * b.constant(rate, "int64") + rest, "float64")
        return b.where(missing, _number(b, np.nan), count)


@container
class InstantRelation(Node):
    """Compare two instants, or two spans: bool. A missing one is unequal to all.

    Parts are compared from the day on.
    """

    x: Node
    y: Node
    relation: str

    decides: ClassVar[bool] = True

    def check(self) -> str | None:
        if self.relation not in ("lt", "le", "gt", "ge", "eq", "ne"):
            return f"has no relation {self.relation:.50}"
        return _misfit(self.x) or _misfit(self.y)

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, y = inputs
        equal = [b.op("eq", b.take(x, [i]), b.take(y, [i])) for i in range(3)]
        if self.relation in ("eq", "ne"):
            same = equal[0] & equal[1] & equal[2]
            return same if self.relation == "eq" else ~same
        strict = "lt" if self.relation in ("lt", "le") else "gt"
        value = b.op(self.relation, b.take(x, [2]), b.take(y, [2]))
        for i in (1, 0):
            value = b.op(strict, b.take(x, [i]), b.take(y, [i])) | (equal[i] & value)
        return value


def _misfit(x: Node) -> str | None:
    return None if x.type == Type(3, "float64") else "reads no parts of an instant"


CALENDAR_FIELDS = (*_OF_DAY, *_OF_SECOND, *_OF_NANOSECOND, "total_seconds")
"""Names of what can be read of an instant."""


@container
class CalendarField(Node):
    """Read a field of instants in float64: the year, the hour, the seconds since 1970, and so on.

    Days of the week are 1 (Monday) to 7, and the first day of a year is 1.
    """

    x: Node
    field: str

    decides: ClassVar[bool] = True

    def check(self) -> str | None:
        fits = self.field in CALENDAR_FIELDS and self.x.type == Type(3, "float64")
        return None if fits else "reads a field of no calendar"

    def infer(self) -> Type:
        return Type(1, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        for place, fields in enumerate((_OF_DAY, _OF_SECOND, _OF_NANOSECOND)):
            if self.field in fields:
                return fields[self.field](b, b.take(x, [place]))
        return _total_seconds(b, x)


def _number(b: Builder, value: float | Array) -> Value:
    return b.constant(value, "float64")


def _floor_divide(b: Builder, x: Value, divisor: int) -> Value:
    """Return the floor of a quotient: exact, since it is a whole number or far from the next."""
    return b.op("floor", x / _number(b, divisor))


def _rest(b: Builder, x: Value, divisor: int) -> Value:
    return x - _floor_divide(b, x, divisor) * _number(b, divisor)
