"""Columns that a model was fitted on and does not read: nobody asks for them, and nobody looks."""

from __future__ import annotations

import json

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
from hbconv.errors import InputError
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
