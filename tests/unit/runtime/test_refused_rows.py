"""Errors of refused rows carry the value, the column and the row, through every door."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from fitted import available_backends
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.cli import main
from hbconv.errors import InputError
from hbconv.serve.batching import compute_batch
from hbconv.serve.protocol.records import read_records
from hbconv.serve.served_model import ServedModel
from hbconv.serve.signature import ModelSignature

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "x": RNG.normal(size=40),
        "plan": RNG.choice(["p", "q"], 40),
        "n": RNG.integers(0, 3, 40),
    }
)
SOURCE = make_pipeline(
    ColumnTransformer([("n", "passthrough", ["x"]), ("c", OneHotEncoder(), ["plan", "n"])]),
    LogisticRegression(),
).fit(TABLE, np.arange(40) % 2)
MODEL = hbconv.convert(SOURCE, "reference")


def changed(column, row, value):
    rows = TABLE[:6].copy()
    rows.loc[row, column] = value
    return rows


BAD = {
    "text": (changed("plan", 2, "NEW"), "Row 2 holds 'NEW' in column 'plan'."),
    "number": (changed("n", 3, 7), "Row 3 holds 7 in column 'n'."),
    "infinite": (changed("x", 4, np.inf), "Row 4 holds inf."),
}


def refusal(answer, *arguments):
    with pytest.raises(InputError) as caught:
        answer(*arguments)
    return str(caught.value)


def served(records):
    """The refusal of a server that computes the request together with another."""
    signature = ModelSignature.of(MODEL)
    model = ServedModel("m", "1", MODEL, signature, 0)
    asked = [read_records({"instances": given}, signature, 100) for given in (records[:1], records)]
    first, second = compute_batch(model, asked)
    assert not isinstance(first, Exception)
    raise second


def records(rows):
    return json.loads(rows.to_json(orient="records"))


DOORS = {
    "frame": MODEL.predict,
    "records": lambda rows: MODEL.predict(rows.to_dict("records")),
    "json": lambda rows: MODEL.predict(json.dumps(records(rows))),
    "scorer": lambda rows: hbconv.Scorer(MODEL, "predict")(pyarrow_table(rows)),
    "served": lambda rows: served(records(rows)),
}


def pyarrow_table(rows):
    return pytest.importorskip("pyarrow").Table.from_pandas(rows)


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("door", DOORS)
def test_doors_tell_the_row_and_its_value(door, kind):
    if (door, kind) in (("json", "infinite"), ("served", "infinite")):
        return  # JSON has no infinite numbers
    rows, said = BAD[kind]
    assert said.replace(" 7 ", " 7.0 ") in refusal(DOORS[door], rows).replace(" 7 ", " 7.0 ")


@pytest.mark.parametrize("backend", available_backends())
def test_backends_tell_the_row_and_its_value(backend):
    model = hbconv.convert(SOURCE, backend)
    for rows, said in BAD.values():
        assert said in refusal(model.predict, rows)


def test_all_unknown_values_of_a_column_are_listed():
    """As scikit-learn does, up to a number; a row alone has no number."""
    rows = pd.concat([changed("plan", 2, f"N{i % 6}") for i in range(9)], ignore_index=True)
    said = refusal(MODEL.predict, rows)
    assert "Row 2 holds 'N0' in column 'plan'; others hold 'N1', 'N2', 'N3'." in said
    assert refusal(MODEL.predict, rows[2:3]).endswith(" The row holds 'N0' in column 'plan'.")
    labels = hbconv.convert(LabelEncoder().fit(["a", "b"]), "reference")
    assert refusal(labels.transform, ["a", "c"]).endswith(" Row 1 holds 'c'.")


def test_score_tells_the_value_beside_the_row(tmp_path, capsys):
    MODEL.save(tmp_path / "m.hbc")
    rows = pd.concat([TABLE, BAD["text"][0]], ignore_index=True)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    asked = ["score", str(tmp_path / "m.hbc"), str(tmp_path / "rows.csv"), "-o"]
    code = main([*asked, str(tmp_path / "o.csv"), "--rejects", str(tmp_path / "bad.jsonl")])
    assert capsys.readouterr().err == ""
    (line,) = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert code == 0
    assert json.loads(line)["row"] == 43
    assert json.loads(line)["reason"].endswith(" The row holds 'NEW' in column 'plan'.")


def test_rows_are_counted_over_chunks_and_groups():
    """Rows go to programs in chunks, and those with texts in groups of similar length."""
    x = RNG.integers(0, 3, (3000, 2)).astype(float)
    encoder = make_pipeline(SimpleImputer(), OrdinalEncoder()).fit(x)
    x[2500, 1] = 9.0
    model = hbconv.convert(encoder, "reference", memory=1 << 16)
    said = refusal(model.transform, x)
    assert "in column 1 during transform" in said
    assert said.endswith(" Row 2500 holds 9.0.")
    texts = pd.DataFrame({"t": ["aa bb"] * 50 + ["aa bb " * 90] * 50, "plan": ["p", "q"] * 50})
    both = ColumnTransformer([("t", CountVectorizer(), "t"), ("c", OneHotEncoder(), ["plan"])])
    model = hbconv.convert(both.fit(texts), "reference")
    texts.loc[70, "plan"] = "NEW"
    assert refusal(model.transform, texts).endswith(" Row 70 holds 'NEW' in column 'plan'.")


@pytest.mark.parametrize("backend", available_backends())
def test_sparse_rows_have_their_number(backend):
    """And their value where the matrix is written out."""
    source = make_pipeline(StandardScaler(with_mean=False), LogisticRegression())
    x = scipy.sparse.csr_matrix(np.round(RNG.normal(size=(40, 3))))
    model = hbconv.convert(source.fit(x, np.arange(40) % 2), backend)
    x.data[-1] = np.inf
    row = int(x.nonzero()[0][-1])
    assert re.search(
        rf" Row {row} (is the first|holds inf in column \d)\.$", refusal(model.predict, x)
    )
