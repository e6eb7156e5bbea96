"""Columns of dates and spans that record: instants in three parts, of which fields are read.

A column counts as dates where the function reads a part of it by ``.dt``, or computes with it and a
constant date. pandas counts in units of the column (seconds to nanoseconds). What depends on the
unit is refused as rows.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    CalendarField,
    Carried,
    Choose,
    Codes,
    Columns,
    Compare,
    Concat,
    ConstantRows,
    InstantRelation,
    Instants,
    IsMissing,
    Map,
    Multiply,
    Node,
    Not,
    Relation,
    Select,
    UnitCount,
)
from hbconv.containers.vocabulary import ISO, PARTS, DateCodes, DateReading
from hbconv.parse.tracing.frames import TracedSeries, series_of
from hbconv.parse.tracing.functions import apply_ufunc, constant_of, truth
from hbconv.parse.tracing.made_texts import written_date
from hbconv.parse.tracing.trace import SERIES, current_trace, refuse

__all__ = ["MOMENTS", "DatePlaces", "TracedDates", "TracedSpans", "make_moment", "to_datetime"]

DAY = 86_400
MOST_DAYS = 106_751
"""Days that a count of nanoseconds holds."""
_FIELDS = "Read its parts: .dt.year, .dt.month, .dt.dayofweek, or days since a constant date."
_UNIT = "A quotient of spans depends on the unit in which pandas counts them."
_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?)?")

MOMENTS = ("Timestamp", "Timedelta", "datetime", "date", "timedelta", "datetime64", "timedelta64")
"""Classes of constant dates and spans, by name."""


def make_moment(cls: type) -> Callable[..., Any]:
    """Return what makes a constant of a class of dates or spans."""

    def make(*args: Any, **keywords: Any) -> Any:
        texts = [v for v in (*args, *keywords.values()) if isinstance(v, str)]
        if any(v.strip().lower() in _CLOCK for v in texts):
            refuse(f"makes a {cls.__name__} of {texts[0]!r}, which is the clock")
        return cls(*args, **keywords)

    return make


_CLOCK = ("now", "today")


def _is_span(value: Any) -> bool:
    return isinstance(value, dt.timedelta | np.timedelta64)


def _is_moment(value: Any) -> bool:
    return isinstance(value, dt.datetime | np.datetime64)


def _nanoseconds(value: Any) -> int:
    """Return the whole nanoseconds of a span."""
    span = sys.modules["pandas"].Timedelta(value)
    # Timedelta(...).value overflows for long spans of larger units.
    seconds = int(span.days) * DAY + int(span.seconds)
    return seconds * 10**9 + int(span.microseconds) * 1000 + int(span.nanoseconds)


def _parts_of(nanoseconds: int) -> Node:
    second, rest = divmod(nanoseconds, 10**9)
    day, second = divmod(second, DAY)
    return ConstantRows(current_trace().x, Array(np.array([day, second, rest], np.float64)))


def _constant(value: Any, *, is_span: bool) -> Node:
    """Return a constant date or span in every row."""
    pandas = sys.modules["pandas"]
    if value is pandas.NaT:
        refuse("computes with NaT", "Use isna().")
    if is_span and _is_span(value):
        return _parts_of(_nanoseconds(value))
    if isinstance(value, str) and not is_span:
        value = _moment_of_text(value)
    if is_span or not _is_moment(value):
        what = "spans" if is_span else "dates"
        refuse(
            f"computes with {what} and {type(value).__name__}",
            f"Use pd.{'Timedelta(days=1)' if is_span else 'Timestamp'}.",
        )
    moment = pandas.Timestamp(value)
    if moment.tz is not None:
        refuse("computes with a date of a time zone", "Use dates without one.")
    days = moment.toordinal() - dt.date(1970, 1, 1).toordinal()
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    rest = moment.microsecond * 1000 + moment.nanosecond
    return _parts_of((days * DAY + seconds) * 10**9 + rest)


def _moment_of_text(text: str) -> Any:
    if not _ISO.fullmatch(text):
        refuse(f"reads a date in the text {text!r}", "Write it as in '2024-01-31'.")
    return sys.modules["pandas"].Timestamp(text)


def _part(node: Node, place: int) -> Node:
    return Select(node, Array(np.array([place], np.int32)))


def _carried(node: Node, kind: Any) -> Node:
    return current_trace().made(Carried(node), kind)


def _instants(node: Node, reading: DateReading | None = None) -> Node:
    """Return the parts of dates; those of a column of the rows are read."""
    if not isinstance(node, Columns):
        return node
    reading = reading or DateReading(naive=True)
    schema, column = node.schema, node.columns[0]
    codes = (Codes(schema, column, DateCodes(reading, part)) for part in PARTS)
    return current_trace().made(Instants(Concat(tuple(codes))), "date")


def _refuse_where(condition: Node, why: str) -> None:
    current_trace().checks.append((condition, why))


def _is_far(node: Node) -> Node:
    return Compare.of(Map(_part(node, 0), "abs"), "gt", MOST_DAYS - 1.0)


def _within_nanoseconds(node: Node, what: str) -> Node:
    """Refuse rows in which pandas may raise, as it does where it counts nanoseconds."""
    _refuse_where(_is_far(node), f"{what} is beyond the nanoseconds that pandas may count.")
    return node


class _Moments(TracedSeries):
    """Dates or spans."""

    kind: str
    is_span: bool

    @property
    def parts(self) -> Node:
        """Its days, seconds and nanoseconds."""
        return _instants(self.node)

    @property
    def dtype(self) -> NoReturn:
        """Its dtype, which is that of the rows."""
        refuse("asks for the type of a column of dates", "Name the columns.")

    def to_numpy(self, dtype: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse: arrays hold numbers."""
        refuse("makes an array of dates", _FIELDS)

    def like(self, node: Node) -> TracedSeries:
        """Return other values under the same name."""
        return series_of(node, self.name)

    def isna(self) -> TracedSeries:
        """Tell which are missing."""
        return self.like(IsMissing(_part(self.parts, 0)))

    def notna(self) -> TracedSeries:
        """Tell which are not missing."""
        return self.like(Not(IsMissing(_part(self.parts, 0))))

    isnull, notnull = isna, notna

    def fillna(self, value: Any) -> TracedSeries:
        """Fill missing ones with another date or span."""
        return self.where(self.notna(), value)

    def where(self, cond: Any, other: Any = None) -> TracedSeries:
        """Keep them where a condition holds."""
        if not isinstance(cond, TracedSeries) or other is None:
            refuse("keeps some dates", "Use s.where(condition, other) with a series.")
        kept = truth(cond.node)
        chosen = Choose(Concat((kept, kept, kept)), self.parts, self._parts_of(other))
        return self.like(_carried(chosen, self.kind))

    def mask(self, cond: Any, other: Any = None) -> TracedSeries:
        """Replace them where a condition holds."""
        return self.where(~cond, other)

    def _parts_of(self, other: Any) -> Node:
        if isinstance(other, _Moments):
            if other.is_span is not self.is_span:
                refuse("compares dates and spans")
            return other.parts
        if isinstance(other, TracedSeries):
            if isinstance(other.node, Columns):
                current_trace().learn([other.node], "date")
            refuse("computes with dates and numbers", "Make spans: pd.to_timedelta.")
        return _constant(other, is_span=self.is_span)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if method != "__call__" or keywords or out is not None or len(inputs) != 2:
            refuse(f"calls numpy.{ufunc.__name__} of dates", _FIELDS)
        names = {x.name for x in inputs if isinstance(x, TracedSeries)}
        node = self._computed(ufunc, *inputs)
        return series_of(node, names.pop() if len(names) == 1 else None)

    def _computed(self, ufunc: np.ufunc, x: Any, y: Any) -> Node:
        if ufunc in _RELATIONS:
            leader = x if isinstance(x, _Moments) else y
            return InstantRelation(leader._parts_of(x), leader._parts_of(y), _RELATIONS[ufunc])
        if ufunc in (np.add, np.subtract):
            return _sum(x, y, less=ufunc is np.subtract)
        if isinstance(x, TracedSpans) and ufunc in (np.true_divide, np.floor_divide):
            return x.divided(y, ufunc)
        return refuse(f"computes {ufunc.__name__} of dates", _FIELDS)

    def map(self, arg: Any, na_action: Any = None) -> TracedSeries:
        """Apply a function to each date."""
        if isinstance(arg, Mapping):
            refuse("looks dates up", _FIELDS)
        return super().map(arg, na_action)

    def between(self, left: Any, right: Any, inclusive: str = "both") -> TracedSeries:
        """Tell which lie between two others."""
        above = self >= left if inclusive in ("both", "left") else self > left
        below = self <= right if inclusive in ("both", "right") else self < right
        return self.like(Relation(above.node, below.node, "and"))

    def _refuse_method(self, *_: object, **__: object) -> NoReturn:
        refuse("calls this method of a column of dates", _FIELDS)

    astype = isin = replace = clip = _refuse_method


_RELATIONS = {
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.equal: "eq",
    np.not_equal: "ne",
}


def _sum(x: Any, y: Any, *, less: bool) -> Node:
    """Add or subtract dates and spans."""
    series = [v for v in (x, y) if isinstance(v, TracedSeries) and not isinstance(v, _Moments)]
    if series:
        if isinstance(series[0].node, Columns) and less:
            current_trace().learn([series[0].node], "date")
        refuse("computes with dates and numbers", "Use a constant pd.Timedelta.")
    spans = [v.is_span if isinstance(v, _Moments) else _is_span(v) for v in (x, y)]
    dates = spans.count(False)
    if (dates == 2 and not less) or (dates == 1 and less and spans[0]):
        refuse("adds dates", _FIELDS)
    first, second = (
        v.parts if isinstance(v, _Moments) else _constant(v, is_span=span)
        for v, span in zip((x, y), spans, strict=True)
    )
    for node, span in zip((first, second), spans, strict=True):
        _within_nanoseconds(node, "A span" if span else "A date")
    total = Add((first, Map(second, "neg") if less else second))
    kind = "date" if dates == 1 else "span"
    return _within_nanoseconds(_carried(total, kind), f"A {kind}")


class TracedDates(_Moments):
    """Dates without a time zone."""

    kind = "date"
    is_span = False
    abs = _Moments._refuse_method

    @property
    def dt(self) -> DatePlaces:
        """What a calendar and a clock show."""
        return DatePlaces(self)


class TracedSpans(_Moments):
    """Spans of time."""

    kind = "span"
    is_span = True

    @property
    def dt(self) -> _SpanPlaces:
        """Its days and seconds."""
        return _SpanPlaces(self)

    def abs(self) -> TracedSeries:
        """Return lengths."""
        zero = _parts_of(0)
        negative = InstantRelation(self.parts, zero, "lt")
        opposite = Carried(Map(self.parts, "neg"))
        chosen = Choose(Concat((negative, negative, negative)), opposite, self.parts)
        return self.like(_carried(chosen, "span"))

    def __abs__(self) -> TracedSeries:
        return self.abs()

    def divided(self, other: Any, ufunc: np.ufunc) -> Node:
        """Divide by a constant span."""
        if not _is_span(other):
            refuse("divides spans by other than a constant span", "Use pd.Timedelta(days=1).")
        length = _nanoseconds(other)
        if length <= 0 or float(length) != length:
            refuse("divides spans by such a span", "Use a positive one of whole seconds.")
        if ufunc is np.floor_divide:
            if length % (DAY * 10**9):
                refuse("floors spans by other than whole days", "Use / and np.floor.")
            days = length // (DAY * 10**9)
            return apply_ufunc(np.floor_divide, [_part(self.parts, 0), constant_of(float(days))])
        return _quotient(self.parts, length)


def _quotient(span: Node, length: int) -> Node:
    """Divide the count of a span by that of another, where each unit of pandas agrees."""
    fine = Affine.of(UnitCount(span, "ns"), div=float(length))
    if length % 1000:
        return fine
    coarse = Affine.of(UnitCount(span, "us"), div=float(length // 1000))
    is_coarse = Compare.of(CalendarField(span, "nanosecond"), "eq", 0.0)
    _refuse_where(Relation(is_coarse, Relation(fine, coarse, "lt"), "and"), _UNIT)
    _refuse_where(Relation(is_coarse, Relation(fine, coarse, "gt"), "and"), _UNIT)
    return fine


class _Places:
    """Base of ``.dt``: fields by name."""

    kind: str
    fields: dict[str, Callable[[Node], Node]]

    def __init__(self, series: _Moments) -> None:
        self._series = series

    def __getattr__(self, name: str) -> Any:
        if name in type(self).fields:
            field = type(self).fields[name](self._series.parts)
            return self._series.like(current_trace().made_whole(field))
        real = sys.modules["pandas"].Series.dt
        if name.startswith("__") or not any(hasattr(base, name) for base in _accessors(real)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return refuse(f"reads .dt.{name}, which hbconv does not follow", _FIELDS)


def _accessors(real: Any) -> tuple[Any, ...]:
    properties = sys.modules["pandas"].core.indexes.accessors
    return real, properties.DatetimeProperties, properties.TimedeltaProperties


def _field(name: str) -> Callable[[Node], Node]:
    return lambda x: CalendarField(x, name)


def _moved(x: Node, days: Node) -> Node:
    """Return instants of so many days later."""
    nothing = ConstantRows(current_trace().x, Array(np.zeros(1)))
    return Add((x, Concat((days, nothing, nothing))))


def _equals(name: str, number: float) -> Callable[[Node], Node]:
    return lambda x: Compare.of(CalendarField(x, name), "eq", number)


def _both(*conditions: Callable[[Node], Node]) -> Callable[[Node], Node]:
    def write(x: Node) -> Node:
        first, *others = (condition(x) for condition in conditions)
        for other in others:
            first = Relation(first, other, "and")
        return first

    return write


def _is_month_end(x: Node) -> Node:
    one = ConstantRows(current_trace().x, Array(np.ones(1)))
    return Compare.of(CalendarField(_moved(x, one), "day"), "eq", 1.0)


def _days_in_month(x: Node) -> Node:
    # 31 days after its first day, a month of 30 days shows the 2nd, and one of 31 the 1st.
    to_first = Affine.of(Map(CalendarField(x, "day"), "neg"), add=32.0)
    return Affine.of(Map(CalendarField(_moved(x, to_first), "day"), "neg"), add=32.0)


def _quarter(x: Node) -> Node:
    return Map(Affine.of(Affine.of(CalendarField(x, "month"), add=2.0), div=3.0), "floor")


def _begins_quarter(x: Node) -> Node:
    rest = apply_ufunc(np.remainder, [CalendarField(x, "month"), constant_of(3.0)])
    return Compare.of(rest, "eq", 1.0)


def _ends_quarter(x: Node) -> Node:
    rest = apply_ufunc(np.remainder, [CalendarField(x, "month"), constant_of(3.0)])
    return Compare.of(rest, "eq", 0.0)


def _is_leap_year(x: Node) -> Node:
    def divides(number: float) -> Node:
        rest = apply_ufunc(np.remainder, [CalendarField(x, "year"), constant_of(number)])
        return Compare.of(rest, "eq", 0.0)

    common = Relation(divides(4.0), Not(divides(100.0)), "and")
    return Relation(common, divides(400.0), "or")


def _day_of_week(x: Node) -> Node:
    return Affine.of(CalendarField(x, "weekday"), sub=1.0)


def _thursday(x: Node) -> Node:
    """Return the Thursday of the week: its year is that of the week."""
    return _moved(x, Affine.of(Map(CalendarField(x, "weekday"), "neg"), add=4.0))


def _week(x: Node) -> Node:
    day = Affine.of(CalendarField(_thursday(x), "day_of_year"), sub=1.0)
    return Affine.of(Map(Affine.of(day, div=7.0), "floor"), add=1.0)


_MONTH_START = _equals("day", 1.0)

_OF_DATES: dict[str, Callable[[Node], Node]] = {
    **{name: _field(name) for name in ("year", "month", "day", "hour", "minute", "second")},
    "microsecond": _field("microsecond"),
    "nanosecond": _field("nanosecond"),
    **dict.fromkeys(("dayofweek", "day_of_week", "weekday"), _day_of_week),
    **dict.fromkeys(("dayofyear", "day_of_year"), _field("day_of_year")),
    **dict.fromkeys(("days_in_month", "daysinmonth"), _days_in_month),
    "quarter": _quarter,
    "is_month_start": _MONTH_START,
    "is_month_end": _is_month_end,
    "is_quarter_start": _both(_MONTH_START, _begins_quarter),
    "is_quarter_end": _both(_is_month_end, _ends_quarter),
    "is_year_start": _equals("day_of_year", 1.0),
    "is_year_end": _both(_equals("month", 12.0), _equals("day", 31.0)),
    "is_leap_year": _is_leap_year,
}


class _Weeks:
    """What ``.dt.isocalendar()`` returns: columns by name."""

    def __init__(self, series: TracedSeries, parts: Node) -> None:
        self._series = series
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        writers = {
            "year": lambda x: CalendarField(_thursday(x), "year"),
            "week": _week,
            "day": _field("weekday"),
        }
        if name not in writers:
            refuse(f"reads .dt.isocalendar().{name}", "Read its year, week or day.")
        return TracedSeries(writers[name](self._parts), name)

    __getitem__ = __getattr__


class DatePlaces(_Places):
    """``.dt`` of dates."""

    fields = _OF_DATES

    def isocalendar(self) -> _Weeks:
        """Return years, weeks and days of weeks."""
        return _Weeks(self._series, self._series.parts)

    def day_name(self) -> TracedSeries:
        """Return the names of days, in English."""
        return self.strftime("%A")

    def month_name(self) -> TracedSeries:
        """Return the names of months, in English."""
        return self.strftime("%B")

    def strftime(self, date_format: str) -> TracedSeries:
        """Write dates as texts, by formats whose parts are known."""
        return self._series.like(written_date(self._series.parts, date_format))

    def normalize(self) -> TracedSeries:
        """Return midnights."""
        kept = ConstantRows(current_trace().x, Array(np.array([1.0, 0.0, 0.0])))
        return self._series.like(_carried(Multiply((self._series.parts, kept)), "date"))

    def floor(self, freq: str) -> TracedSeries:
        """Return midnights."""
        if freq not in ("D", "d", "1D"):
            refuse(f"floors dates to {freq!r}", "Use .dt.hour and its like.")
        return self.normalize()


def _seconds(x: Node) -> Node:
    """Add whole seconds and the rest, as pandas does from version 3.1 on."""
    version = sys.modules["pandas"].__version__.split(".")[:2]
    if tuple(map(int, version)) < (3, 1):
        return _quotient(x, 10**9)
    day, second, rest = (_part(x, place) for place in range(3))
    whole = Add((Affine.of(day, mul=float(DAY)), second))
    total = Add((whole, Affine.of(rest, div=1e9)))
    # There pandas takes the next float, so that the second is not a whole one.
    for reached in (whole, Affine.of(whole, add=1.0)):
        lost = Relation(Relation(total, reached, "eq"), Compare.of(rest, "ne", 0.0), "and")
        _refuse_where(lost, "The fraction of a second is too small beside the span.")
    return total


class _SpanPlaces(_Places):
    """``.dt`` of spans."""

    fields = {  # noqa: RUF012
        "days": lambda x: _part(x, 0),
        "seconds": lambda x: _part(x, 1),
        "microseconds": _field("microsecond"),
        "nanoseconds": _field("nanosecond"),
    }

    def total_seconds(self) -> TracedSeries:
        """Return lengths in seconds."""
        return self._series.like(_seconds(self._series.parts))


def to_datetime(arg: Any, errors: str = "raise", format: Any = None) -> Any:  # noqa: A002
    """``pd.to_datetime`` of a column, or of a constant text."""
    if isinstance(arg, str) and format is None:
        return _moment_of_text(arg)
    if isinstance(arg, TracedDates) and not (isinstance(arg.node, Columns) and format):
        return arg
    if not isinstance(arg, TracedSeries) or errors not in ("raise", "coerce"):
        refuse("makes dates of this", "Give a column: pd.to_datetime(df['d'], format='%Y-%m-%d').")
    if not isinstance(arg.node, Columns):
        refuse("makes dates of what is computed", "Read the column as it comes.")
    if current_trace().kind_of(arg.node) == "number":
        current_trace().learn([arg.node], "date")
    if format is not None and (not isinstance(format, str) or "%z" in format.lower()):
        refuse("makes dates of a time zone", "Read local times.")
    if format == "mixed":
        refuse("guesses the format of each text", "Give format='%Y-%m-%d', or as it is.")
    reading = DateReading(parses=True, format=format or ISO, naive=True, raises=errors == "raise")
    return series_of(_instants(arg.node, reading), arg.name)


SERIES["date"], SERIES["span"] = TracedDates, TracedSpans
