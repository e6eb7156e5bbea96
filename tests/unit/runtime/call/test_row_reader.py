"""One row of a table is answered bit for bit as the ordinary reading answers it, or refused alike:
rows of a kind that is known, of one that is new, and of one that cannot be known.
"""

from __future__ import annotations

import pickle
import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from catboost import CatBoostClassifier
from pairwise import failing
from row_models import (
    SOURCES,
    catboost,
    encoder,
    lightgbm,
    one_hot,
    reading,
    strict,
    stump,
    worded,
)
from row_table import (
    CELLS,
    COLUMNS,
    DOCUMENTS,
    FORMS,
    FRAMES,
    NUMBERS,
    PEOPLE,
    RECORD,
    TEXTS,
    WORDS,
    covered_columns,
    labels,
    may_fit,
    people,
    records,
    table,
)
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.errors import HbconvError
from hbconv.runtime.call.page import Method

FAST = {
    "record": [*SOURCES[:6], catboost, worded],
    "list of one record": [one_hot],
    "JSON": [one_hot, worded],
    "columns": [one_hot, strict],
    "arrays of objects": [one_hot, strict, catboost],
    "pandas": [*SOURCES[:6], catboost, worded],
    "pandas objects": [*SOURCES[:6], catboost, worded],
    "pandas categories": [*SOURCES[:6], lightgbm, catboost],
    "pandas small": [one_hot, strict],
    "polars": [*SOURCES[:6], catboost, worded],
    "Arrow": [*SOURCES[:6], catboost, worded],
    "Arrow categories": [one_hot, strict],
}
"""Forms of rows that are read fast, and by which models."""


@cache
def converted(build, backend="tvm"):
    return hbconv.convert(build(), backend)


def methods(model):
    return [name for name in ("predict", "predict_proba", "transform") if name in model.methods]


@cache
def given(form):
    """Rows of one form, in an order in which any kind may be the first that comes."""
    found = []
    for record in records():
        try:
            found.append(FORMS[form](record))
        except Exception:  # The library of the form refuses it.
            continue
    random.Random(0).shuffle(found)
    return found


def outcome(call, x):
    """Return the bits of an answer, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of casts, which numpy gives or not
            answer = call(x)
    except HbconvError as error:
        return type(error), str(error)
    return answer.dtype, answer.shape, answer.tobytes()


def plain(model, form):
    """Return an ordinary row with the columns that a model was fitted on."""
    return FORMS[form]({name: RECORD[name] for name in model.schema.names})


def not_asked(x, *_):
    raise AssertionError(x)


ON = [
    *((build, "tvm") for build in SOURCES),
    *((build, backend) for backend in ("torch", "reference") for build in (one_hot, encoder)),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("build", "backend"), ON, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.share("case")
def test_a_row_is_answered_as_the_ordinary_way_does(build, backend, form):
    model = converted(build, backend)
    for method in methods(model):
        for x in given(form):
            wanted = outcome(lambda x, method=method: Method(model, method).ordinary(x), x)
            for _ in range(2):
                assert outcome(getattr(model, method), x) == wanted, x


def unnamed(build):
    """Fit a model anew on rows without names."""
    if build is catboost:
        source = CatBoostClassifier(**build().get_params())
        return source.fit(people()[[*TEXTS, *NUMBERS]].to_numpy(object), labels())
    texts, numbers = [0, 3], [1, 2, 4]
    steps = {"one_hot": OneHotEncoder(handle_unknown="ignore"), "strict": OrdinalEncoder()}
    columns = [("text", steps[build.__name__], texts), ("numbers", SimpleImputer(), numbers)]
    last = LogisticRegression()
    return make_pipeline(ColumnTransformer(columns), last).fit(
        people().drop(columns="name").to_numpy(object), labels()
    )


@pytest.mark.parametrize("build", [one_hot, strict, catboost])
def test_a_row_of_objects_is_answered_as_the_ordinary_way_does(build, monkeypatch):
    model = hbconv.convert(unnamed(build), "tvm")
    names = [*TEXTS, *NUMBERS] if build is catboost else ["sex", "age", "fare", "port", "sibsp"]
    rows = [np.array([[r[n] for n in names]], object) for r in records() if {*names} <= {*r}]
    plain = np.array([[RECORD[name] for name in names]], object)
    wanted = model.predict(plain)
    with monkeypatch.context() as patched:
        patched.setattr(Method, "ordinary", not_asked)
        np.testing.assert_array_equal(model.predict(plain), wanted)
    for method in methods(model):
        for x in [*rows, rows[0][0], rows[0][:, :2], np.concatenate(rows[:3])]:
            wanted = outcome(lambda x, method=method: Method(model, method).ordinary(x), x)
            for _ in range(2):
                assert outcome(getattr(model, method), x) == wanted, x


FORMS_OF_FRAMES = FRAMES | {
    "one record": lambda frame: frame.to_dict("records")[0],
    "series": lambda frame: frame.iloc[0].astype(object),
}
READERS = ("ordinal", "columns, scaled", "boosting")


def assert_answered_alike(storage, value, name, form):
    """Assert that the row reader answers rows as the ordinary way does, the first and the next."""
    model = reading(storage, value, name)
    if model is None:
        return
    method = methods(model)[-1]
    for place in range(4):  # two with a missing value
        try:
            x = FORMS_OF_FRAMES[form](table(storage, value)[place : place + 1])
        except Exception:  # The library of the form refuses it.
            continue
        wanted = outcome(lambda x: Method(model, method).ordinary(x), x)
        for _ in range(2):
            assert outcome(getattr(model, method), x) == wanted, x


@pytest.mark.parametrize("name", READERS)
def test_a_row_of_every_kind_of_column_is_answered_as_the_ordinary_way_does(name, pytestconfig):
    if pytestconfig.getoption("--whole"):
        columns = [column for column in COLUMNS if may_fit(*column, name)]
        rows = [(*column, name, form) for column in columns for form in FORMS_OF_FRAMES]
    else:
        rows = [row for row in covered_columns(READERS, form=[*FORMS_OF_FRAMES]) if row[2] == name]
    assert failing(assert_answered_alike, rows) == {}
    models = {reading(*row[:3]) for row in rows} - {None}
    calls = [call for model in models for call in model._methods.values()]
    assert any(plan is not None for call in calls for plan in call._plans.values())


def test_a_row_that_is_answered_otherwise_is_found(monkeypatch):
    """As where the answers of rows alone are one too large."""
    decoder = hbconv.runtime.call.row_reader.row_decoder
    wrong = "hbconv.runtime.call.row_reader.row_decoder"
    monkeypatch.setattr(wrong, lambda output: lambda values: decoder(output)(values) + 1)
    monkeypatch.setitem(globals(), "reading", reading.__wrapped__)
    row = ("numpy", "int64", "columns, scaled", "pandas")
    assert [*failing(assert_answered_alike, [row])] == [", ".join(row)]


@pytest.mark.parametrize(
    ("form", "build"), [(form, build) for form, builds in FAST.items() for build in builds]
)
def test_a_row_of_a_known_kind_is_read_fast(form, build, monkeypatch):
    model = converted(build)
    method = methods(model)[-1]
    x = plain(model, form)
    wanted = outcome(getattr(model, method), x)
    monkeypatch.setattr(model._methods[method], "ordinary", not_asked)
    assert outcome(getattr(model, method), x) == wanted


@pytest.mark.parametrize("backend", ["tvm", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_text_is_answered_as_the_ordinary_way_does(backend, dtype):
    documents = [WORDS[: i % 40] for i in range(PEOPLE)]
    counts = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", dtype=dtype)
    source = make_pipeline(counts, LogisticRegression()).fit(documents, labels())
    model = hbconv.convert(source, backend)
    lists = [*([text] for text in (*DOCUMENTS, *CELLS)), [], DOCUMENTS, tuple(DOCUMENTS[:1]), WORDS]
    for method in methods(model):
        for x in lists:
            wanted = outcome(lambda x, method=method: Method(model, method).ordinary(x), x)
            for _ in range(2):
                assert outcome(getattr(model, method), x) == wanted, x


def test_a_text_of_a_known_size_is_read_fast(monkeypatch):
    source = make_pipeline(
        HashingVectorizer(n_features=64, ngram_range=(1, 2)), LogisticRegression()
    )
    documents = [WORDS[: i % 40] for i in range(PEOPLE)]
    model = hbconv.convert(source.fit(documents, labels()), "tvm")
    wanted = outcome(model.predict_proba, [WORDS])
    monkeypatch.setattr(model._methods["predict_proba"], "ordinary", not_asked)
    assert outcome(model.predict_proba, [WORDS]) == wanted


def test_a_text_that_must_be_read_the_ordinary_way_is_read_once(monkeypatch):
    model = hbconv.convert(CountVectorizer().fit([WORDS]), "tvm")  # its answers are sparse
    assert outcome(lambda x: model.transform(x).toarray(), [WORDS])
    monkeypatch.setattr("hbconv.runtime.call.row_reader.with_entries", not_asked)
    assert outcome(lambda x: model.transform(x).toarray(), ["other"])


def test_answers_last():
    model = converted(one_hot)
    first = model.predict_proba(RECORD)
    kept = first.copy()
    model.predict_proba({**RECORD, "fare": 99.0})
    np.testing.assert_array_equal(first, kept)


def test_many_threads_ask_at_once():
    model = converted(one_hot)
    rows = [{**RECORD, "fare": float(i % 50), "sex": "fm"[i % 2]} for i in range(400)]
    wanted = model.predict_proba(rows)
    with ThreadPoolExecutor(8) as pool:
        got = np.concatenate(list(pool.map(model.predict_proba, rows)))
    np.testing.assert_array_equal(got, wanted)


def test_a_call_within_another():
    model, other = hbconv.convert(one_hot(), "tvm"), {**RECORD, "fare": 90.0, "sex": "m"}
    wanted, wanted_within = model.predict_proba(RECORD), model.predict_proba(other)
    (buffers,) = model._methods["predict_proba"]._memory.buffers.values()
    bound = buffers.bound
    run, within = bound.run, []
    handlers = [lambda: within.append(model.predict_proba(other))] * 2

    def interrupted(record):
        run(record)
        if handlers:
            handlers.pop()()

    object.__setattr__(bound, "run", interrupted)
    model._methods["predict_proba"]._memory.calls.clear()
    for _ in range(2):
        np.testing.assert_array_equal(model.predict_proba(RECORD), wanted)
    np.testing.assert_array_equal(within, [wanted_within] * 2)


def test_frames_are_given_where_they_are_wanted():
    model = hbconv.convert(encoder(), "tvm")
    row = FORMS["pandas"](RECORD)
    for _ in range(2):
        assert isinstance(model.transform(row), np.ndarray)
    model.set_output(transform="pandas")
    for _ in range(2):
        assert isinstance(model.transform(row), pd.DataFrame)
    model.set_output(transform="default")
    for _ in range(2):
        assert isinstance(model.transform(row), np.ndarray)


def test_the_host_looks_at_cells_of_float32(monkeypatch):
    model, source = converted(stump), stump()
    row = people()[["sex", "fare", "sibsp"]].iloc[:1]
    row = row.assign(fare=row["fare"].astype("float32"), sibsp=np.float32(0.5))
    model.predict(row)
    with monkeypatch.context() as patched:
        patched.setattr(model._methods["predict"], "ordinary", not_asked)
        np.testing.assert_array_equal(model.predict(row), source.predict(row))
    for odd in (np.inf, -np.inf, np.nan):
        with pytest.raises(hbconv.errors.InputError):
            model.predict(row.assign(sibsp=np.float32(odd)))


def test_few_kinds_are_remembered(monkeypatch):
    monkeypatch.setattr("hbconv.runtime.call.memory.MOST_KINDS", 3)
    model = hbconv.convert(one_hot(), "tvm")
    wanted = model.predict_proba(RECORD)
    for extra in range(10):
        row = {**RECORD, f"more{extra}": 1}
        for _ in range(2):
            np.testing.assert_array_equal(model.predict_proba(row), wanted)
    call = model._methods["predict_proba"]
    assert 0 < len(call._plans) <= 3
    assert 0 < len(call._memory.calls) <= 3


def test_a_model_that_was_pickled_reads_rows_anew():
    model = hbconv.convert(one_hot(), "tvm")
    wanted = model.predict_proba(RECORD)
    assert model._methods
    read = pickle.loads(pickle.dumps(model))
    assert not read._methods
    np.testing.assert_array_equal(read.predict_proba(RECORD), wanted)


def distant_dates():
    """Tables with a column that no model reads, of dates for which Python has no object."""
    days = pa.array([2**62]).cast(pa.timestamp("s"))
    table = FORMS["Arrow"](RECORD).append_column("day", days)
    yield table
    yield table.to_pandas(types_mapper=pd.ArrowDtype)
    late = pl.Series("day", [2**62])
    yield FORMS["polars"](RECORD).with_columns(late.cast(pl.Datetime("ms")))
    yield FORMS["polars"](RECORD).with_columns(late.cast(pl.Datetime("ms")).implode())


def test_a_column_that_is_not_read_may_hold_what_python_cannot():
    model = converted(one_hot)
    wanted = model.predict_proba(RECORD)
    for x in distant_dates():
        for _ in range(2):
            np.testing.assert_array_equal(model.predict_proba(x), wanted)


def test_float16_is_compared_with_the_bound_and_not_with_a_rounded_one():
    model = hbconv.convert(stump(), "tvm")
    row = {"sex": "f", "fare": 3.0, "sibsp": np.float16(1.5)}
    wanted = model.predict({**row, "sibsp": 1.5})
    for _ in range(2):
        np.testing.assert_array_equal(model.predict(row), wanted)
    with pytest.raises(hbconv.errors.InputError, match="infinity"):
        model.predict({**row, "sibsp": np.float16("inf")})


def as_numpy_record(frame):
    return dict(zip(frame.columns, frame.to_numpy()[0], strict=True))


@pytest.mark.parametrize("form", [pd.DataFrame.to_numpy, as_numpy_record])
def test_compile_chooses_programs_anew(form):
    """Rows of float32 that were converted get the program that is compiled for them."""
    frame = people()[NUMBERS].fillna(3.0)
    source = make_pipeline(StandardScaler(), LinearRegression()).fit(frame, frame["fare"] * 1.1)
    model = hbconv.convert(source, "tvm", sample=frame, on_new_dtypes="convert")
    small = frame.iloc[:1].astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an array without names
        before = [model.predict(form(small)) for _ in range(2)]
        wanted = hbconv.convert(source, "tvm", sample=small).predict(form(small))
        assert not np.array_equal(before[1], wanted)
        np.testing.assert_array_equal(model.compile(small).predict(form(small)), wanted)


def test_long_texts_are_not_remembered():
    """Clients choose the texts, and would fill the memory with them."""
    model = converted(catboost)
    row = {name: RECORD[name] for name in model.schema.names}
    text = "long" * 1000
    kept = sys.getrefcount(text)
    for _ in range(3):
        answer = outcome(model.predict, {**row, "sex": text})
        assert answer == outcome(
            lambda x: Method(model, "predict").ordinary(x), {**row, "sex": text}
        )
    assert sys.getrefcount(text) == kept


@pytest.mark.parametrize("backend", ["tvm", "torch"])
def test_a_model_that_reads_no_column_answers_one_row(backend: str) -> None:
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "city": ["a", "b", "c"]})
    source = DummyClassifier(strategy="prior").fit(table, [0, 1, 1])
    model = hbconv.convert(source, backend=backend)
    for _ in range(2):
        for one in (table[:1], table.iloc[0].to_dict()):
            np.testing.assert_array_equal(model.predict_proba(one), source.predict_proba(table[:1]))
