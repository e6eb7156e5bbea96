"""ToDatetime and DatetimeEncoder: columns of dates become numbers of a calendar.

Time zones as tables: when each offset from UTC begins, as pandas knows it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    CalendarField,
    Cast,
    Choose,
    CleanText,
    Codes,
    Columns,
    Concat,
    ConstantRows,
    DateColumn,
    FrameFormat,
    Impute,
    Instants,
    IsMissing,
    LocalTime,
    Map,
    Node,
    Output,
    Schema,
)
from hbconv.containers.vocabulary import PARTS, DateCodes, DateReading
from hbconv.parse.registry import parses
from hbconv.parse.schema import transform_frame
from hbconv.parse.step import Step, select

__all__: list[str] = []

_IN_UTC = (Array(np.empty((1, 0))), Array(np.zeros(1)))
"""Offsets of UTC, and of dates without a time zone."""


def _one_column(_: Any) -> Schema:
    return Schema.sequence("string")


def _frame(encoder: Any) -> FrameFormat:
    return FrameFormat("pandas", tuple(encoder.get_feature_names_out()))


@parses("skrub.ToDatetime", features=_one_column)
def parse_to_datetime(step: Step) -> dict[str, Output]:
    """Read one column as dates, for a step behind."""
    return {"transform": Output(read_as_dates(step))}


@parses("skrub.DatetimeEncoder", features=_one_column, frames=_frame)
def parse_datetime_encoder(step: Step) -> dict[str, Output]:
    """Make a column of each field: those without a period in float32, then the others."""
    return transform_frame(encode_dates(step))


def read_as_dates(step: Step) -> Node:
    """Read a column of the input as dates of the fitted unit and time zone."""
    est = step.estimator
    nulls: tuple[str, ...] = ()
    x = step.x
    if isinstance(x, CleanText):
        nulls = x.nulls
        x = x.x
    if not isinstance(x, Columns):
        raise step.refuse(None, None, "It must read a column of the input as it comes.")
    dtype = est.output_dtype_
    zone = getattr(dtype, "tz", None)
    if getattr(dtype, "kind", "") != "M" or (zone is None) != (est.output_time_zone_ is None):
        hint = "Fit on columns of datetime64 of pandas."
        raise step.refuse("output_dtype_", str(dtype), hint)
    unit = dtype.unit if zone is not None else np.datetime_data(dtype)[0]
    if zone is None:
        return DateColumn(
            x, DateReading(unit, parses=True, format=est.format_, nulls=nulls), *_IN_UTC
        )
    offsets = read_offsets(zone)
    reading = DateReading(unit, parses=True, format=est.format_, nulls=nulls, within=offsets.within)
    return DateColumn(x, reading, Array(offsets.starts), Array(offsets.offsets))


def encode_dates(step: Step) -> list[Node]:
    """Return the columns that a DatetimeEncoder makes of one column of dates."""
    est = step.estimator
    periodic = est._periodic_encoders
    instants, local = _dates(step)
    plain = [name for name in est.extracted_features_ if name not in periodic]
    columns: list[Node] = [
        Cast(CalendarField(instants if name == "total_seconds" else local, name), "float32")
        for name in plain
    ]
    for name, encoder in periodic.items():
        columns += _PERIODIC[type(encoder).__name__](step, encoder, CalendarField(local, name))
    if not columns:
        raise step.refuse("resolution", est.resolution, "It makes no column: drop it before.")
    return columns


def _dates(step: Step) -> tuple[Node, Node]:
    """Return the instants of a column, and what clocks of its time zone show."""
    x = step.x
    dates = x if isinstance(x, DateColumn) else DateColumn(x, DateReading(), *_IN_UTC)
    column = dates.x
    if not isinstance(column, Columns):
        hint = "It must read a column of dates of the input, or a ToDatetime of one."
        raise step.refuse(None, None, hint)
    codes = (
        Codes(column.schema, column.columns[0], DateCodes(dates.reading, part)) for part in PARTS
    )
    instants = Instants(Concat(tuple(codes)))
    if not dates.starts.data.size and not dates.offsets.data.any():
        return instants, instants
    return instants, LocalTime(instants, dates.starts, dates.offsets)


def _circle(step: Step, encoder: Any, x: Node) -> list[Node]:  # noqa: ARG001
    """Return sine and cosine, with the source's order of operations."""
    share = Affine.of(x, div=float(encoder.period))
    angle = Affine.of(Affine.of(share, mul=2.0), mul=np.pi)
    return [Map(angle, "sin"), Map(angle, "cos")]


def _splines(step: Step, encoder: Any, x: Node) -> list[Node]:
    """Evaluate splines of 0 where a date is missing, and leave these out then."""
    splines = step.transform(encoder.transformer_, Impute(x, Array(np.zeros(1))), "splines")
    nothing = ConstantRows(splines, Array(np.full(splines.type.width, np.nan)))
    known = Choose(IsMissing(x), nothing, splines)
    return [select(known, [i]) for i in range(splines.type.width)]


_PERIODIC = {"_CircularEncoder": _circle, "_SplineEncoder": _splines}


FIRST = -4_417_977_600
"""The second at which 1830 begins, before the first time zone."""
LAST = 16_725_225_600
"""The second at which 2500 begins: a cycle of 400 years behind the last table."""
STEP = 3 * 86_400
"""Seconds between two looks: no offset of any zone lasts less, but for those before 1830."""
FIRST_DAY = -62_135_596_800
"""The second at which year 1 begins, the first that Python's clocks know."""
LAST_SECOND = 253_402_300_799
"""The last second of 9999."""

Seconds = npt.NDArray[np.int64]


class Offsets(NamedTuple):
    """Offsets of a time zone.

    Parameters
    ----------
    starts : ndarray of shape (1, m)
        Seconds since 1970 at which an offset begins.
    offsets : ndarray of shape (m + 1,)
        In seconds.
    within : tuple of int, or None
        First and last second that pandas takes; None where it takes all.
    """

    starts: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.float64]
    within: tuple[int, int] | None


@lru_cache(32)
def read_offsets(zone: Any) -> Offsets:
    """Ask pandas for the offsets of a time zone, from 1830 to 2500.

    It looks at each third day, and divides the time in which the offset changes.
    """
    days = np.arange(FIRST, LAST, STEP)
    known = _offsets_at(zone, days)
    changes = np.flatnonzero(known[1:] != known[:-1])
    before = days[changes]
    after = days[changes + 1]
    while (after - before > 1).any():
        middle = (before + after) // 2
        same = _offsets_at(zone, middle) == known[changes]
        before = np.where(same, middle, before)
        after = np.where(same, after, middle)
    offsets = known[np.append(changes, len(known) - 1)]
    starts = after[None].astype(np.float64)
    return Offsets(starts, offsets.astype(np.float64), _within(zone, offsets))


def _within(zone: Any, offsets: Seconds) -> tuple[int, int] | None:
    """Return the seconds of which both the clock in UTC and the local one show years 1 to 9999."""
    import pandas as pd

    far = pd.DatetimeIndex(np.array([LAST_SECOND + STEP * 9], "datetime64[s]"), tz="UTC")
    try:
        far.tz_convert(zone).tz_localize(None)
    except (NotImplementedError, OverflowError, ValueError):
        first = FIRST_DAY - min(int(offsets[0]), 0)
        return first, LAST_SECOND - max(int(offsets[-1]), 0)
    return None


def _offsets_at(zone: Any, seconds: Seconds) -> Seconds:
    """Return the offset at each second."""
    import pandas as pd

    instants = pd.DatetimeIndex(seconds.astype("datetime64[s]"), tz="UTC")
    local = instants.tz_convert(zone).tz_localize(None)
    return np.asarray(local).view(np.int64) - seconds
