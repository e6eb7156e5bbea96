"""Exported queries answer in each database as the source does, rows made to hurt among them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fitted import fit, table
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from sql_engines import ENGINES, ask
from xgboost import XGBClassifier

import hbconv
from hbconv.backends.sql import export
from hbconv.backends.sql.dialects import find_dialect
from hbconv.backends.sql.trees import double_bounds
from hbconv.cli import main
from hbconv.errors import BackendError, OptionError


def hostile() -> pd.DataFrame:
    """Rows with missing, unseen and quoted texts, NaN, zeros of both signs, and a large number."""
    rows = table().copy()
    rows["colour"] = rows["colour"].astype(object)
    rows.loc[::11, "colour"] = "it's new"
    rows.loc[::13, "colour"] = None
    rows.loc[::17, "colour"] = ""
    rows.loc[::7, "age"] = np.nan
    rows.loc[[0, 1, 2], "fare"] = [0.0, -0.0, 1e30]
    return rows


def columns() -> Any:
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["age", "fare"]),
        (OneHotEncoder(handle_unknown="ignore"), ["colour"]),
    )


@cache
def source(name: str) -> Any:
    rows = table()
    kind = np.where(rows["fare"] > 0.2, "it's high", np.where(rows["fare"] < -0.5, "low", "mid"))
    number = rows["fare"].fillna(0.0)
    ordinal = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    )
    models = {
        "logistic": lambda: make_pipeline(columns(), LogisticRegression()).fit(rows, kind),
        "isotonic": lambda: make_pipeline(
            columns(), CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2)
        ).fit(rows, kind),
        "lightgbm": lambda: make_pipeline(
            columns(), LGBMClassifier(n_estimators=12, num_leaves=6, verbose=-1)
        ).fit(rows, kind),
        "xgboost": lambda: make_pipeline(columns(), XGBClassifier(n_estimators=5, max_depth=3)).fit(
            rows, (number > 0).astype(int)
        ),
        "target": lambda: make_pipeline(
            make_column_transformer((TargetEncoder(cv=2), ["colour"]), (SimpleImputer(), ["age"])),
            Ridge(),
        ).fit(rows, number),
        "ordinal": lambda: make_column_transformer(
            (ordinal, ["colour"]), ("passthrough", ["age"])
        ).fit(rows),
        "mixed": lambda: fit("mixed"),
    }
    return models[name]()


BITS = ("mixed", "lightgbm", "ordinal")
"""Models whose answers are the source's to the bit, before a function."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "name", ["logistic", "isotonic", "lightgbm", "xgboost", "target", "ordinal", "mixed"]
)
def test_answers_as_the_source(name: str, engine: str) -> None:
    model = hbconv.convert(source(name), "reference")
    rows = hostile()
    if name != "mixed":  # Forests of scikit-learn refuse what is no float32.
        rows.loc[[3, 4], "fare"] = [5e-324, -1e300]
    methods = [m for m in ("predict", "predict_proba", "transform") if m in model.methods]
    query = model.to_sql(engine, keys=["id"], methods=methods)
    answer = ask(engine, query, rows.assign(id=np.arange(len(rows))))
    assert answer["id"].tolist() == [*range(len(rows))]
    place = 1
    for method in methods:
        want = np.asarray(getattr(source(name), method)(rows))
        want = want.reshape(len(rows), -1)
        got = answer.iloc[:, place : place + want.shape[1]].to_numpy()
        place += want.shape[1]
        if want.dtype.kind in "OUi":
            assert (got == want).all()
        elif name in BITS and (method != "predict_proba" or name == "mixed"):
            np.testing.assert_array_equal(got.astype(want.dtype), want)
        else:
            limit = 3e-7 if want.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(got.astype(float), want, rtol=0, atol=limit)
    assert place == answer.shape[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_thresholds_are_exact(engine: str) -> None:
    """Rows lie on thresholds, and one float64 and one float32 beside."""
    forest = fit("forest")
    tests = np.concatenate([tree.tree_.threshold for tree in forest.estimators_])
    edges = np.unique(tests[tests != -2])
    near = np.float32(edges)
    beside = [
        np.nextafter(edges, -9),
        edges,
        np.nextafter(edges, 9),
        near,
        np.nextafter(near, np.float32(9)),
    ]
    values = np.concatenate([b.astype(np.float64) for b in beside])
    x = np.random.default_rng(0).choice(values, (len(values), 6))
    rows = pd.DataFrame(x, columns=[f"x{i}" for i in range(6)]).assign(id=np.arange(len(x)))
    model = hbconv.convert(forest, "reference")
    answer = ask(engine, model.to_sql(engine, keys=["id"], methods=["predict_proba"]), rows)
    got = answer.drop(columns="id").to_numpy().astype(float)
    np.testing.assert_array_equal(got, forest.predict_proba(x))


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_the_source_refuses_get_null(engine: str) -> None:
    model = hbconv.convert(fit("linear"), "reference")
    x = np.zeros((4, 6))
    x[1, 2], x[2, 0] = np.nan, np.inf
    rows = pd.DataFrame(x, columns=[f"x{i}" for i in range(6)]).assign(id=range(4))
    answer = ask(engine, model.to_sql(engine, keys=["id"]), rows)
    assert answer["predict"].isna().tolist() == [False, True, True, False]
    assert list(answer)[2:] == ["predict_proba_high", "predict_proba_low", "predict_proba_middle"]


def test_the_file_is_the_text(tmp_path) -> None:
    model = hbconv.convert(fit("regressor"), "reference")
    model.export(tmp_path / "model.sql", dialect="sqlite", table="main.flats", keys=["id", "city"])
    text = (tmp_path / "model.sql").read_text()
    assert text == model.to_sql("sqlite", "main.flats", ["id", "city"])
    assert 'FROM "main"."flats"' in text
    assert text == model.to_sql("sqlite", "main.flats", ["id", "city"])


def test_the_command_writes_it(tmp_path, capsys) -> None:
    hbconv.convert(fit("regressor"), "reference").save(tmp_path / "model.hbc")
    out = tmp_path / "model.sql"
    given = [str(tmp_path / "model.hbc"), "-o", str(out)]
    assert main(["convert", *given, "--sql", "postgres", "--table", "flats", "--keys", "id"]) == 0
    assert "::float8" in out.read_text()
    assert 'SELECT "id"' in out.read_text()
    assert "methods predict, inputs" in capsys.readouterr().out


def test_one_name_needs_no_list() -> None:
    model = hbconv.convert(fit("linear"), "reference")
    listed = model.to_sql(keys=["id"], methods=["predict"])
    assert model.to_sql(keys="id", methods="predict") == listed


def test_what_no_query_says_is_refused_by_name() -> None:
    model = hbconv.convert(fit("linear"), "reference")
    with pytest.raises(OptionError, match="Did you mean 'postgres'"):
        model.to_sql("postgre")
    with pytest.raises(OptionError, match="Did you mean 'predict_proba'"):
        model.to_sql(methods=["predict_prob"])
    with pytest.raises(BackendError, match="keys and answers"):
        model.to_sql(keys=["Predict"])
    x = np.random.default_rng(0).normal(size=(60, 3))
    near = KNeighborsClassifier(5).fit(x, x[:, 0] > 0)
    with pytest.raises(BackendError, match="compared with all others"):
        hbconv.convert(near, "reference").to_sql()


@pytest.mark.parametrize(
    "searching",
    [Birch(n_clusters=2, threshold=0.5), NearestCentroid(), KNeighborsClassifier(1)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_nearest_one_is_found_without_an_order(searching) -> None:
    rng = np.random.default_rng(0)
    source = searching.fit(rng.normal(size=(60, 3)), np.arange(60) % 3)
    rows = rng.normal(size=(200, 3)) * 10.0 ** rng.integers(0, 17, (200, 3))
    model = hbconv.convert(source, "sql")
    np.testing.assert_array_equal(model.predict(rows), source.predict(rows))
    assert "ORDER BY" not in model.to_sql()


def test_long_queries_are_warned_of_and_longer_ones_refused(monkeypatch) -> None:
    model = hbconv.convert(fit("forest"), "reference")
    size = len(model.to_sql())
    monkeypatch.setattr(export, "LONG_BYTES", size - 2)
    with pytest.warns(UserWarning, match="bytes, which a database plans") as found:
        model.to_sql()
    assert found[0].filename == __file__
    monkeypatch.setattr(export, "MOST_BYTES", size - 2)
    with pytest.raises(BackendError, match=r"hbconv\.engines"):
        model.to_sql()


def test_bounds_decide_as_rounded_rows_do() -> None:
    """Halves between two float32, and one float64 beside, of every magnitude."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32)
    special = np.array([0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, 3.4028235e38, -3.4028235e38])
    t = np.concatenate([bits.view(np.float32), special.astype(np.float32)])
    t = t[~np.isnan(t)]
    bounds = double_bounds(t)
    for x in (bounds, np.nextafter(bounds, np.inf), np.nextafter(bounds, -np.inf), t.astype(float)):
        with np.errstate(over="ignore"):
            assert ((x.astype(np.float32) <= t) == (x <= bounds)).all()


@pytest.mark.parametrize("name", ["duckdb", "sqlite"])
def test_literals_are_read_exactly(name: str) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**63, 3000, dtype=np.int64).view(np.float64)
    values = np.concatenate([bits, -bits, rng.normal(size=500), [0.1, 5e-324, 1e-310, 2.0**1023]])
    values = values[np.isfinite(values)]
    dialect = find_dialect(name)
    rows = pd.DataFrame({"id": [0]})
    for part in np.array_split(values, 10):
        listed = ", ".join(f"{dialect.float64(v)} AS v{i}" for i, v in enumerate(part.tolist()))
        answer = ask(name, f"SELECT id, {listed} FROM rows", rows)
        np.testing.assert_array_equal(answer.iloc[0, 1:].to_numpy().astype(float), part)
