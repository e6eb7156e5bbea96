"""Calls bound for tables answer as the method does, for rows of every form, and look at no values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from lightgbm import LGBMClassifier
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.errors import InputError, OptionError

ROWS = 60
RECORD = {"sex": "f", "age": 30.5, "sibsp": 1}


@cache
def people():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], ROWS),
            "age": rng.integers(1, 80, ROWS) + 0.5,
            "sibsp": rng.integers(0, 4, ROWS),
        }
    )


def labels():
    return (people()["age"] + 20 * (people()["sex"] == "m") > 50).astype(int)


@cache
def mixed():
    encode = OneHotEncoder(sparse_output=False)
    columns = ColumnTransformer([("sex", encode, ["sex"])], remainder=StandardScaler())
    return make_pipeline(columns, LogisticRegression()).fit(people(), labels())


@cache
def numbers():
    frame = people()[["age", "sibsp"]].astype(float)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, labels())


def compiled(source, backend="tvm"):
    return hbconv.convert(source, backend)


def forms(rows):
    turned = rows.iloc[:, ::-1].to_dict("list")
    return [rows, pl.from_pandas(rows), turned, rows.to_dict("records")]


@pytest.mark.parametrize("backend", ["tvm", "torch", "reference"])
@pytest.mark.parametrize("rows", [None, 1, 3])
@pytest.mark.parametrize("build", [mixed, numbers])
def test_tables_are_answered_as_the_method_does(build, rows, backend):
    model = compiled(build(), backend)
    frame = people()[list(model.schema.names)][: rows or 4].astype({"sibsp": model.dtypes[-1]})
    for method in ("predict", "predict_proba"):
        bound = model.bind(method, rows)
        wanted = getattr(model, method)(frame)
        for x in forms(frame) * 2:
            np.testing.assert_array_equal(bound(x), wanted)


def test_one_row_is_a_record():
    model = compiled(mixed())
    for rows in (1, None):
        bound = model.bind("predict_proba", rows)
        for changed in ({}, {"sibsp": 2}, {"age": 31}, {"sex": "m"}):
            record = {**RECORD, **changed}
            wanted = model.predict_proba(record)
            np.testing.assert_array_equal(bound(record), wanted)
            np.testing.assert_array_equal(bound(dict(reversed(record.items()))), wanted)
            np.testing.assert_array_equal(
                bound('{"sex": "f", "age": 30.5, "sibsp": 1}')[0].shape, 2
            )


def test_what_is_no_row_of_the_table_is_refused():
    model = hbconv.convert(mixed(), "tvm", sample=people())
    bound = model.bind("predict_proba", 1)
    for misfit, told in {
        "missing": ({"sex": "f", "age": 30.5}, "Columns are missing: 'sibsp'"),
        "cut": ({**RECORD, "sibsp": 1.5}, "Column 'sibsp' has dtype float64; .* dtype='float64'"),
        "missing number": ({**RECORD, "sibsp": None}, "Column 'sibsp' has dtype float64"),
        "text": ({**RECORD, "age": "old"}, "Column 'age' holds the text 'old'"),
        "number": ({**RECORD, "sex": 1.5}, "Column 'sex' holds numbers"),
        "two rows": (people()[:2], "X has 2 rows; this call was bound for 1"),
        "no rows": (people()[:0], "X has 0 rows; this call was bound for 1"),
        "sparse": (scipy.sparse.csr_matrix(np.ones((1, 3))), "sparse matrix"),
        "nothing": (None, "NoneType"),
    }.values():
        for _ in range(2):
            with pytest.raises(InputError, match=told):
                bound(misfit)
        np.testing.assert_allclose(bound(RECORD), model.predict_proba(RECORD), rtol=1e-12)


def test_one_dtype_takes_all_numbers():
    model = compiled(mixed())
    bound = model.bind("predict_proba", 1, dtype="float64")
    for sibsp in (1, 1.0, True, np.float32(1)):
        record = {**RECORD, "sibsp": sibsp}
        np.testing.assert_allclose(bound(record), model.predict_proba(RECORD), rtol=1e-12)


def test_values_are_not_looked_at():
    model = compiled(mixed())
    bound = model.bind("predict_proba", 1)
    for odd in ({"sex": "unknown"}, {"age": float("inf")}):
        with pytest.raises(InputError):
            model.predict_proba({**RECORD, **odd})
        for _ in range(2):
            assert bound({**RECORD, **odd}).shape == (1, 2)


def test_a_model_of_named_numbers_takes_tables_and_matrices():
    model = compiled(numbers())
    bound = model.bind("predict_proba", 1, dtype="float64")
    x = np.array([[30.5, 1.0]])
    wanted = bound(x).copy()
    for _ in range(2):
        np.testing.assert_array_equal(bound({"sibsp": 1.0, "age": 30.5}), wanted)
        np.testing.assert_array_equal(bound(pd.DataFrame(x, columns=["age", "sibsp"])), wanted)
        with pytest.raises(InputError, match="in another order"):
            bound(pd.DataFrame(x, columns=["sibsp", "age"]))


def test_a_model_of_categories_takes_tables_and_arrays_of_codes():
    frame = people().astype({"sex": "category"})
    source = LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1).fit(frame, labels())
    bound = hbconv.convert(source, "tvm").bind("predict_proba", 1, dtype="float64")
    codes = frame.assign(sex=frame["sex"].cat.codes).to_numpy(np.float64)
    wanted = source.predict_proba(frame)
    for i in range(6):
        np.testing.assert_allclose(bound(frame[i : i + 1]), wanted[i : i + 1], rtol=1e-12)
        np.testing.assert_allclose(bound(codes[i : i + 1]), wanted[i : i + 1], rtol=1e-12)


def test_objects_without_names_are_tables_too():
    objects = people()[["sex", "age"]].to_numpy(object)
    columns = ColumnTransformer([("sex", OrdinalEncoder(), [0])], remainder="passthrough")
    source = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=5))
    source.fit(objects, labels())
    bound = hbconv.convert(source, "tvm").bind("predict_proba")
    np.testing.assert_allclose(bound(objects), source.predict_proba(objects), rtol=1e-12)


def test_many_threads_use_one_call():
    model = compiled(mixed())
    bound = model.bind("predict_proba", 1)
    rows = [{**RECORD, "age": 0.5 + i % 70, "sex": "fm"[i % 2]} for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        got = np.concatenate(list(pool.map(bound, rows)))
    np.testing.assert_array_equal(got, model.predict_proba(rows))


def test_text_that_is_read_by_its_words_is_not_bound():
    texts = ["an apple", "an orange", "no apple", "no orange"]
    source = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [0, 1, 0, 1])
    with pytest.raises(OptionError, match="reads text by its words"):
        hbconv.convert(source, "reference").bind()


@pytest.mark.parametrize("form", range(4))
def test_rows_are_no_name_of_a_method(form):
    """Rows are given to the call, and are refused by name where the method's name stands."""
    with pytest.raises(OptionError, match="Expected the name of a method, got a"):
        compiled(mixed(), "reference").bind(forms(people()[:3])[form])
