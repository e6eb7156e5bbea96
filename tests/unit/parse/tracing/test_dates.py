"""Dates in functions of frames are traced: parts, differences, comparisons, parsed texts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import hbconv
from hbconv.errors import InputError, UnsupportedError

# pandas deprecates .dt.dayofweek and its like, which most functions are written with.
pytestmark = pytest.mark.filterwarnings("ignore:Series.dt")

RNG = np.random.default_rng(3)
N = 60
TABLE = pd.DataFrame(
    {
        "d": pd.Timestamp("2019-01-01") + pd.to_timedelta(RNG.integers(0, 10**9, N), unit="s"),
        "e": pd.Timestamp("2018-01-01") + pd.to_timedelta(RNG.integers(0, 10**9, N), unit="s"),
        "x": RNG.normal(size=N),
    }
)
TABLE["t"] = TABLE["d"].dt.strftime("%d/%m/%Y")
TABLE.loc[:4, "d"] = [
    pd.Timestamp(t) for t in ("2020-02-29", "1969-12-31 23:59:59", "2023-12-31", "2021-01-03")
] + [pd.NaT]
FIRST = pd.Timestamp("2020-01-01")
DAY = pd.Timedelta(days=1)
FIELDS = (
    "year month day hour minute second microsecond nanosecond dayofweek weekday day_of_week dayofyear day_of_year "
    "quarter days_in_month daysinmonth is_month_start is_month_end is_quarter_start is_quarter_end is_year_start "
    "is_year_end is_leap_year"
)  # fmt: skip


def parts(df):
    return pd.DataFrame({name: getattr(df["d"].dt, name) for name in FIELDS.split()})


def cyclic(df):
    df = df.copy()
    df["weekend"] = (df["d"].dt.dayofweek >= 5).astype(int)
    df["sin"] = np.sin(2 * np.pi * df["d"].dt.month / 12)
    df["key"] = df.d.dt.year * 10000 + df.d.dt.month * 100 + df.d.dt.day
    df["season"] = df.d.dt.month % 12 // 3
    df["summer"] = df.d.dt.month.isin([6, 7, 8])
    df["early"] = np.where(df.d.dt.hour < 12, 1, 0)
    return df[["weekend", "sin", "key", "season", "summer", "early", "x"]]


def since(df):
    out = pd.DataFrame()
    out["days"] = (df["d"] - FIRST).dt.days
    out["back"] = (pd.Timestamp(2024, 1, 1) - df["d"]).dt.days / 365.25
    out["seconds"] = (df["d"] - dt.datetime(2020, 1, 1)).dt.total_seconds()
    out["share"] = (df.d - pd.to_datetime("2020-01-01")) / DAY
    out["whole"] = (df.d - FIRST) // DAY
    out["rest"] = (df.d - FIRST).dt.seconds
    return out


def between(df):
    gap = df["d"] - df["e"]
    return pd.DataFrame(
        {
            "days": gap.dt.days,
            "hours": gap.dt.total_seconds() / 3600,
            "later": df["d"] > df["e"],
            "long": gap > pd.Timedelta(days=30),
            "size": gap.abs().dt.days,
            "back": (df["e"] - df["d"]) / np.timedelta64(1, "D"),
        }
    )


def compared(df):
    return pd.DataFrame(
        {
            "from": df["d"] >= FIRST,
            "until": df["d"] < dt.datetime(2021, 3, 4, 5),
            "within": df["e"].between("2019-01-01", "2020-06-30"),
            "missing": df["d"].isna(),
            "other": df["e"] != FIRST,
        }
    )


def parsed(df):
    df = df.copy()
    df["t"] = pd.to_datetime(df["t"], format="%d/%m/%Y")
    df["month"] = df["t"].dt.month
    df["age"] = (FIRST - df.t).dt.days
    return df[["month", "age"]]


def moved(df):
    week = df["d"].dt.isocalendar()
    return pd.DataFrame(
        {
            "month": (df["d"] + pd.Timedelta(days=30)).dt.month,
            "midnight": df["d"].dt.normalize().dt.hour,
            "filled": df["d"].fillna(FIRST).dt.year,
            "of_day": (df["d"] - df["d"].dt.floor("D")).dt.seconds,
            "week": week.week.astype(float),
            "its_year": week["year"].astype(float),
            "same": pd.to_datetime(df["d"]).dt.day,
        }
    )


RIGHT: list[Callable[[Any], Any]] = [parts, cyclic, since, between, compared, parsed, moved]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_dates_are_read_as_pandas_reads_them(function: Callable[[Any], Any]) -> None:
    source = FunctionTransformer(function).fit(TABLE)
    model = hbconv.convert(source, "reference")
    for unit in ("s", "us", "ns"):
        rows = TABLE.astype(dict.fromkeys(("d", "e"), f"datetime64[{unit}]"))
        for part in (rows, rows[3:4], rows[4:5], rows[:0], rows[5:]):
            want = np.asarray(source.transform(part), float)
            np.testing.assert_array_equal(np.asarray(model.transform(part), float), want)


@pytest.mark.parametrize("backend", ["tvm", "torch", "onnx"])
def test_dates_before_a_model_on_every_backend(backend: str, tmp_path: Path) -> None:
    def features(df):
        return cyclic(df).assign(gap=(df["d"] - df["e"]).dt.days, late=df["e"] > FIRST)

    rows = TABLE[5:]
    source = make_pipeline(FunctionTransformer(features), LinearRegression()).fit(rows, rows["x"])
    model = hbconv.convert(source, backend)
    want = source.predict(rows)
    np.testing.assert_allclose(model.predict(rows), want, rtol=1e-9, atol=1e-12)
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    assert np.array_equal(loaded.predict(rows), model.predict(rows))
    np.testing.assert_allclose(model.bind("predict")(rows[:2]), want[:2], rtol=1e-9)
    record = rows[:1].to_dict("records")
    np.testing.assert_allclose(model.predict(record), want[:1], rtol=1e-9)


def test_texts_that_are_no_dates_are_missing_where_asked() -> None:
    def coerced(df):
        made = pd.to_datetime(df["t"], format="%d/%m/%Y", errors="coerce")
        return pd.DataFrame({"year": made.dt.year, "missing": made.isna()})

    rows = TABLE.assign(t=["31/02/2020", "soon", *TABLE["t"][2:]])
    source = FunctionTransformer(coerced).fit(rows)
    got = hbconv.convert(source, "reference").transform(rows)
    np.testing.assert_array_equal(np.asarray(got, float), np.asarray(coerced(rows), float))
    strict = hbconv.convert(FunctionTransformer(parsed).fit(TABLE), "reference")
    with pytest.raises(InputError, match=r"'t' holds '31/02/2020', which is no date of the format"):
        strict.transform(rows)


def guessed(df):
    made = pd.to_datetime(df["t"])
    return pd.DataFrame({"year": made.dt.year, "hour": made.dt.hour, "late": made > FIRST})


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S"])
def test_iso_dates_in_texts_need_no_format(form: str) -> None:
    rows = TABLE.assign(t=TABLE["d"].dt.strftime(form))
    source = FunctionTransformer(guessed).fit(rows)
    model = hbconv.convert(source, "reference", sample=rows[:5])
    present = rows[rows["t"].notna()]
    for asked in (present, present[:1], present[::-1]):
        np.testing.assert_array_equal(model.transform(asked), guessed(asked).astype(float))
    for odd in ("2020-1-5", "05.01.2020", "2020-01-05Z", "", "2020-01-05 10:00:00.5", "20200105"):
        with pytest.raises(InputError, match="ISO dates of one form"):
            model.transform(present.assign(t=[odd, *present["t"][1:]]))
        with pytest.raises(InputError, match="ISO dates of one form"):
            model.transform(present.assign(t=[*present["t"][1:], odd]))
    with pytest.raises(InputError, match="no date of the format"):
        model.transform(present[:1].assign(t="2020-02-30"))


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"])
def test_iso_texts_are_dates_in_json_and_through_every_other_door(form: str) -> None:
    """JSON has no dates; pandas writes them so."""
    rows = TABLE[["d", "x"]].assign(d=TABLE["d"].dt.floor("min"), x=TABLE["x"].round(3))
    model = hbconv.convert(FunctionTransformer(cyclic).fit(rows), "reference")
    wanted = model.transform(rows)
    texts = rows.assign(d=rows["d"].dt.strftime(form).astype(object).where(rows["d"].notna(), None))
    for asked in (texts, texts.to_dict("records"), texts.to_json(orient="records")):
        np.testing.assert_array_equal(model.transform(asked), wanted)
    written = rows.to_json(orient="records", date_format="iso")
    np.testing.assert_array_equal(model.transform(written), wanted)
    one = texts[1:2].to_dict("records")[0]
    np.testing.assert_array_equal(model.transform(one), wanted[1:2])
    for odd in ("2020-02-30", "2020-01-05Z", "2020-1-5", "05.01.2020", "", "NaT", 5, True):
        with pytest.raises(InputError, match="where the model reads dates"):
            model.transform({**one, "d": odd})


def test_a_far_date_is_no_other_one_beside_nanoseconds() -> None:
    """Numpy makes nanoseconds of both, in which the year 9999 is 1816."""
    model = hbconv.convert(FunctionTransformer(cyclic).fit(TABLE[["d", "x"]]), "reference")
    far, near = dt.datetime(9999, 12, 31), pd.Timestamp("2020-01-01").as_unit("ns")
    alone = model.transform([{"d": far, "x": 1.0}])
    together = model.transform([{"d": near, "x": 1.0}, {"d": far, "x": 1.0}])
    np.testing.assert_array_equal(together[1:], alone)
    with pytest.raises(InputError, match="beyond the dates of unit ns"):
        model.transform([{"d": near + pd.Timedelta(1, "ns"), "x": 1.0}, {"d": far, "x": 1.0}])


def test_rows_that_pandas_answers_by_their_zone_or_unit_are_refused() -> None:
    model = hbconv.convert(FunctionTransformer(since).fit(TABLE), "reference")
    with pytest.raises(InputError, match="has the time zone UTC"):
        model.transform(TABLE.assign(d=TABLE["d"].dt.tz_localize("UTC")))
    far = TABLE.assign(d=np.datetime64("9999-12-31", "us"))
    with pytest.raises(InputError, match="beyond the nanoseconds"):
        model.transform(far)
    with pytest.raises(InputError, match="Give datetime64"):
        model.transform(TABLE.assign(d=TABLE["t"]))


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda df: pd.DataFrame({"a": df.d.dt.date}), "Line .* of <lambda> reads .dt.date,"),
    (lambda df: df[["x"]].assign(a=df.d + DAY), "returns dates"),
    (lambda df: pd.DataFrame({"a": (pd.Timestamp.now() - df.d).dt.days}), "uses Timestamp.now"),
    (
        lambda df: pd.DataFrame({"a": (dt.datetime.now() - df.d).dt.days}),
        "uses datetime.now",
    ),
    (lambda df: pd.DataFrame({"a": df.d < pd.Timestamp("now")}), "which is the clock"),
    (lambda df: pd.DataFrame({"a": df.d < np.datetime64("today")}), "which is the clock"),
    (lambda df: pd.DataFrame({"a": df.d < pd.to_datetime("today")}), "date in the text 'today'"),
    (lambda df: pd.DataFrame({"a": df.d.dt.tz_localize("UTC").dt.hour}), "reads .dt.tz_localize"),
    (lambda df: pd.DataFrame({"a": df.d.dt.year * 1_000_000}), "What hbconv made of it differs"),
    (lambda df: pd.DataFrame({"a": (df.d.max() - df.d).dt.days}), "Series.max"),
    (lambda df: pd.DataFrame({"a": df.d.dt.year, "b": df.d * 2}), "computes multiply of dates"),
    (lambda df: pd.DataFrame({"a": df.d.diff().dt.days}), "Series.diff"),
    (
        lambda df: pd.DataFrame({"a": pd.to_datetime(df.t, format="mixed").dt.year}),
        "guesses the format",
    ),
    (
        lambda df: pd.DataFrame({"a": pd.to_datetime(df.t, dayfirst=True).dt.year}),
        "raises TypeError while it is traced",
    ),
    (lambda df: pd.DataFrame({"a": (df.d - FIRST) / pd.Timedelta(0)}), "by such a span"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_depends_on_more_than_the_date_is_refused(
    function: Callable[[Any], Any], why: str
) -> None:
    source = FunctionTransformer(function)
    source.n_features_in_ = TABLE.shape[1]
    source.feature_names_in_ = np.array(list(TABLE), object)
    with pytest.raises(UnsupportedError, match=why):
        hbconv.convert(source, "reference")


def test_rows_tell_which_columns_are_dates() -> None:
    def missing(df):
        return pd.DataFrame({"no_date": df["d"].isna().astype(int)})

    source = FunctionTransformer(missing).fit(TABLE)
    got = hbconv.convert(source, "reference", sample=TABLE).transform(TABLE)
    assert got.tolist() == missing(TABLE).to_numpy().tolist()
    with pytest.raises(InputError, match="dates"):
        hbconv.convert(source, "reference").transform(TABLE)
