"""Columns that a model was fitted on and does not read: nobody asks for them, and nobody looks."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import hbconv
import hbconv.engines.pandas
from hbconv.cli import main
from hbconv.engines.spark import score_batches
from hbconv.errors import InputError, OptionError
from hbconv.serve.signature import ModelSignature

ROWS = pd.DataFrame(
    {
        "who": [1.0, 2.0, 3.0, 4.0],
        "x": [1.0, 2.0, 3.0, 4.0],
        "plan": ["p", "q", "p", "q"],
        "on": [True, False, True, True],
    }
)
READ = ["x", "plan", "on"]
UNREAD = {
    "texts": pa.array(list("abcd")),
    "lists": pa.array([[1], [], None, [2]]),
    "bytes": pa.array([b"\xff"] * 4),
    "nulls": pa.nulls(4),
    "dates": pa.array([0, 1, 2, 3], pa.timestamp("ns", "UTC")),
    "structs": pa.array([{"a": 1}] * 4),
}


@pytest.fixture(scope="module")
def source():
    """A model that reads three of four columns."""
    passed = ("passed", "passthrough", ["x", "on"])
    columns = ColumnTransformer([passed, ("plan", OneHotEncoder(sparse_output=False), ["plan"])])
    return make_pipeline(columns, LogisticRegression()).fit(ROWS, [0, 1, 0, 1])


@pytest.fixture(scope="module", params=[False, True], ids=["no sample", "sample"])
def model(request, source):
    return hbconv.convert(source, "reference", sample=ROWS if request.param else None)


@pytest.fixture(scope="module")
def ordered():
    """A model that reads one of two columns, behind a step that takes columns by their order."""
    columns = ColumnTransformer([("x", "passthrough", ["x"])])
    source = make_pipeline(FunctionTransformer(), columns, LogisticRegression())
    source.fit(ROWS[["who", "x"]], [0, 1, 0, 1])
    return source, hbconv.convert(source, "reference")


@pytest.mark.parametrize("unread", UNREAD.values(), ids=UNREAD)
def test_it_may_have_any_type(source, model, unread):
    table = pa.Table.from_pandas(ROWS[READ], preserve_index=False).append_column("who", unread)
    score = hbconv.Scorer(model)
    (batch,) = table.to_batches()
    for found in (score(table), score(batch), next(score_batches(score, [batch]))):
        assert found["predict"].to_pylist() == source.predict(ROWS).tolist()


def test_it_may_be_absent(source, model):
    table = pa.Table.from_pandas(ROWS[READ], preserve_index=False)
    assert hbconv.Scorer(model)(table)["predict"].to_pylist() == source.predict(ROWS).tolist()
    assert hbconv.Scorer(model).inputs().names == READ
    assert [one.name for one in ModelSignature.of(model).inputs] == READ
    for rows in (ROWS[READ].to_dict("records"), ROWS[READ].to_dict("list"), ROWS[READ]):
        assert model.predict(rows).tolist() == source.predict(ROWS).tolist()


def test_it_may_be_absent_where_columns_have_an_order(ordered):
    source, model = ordered
    want = source.predict(ROWS[["who", "x"]]).tolist()
    assert model.schema.finds == "names in order"
    assert hbconv.Scorer(model).inputs().names == ["x"]
    assert hbconv.Scorer(model)(pa.table({"x": ROWS.x.to_numpy()}))["predict"].to_pylist() == want
    assert ROWS[["x"]].hbconv.predict(model).tolist() == want
    assert model.predict(ROWS[["x"]].to_dict("records")).tolist() == want
    with pytest.raises(InputError, match="no columns x"):
        hbconv.Scorer(model)(pa.table({"who": ROWS.who.to_numpy()}))


def test_it_is_no_reason_of_a_reject(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model.save("m.hbc")
    bad = ROWS.assign(who=list("abcd"))
    bad.loc[2, "plan"] = "NEW"
    for names in (["who", *READ], READ):
        bad[names].to_csv("t.csv", index=False)
        argv = ["t.csv", "-o", "o.csv", "--rejects", "r.jsonl", "--force", "--quiet"]
        assert main(["score", "m.hbc", *argv]) == 0, capsys.readouterr()
        (line,) = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
        assert line["row"] == 3
        assert "unknown categories" in line["reason"]
        assert "'plan'" in line["reason"]
        assert list(line["values"]) == READ


def test_texts_that_are_numbers_are_read_in_their_own_columns(source, model, tmp_path, monkeypatch):
    """One word in a CSV file makes text of a column, whichever columns stand before it."""
    monkeypatch.chdir(tmp_path)
    model.save("m.hbc")
    rows = ROWS.assign(who="w", x=ROWS.x.astype(object))
    rows.loc[1, "x"] = "word"
    rows.to_csv("t.csv", index=False)
    argv = ["t.csv", "-o", "o.csv", "--rejects", "r.jsonl", "--force", "--quiet"]
    assert main(["score", "m.hbc", *argv]) == 0
    (line,) = map(json.loads, (tmp_path / "r.jsonl").read_text().splitlines())
    assert line["reason"] == "Column 'x' must be numbers, and holds the text 'word'."
    kept = np.delete(source.predict(ROWS), 1)
    assert pd.read_csv("o.csv").predict.tolist() == kept.tolist()


class TestReasons:
    TABLE = pa.table(
        {"id": range(6), "x": [1.0, None, 3.0, 4.0, 5.0, None], "plan": list("pqpqpq"),
         "on": [True] * 6, "who": [1.0] * 6}
    )  # fmt: skip

    @pytest.mark.parametrize("rows", [range(6), [1], [0, 2], [], [5, 1]], ids=str)
    @pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch])
    def test_tell_of_each_refused_row_once(self, source, rows, kind):
        score = hbconv.Scorer(
            hbconv.convert(source, backend="reference"),
            ["predict", "predict_proba"],
            ["id"],
            reasons="why",
        )
        table = self.TABLE.take(pa.array(list(rows), pa.int64()))
        asked = table if kind is pa.Table else table.combine_chunks().to_batches()
        asked = asked if kind is pa.Table else (asked or [_no_rows(table.schema)])[0]
        found = pickle.loads(pickle.dumps(score))(asked)
        assert isinstance(found, kind)
        assert found.schema == score.schema(table.schema)
        assert found["id"].to_pylist() == list(rows)
        for row in found.to_pylist():
            refused = row["id"] in (1, 5)
            assert (row["predict"] is None, row["predict_proba_1"] is None) == (refused, refused)
            assert ("NaN" in row["why"]) if refused else row["why"] is None
        good = [row for row in rows if row not in (1, 5)]
        if good:
            expected = source.predict(table.to_pandas().query("x == x"))
            assert found["predict"].drop_null().to_pylist() == expected.tolist()

    def test_are_not_of_tables_that_lack_a_column(self, source):
        score = hbconv.Scorer(hbconv.convert(source, backend="reference"), reasons="why")
        with pytest.raises(InputError, match="have no columns x"):
            score(self.TABLE.drop_columns("x"))

    def test_have_a_name_of_their_own(self, source):
        score = hbconv.Scorer(hbconv.convert(source, backend="reference"), reasons="predict")
        with pytest.raises(OptionError, match="have a column of that name"):
            score(self.TABLE)

    def test_are_refused_in_frames(self, source):
        score = hbconv.Scorer(hbconv.convert(source, backend="reference"), reasons="why")
        with pytest.raises(OptionError, match="change their types"):
            ROWS.hbconv.score(score)


def _no_rows(schema):
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
