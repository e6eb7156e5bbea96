import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import hbconv

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
from hbconv.engines.duckdb import create_function  # noqa: E402 - needs duckdb

ARGUMENTS = "age, city, income"


@pytest.fixture
def connection(rows):
    with duckdb.connect() as opened:
        opened.register("people", pa.Table.from_pandas(rows, preserve_index=False))
        yield opened


def test_queries_answer_as_the_source(connection, rows, source, path):
    create_function(connection, "leaves", path)
    create_function(connection, "chances", path, "predict_proba")
    found = connection.sql(
        f"SELECT leaves({ARGUMENTS}) AS label, unnest(chances({ARGUMENTS})) FROM people "
        "ORDER BY id DESC"
    ).df()
    assert list(found) == ["label", "predict_proba_goes", "predict_proba_stays"]
    assert found.label.tolist() == source.predict(rows).tolist()
    np.testing.assert_allclose(found.iloc[:, 1:], source.predict_proba(rows), rtol=1e-9)


def test_many_chunks_in_threads(connection, rows, source, model):
    """Functions are called for some thousand rows at a time."""
    create_function(connection, "leaves", model)
    connection.execute("SET threads = 2")
    found = connection.sql(
        f"SELECT id, leaves({ARGUMENTS}), count(*) FROM people, range(200) GROUP BY 1, 2"
    ).fetchall()
    expected = dict(zip(rows.id, source.predict(rows), strict=True))
    assert {(id_, label) for id_, label, _ in found} == set(expected.items())
    assert {count for _, _, count in found} == {200}


def test_null_is_a_missing_value(connection, rows, source, model):
    create_function(connection, "leaves", model)
    asked = rows.head(1).assign(age=np.nan)
    query = f"SELECT leaves(NULL, '{asked.city[0]}', {float(asked.income[0])!r}::DOUBLE)"
    assert connection.sql(query).fetchall() == [tuple(source.predict(asked))]


def test_constants_and_no_rows(connection, model, source, rows):
    create_function(connection, "leaves", model)
    assert connection.sql(f"SELECT leaves({ARGUMENTS}) FROM people WHERE id < 0").fetchall() == []
    one = rows.assign(age=30.0, city="Rome", income=1.0)
    found = connection.sql("SELECT leaves(30, 'Rome', 1) FROM people").fetchall()
    assert [label for (label,) in found] == source.predict(one).tolist()


def test_types_of_parameters_may_be_stated():
    draw = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    x = pd.DataFrame(draw, columns=["a", "b"])
    source = LinearRegression().fit(x.astype(float), x.a)
    with duckdb.connect() as connection:
        answer = {np.dtype("f4"): "FLOAT", np.dtype("f8"): "DOUBLE"}[source.predict(x).dtype]
        types = {"a": pa.float32(), "b": pa.float32()}
        create_function(connection, "f", hbconv.convert(source), types=types)
        connection.register("t", pa.Table.from_pandas(x))
        found = connection.sql("SELECT f(a, b) AS y FROM t")
        assert found.types == [answer]
        np.testing.assert_allclose(found.df().y, source.predict(x), rtol=1e-5, atol=1e-6)


def test_unknown_columns_of_types_are_refused(connection, model):
    with pytest.raises(hbconv.OptionError, match="'agee'"):
        create_function(connection, "leaves", model, types={"agee": pa.float32()})


def test_a_refused_row_ends_the_query_with_its_reason(connection, model):
    create_function(connection, "leaves", model)
    with pytest.raises(duckdb.Error, match="infinity"):
        connection.sql("SELECT leaves(30, 'Rome', 'inf'::DOUBLE)").fetchall()


@pytest.fixture(scope="module")
def flagged():
    """A table with a column that no step reads, and a model of it."""
    rows = pd.DataFrame(
        {
            "who": ["a1", "b2", "c3", "d4"],
            "x": [1.0, 2.0, 3.0, 4.0],
            "on": [True, False, True, True],
        }
    )
    columns = ColumnTransformer([("n", "passthrough", ["x", "on"])])
    source = make_pipeline(columns, LinearRegression()).fit(rows, [1.0, 0.0, 1.5, 2.0])
    return rows, source


@pytest.mark.parametrize("has_sample", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        'f(x, "on")',
        'f("on" := "on", x := x)',
        'f(x::DECIMAL(4, 1), "on"::INTEGER)',
        'f(x::INTEGER, "on"::DOUBLE)',
    ],
)
def test_parameters_are_the_columns_that_are_read_in_any_type(flagged, call, has_sample):
    rows, source = flagged
    model = hbconv.convert(source, "reference", sample=rows if has_sample else None)
    with duckdb.connect() as connection:
        connection.register("t", rows)
        create_function(connection, "f", model)
        found = [y for (y,) in connection.sql(f"SELECT {call} FROM t").fetchall()]
    np.testing.assert_allclose(found, source.predict(rows), rtol=1e-12)


def test_cursors_know_a_function_and_it_can_be_made_anew(flagged):
    rows, source = flagged
    model = hbconv.convert(source, "reference")
    want = pytest.approx(source.predict(rows)[0], rel=1e-12)
    with duckdb.connect() as connection:
        for _ in range(2):
            create_function(connection, "f", model)
            assert connection.cursor().sql("SELECT f(1, true)").fetchall() == [(want,)]
            assert connection.sql('SELECT f("on" := true, x := 1)').fetchall() == [(want,)]
            connection.remove_function("f")


def test_wrong_arguments_are_told_the_columns(flagged):
    _, source = flagged
    with duckdb.connect() as connection:
        create_function(connection, "f", hbconv.convert(source, "reference"))
        with pytest.raises(duckdb.Error, match=r"f\(x, on\)"):
            connection.sql("SELECT f('a1', 1, true)")
        with pytest.raises(duckdb.Error, match="reads 2 columns: x, on"):
            connection.cursor().sql("SELECT f('a1', 1, true)").fetchall()
        with pytest.raises(duckdb.Error, match="holds the text 'a1'"):
            connection.sql("SELECT f('a1', true)").fetchall()


def test_refused_rows_tell_their_reason(connection, some_refused, path, check_reasons):
    create_function(connection, "told", hbconv.Scorer(path, "predict", reasons="why"))
    connection.register("bad", some_refused)
    check_reasons(connection.sql(f"SELECT id, unnest(told({ARGUMENTS})) FROM bad").df())
