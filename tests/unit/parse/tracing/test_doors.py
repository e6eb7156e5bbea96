"""Traced functions and classes answer alike by all doors, and in a process without their module."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pytest
from doors import DOORS, Asked
from fresh import run_fresh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler

import hbconv

pytestmark = pytest.mark.filterwarnings("ignore:Series.dt", "ignore:'str' is not supported")

N = 24
RNG = np.random.default_rng(7)
RECORDS: list[dict[str, Any]] = [
    {
        "income": float(RNG.gamma(2, 2_000)),
        "debt": None if i % 7 == 3 else float(RNG.gamma(1, 3_000)),
        "city": None if i % 5 == 4 else ["Oslo", "Bergen", "Rome"][i % 3],
        "code": f"{'AB'[i % 2]}-{i % 4}",
        "joined": datetime(2019 + i % 4, 1 + i % 12, 1 + i, i % 24),
    }
    for i in range(N)
]
TABLE = pd.DataFrame(RECORDS)


def ratios(df):
    return pd.DataFrame({"a": df["income"] / 3.0, "b": np.log1p(df["debt"].fillna(0))})


def filled(df):
    return df[["income", "debt"]].fillna({"debt": -1.0}).clip(0, 5_000)


def bands(df):
    return (
        pd.cut(df["income"], [0, 1_000, 4_000], labels=["low", "middle"])
        .to_frame("band")
        .assign(code=df["code"])
    )


def cells(df):
    return (
        df["income"]
        .apply(lambda v: 1.0 if v > 3_000 else v / 2)
        .to_frame("cell")
        .assign(income=df["income"])
    )


def looked_up(df):
    return df["city"].map({"Oslo": 1.0, "Rome": 2.5}).to_frame("city").assign(income=df["income"])


def grouped(df):
    return (
        df["city"]
        .where(df["city"].isin(["Oslo"]), "other")
        .to_frame("city")
        .assign(code=df["code"])
    )


def joined(df):
    return (df["city"].fillna("?") + "/" + df["code"]).to_frame("both").assign(code=df["code"])


def numbers(df):
    return (
        df["code"]
        .str.extract("([0-9]+)", expand=False)
        .astype(float)
        .to_frame("number")
        .assign(income=df["income"])
    )


def months(df):
    return df["joined"].dt.month_name().to_frame("month").assign(code=df["code"])


def dummies(df):
    known = pd.get_dummies(df[["city", "code"]], columns=["city", "code"])
    return known.reindex(columns=["city_Oslo", "code_A-2", "none"], fill_value=0)


def patterns(df):
    number = df["code"].map(lambda s: m.group(1) if (m := re.search("([0-9])$", s)) else "")
    return df[["income"]].assign(number=pd.to_numeric(number, errors="coerce"))


def days(df):
    since = (df["joined"] - pd.Timestamp("2019-01-01")).dt.days
    return pd.DataFrame({"days": since, "weekend": df["joined"].dt.dayofweek >= 5})


class Centred(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.means_ = X[["income", "debt"]].mean()
        return self

    def transform(self, X):
        known = X[["income", "debt"]].fillna(self.means_)
        return known - self.means_


class Clipped(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.high_ = np.nanquantile(X, 0.8, axis=0)
        return self

    def transform(self, X):
        return np.minimum(np.nan_to_num(X), self.high_)


CODES = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
NUMBERS = ColumnTransformer([("numbers", StandardScaler(), ["income", "debt"])])
SOURCES = {
    **{f.__name__: FunctionTransformer(f) for f in (ratios, filled, cells, looked_up)},
    **{f.__name__: FunctionTransformer(f) for f in (dummies, patterns)},
    **{f.__name__: FunctionTransformer(f) for f in (numbers, days)},
    **{f.__name__: make_pipeline(FunctionTransformer(f), CODES) for f in (bands, grouped)},
    **{f.__name__: make_pipeline(FunctionTransformer(f), CODES) for f in (joined, months)},
    "own class of frames": Centred(),
    "own class of arrays": make_pipeline(NUMBERS, Clipped()),
}


@cache
def asked(name: str) -> tuple[Any, Asked]:
    source = SOURCES[name].fit(TABLE)
    model = hbconv.convert(source, "reference", sample=TABLE)
    path = Path(mkdtemp(), "model.hbc")
    model.save(path)
    want = np.asarray(source.transform(TABLE), np.float64)
    return want, Asked(model, path, RECORDS)


PAIRS = [
    (door, name)
    for i, door in enumerate(DOORS)
    for j, name in enumerate(SOURCES)
    if (i + j) % 3 == 0
]
"""Each door with a third of the models, and each model with a third of the doors."""


@pytest.mark.parametrize(("door", "name"), PAIRS)
def test_every_door_answers_as_the_source(door: str, name: str) -> None:
    want, question = asked(name)
    if door == "serve gRPC":  # its texts are never missing
        present = [None not in record.values() for record in RECORDS]
        want = want[present]
        question = question._replace(
            records=[r for r, p in zip(RECORDS, present, strict=True) if p]
        )
    got = np.asarray(DOORS[door](question), np.float64)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-12)


def test_a_saved_model_needs_no_module_of_the_user() -> None:
    paths = [str(asked(name)[1].path) for name in SOURCES]
    rows = asked("ratios")[1].json
    code = (
        "import json, sys, hbconv\n"
        f"sys.modules[{__name__!r}] = None\n"
        "paths, rows = map(json.loads, sys.argv[1:])\n"
        "answers = [hbconv.load(path).transform(rows).tolist() for path in paths]\n"
        "print(json.dumps(answers))\n"
        "assert not {'sklearn', 'pandas'} & set(sys.modules)\n"
    )
    done = run_fresh("-c", code, json.dumps(paths), rows)
    assert done.returncode == 0, done.stderr
    for name, got in zip(SOURCES, json.loads(done.stdout), strict=True):
        np.testing.assert_allclose(np.array(got, np.float64), asked(name)[0], rtol=1e-12)
