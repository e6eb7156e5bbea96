"""Columns of texts and dates by which traces are judged, and the codes that programs are given."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import EditedVocabulary, TextEdit
from hbconv.containers.vocabulary import ISO, NO_DATE, DateCodes, DateReading
from hbconv.errors import InputError
from hbconv.parse.tracing.patterns import draw_matches

__all__ = ["arguments_of", "date_codes", "draw_dates", "draw_texts"]

_ODD_TEXTS = (
    *("", " ", "unknown to all", "1", "nan", "None", "-1.5e3", " 7", "a-b-c", "-", "Xx yY", "x\ty"),
    *("\u00e9\u00c9", "e\u0301", "\u65e5\u672c", "0012", "A", "a", "z.", "\x1cb", "a\n"),
)
_NUMBERS = (
    "0",
    "12",
    "-2.5",
    "x12",
    "12x",
    "007",
    " 4 ",
    "1_0",
    "1e400",
    "-0.0",
    "99999999999999999999",
)
_DATES = (
    *("1970-01-01", "1969-12-31T23:59:59.999999", "2000-02-29", "1900-03-01", "2024-12-31T12:30"),
    *("2023-01-01", "2024-02-29T23:59:59", "2100-02-28", "1999-12-31T00:00:01", "2021-01-03"),
    *("2016-01-01", "2020-06-30", "2021-03-31T06:00", "1815-07-04", "2262-01-02", "2015-12-28"),
)
_LATE = ("9999-12-31T23:59:59", "0001-01-01", "3000-06-15T01:02:03")
"""Dates beyond those that a count of nanoseconds since 1970 holds."""


def arguments_of(vocabulary: object) -> tuple[str, ...]:
    """Return the texts that edits look for, alone and among others."""
    if not isinstance(vocabulary, EditedVocabulary):
        return ()
    found = {a for edit in vocabulary.edits for a in edit.arguments if isinstance(a, str)}
    patterns = [edit.arguments[0] for edit in vocabulary.edits if edit.has_pattern]
    matching = [text for p in patterns for text in draw_matches(str(p))]
    found |= {*matching, *(f"Xy, {text} 7" for text in matching)} - set(patterns)
    texts = [text for a in sorted(found) for text in (a, f"x{a}y{a}z", f"{a}q", f"q{a}")]
    if any(edit.name.startswith(("is_", "float_")) for edit in vocabulary.edits):
        texts += _NUMBERS
        texts += [text for a in sorted(found) for text in (f"{a}12", f"3.5{a}", f"{a}7{a}")]
    return tuple(texts)


def draw_texts(
    known: tuple[Any, ...], edits: Iterable[tuple[TextEdit, ...]], n_rows: int, *, as_objects: bool
) -> Any:
    """Draw known texts, others beside them, and missing ones: all that no edit refuses."""
    beside = [form for text in known for form in (f"{text} ", text.upper(), f" {text.lower()}")]
    texts: list[Any] = [t for t in (*known, *_ODD_TEXTS, *beside) if _is_taken(t, edits)]
    texts += [None, float("nan")]
    drawn = np.empty(n_rows, object)
    drawn[:] = [texts[i % len(texts)] for i in range(n_rows)]
    pandas = sys.modules["pandas"]
    return pandas.Series(drawn, dtype=object) if as_objects else pandas.Series(list(drawn))


def _is_taken(text: Any, edits: Iterable[tuple[TextEdit, ...]]) -> bool:
    """Tell whether edits, one after another, refuse a text for no letter in it."""
    try:
        for chain in edits:
            value = text
            for edit in chain:
                value = edit.apply(value) if isinstance(value, str) else value
    except InputError:
        return False
    return True


def draw_dates(reading: DateReading, n_rows: int, seed: int, *, as_objects: bool) -> Any:
    """Draw dates, in seconds that reach far, or in nanoseconds; as texts where these are parsed."""
    pandas = sys.modules["pandas"]
    rng = np.random.default_rng(seed)
    unit = "us" if as_objects else "ns"
    special = np.array(
        [*_DATES, *(_LATE if as_objects and not reading.parses else ()), "NaT"],
        f"datetime64[{unit}]",
    )
    # Half of them lie at the whole seconds, and one in four at midnight.
    seconds = rng.integers(-(2**31), 2**32, n_rows)
    seconds[::4] = seconds[::4] // 86_400 * 86_400
    drawn = seconds.astype("datetime64[s]").astype(f"datetime64[{unit}]")
    drawn[1::2] += rng.integers(0, 10**6, len(drawn[1::2])).astype(f"timedelta64[{unit}]")
    places = rng.permutation(n_rows)[: n_rows // 2]
    drawn[places] = np.resize(special, len(places))
    dates = pandas.Series(drawn)
    if not reading.parses or not as_objects:
        return dates
    is_iso = reading.format == ISO
    forms = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S")
    texts = dates.dt.strftime(forms[seed % 2] if is_iso else reading.format).astype(object)
    if not reading.raises and not is_iso:
        texts[::5] = "no date"
    return texts


def date_codes(vocabulary: DateCodes, values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return a part of dates as programs are given it."""
    if values.dtype.kind != "M":
        pandas = sys.modules["pandas"]
        written = vocabulary.reading.format
        errors = "raise" if vocabulary.reading.raises else "coerce"
        made = pandas.to_datetime(
            pandas.Series(values), format=None if written == ISO else written, errors=errors
        )
        values = made.to_numpy()
    missing = np.isnat(values)
    days = values.astype("datetime64[D]")
    seconds = values.astype("datetime64[s]")
    parts = {
        "day": days.astype(np.int64),
        "second": (seconds - days).astype("timedelta64[s]").astype(np.int64),
        "nanosecond": (values - seconds).astype("timedelta64[ns]").astype(np.int64),
    }
    nothing = NO_DATE if vocabulary.part == "day" else 0
    return np.where(missing, nothing, parts[vocabulary.part]).astype(np.int32)
