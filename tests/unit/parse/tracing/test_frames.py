"""Functions of frames are traced: each is judged against itself, on numbers, flags and texts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(4)
N = 80
TABLE = pd.DataFrame(
    {
        "tenure": RNG.integers(0, 72, N),
        "charge": RNG.normal(60, 25, N).round(2),
        "total": RNG.normal(2, 0.9, N),
        "calls": RNG.integers(0, 6, N).astype(float),
        "plan": RNG.choice(["basic", "plus", "max"], N),
    }
)
TABLE.loc[::9, "total"] = np.nan
TABLE.loc[::7, "plan"] = None
CHURNED = RNG.random(N) < 0.4
PRICES = {"basic": 10.0, "plus": 25.0, "max": 60.0}

Function = Callable[[Any], Any]


def ratios(df):
    df = df.copy()
    df["per_month"] = df["total"] / (df["tenure"] + 1)
    df["share"] = df.charge / df.total
    return df[["per_month", "share", "charge"]]


def flags(df):
    new = df["tenure"] < 12
    return pd.DataFrame(
        {
            "new": new.astype(int),
            "dear": (df["charge"] > 80) & ~new,
            "gone": df["total"].isna() | df.calls.between(4, 5),
            "few": df["calls"].isin([0, 1]),
        }
    )


def filled(df):
    out = df[["total", "charge"]].fillna({"total": 0.0})
    return out.assign(missing=df["total"].isna(), size=lambda d: np.log1p(d.total.clip(lower=0)))


def plans(df):
    out = df[["charge"]].copy()
    out["price"] = df["plan"].map(PRICES).fillna(-1)
    out["is_max"] = df["plan"] == "max"
    out["paid"] = df["plan"].isin(["plus", "max"])
    out["above"] = np.where(df["plan"] != "basic", df["charge"], 0.0)
    return out


def bands(df):
    band = pd.cut(df["tenure"], bins=[0, 12, 24, 72], labels=False)
    grade = np.select([df.charge > 90, df.charge > 50], [2, 1], default=0)
    return pd.concat([band.rename("band"), df[["calls"]].add_suffix("_made")], axis=1).assign(
        grade=grade, calls=df["calls"].replace({5: 50.0}).where(df["charge"] > 0, -1.0)
    )


def renamed(df):
    frame = df.rename(columns={"tenure": "months"}).drop(columns=["plan", "total"])
    frame["months"] **= 2
    return frame.apply(lambda column: column * 2)


def joined(df):
    several = df[["tenure", "charge", "total"]]
    return pd.DataFrame(
        {
            "sum": several.sum(axis=1),
            "mean": several.mean(axis=1),
            "holes": several.isna().sum(axis=1),
            "hole": several.isna().any(axis=1),
        }
    )


def placed(df):
    out = pd.DataFrame(index=df.index)
    out["decade"] = df["tenure"] // 10
    out["rest"] = df["charge"] % 7
    out.loc[df["charge"] > 80, "rest"] = -1.0
    out[["a", "b"]] = df.iloc[:, [1, 3]]
    out.columns = ["decade", "rest", "charge", "calls"]
    return out.pipe(lambda frame: frame.where(frame > 0, 0.5)).mask(df["tenure"] > 60, 9.0)


def as_array(df):
    return np.log1p(df.loc[:, ["tenure", "calls"]].abs().values)


RIGHT: list[Function] = [
    *(ratios, flags, filled, plans, bands, renamed, joined),
    *(placed, as_array),
]


def rows_of(kind: str) -> pd.DataFrame:
    """Return the table with what functions forget, in floats, ints or float32."""
    odd = [0.0, -0.0, np.nan, 1e30, -1.0, 12.0, np.nextafter(12.0, 0), 80.0, 5.0]
    rows = pd.concat([TABLE, TABLE.iloc[: len(odd)]], ignore_index=True)
    for name in ("charge", "total", "calls"):
        rows.loc[N:, name] = odd
    rows.loc[N:, "plan"] = ["", " ", "basic ", "Basic", "unknown", None, "max", "nan", "plus"]
    if kind == "ints":
        return rows.assign(charge=rows["charge"].fillna(0).clip(-9, 99).round().astype(int))
    if kind == "float32":
        return rows.assign(total=rows["charge"].astype(np.float32))
    return rows


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_a_trace_is_its_function(function: Function) -> None:
    source = FunctionTransformer(function).fit(TABLE)
    model = hbconv.convert(source, "reference")
    for kind in ("floats", "ints", "float32"):
        rows = rows_of(kind)
        try:
            got = model.transform(rows)
        except InputError:
            assert kind == "float32"
            continue
        with np.errstate(all="ignore"):
            want = np.asarray(source.transform(rows.copy()), float)
        np.testing.assert_allclose(np.asarray(got, float), want, rtol=1e-13)
        assert np.array_equal(model.transform(rows[3:4]), got[3:4], equal_nan=True)


def add_columns(df):
    out = df.copy()
    out["rate"] = (out["charge"] * 12).clip(0, 1500)
    out["plan"] = out["plan"].fillna("none")
    out["long"] = out["tenure"] > 24
    return out.drop(columns="calls")


@pytest.mark.parametrize("backend", ["tvm", "torch", "onnx"])
def test_a_pipeline_of_a_traced_frame_and_columns_by_name(backend: str, tmp_path: Any) -> None:
    prepare = ColumnTransformer(
        [
            ("plan", OneHotEncoder(handle_unknown="ignore"), ["plan"]),
            ("numbers", SimpleImputer(), ["rate", "total", "long"]),
        ]
    )
    source = make_pipeline(
        FunctionTransformer(add_columns), prepare, LogisticRegression(max_iter=2000)
    )
    source.fit(TABLE, CHURNED)
    model = hbconv.convert(source, backend)
    np.testing.assert_allclose(model.predict_proba(TABLE), source.predict_proba(TABLE), rtol=1e-9)
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    assert np.array_equal(loaded.predict_proba(TABLE), model.predict_proba(TABLE))


def test_members_of_unions_read_the_same_table() -> None:
    source = FeatureUnion([(f.__name__, FunctionTransformer(f)) for f in (ratios, flags, plans)])
    model = hbconv.convert(source.fit(TABLE), "reference")
    want = np.asarray(source.transform(TABLE), float)
    np.testing.assert_allclose(np.asarray(model.transform(TABLE), float), want, rtol=1e-14)


def by_type(df):
    return pd.DataFrame({name: df[name] * 2 for name in df if df[name].dtype == "float64"})


REFUSED: list[tuple[Function, str]] = [
    (lambda df: df[["charge"]] - df[["charge"]].mean(), "reduces the rows"),
    (lambda df: df.assign(z=df.charge / df.charge.std()), "Series.std.*other rows"),
    (lambda df: df.assign(m=df.groupby("plan")["charge"].transform("mean")), "DataFrame.groupby"),
    (lambda df: df[["charge"]].shift(1), "DataFrame.shift"),
    (lambda df: df[["charge"]].rank(), "DataFrame.rank"),
    (lambda df: df[df["charge"] > 0], "some of the rows"),
    (lambda df: df[["charge"]].dropna(), "DataFrame.dropna"),
    (lambda df: df.head(1), "DataFrame.head"),
    (lambda df: df.apply(lambda row: row.sum(), axis=1).to_frame("a"), "sum of a row"),
    (lambda df: pd.cut(df["charge"], 4, labels=False).to_frame(), "number of bins"),
    (lambda df: df[["charge"]].assign(n=len(df)), "number of rows"),
    (lambda df: df[["charge"]].assign(r=random.random()), "chance"),
    (lambda df: df[["charge"]].assign(i=df.index), "assigns what is no column"),
    (lambda df: df[["charge"]].astype("category"), "converts to category"),
    (lambda df: df[["charge"]].assign(n=df["plan"].str.isascii()), ".str.isascii"),
    (lambda df: df.with_columns(df["charge"].alias("a")), "with_columns as of a frame of polars"),
    (lambda df: df["charge"], "one column without a table"),
    (lambda df: df["charge"].to_numpy(), r"shape \(n,\)"),
    (lambda df: df[["charge"]].assign(a=df["plan"].map(PRICES), b=df["plan"] * 2), "both as text"),
    (lambda df: df if (df["charge"] > 0).all() else -df, "along the rows"),
    (by_type, "asks for the type of a column"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_no_row_alone_decides_is_refused_by_name(function: Function, why: str) -> None:
    source = FunctionTransformer(function)
    source.n_features_in_ = TABLE.shape[1]
    source.feature_names_in_ = np.array(list(TABLE), object)
    with pytest.raises(UnsupportedError, match=rf"FunctionTransformer with func=.*({why})"):
        hbconv.convert(source, "reference")


def test_writing_into_the_argument_is_refused() -> None:
    def write(df):
        df["new"] = df["charge"]
        return df

    source = FunctionTransformer(write).fit(TABLE.copy())
    with pytest.raises(UnsupportedError, match=r"writes into its argument.*df\.copy"):
        hbconv.convert(source, "reference")


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_nullable_numbers_are_refused(dtype: str, n_rows: int) -> None:
    def share(df):
        return pd.DataFrame({"share": df["a"] / (df["b"] + 2)}).fillna(0)

    table = pd.DataFrame({"a": [1.0, 0.0, 1.0, 1.0, 0.0], "b": [2.0, 1.0, 5.0, 3.0, 2.0]})
    model = hbconv.convert(FunctionTransformer(share).fit(table), "reference")
    for _ in range(2):  # also once a kind of rows is known
        model.transform(table[:n_rows])
        with pytest.raises(InputError, match=r"'a' is of a nullable type. Give float64"):
            model.transform(table[:n_rows].astype({"a": dtype}))
