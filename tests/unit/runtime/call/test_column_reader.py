"""Some rows of a frame, or records, are answered bit for bit as the ordinary reading answers them,
or refused alike: those of a kind that is known, of one that is new, and of one that cannot be known.
"""

from __future__ import annotations

import json
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pairwise import failing
from row_models import (
    SOURCES,
    catboost,
    encoder,
    lightgbm,
    missing_texts,
    numbers,
    one_hot,
    reading,
    strict,
    stump,
)
from row_table import (
    CELLS,
    COLUMNS,
    FRAMES,
    NUMBERS,
    RECORD,
    TEXTS,
    covered_columns,
    may_fit,
    people,
    records,
    table,
)
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.errors import HbconvError, InputError
from hbconv.runtime.call.column_reader import SOME
from hbconv.runtime.call.page import Method
from hbconv.runtime.inputs.stored_columns import stored_columns

FEW = (2, 3, 40)
ASKED = [
    *((build, "tvm") for build in SOURCES if build.__name__ != "worded"),
    *((build, "torch") for build in (one_hot, strict, encoder)),
]
READERS = ("ordinal", "columns, scaled", "boosting")
"""Those of the tests of one row, so that the models are converted once."""


@cache
def converted(build, backend="tvm"):
    return hbconv.convert(build(), backend)


def method_of(model):
    return next(n for n in ("predict_proba", "transform", "predict") if n in model.methods)


def outcome(call, x):
    """Return the bits of an answer, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of casts, which numpy gives or not
            answer = call(x)
    except HbconvError as error:
        return type(error), str(error)
    answer = answer.toarray() if hasattr(answer, "toarray") else answer
    return answer.dtype, answer.shape, answer.tobytes()


def assert_alike(model, x):
    """Assert that the first frame of a kind and the next are answered the ordinary way's answer."""
    method = method_of(model)
    wanted = outcome(Method(model, method).ordinary, x)
    for _ in range(2):
        assert outcome(getattr(model, method), x) == wanted, x


def not_asked(x, *_):
    raise AssertionError(x)


def with_categories(frame):
    known = {name: people()[name].unique() for name in TEXTS if name in frame}
    return frame.assign(**{name: pd.Categorical(frame[name], known[name]) for name in known})


FORMS = {
    "pandas": lambda frame: frame,
    "pandas objects": lambda frame: frame.astype(object),
    "pandas categories": with_categories,
    "pandas nullable": pd.DataFrame.convert_dtypes,
    "polars": pl.from_pandas,
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "Arrow batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "Arrow categories": lambda frame: pa.Table.from_pandas(
        with_categories(frame), preserve_index=False
    ),
    "records": lambda frame: frame.to_dict("records"),
    "JSON records": lambda frame: json.dumps(frame.to_dict("records")),
    "columns": lambda frame: frame.to_dict("list"),
    "arrays": lambda frame: {name: frame[name].to_numpy() for name in frame},
}
FAST = {
    "pandas": [one_hot, strict, missing_texts, encoder, numbers, stump, catboost],
    "pandas objects": [one_hot, encoder, catboost],
    "pandas categories": [one_hot, strict, lightgbm, catboost],
    "pandas nullable": [one_hot, strict],
    "polars": [one_hot, strict, missing_texts, numbers, catboost],
    "Arrow": [one_hot, strict, missing_texts, numbers, catboost],
    "Arrow batch": [one_hot, strict],
    "Arrow categories": [one_hot, strict],
    "records": [one_hot, strict, encoder, numbers, catboost],
    "JSON records": [one_hot, strict, encoder, numbers, catboost],
    "columns": [one_hot, strict, encoder, numbers, catboost],
    "arrays": [one_hot, strict, encoder, numbers, catboost],
}
"""Forms of frames that are read fast, and by which models."""


def rows_of(model, form, rows=5):
    return FORMS[form](people()[list(model.schema.names)].fillna({"age": 3.0})[:rows])


def assert_answered_alike(storage, value, name, form):
    model = reading(storage, value, name)
    if model is None:
        return
    for rows in FEW:
        for first in (0, 1) if rows < len(table(storage, value)) else (0,):
            try:
                x = FRAMES[form](table(storage, value)[first : first + rows])
            except Exception:  # The library of the form refuses it.
                continue
            assert_alike(model, x)


@pytest.mark.parametrize("name", READERS)
def test_every_kind_of_column_is_answered_as_the_ordinary_way_does(name, pytestconfig):
    if pytestconfig.getoption("--whole"):
        columns = [column for column in COLUMNS if may_fit(*column, name)]
        rows = [(*column, name, form) for column in columns for form in FRAMES]
    else:
        rows = [row for row in covered_columns(READERS, form=[*FRAMES]) if row[2] == name]
    assert failing(assert_answered_alike, rows) == {}
    models = {reading(*row[:3]) for row in rows} - {None}
    calls = [call for model in models for call in model._methods.values()]
    assert any(plan is not None for call in calls for plan in call._plans.values())


def test_rows_that_are_answered_otherwise_are_found(monkeypatch):
    """As where the answers of some rows are one too large."""
    decoder = hbconv.runtime.call.column_reader.decoder
    wrong = "hbconv.runtime.call.column_reader.decoder"
    monkeypatch.setattr(wrong, lambda output: lambda values: decoder(output)(values) + 1)
    monkeypatch.setitem(globals(), "reading", reading.__wrapped__)
    row = ("numpy", "int64", "columns, scaled", "pandas")
    assert [*failing(assert_answered_alike, [row])] == [", ".join(row)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("build", "backend"), ASKED, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.share("case")
def test_every_cell_beside_an_ordinary_one_is_answered_as_the_ordinary_way_does(
    build, backend, form
):
    model = converted(build, backend)
    names = list(model.schema.names)
    for name in ("sex", "age", "sibsp"):
        for cell in CELLS if name in names else ():
            rows = [RECORD, {**RECORD, name: cell}]
            try:
                x = FORMS[form](pd.DataFrame([[r[n] for n in names] for r in rows], columns=names))
            except Exception:  # The library of the form refuses it.
                continue
            assert_alike(model, x)


@pytest.mark.parametrize(("build", "backend"), ASKED, ids=lambda one: getattr(one, "__name__", one))
def test_records_of_any_names_and_cells_are_answered_as_the_ordinary_way_does(build, backend):
    model = converted(build, backend)
    for record in records([*TEXTS, "age", "sibsp"]):
        for rows in ([RECORD, record], [record, RECORD, record]):
            assert_alike(model, rows)
        if record.keys() == RECORD.keys():
            assert_alike(model, {name: [RECORD[name], record[name]] for name in RECORD})


@pytest.mark.parametrize(
    ("form", "build"), [(form, build) for form, builds in FAST.items() for build in builds]
)
def test_rows_of_a_known_kind_are_read_fast(form, build, monkeypatch):
    model = converted(build)
    method = method_of(model)
    wanted = [outcome(getattr(model, method), rows_of(model, form, rows)) for rows in (5, 2, 5)]
    monkeypatch.setattr(model._methods[method], "ordinary", not_asked)
    for rows, answer in zip((5, 2, 5), wanted, strict=True):
        assert outcome(getattr(model, method), rows_of(model, form, rows)) == answer


@pytest.mark.parametrize("lacking", [(), ("age",), ("age", "sibsp"), ("name",)])
@pytest.mark.parametrize("build", [one_hot, numbers, stump, catboost])
def test_records_that_lack_names_are_read_fast(build, lacking, monkeypatch):
    """As clients leave out what is null."""
    model = converted(build)
    method = method_of(model)
    names = model.schema.names
    rows = people()[list(names)].fillna({"age": 3.0})[:4].to_dict("records")
    rows[1] = {name: value for name, value in rows[1].items() if name not in lacking}
    rows[2] = dict(reversed(rows[2].items()))
    assert_alike(model, rows)
    if isinstance(outcome(getattr(model, method), rows)[0], np.dtype):
        monkeypatch.setattr(model._methods[method], "ordinary", not_asked)
        outcome(getattr(model, method), rows)


def test_records_of_one_name_are_read_fast(monkeypatch):
    model = hbconv.convert(StandardScaler().fit(people()[["fare"]]), "tvm")
    rows = people()[["fare"]][:5].to_dict("records")
    assert_alike(model, rows)
    monkeypatch.setattr(model._methods["transform"], "ordinary", not_asked)
    assert model.transform(rows).shape == (5, 1)


class Odd:
    def __array__(self, *_, **__):
        raise AttributeError("odd")


@pytest.mark.parametrize("cell", [[1.0, 2.0], {"a": 1}, Odd()], ids=["list", "dict", "odd"])
def test_what_no_column_holds_is_left_to_the_ordinary_reading(cell):
    """Of a column that no model reads, a library may not make an array, or take long to."""
    model = converted(numbers)
    rows = people()[NUMBERS].fillna(3.0)[:3].to_dict("records")
    assert_alike(model, [{**row, "more": cell} for row in rows])
    if not isinstance(cell, Odd):
        assert stored_columns([{**row, "more": cell} for row in rows], SOME) is None
    assert_alike(model, {**people()[NUMBERS].fillna(3.0)[:3].to_dict("list"), "more": [1, 2, cell]})


def test_names_of_its_own_in_each_record_make_no_columns():
    rows = people()[NUMBERS].fillna(3.0)[:50].to_dict("records")
    own = [{**row, **{f"own {i} {j}": 1 for j in range(9)}} for i, row in enumerate(rows)]
    assert stored_columns(own, SOME) is None
    assert_alike(converted(numbers), own)


def test_many_cells_are_read_as_tables():
    frame = pd.DataFrame(np.zeros((1000, 300)), columns=[f"c{i}" for i in range(300)])
    for form in ("pandas", "polars", "Arrow", "records", "columns"):
        assert stored_columns(FORMS[form](frame), SOME) is None
        assert stored_columns(FORMS[form](frame[:100]), SOME) is not None


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_names_of_several_levels_are_those_of_positions(rows):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 2)))
    frame.columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    source = LinearRegression().fit(frame, np.arange(6))
    model = hbconv.convert(source, "tvm")
    for _ in range(2):
        np.testing.assert_allclose(model.predict(frame[:rows]), source.predict(frame[:rows]))


@pytest.mark.parametrize("rows", [0, 1, 2, SOME[-1], SOME[-1] + 1])
def test_any_number_of_rows_has_one_answer(rows):
    model = converted(one_hot)
    frame = people()[list(model.schema.names)].iloc[np.arange(rows) % 80]
    assert_alike(model, frame)
    alone = [model.predict(frame[i : i + 1]) for i in range(min(rows, 80))]
    if rows:
        np.testing.assert_array_equal(model.predict(frame)[:80], np.concatenate(alone))


@pytest.mark.parametrize("form", ["pandas", "Arrow", "polars", "records", "arrays"])
def test_large_ints_among_small_ones_are_told(form):
    frame = people()[NUMBERS].fillna(3.0)
    model = converted(numbers)
    for value in (2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1):
        assert_alike(model, FORMS[form](frame[:3].assign(sibsp=np.array([1, value, 2]))))


def test_na_is_refused_whatever_was_asked_before():
    """The imputer compares each text with NaN, though no tree reads what it fills in."""

    def frame(missing):
        texts = pd.Series([missing, "a", "b", "a", "a", "b"], dtype=object)
        return pd.DataFrame({"text": texts, "number": np.arange(6.0)})

    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    filled = make_pipeline(SimpleImputer(strategy="most_frequent"), codes)
    columns = make_column_transformer((filled, ["text"]), ("passthrough", ["number"]))
    source = make_pipeline(columns, StandardScaler(), DecisionTreeClassifier()).fit(
        frame(np.nan), [0, 0, 0, 1, 1, 1]
    )
    model = hbconv.convert(source, "tvm")
    for missing in (None, np.nan, pd.NA):
        assert_alike(model, frame(missing))
    with pytest.raises(InputError, match="<NA> in row 0"):
        model.predict(frame(pd.NA))


def test_other_columns_may_hold_anything():
    model = converted(one_hot)
    frame = people()[list(model.schema.names)][:4]
    days = pd.to_datetime(np.arange(4), unit="D")
    for more in (days, [pd.NA, None, 1, "a"], pd.arrays.SparseArray([1.0, 0.0, 0.0, 2.0])):
        assert_alike(model, frame.assign(more=more))


@pytest.mark.parametrize("form", FORMS)
def test_a_bound_call_answers_some_rows_as_its_ordinary_way_does(form, monkeypatch):
    model = converted(one_hot)
    for rows in (None, 3):
        call = model.bind("predict_proba", rows=rows)
        x = rows_of(model, form, 3)
        first = call(x)
        monkeypatch.setattr("hbconv.runtime.call.bind.UncheckedMethod.ordinary", not_asked)
        np.testing.assert_array_equal(call(x), first)
        monkeypatch.undo()
    with pytest.raises(hbconv.errors.InputError, match="X has 2 rows; this call was bound for 3"):
        call(rows_of(model, form, 2))


def test_a_document_that_no_tree_reads_is_looked_at_too():
    """A program that reads no words would take any column for them."""
    words = make_column_transformer((TfidfVectorizer(), "t"), ("passthrough", ["n"]))
    frame = pd.DataFrame({"n": np.arange(6.0), "t": ["a b", "cd", "cd e", "ab", "a", "ab cd"]})
    source = make_pipeline(words, DecisionTreeClassifier()).fit(frame, [0, 0, 0, 1, 1, 1])
    model = hbconv.convert(source, "tvm")
    for missing in (None, np.nan):
        for text in ("ab", "cd", missing):
            rows = frame.assign(t=[text, *frame["t"][1:]]).astype({"t": object})
            assert_alike(model, rows)
        with pytest.raises(InputError, match="Column 't'"):
            model.predict(rows)
