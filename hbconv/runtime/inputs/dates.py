"""Columns of dates as days, seconds and nanoseconds, however they come."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.containers.vocabulary import ISO, NO_DATE, PARTS, DatePart, DateReading
from hbconv.errors import InputError, MissingPackageError, shown
from hbconv.runtime.text.categories import Categories, Text

__all__ = ["Zoned", "read_parts"]

DAY = 86_400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MISSING = np.iinfo(np.int64).min
"""The count of a date that is missing, as numpy writes it."""
LAST_DAY = np.iinfo(np.int64).max // (DAY * 10**6)
"""Largest number of days since 1970 whose microseconds can be counted."""

Dates = npt.NDArray[Any]
Data = npt.NDArray[Any] | Text | Categories


@dataclass(frozen=True)
class Zoned:
    """A column of dates in a time zone, as datetime64 in UTC."""

    values: Dates
    zone: str

    def objects(self) -> Dates:
        """Return the dates in UTC."""
        return self.values

    def part(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Zoned:
        """Return some of the rows."""
        return replace(self, values=self.values[rows])


def read_parts(
    column: Data | Zoned, reading: DateReading, where: str
) -> dict[DatePart, npt.NDArray[np.int32]]:
    """Return the parts of the dates in a column, each of shape (n_rows,).

    Parameters
    ----------
    column : datetime64 array, Zoned, Text, Categories or array of objects
    reading : DateReading
    where : str
        What the column is called in messages.

    Raises
    ------
    InputError
        The column holds numbers, texts that the source model does not parse, or dates that it
        refuses.

    Examples
    --------
    >>> column = np.array(["1969-12-31T23:59:59.5", "NaT"], "datetime64[ms]")
    >>> parts = read_parts(column, DateReading(), "Column 'c'")
    >>> [parts[name].tolist() for name in ("day", "second", "nanosecond")]
    [[-1, -2147483648], [86399, 0], [500000000, 0]]
    """
    dates = _in_unit(_instants(column, reading, where), reading.unit, where)
    rate = PER_SECOND[np.datetime_data(dates.dtype)[0]]
    counts = dates.view(np.int64)
    missing = counts == MISSING
    # Floor division: dates before 1970 have negative counts, and seconds from 0 on.
    day = counts // (DAY * rate)
    rest = counts - day * (DAY * rate)
    second = rest // rate
    below = (rest - second * rate) * (10**9 // rate)
    _require_taken(day, second, missing, reading, where)
    parts = zip(PARTS, (day, second, below), (NO_DATE, 0, 0), strict=True)
    # int32 holds 5.8 million years of days, and the nanoseconds of a second.
    return {name: np.where(missing, none, part).astype(np.int32) for name, part, none in parts}


def _require_taken(
    day: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    missing: npt.NDArray[np.bool_],
    reading: DateReading,
    where: str,
) -> None:
    first, last = reading.within or (-LAST_DAY * DAY, LAST_DAY * DAY)
    days = day[~missing] if missing.any() else day
    # Nearly all columns are far from the ends, so most cost two passes.
    if not len(days) or (first // DAY < days.min() and days.max() < last // DAY):
        return
    # Clipped, so that the product with the seconds of a day does not wrap around.
    seconds = np.clip(day, -LAST_DAY - 1, LAST_DAY + 1) * DAY + second
    beyond = ~missing & ((seconds < first) | (seconds > last))
    if beyond.any():
        year = 1970 + seconds[beyond][0] // (DAY * 365.2425)
        sentence = f"{where} holds a date of the year {year:.0f}"
        raise InputError(f"{sentence}, which the source model refuses in its unit or time zone.")


def _in_unit(dates: Dates, unit: str, where: str) -> Dates:
    """Round dates down to a unit, as pandas does; a finer one must hold them."""
    current = np.datetime_data(dates.dtype)
    if current[0] not in PER_SECOND or current[1] != 1:
        dates = dates.astype("datetime64[s]")
    rate = PER_SECOND[np.datetime_data(dates.dtype)[0]]
    wanted = PER_SECOND.get(unit, rate)
    if wanted == rate:
        return dates
    # Counts beyond it would wrap around in the finer unit; numpy does not say so.
    most = np.iinfo(np.int64).max * rate // wanted
    counts = dates.view(np.int64)
    beyond = (counts != MISSING) & ((counts > most) | (counts < -most))
    if wanted > rate and beyond.any():
        sentence = f"{where} holds {dates[beyond][0]}, which is beyond the dates of unit {unit}"
        raise InputError(f"{sentence} that the source model makes of them.")
    return dates.astype(f"datetime64[{unit}]")


def _instants(column: Data | Zoned, reading: DateReading, where: str) -> Dates:
    if isinstance(column, Zoned):
        if reading.naive:
            sentence = f"{where} has the time zone {column.zone}, where the model reads none"
            raise InputError(f"{sentence}. Give local times: column.dt.tz_localize(None).")
        if not reading.parses and column.zone != "UTC":
            sentence = (
                f"{where} has the time zone {column.zone}, whose clock the source model shows"
            )
            hint = "Fit make_pipeline(ToDatetime(), DatetimeEncoder()) for it, or give local times"
            raise InputError(f"{sentence}. {hint}: column.dt.tz_localize(None).")
        return column.values
    values: npt.NDArray[Any] = column.objects() if isinstance(column, Text | Categories) else column
    if values.dtype.kind == "M":
        return values
    if _holds_none(values):
        return np.full(len(values), "NaT", "datetime64[s]")
    if values.dtype.kind not in "OUT":
        sentence = f"{where} holds numbers (dtype {values.dtype}), where the model reads dates"
        raise InputError(f"{sentence}. Give datetime64, or texts as in fitting.")
    if reading.naive and not reading.parses:
        return _in_one_unit([_naive_date(value, where) for value in values.tolist()], where)
    if not reading.parses:
        sentence = f"{where} holds objects, where the model reads dates"
        raise InputError(f"{sentence}. Give datetime64: pandas.to_datetime(rows[...]).")
    if isinstance(column, Categories):
        reading = replace(reading, nulls=())  # the source looks for them among texts alone
    return _parse_texts(values.astype(object), reading, where)


def _holds_none(values: npt.NDArray[Any]) -> bool:
    """Whether all dates are missing, of which no type tells that they are dates."""
    if values.dtype.kind == "f":
        return bool(np.isnan(values).all())
    if values.dtype.kind != "O":
        return False
    return all(
        v is None or type(v).__name__ == "NAType" or (isinstance(v, float) and v != v)
        for v in values.tolist()
    )


_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?", re.ASCII)
"""Texts that mean one date: JSON has no others."""


def _naive_date(value: Any, where: str) -> np.datetime64:
    """Return a date that a record holds, as such or as a text; pandas' own have nanoseconds."""
    if value is None or type(value).__name__ == "NAType" or value != value:
        return np.datetime64("NaT", "us")
    if isinstance(value, datetime) and value.tzinfo is None:
        to_numpy = getattr(value, "to_datetime64", None)
        date: np.datetime64 = to_numpy() if to_numpy else np.datetime64(value, "us")
        # Microseconds hold most dates that pandas counts in nanoseconds, and far ones beside them.
        is_whole = np.datetime_data(date.dtype)[0] == "ns" and not getattr(value, "nanosecond", 0)
        return date.astype("datetime64[us]") if is_whole else date
    if isinstance(value, str) and _ISO_DATE.fullmatch(value):
        with suppress(ValueError):  # as of 30 February
            return np.datetime64(value, "us")
    raise InputError(
        f"{where} holds {shown(value)}, where the model reads dates. Give datetime64: "
        "pandas.to_datetime(rows[...]), or ISO texts without a time zone: '2024-01-31T10:30:00'."
    )


def _in_one_unit(dates: list[np.datetime64], where: str) -> Dates:
    """Return dates as an array; numpy alone would wrap around those beyond the finest unit."""
    units = {np.datetime_data(date.dtype)[0] for date in dates}
    if len(units) == 1:
        return np.array(dates)
    finest = max(units, key=PER_SECOND.__getitem__)
    return np.concatenate([_in_unit(np.array([date]), finest, where) for date in dates])


_ISO_FORMS = {
    f"%Y-%m-%d{between}{time}": re.compile(f"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{between}{digits}")
    for between, time, digits in (
        ("", "", ""),
        *((between, "%H:%M", "[0-9]{2}:[0-9]{2}") for between in " T"),
        *((between, "%H:%M:%S", "[0-9]{2}:[0-9]{2}:[0-9]{2}") for between in " T"),
    )
}
"""Formats that pandas guesses of such texts."""


def _find_iso_form(values: list[Any], where: str) -> str:
    """Return the format of texts, which are ISO dates of one form."""
    present = [v for v in values if v is not None and v == v and type(v).__name__ != "NAType"]
    texts = [v if isinstance(v, str) else repr(v) for v in present]
    first = texts[0] if texts else "1970-01-01"
    form = next((f for f, looks in _ISO_FORMS.items() if looks.fullmatch(first)), None)
    odd = first if form is None else None
    odd = next((t for t in texts if not _ISO_FORMS[form].fullmatch(t)), None) if form else odd
    if form is None or odd is not None:
        raise InputError(
            f"{where} holds {shown(odd)}, where the model reads ISO dates of one form, such as "
            "2024-01-31 or 2024-01-31 10:30:00. Of others pandas guesses the form of all rows "
            "from the first: give dates, or a format= in the function."
        )
    return form


def _parse_texts(values: npt.NDArray[np.object_], reading: DateReading, where: str) -> Dates:
    """Parse texts and objects by pandas, as the source does: what does not fit is missing."""
    try:
        import pandas as pd
    except ImportError as error:
        sentence = f"{where} holds texts, which pandas parses. Install with: pip install pandas"
        raise MissingPackageError(sentence) from error
    nulls = frozenset(reading.nulls)
    kept = [None if isinstance(v, str) and v in nulls else v for v in values.tolist()]
    format_ = _find_iso_form(kept, where) if reading.format == ISO else reading.format
    utc = format_ is None or "%z" in format_
    series = pd.Series(kept, dtype=object)
    errors: Literal["raise", "coerce"] = "raise" if reading.raises else "coerce"
    try:
        dates = pd.to_datetime(series, format=format_, errors=errors, utc=utc)
    except ValueError as error:
        dates = pd.to_datetime(series, format=format_, errors="coerce", utc=utc)
        odd = series[dates.isna() & series.notna()].tolist()
        raise InputError(
            f"{where} holds {shown(odd[0])}, which is no date of the format "
            f"{format_!r} that the model reads."
        ) from error
    if not pd.api.types.is_datetime64_any_dtype(dates):
        sentence = f"{where} mixes dates of several time zones, which the source model refuses"
        raise InputError(f"{sentence}. Give them all in UTC.")
    zoned = dates.dt.tz is not None
    instants: Dates = np.asarray(dates.dt.tz_convert(None) if zoned else dates)
    return instants
