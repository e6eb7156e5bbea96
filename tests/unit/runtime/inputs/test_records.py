"""Records answer as the source does for the same rows as a DataFrame, or both refuse."""

from __future__ import annotations

import decimal
import json
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.errors import InputError

ROWS = 60
NUMBERS = ["age", "fare", "sibsp"]


@cache
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": pd.Series(rng.choice(["f", "m"], ROWS), dtype=object),
            "age": rng.integers(1, 80, ROWS).astype(float),
            "fare": rng.gamma(2, 20, ROWS).round(2),
            "port": pd.Series(rng.choice(["S", "C", "Q"], ROWS), dtype=object),
            "sibsp": rng.integers(0, 4, ROWS),
            "name": pd.Series(["x"] * ROWS, dtype=object),
        }
    )
    frame.loc[::7, "age"] = np.nan
    return frame


def pipeline(last):
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps = [("text", encode, ["sex", "port"]), ("numbers", SimpleImputer(), NUMBERS)]
    return make_pipeline(ColumnTransformer(steps), last)


@cache
def models():
    labels = np.arange(ROWS) % 2
    source = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(people(), labels)
    linear = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    linear.fit(people()[NUMBERS], labels)
    return {
        name: (made, hbconv.convert(made, "reference"))
        for name, made in {"mixed": source, "numbers": linear}.items()
    }


RECORD = {"sex": "f", "age": 30.5, "fare": 7.25, "port": "S", "sibsp": 1, "name": "Ann"}
CHANGES = [
    {},
    {"age": 30},
    {"age": None},
    {"age": float("nan")},
    {"age": True},
    {"age": np.float32(30.1)},
    {"age": np.int8(3)},
    {"age": decimal.Decimal("30.5")},
    {"age": 2**53 + 1},
    {"age": 2**70},
    {"age": "15.0"},
    {"age": "fifteen"},
    {"age": float("inf")},
    {"age": pd.NA},
    {"age": 1j},
    {"sex": None},
    {"sex": "unseen"},
    {"sex": np.str_("f")},
    {"sex": float("nan")},
    {"port": "S", "name": None},
    {"sibsp": 1.5, "fare": 7},
]


def refused(call):
    try:
        return call()
    except Exception:
        return None


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("form", ["record", "list", "series"])
def test_a_record_answers_as_its_frame(changes, form):
    for name, (source, model) in models().items():
        record = RECORD | changes
        if name == "numbers":
            record = {key: record[key] for key in NUMBERS}
        frame = pd.DataFrame([record])
        frame = frame.astype(dict.fromkeys(frame.columns.intersection(["sex", "port"]), object))
        given = {"record": record, "list": [record], "series": pd.Series(record, dtype=object)}
        expected = refused(lambda: source.predict_proba(frame))  # noqa: B023
        if expected is None:
            with pytest.raises(InputError):
                model.predict_proba(given[form])
        else:
            np.testing.assert_allclose(
                model.predict_proba(given[form]), expected, rtol=1e-12, atol=0
            )


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
    "a key that one record lacks": (
        [{"age": 1, "fare": 2, "sibsp": 3}, {"age": 1, "fare": 2}],
        r"Record 1 has no 'sibsp', which other records have. Give None",
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
