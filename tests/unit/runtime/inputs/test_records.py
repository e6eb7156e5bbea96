"""Records answer as the source does for the same rows as a DataFrame, or both refuse."""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pairwise import failing
from row_table import (
    COLUMNS,
    ESTIMATORS,
    FORMS,
    NUMBERS,
    RECORD,
    covered_columns,
    fitted_on,
    labels,
    may_fit,
    people,
    records,
    table,
)
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sources import dense, quietly
from threadpoolctl import threadpool_limits

import hbconv
from hbconv.errors import HbconvError, InputError


def pipeline(last):
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps = [("text", encode, ["sex", "port"]), ("numbers", SimpleImputer(), NUMBERS)]
    return make_pipeline(ColumnTransformer(steps), last)


@cache
def models():
    source = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(people(), labels())
    linear = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    linear.fit(people()[NUMBERS], labels())
    return {
        name: (made, hbconv.convert(made, "reference"))
        for name, made in {"mixed": source, "numbers": linear}.items()
    }


AS_FRAMES = {
    "holds numbers .* fitted on text": "a number is no text that is unknown",
    "beyond int64": "the table needs another dtype",
    "type tuple|holds a (tuple|list)|one-dimensional": "a record holds one value for each name",
}
"""What hbconv refuses by these words, and the source answers in a frame, and why."""
READ = ("record", "list of one record", "series", "JSON", "pandas objects")


def refused(call):
    try:
        return call()
    except Exception:
        return None


def asked(call):
    try:
        return call()
    except InputError as error:
        return error


def frame_of(record):
    """Return a frame with the dtypes of fitting, or those that the cells have."""
    frame = pd.DataFrame([list(record.values())], columns=list(record), dtype=object)
    for name in frame.columns.difference(["sex", "port", "name"]):
        frame[name] = frame[name].infer_objects()
    return frame


@cache
def expected(name):
    """Return records, each with the answer of the source to its frame, or None."""
    source, model = models()[name]
    names = model.schema.names
    made = [*records(["sex", "age", "sibsp", "name"])]  # columns that are read in different ways
    if name == "numbers":
        made = [{key: r[key] for key in names} for r in made if r.keys() >= {*names}]
    distinct = {repr(record): record for record in made}.values()
    with threadpool_limits(1):  # threads wait for each other longer than a row takes
        return [(r, refused(lambda r=r: source.predict_proba(frame_of(r)))) for r in distinct]


def assert_record_is_answered(form, name, place):
    record, want = expected(name)[place]
    try:
        x = FORMS[form](record)
    except Exception:  # The library of the form refuses it.
        return
    found = asked(lambda: models()[name][1].predict_proba(x))
    if isinstance(found, InputError):
        assert want is None or re.search("|".join(AS_FRAMES), str(found)), (record, found, want)
        return
    if want is None:
        assert is_frame_alone_refused(form, record), (record, found)
        return
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=0, err_msg=str(record))


def is_frame_alone_refused(form, record):
    """Whether the source refuses a frame for what hbconv reads: lists are texts that are unknown,
    JSON has no names but texts, and NA is missing in a record and an object in a frame.
    """
    if form != "pandas objects" and any(cell is pd.NA for cell in record.values()):
        return True
    has_list = any(isinstance(cell, list | dict) for cell in record.values())
    return has_list or (form == "JSON" and 5 in record)


@pytest.mark.parametrize("form", READ)
def test_a_record_answers_as_its_frame(form):
    rows = [(form, name, place) for name in models() for place in range(len(expected(name)))]
    assert failing(assert_record_is_answered, rows) == {}


def test_a_record_that_is_answered_otherwise_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "AS_FRAMES", {"no such words": ""})
    monkeypatch.setitem(FORMS, "record", lambda record: record | {"fare": 99.0})
    rows = [("record", "mixed", place) for place in range(len(expected("mixed")))]
    found = "".join(failing(assert_record_is_answered, rows).values())
    assert "beyond int64" in found
    assert "Not equal to tolerance" in found


AS_TABLES = {
    ("pandas", "dates"): "no numbers",
    ("pandas", "dates of a zone"): "likewise",
    ("pandas", "time spans"): "likewise",
}
"""Columns whose records some models answer in another way than their table, and why."""


def answer(estimator, x):
    method = "transform" if hasattr(estimator, "transform") else "predict_proba"
    return dense(quietly(estimator, method, x))


def assert_records_are_answered(storage, value, name):
    estimator = fitted_on(storage, value, name)
    rows = table(storage, value)[:12]
    want = None if estimator is None else refused(lambda: answer(estimator, rows))
    if want is None:
        return
    try:
        model = hbconv.convert(estimator, "reference")
    except HbconvError:
        return
    found = asked(lambda: answer(model, rows.to_dict("records")))
    rtol = 1e-6 if value == "float32" else 1e-12
    is_equal = not isinstance(found, InputError) and np.allclose(
        found, want, rtol=rtol, atol=rtol, equal_nan=True
    )
    assert is_equal or (storage, value) in AS_TABLES, (found, want)


@cache
def chosen_columns():
    return covered_columns(("columns, scaled", "columns, one hot", "ordinal"))


def test_records_of_every_kind_of_column(pytestconfig):
    """They answer as their table does, or are refused by name."""
    every = [(*column, name) for column in COLUMNS for name in ESTIMATORS]
    whole = [row for row in every if may_fit(*row) and row[-1] != "boosting"]
    rows = whole if pytestconfig.getoption("--whole") else chosen_columns()
    assert failing(assert_records_are_answered, rows) == {}


def test_records_that_are_answered_otherwise_are_found(monkeypatch):
    monkeypatch.setitem(globals(), "AS_TABLES", {})
    rows = [("pandas", "dates", "columns, scaled"), ("numpy", "int64", "ordinal")]
    assert [*failing(assert_records_are_answered, rows)] == [", ".join(rows[0])]


def test_many_records_answer_as_their_frame():
    source, model = models()["mixed"]
    records = people().astype(object).where(people().notna(), None).to_dict("records")
    assert any(record["age"] is None for record in records)
    expected = source.predict_proba(people())
    for given in (records, tuple(records), json.dumps(records), json.dumps(records).encode()):
        np.testing.assert_allclose(model.predict_proba(given), expected, rtol=1e-12)


def test_keys_stand_in_any_order():
    source, model = models()["numbers"]
    record = {"sibsp": 1, "age": 30.0, "fare": 7.0}
    expected = source.predict_proba(pd.DataFrame([record])[NUMBERS])
    np.testing.assert_allclose(model.predict_proba(record), expected, rtol=1e-12)


@pytest.mark.parametrize("orient", ["records", "split"])
def test_json_of_pandas_is_read(orient):
    source, model = models()["mixed"]
    text = people().to_json(orient=orient, double_precision=15)
    expected = source.predict_proba(people())
    np.testing.assert_allclose(model.predict_proba(text), expected, rtol=1e-12)


def test_json_of_columns_and_of_rows_is_read():
    source, model = models()["numbers"]
    rows = [[30, 7.5, 1], [31, 8.5, 0]]
    expected = source.predict_proba(pd.DataFrame(rows, columns=NUMBERS))
    columns = dict(zip(NUMBERS, map(list, zip(*rows, strict=True)), strict=True))
    np.testing.assert_allclose(model.predict_proba(json.dumps(columns)), expected, rtol=1e-12)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_allclose(model.predict_proba(json.dumps(rows)), expected, rtol=1e-12)


class Stream:
    """Anything that gives its columns by Arrow's stream interface alone."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("table", [pa.Table.from_pandas, pl.from_pandas], ids=["pyarrow", "polars"])
def test_an_arrow_stream_is_read(table):
    source, model = models()["mixed"]
    expected = source.predict_proba(people())
    given = Stream(table(people()))
    np.testing.assert_allclose(model.predict_proba(given), expected, rtol=1e-12)


REFUSED = {
    "a missing key": ({"age": 1, "fare": 2}, r"Columns are missing: 'sibsp'"),
    "an unknown key": (
        {"age": 1, "fare": 2, "sibsp": 3, "shoe": 4},
        r"Pipeline was not fitted on the columns 'shoe', and refuses them",
    ),
    "a key that all records lack": (
        [{"age": 1, "fare": 2}, {"age": 1}],
        r"Columns are missing: 'sibsp'",
    ),
    "something else among records": ([{"age": 1, "fare": 2, "sibsp": 3}, 4], r"Record 1 is 4"),
    "a list in a record": (
        [{"age": [1], "fare": 2, "sibsp": 3}],
        r"Column 'age' holds \[1\] of type list. A record holds one value",
    ),
    "a text in a number": (
        {"age": "old", "fare": 2, "sibsp": 3},
        r"Column 'age' holds the text 'old', where the model needs numbers",
    ),
    "text that is no JSON": ("age=1", r"X is text, and not JSON of rows"),
    "deep JSON": ("[" * 100_000, r"X is text, and not JSON of rows"),
    "a key twice": ('{"age": 1, "age": 2}', r"The JSON text gives 'age' twice"),
    "a column twice": ('{"columns": ["a", "a"], "data": []}', r"gives a column twice"),
    "a short row": ('{"columns": ["a", "b"], "data": [[1]]}', r"Row 0 of the JSON table is \[1\]"),
    "a JSON number": ("3", r"Expected a table or a two-dimensional array, got int"),
}


@pytest.mark.parametrize(("x", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(x, message):
    _, model = models()["numbers"]
    with pytest.raises(InputError, match=message):
        model.predict(x)


def test_a_column_that_is_not_read_may_be_absent_from_some_records():
    source, model = models()["mixed"]
    without = {key: value for key, value in RECORD.items() if key != "name"}
    expected = source.predict_proba(pd.DataFrame([RECORD, RECORD]))
    np.testing.assert_allclose(model.predict_proba([without, RECORD]), expected, rtol=1e-12)


def test_a_key_that_some_records_lack_is_missing_there():
    source, model = models()["numbers"]
    rows = [{"age": 30, "fare": 7.0, "sibsp": 1}, {"fare": 8.5, "age": 31}]
    expected = source.predict_proba(pd.DataFrame(rows))
    np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-12)


def test_a_record_is_a_sample():
    source, _ = models()["mixed"]
    model = hbconv.convert(source, "reference", sample=RECORD)
    assert model.dtypes == ("string", "float64", "float64", "string", "int64", "string")


def test_a_mapping_is_an_item_of_a_model_of_mappings():
    source = DictVectorizer().fit([{"a": 1.0, "b": "x"}])
    model = hbconv.convert(source, "reference")
    given = [{"a": 2.0, "b": "x"}]
    np.testing.assert_array_equal(
        model.transform(given).toarray(), source.transform(given).toarray()
    )
