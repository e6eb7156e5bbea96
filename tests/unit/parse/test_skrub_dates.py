"""Dates of skrub: every unit, time zones, texts, missing ones, and what is refused."""

from __future__ import annotations

import datetime as dt
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skrub
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import BackendError, InputError, UnsupportedError

RATES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TIMES = [
    "1900-02-28 23:59:59", "1900-03-01 00:00", "1969-12-31 23:59:59", "1970-01-01 00:00",
    "2000-02-29 23:59:59", "2024-12-31 23:59:59", "2024-02-29 00:00", "2100-02-28 23:59:59",
    "2024-03-31 00:59:59", "2024-03-31 01:00", "2024-10-27 00:59:59", "2024-10-27 01:00",
    "1684-01-01 00:00", "2262-04-11 00:00", "2199-07-01 12:00", "NaT",
]  # fmt: skip


def _dates(unit: str, zone: str | None = None) -> pd.Series:
    """Return random times, ends of months and of summer times, and those between two floats."""
    rate = RATES[unit]
    rng = np.random.default_rng(3)
    drawn = rng.integers(-9 * 10**9, 9 * 10**9, 60) * rate + rng.integers(0, rate, 60)
    halves = (np.arange(20) * 128 + 64 + 1_700_000_000) * rate
    named = np.array(TIMES, "datetime64[s]").astype(f"datetime64[{unit}]").view(np.int64)
    counts = np.concatenate([drawn, named, halves, halves - 1, halves + 1])
    dates = pd.Series(counts.view(f"datetime64[{unit}]"), name="when")
    return dates if zone is None else dates.dt.tz_localize("UTC").dt.tz_convert(zone)


def _frame(dates: Any) -> pd.DataFrame:
    return pd.DataFrame({"when": dates, "x": np.arange(len(dates)) * 1.0})


def _fitted(dates: pd.Series, **options: Any) -> skrub.TableVectorizer:
    every = {"resolution": "nanosecond", "add_weekday": True, "add_day_of_year": True}
    encoder = skrub.DatetimeEncoder(**every | options)
    return skrub.TableVectorizer(datetime=encoder).fit(_frame(dates))


def _same(found: Any, want: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, want, rtol=1e-6, atol=1e-6)
    for name in found:
        if "circular" not in name and "spline" not in name:
            np.testing.assert_array_equal(found[name], want[name], err_msg=name)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "Asia/Kolkata"])
@pytest.mark.parametrize("unit", RATES)
def test_fields_are_those_of_skrub(unit: str, zone: str | None) -> None:
    """All fields, of dates in the fitted time zone, in others, and in none."""
    dates = _dates(unit, zone)
    source = _fitted(dates[:60])
    model = hbconv.convert(source, "reference")
    in_utc = dates.dt.tz_localize("UTC") if zone is None else dates
    others = (in_utc.dt.tz_convert("Asia/Tokyo"), in_utc.dt.tz_convert(None))
    for asked in (dates, *others, dates[:1], dates[:0]):
        _same(model.transform(_frame(asked)), source.transform(_frame(asked)))


@pytest.mark.parametrize("periodic", ["circular", "spline"])
@pytest.mark.parametrize("backend", ["reference", "torch", "onnx", "tvm"])
def test_each_backend_gives_the_fields(backend: str, periodic: str) -> None:
    """Fields by floats, and the offsets of a time zone by a search."""
    dates = _dates("us", "Europe/Paris")
    source = _fitted(dates[:60], periodic_encoding=periodic)
    model = hbconv.convert(source, backend)
    _same(model.transform(_frame(dates)), source.transform(_frame(dates)))


TEXTS = pd.Series(["2024-05-13T12:05:36", None, "1900-02-28T00:00:00", "N/A"] * 3)
FITTED: dict[str, Any] = {
    "iso": TEXTS,
    "month first": pd.Series(["05/23/2024", "01/02/2023"] * 5),
    "offsets": pd.Series(["2020-01-01T04:00:00+02:00", "2020-01-01T04:00:00+03:00"] * 4),
    "nanoseconds": pd.Series(pd.date_range("2020", periods=9, freq="31h", unit="ns")),
    "Paris": pd.Series(pd.date_range("2020", periods=9, freq="31h", tz="Europe/Paris")),
    "days": pd.Series([dt.date(2020, 1, 1), dt.date(2021, 2, 3)] * 6, dtype=object),
}
ODD = [
    "2024-05-13T12:05:36", "yesterday", "2024-05-13", "2024-5-3T1:2:3", "NULL", " ", None, np.nan,
    "2024-05-13T12:05:36Z", "2024-05-13T12:05:36+02:00", "05/23/2024", "31/12/2023",
]  # fmt: skip
ASKED: dict[str, Any] = {
    "odd": pd.Series(ODD, dtype=object),
    "text": pd.Series(ODD, dtype="str"),
    "categories": pd.Series(ODD, dtype="category"),
    "objects": pd.Series([dt.datetime(2020, 1, 1, 3), "2021", None, pd.NaT, pd.NA], dtype=object),
    "missing": pd.Series([np.nan, np.nan]),
    "days": FITTED["days"],
    "dates": pd.Series(pd.to_datetime([1_700_000_000_123_456_789, -1, None])),
}


@cache
def _parsing(fitted: str) -> tuple[Any, hbconv.Model]:
    source = _fitted(FITTED[fitted])
    return source, hbconv.convert(source, "reference")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("fitted", FITTED)
def test_texts_and_objects_are_read_as_skrub_reads_them(fitted: str, asked: str) -> None:
    """What does not fit the fitted format is missing."""
    source, model = _parsing(fitted)
    rows = _frame(ASKED[asked])
    _same(model.transform(rows), source.transform(rows))


def test_a_listed_text_is_missing_even_where_it_is_a_date() -> None:
    """Among texts, but not among categories, which skrub does not clean."""
    source = skrub.TableVectorizer(null_strings=["1900-01-01"])
    rows = _frame(pd.Series(["2020-01-01", "1900-01-01", "2021-02-03"]))
    model = hbconv.convert(source.fit(rows), "reference")
    _same(model.transform(rows), source.transform(rows))
    categories = rows.astype({"when": "category"})
    _same(model.transform(categories), source.transform(categories))


def test_other_tables_records_and_saved_models(tmp_path: Path) -> None:
    """Frames of polars, Arrow tables, mappings, lists of records, and one record."""
    source, model = _parsing("Paris")
    model.save(tmp_path / "m.hbc")
    rows = _frame(FITTED["Paris"])
    want = source.transform(rows).to_numpy()
    records = rows.astype({"when": object}).to_dict("records")
    columns = {name: rows[name].to_numpy() for name in rows}
    for each in (model, hbconv.load(tmp_path / "m.hbc")):
        for given in (pl.from_pandas(rows), pa.Table.from_pandas(rows), columns, records):
            np.testing.assert_array_equal(np.asarray(each.transform(given)), want)
        for record, answer in zip(records[:3], want, strict=False):
            np.testing.assert_array_equal(np.asarray(each.transform(record))[0], answer)


def test_a_model_behind_dates_predicts() -> None:
    """Missing dates are filled by the model's imputer."""
    rows = _frame(_dates("us"))
    source = skrub.tabular_pipeline(Ridge()).fit(rows, np.arange(len(rows)))
    for backend in ("reference", "tvm"):
        found = hbconv.convert(source, backend).predict(rows)
        np.testing.assert_allclose(found, source.predict(rows), rtol=1e-4, atol=1e-3)


def test_encoders_alone_read_a_column() -> None:
    """An encoder without ToDatetime shows the clock of its rows: other than UTC is refused."""
    dates = _dates("ns")
    encoder = skrub.DatetimeEncoder(resolution=None, add_weekday=True).fit(dates[:60])
    model = hbconv.convert(encoder, "reference")
    _same(model.transform(dates), encoder.transform(dates))
    with pytest.raises(InputError, match="has the time zone Asia/Tokyo"):
        model.transform(dates.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    with pytest.raises(InputError, match="holds objects"):
        model.transform(dates.astype(object))
    texts = FITTED["month first"]
    both = make_pipeline(skrub.ToDatetime(), skrub.DatetimeEncoder()).fit(texts)
    found = np.asarray(hbconv.convert(both, "reference").transform(texts))
    np.testing.assert_array_equal(found, both.transform(texts).to_numpy())


@pytest.mark.parametrize(
    ("fitted", "asked", "why"),
    [
        ("nanoseconds", np.array(["9999-12-31"], "datetime64[s]"), "beyond the dates of unit ns"),
        ("Paris", np.array(["9999-12-31T23:30"], "datetime64[s]"), "refuses in its unit or time"),
        ("Paris", np.array([2**40], "datetime64[s]"), "refuses in its unit or time zone"),
    ],
)
def test_dates_that_skrub_refuses_are_refused(fitted: str, asked: Any, why: str) -> None:
    """A unit that cannot count them, and clocks that do not show them."""
    source, model = _parsing(fitted)
    rows = _frame(pd.Series(asked))
    with pytest.raises((OverflowError, ValueError, NotImplementedError)):
        source.transform(rows)
    with pytest.raises(InputError, match=why):
        model.transform(rows)


@pytest.mark.parametrize("numbers", [[1, 2], [0.5, np.nan], [True, False]])
def test_numbers_in_a_column_of_dates_are_refused(numbers: list[Any]) -> None:
    """skrub would take them for nanoseconds."""
    model = _parsing("Paris")[1]
    with pytest.raises(InputError, match="where the model reads dates"):
        model.transform(_frame(pd.Series(numbers)))


def test_dates_as_answers_and_files_of_dates_are_refused(tmp_path: Path) -> None:
    """Answers are numbers; other runtimes read no dates."""
    rows = _frame(_dates("us"))
    with pytest.raises(UnsupportedError, match="DatetimeEncoder"):
        hbconv.convert(skrub.Cleaner().fit(rows), "reference")
    model = hbconv.convert(_fitted(_dates("us")), "onnx")
    with pytest.raises(BackendError, match="Column 'when' holds dates"):
        model.export(tmp_path / "m.onnx")
