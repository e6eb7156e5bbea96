"""Exported queries answer in each database as the source does, rows made to hurt among them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import subprocess
import sys
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from fitted import fit, table
from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeClassifier
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
@pytest.mark.parametrize("depth", [5, None])
def test_leaves_that_are_vectors_are_found_once(engine: str, depth: int | None) -> None:
    """Each tree is there once: its tests are counted, and not those of the number of its leaf."""
    x = np.random.default_rng(2).normal(size=(150, 3))
    forest = RandomForestClassifier(12, max_depth=depth, random_state=0)
    forest.fit(x, np.digitize(x.sum(axis=1), [-2, -1, 0, 1, 2]))
    query = hbconv.convert(forest, "reference").to_sql(
        engine, keys=["id"], methods=["predict_proba"]
    )
    rows = pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(id=range(150))
    got = ask(engine, query, rows).drop(columns="id").to_numpy().astype(float)
    np.testing.assert_array_equal(got, forest.predict_proba(x))
    n_tests = sum(tree.tree_.n_leaves - 1 for tree in forest.estimators_)
    assert len(re.findall("<=|>(?!=)", query)) < n_tests + 40


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_the_source_refuses_get_null(engine: str) -> None:
    model = hbconv.convert(fit("linear"), "reference")
    x = np.zeros((4, 6))
    x[1, 2], x[2, 0] = np.nan, np.inf
    rows = pd.DataFrame(x, columns=[f"x{i}" for i in range(6)]).assign(id=range(4))
    answer = ask(engine, model.to_sql(engine, keys=["id"]), rows)
    assert answer["predict"].isna().tolist() == [False, True, True, False]
    assert list(answer)[2:] == ["predict_proba_high", "predict_proba_low", "predict_proba_middle"]


@pytest.mark.parametrize("engine", ENGINES)
def test_codes_are_not_asked_whether_they_are_finite(engine: str) -> None:
    query = hbconv.convert(source("logistic"), "reference").to_sql(engine, keys=["id"])
    assert re.search(r"abs\(CASE WHEN \(?v\d+=", query) is None
    assert "ELSE 0 END+" not in query


def test_the_file_is_the_text(tmp_path) -> None:
    model = hbconv.convert(fit("regressor"), "reference")
    model.export(tmp_path / "model.sql", dialect="sqlite", table="main.flats", keys=["id", "city"])
    text = (tmp_path / "model.sql").read_text()
    assert text == model.to_sql("sqlite", "main.flats", ["id", "city"])
    assert "FROM `main`.`flats`" in text
    assert text == model.to_sql("sqlite", "main.flats", ["id", "city"])


WRITE = """
import hashlib, sys
import hbconv
for path in sys.argv[1:]:
    model = hbconv.load(path)
    text = "".join(model.to_sql(name, keys=["id"]) for name in ("duckdb", "postgres", "spark", "sqlite"))
    print(hashlib.sha256(text.encode()).hexdigest())
"""
"""Prints what the queries of saved models are."""


def test_the_same_model_gives_the_same_text(tmp_path) -> None:
    """Converted twice, and saved and loaded, whatever the order of sets."""
    names = ("logistic", "lightgbm", "target")
    paths, digests = [str(tmp_path / f"{name}.hbc") for name in names], []
    for name, path in zip(names, paths, strict=True):
        models = [hbconv.convert(source(name), "reference") for _ in range(2)]
        models[0].save(path)
        first, second = (
            "".join(model.to_sql(engine, keys=["id"]) for engine in sorted(ENGINES))
            for model in models
        )
        assert first == second
        digests.append(hashlib.sha256(first.encode()).hexdigest())
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", WRITE, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == digests


NAMES = [
    ['a"b', "sel ect", "select"],
    ["Group", "x'y", "a`b"],
    ["v0", "v1", "v_1"],
    ["rows", "predict", "one"],
    ["größe", "日本", "a\\b"],
    ["a.b", "a;b--", "a\nb"],
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("names", NAMES, ids=lambda names: names[0])
def test_columns_and_keys_may_have_any_name(names: list[str], engine: str) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    rows = pd.DataFrame(x, columns=names)
    tree = RandomForestRegressor(3, max_depth=3, random_state=0).fit(rows, x[:, 0] * x[:, 1])
    keys = ["id", *(name for name in names if name != "predict")]
    query = hbconv.convert(tree, "reference").to_sql(engine, keys=keys)
    answer = ask(engine, query, rows.assign(id=range(40)))
    assert list(answer) == [*keys, "predict"]
    np.testing.assert_array_equal(answer["predict"].to_numpy(float), tree.predict(rows))
    np.testing.assert_array_equal(answer[keys[1:]].to_numpy(float), rows[keys[1:]])


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_may_hold_anything(engine: str) -> None:
    listed = 'it\'s|a "b"|x\ny|a\\b|\t|ü|日本||  |%s{}|--|:p|$1|${x}'
    texts = listed.split("|")
    rows = pd.DataFrame({"text": texts * 3, "id": range(42)})
    encoder = OneHotEncoder(sparse_output=False).fit(rows[["text"]])
    tree = DecisionTreeClassifier().fit(encoder.transform(rows[["text"]]), rows["text"])
    model = hbconv.convert(make_pipeline(encoder, tree), "reference")
    answer = ask(engine, model.to_sql(engine, keys=["id"], methods="predict"), rows)
    assert answer["predict"].tolist() == rows["text"].tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_bools_count_as_0_and_1_where_a_sample_tells_of_them(engine: str) -> None:
    """PostgreSQL has no cast of them, and without a sample the model knows no types of columns."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=90), "flag": rng.random(90) < 0.5, "n": range(90)})
    fitted = DecisionTreeClassifier().fit(rows, (rows["x"] > 0) ^ rows["flag"] ^ (rows["n"] > 40))
    query = hbconv.convert(fitted, "reference", sample=rows).to_sql(engine, keys=["id"])
    given = rows.assign(id=range(90), n=rows["n"] + 0.5)
    answer = ask(engine, query, given)
    assert answer["predict"].astype(bool).tolist() == fitted.predict(given[[*rows]]).tolist()


def ask_sqlite(query: str, *script: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(";".join(script))
        return [row[0] for row in database.execute(query)]


def test_sqlite_reads_numbers_of_texts_and_refuses_rows_of_others() -> None:
    """The shell's ``.import`` makes texts of all columns, and empty ones of what is missing."""
    x = pd.DataFrame({"age": [1.0, 2.0, np.nan, 4.0] * 9})
    source = make_pipeline(SimpleImputer(), LinearRegression()).fit(x, x["age"].fillna(9.0))
    texts = ["1.5", " 7 ", "", "1e3", "9007199254740993", "abc", "2020-01-01", "1.5x"]
    values = ",".join(f"('{text}')" for text in texts)
    query = hbconv.convert(source, "reference").to_sql("sqlite")
    got = ask_sqlite(query, "CREATE TABLE rows(age TEXT)", f"INSERT INTO rows VALUES {values}")
    numbers = pd.DataFrame({"age": [1.5, 7.0, np.nan, 1e3, 9007199254740993.0]})
    np.testing.assert_allclose(got[:5], source.predict(numbers), rtol=1e-12)
    assert got[5:] == [None] * 3


@pytest.mark.parametrize("engine", ["duckdb", "postgres", "spark"])
@pytest.mark.parametrize("value", ["CAST('2026-01-01' AS TIMESTAMP)", "current_date", "'abc'"])
def test_what_is_no_number_is_an_error_of_the_database(value: str, engine: str) -> None:
    """SQLite has no such types, and gives rows of other texts NULL."""
    model = hbconv.convert(LinearRegression().fit([[1.0], [2.0]], [2.0, 4.0]), "reference")
    query = model.to_sql(engine, keys=["id"])
    given = f"FROM (SELECT {value} AS x0, 1 AS id) AS given"
    asked = re.sub('FROM [`"]rows[`"]', given, query, count=1)
    assert given in asked
    with pytest.raises(Exception, match=r"(?i)cast|convert|invalid|no number"):
        ask(engine, asked, pd.DataFrame({"id": [1]}))


def test_a_column_that_misses_is_an_error_in_sqlite() -> None:
    """A name between double quotes would be a text there, which is read as 0."""
    model = hbconv.convert(
        LinearRegression().fit(pd.DataFrame({"age": [1.0, 2]}), [1, 2]), "reference"
    )
    for keys in ([], ["key"]):
        query = model.to_sql("sqlite", keys=keys)
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            ask_sqlite(query, f"CREATE TABLE rows({'age' if keys else 'ages'} REAL)")


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_that_a_database_takes_for_one_are_refused(engine: str) -> None:
    rng = np.random.default_rng(0)
    for names, refused in (
        (["a", "A"], {"duckdb", "spark", "sqlite"}),
        (["n" * 63 + "a", "n" * 63 + "b"], {"postgres"}),
    ):
        rows = pd.DataFrame(rng.normal(size=(9, 2)), columns=names)
        model = hbconv.convert(LinearRegression().fit(rows, rows[names[0]]), "reference")
        if engine in refused:
            with pytest.raises(BackendError, match="for one column"):
                model.to_sql(engine)
        else:
            answer = ask(engine, model.to_sql(engine, keys=["id"]), rows.assign(id=range(9)))
            np.testing.assert_allclose(answer["predict"].to_numpy(float), rows[names[0]])


def test_keys_and_labels_of_another_case_are_others_in_postgres() -> None:
    rows = pd.DataFrame({"x": np.arange(8.0), "Predict": np.arange(8)})
    source = LogisticRegression().fit(rows[["x"]], ["a", "A"] * 4)
    model = hbconv.convert(source, "reference")
    query = model.to_sql("postgres", keys=["Predict"])
    assert '"predict_proba_A", ' in query
    assert '"predict_proba_a"' in query
    assert '"predict_proba_0"' in model.to_sql("duckdb")


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()])
def test_categories_that_float64_does_not_tell_apart_are_refused(encoder: Any) -> None:
    rows = np.array([[2**53], [2**53 + 1], [7]])
    model = hbconv.convert(make_pipeline(encoder, Ridge()).fit(rows, [1.0, 2, 3]), "reference")
    with pytest.raises(BackendError, match="category 9007199254740992"):
        model.to_sql()
    small = make_pipeline(encoder, Ridge()).fit(rows % 10**9, [1.0, 2, 3])
    assert hbconv.convert(small, "reference").to_sql()


def test_points_between_quotes_are_part_of_a_name(tmp_path) -> None:
    source = LinearRegression().fit([[1.0], [2.0]], [2.0, 4.0])
    model = hbconv.convert(source, "reference")
    path = tmp_path / "rows.2026.csv"
    path.write_text("x0\n1.5\n")
    with duckdb.connect() as database:
        database.execute('CREATE SCHEMA "s.1"; CREATE TABLE "s.1"."t""x" AS SELECT 2.5 AS x0')
        for table, want in ((f'"{path}"', 3.0), ('"s.1"."t""x"', 5.0), ('"s.1".t"x', 5.0)):
            ((got,),) = database.execute(model.to_sql(table=table)).fetchall()
            assert got == pytest.approx(want)
    with pytest.raises(BackendError, match="cannot name"):
        model.to_sql(table="shop.")


def test_the_command_writes_it(tmp_path, capsys) -> None:
    hbconv.convert(fit("regressor"), "reference").save(tmp_path / "model.hbc")
    out = tmp_path / "model.sql"
    given = [str(tmp_path / "model.hbc"), "-o", str(out)]
    assert main(["convert", *given, "--sql", "postgres", "--table", "flats", "--keys", "id"]) == 0
    assert "::float8" in out.read_text()
    assert 'SELECT "id"' in out.read_text()
    assert "methods predict, inputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("output", "suffix"),
    [
        (["-o", "m.onnx"], ".onnx"),
        (["-o", "m"], "a folder"),
        (["-o", "m", "--format", "triton"], ".pt"),
    ],
)
@pytest.mark.parametrize("option", [("--sql", "duckdb"), ("--table", "t"), ("--keys", "id")])
def test_the_command_names_its_own_options(tmp_path, monkeypatch, capsys, output, suffix, option):
    monkeypatch.chdir(tmp_path)
    hbconv.convert(fit("regressor"), "reference").save("model.hbc")
    assert main(["convert", "model.hbc", *output, *option]) != 0
    said = capsys.readouterr().err
    assert f"{option[0]} is for .sql files, and the output is {suffix}." in said


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
    with pytest.raises(BackendError, match="answers are tensors"):
        hbconv.convert(NearestNeighbors().fit(x), "reference").to_sql(methods="kneighbors")
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


@pytest.mark.parametrize("name", ENGINES)
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


@pytest.mark.parametrize("dialect", ENGINES)
def test_a_label_with_half_a_character_is_refused_by_name(dialect):
    """Probabilities are named by their labels, and numbered where a database holds no such name."""
    rows = np.arange(6.0)[:, None]
    source = LogisticRegression().fit(rows, np.array(["a", "a\ud800"] * 3, object))
    model = hbconv.convert(source, "reference")
    assert "predict_proba_0" in model.to_sql(dialect, methods="predict_proba")
    with pytest.raises(BackendError, match="SQL cannot hold the text"):
        model.to_sql(dialect, methods="predict")


def test_a_label_that_a_setting_would_replace_is_a_number_in_a_name_of_spark():
    rows = np.arange(6.0)[:, None]
    model = hbconv.convert(LogisticRegression().fit(rows, ["a", "${b}"] * 3), "reference")
    query = model.to_sql("spark")
    assert "predict_proba_0" in query
    assert "${" not in query
    assert "predict_proba_${b}" in model.to_sql("duckdb")
