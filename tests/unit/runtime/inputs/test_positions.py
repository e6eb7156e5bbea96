"""Columns by name or by position, as each source finds them: the same answer, or both refuse, or a
departure listed with its reason.

Never another answer.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost as xgb
from pairwise import failing, pairs_covered
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sources import ask, library

import hbconv
from hbconv.containers import Schema
from hbconv.errors import HbconvError, InputError
from hbconv.runtime.storage.codec import decode, encode

FRAME = pd.DataFrame(np.random.default_rng(0).standard_normal((80, 3)), columns=list("abc"))
ARRAY = FRAME.to_numpy()
VALUE = 3 * FRAME["a"] + FRAME["b"]
CLASS = np.digitize(VALUE, [-1, 1])
WITH_CATEGORIES = FRAME.assign(c=pd.Categorical(np.where(FRAME["c"] > 0, "up", "down")))
NUMBERED = FRAME.set_axis([0, 1, 2], axis=1)


def booster():
    return lgb.LGBMRegressor(n_estimators=3, min_child_samples=5, verbosity=-1, n_jobs=1)


def trees():
    return xgb.XGBRegressor(n_estimators=3, n_jobs=1)


def oblivious():
    return cb.CatBoostRegressor(iterations=3, verbose=0, allow_writing_files=False, thread_count=1)


def picking(columns, remainder="drop"):
    return make_pipeline(
        ColumnTransformer([("scaled", StandardScaler(), columns)], remainder=remainder),
        LinearRegression(),
    )


def classifying():
    return make_pipeline(
        ColumnTransformer([("scaled", StandardScaler(), ["a", "c"])]), LogisticRegression()
    )


def united(*parts):
    return make_pipeline(
        FeatureUnion([(str(i), part) for i, part in enumerate(parts)]), LinearRegression()
    )


def one():
    return ColumnTransformer([("scaled", StandardScaler(), ["a", "c"])])


MODELS = {
    "linear": lambda: LinearRegression().fit(FRAME, VALUE),
    "linear on an array": lambda: LinearRegression().fit(ARRAY, VALUE),
    "linear on numbered columns": lambda: LinearRegression().fit(NUMBERED, VALUE),
    "pipeline": lambda: make_pipeline(StandardScaler(), LinearRegression()).fit(FRAME, VALUE),
    "pipeline that passes first": lambda: make_pipeline("passthrough", trees()).fit(FRAME, VALUE),
    "columns by name": lambda: picking(["a", "c"]).fit(FRAME, VALUE),
    "columns by name, the others too": lambda: picking(["a"], "passthrough").fit(FRAME, VALUE),
    "columns by position": lambda: picking([0, 2]).fit(FRAME, VALUE),
    "columns by a slice": lambda: picking(slice(0, 2)).fit(FRAME, VALUE),
    "columns by a function": lambda: picking(lambda frame: list(frame.columns[:2])).fit(
        FRAME, VALUE
    ),
    "columns on an array": lambda: picking([0, 2]).fit(ARRAY, VALUE),
    "union of scalers": lambda: united(StandardScaler(), StandardScaler()).fit(FRAME, VALUE),
    "union by name": lambda: united(one(), one()).fit(FRAME, VALUE),
    "union by name and in order": lambda: united(one(), StandardScaler()).fit(FRAME, VALUE),
    "union by name and as it stands": lambda: united(one(), "passthrough").fit(FRAME, VALUE),
    "search by name": lambda: GridSearchCV(picking(["a", "c"]), {}, cv=2).fit(FRAME, VALUE),
    "calibration by name": lambda: CalibratedClassifierCV(classifying(), cv=2).fit(FRAME, CLASS),
    "one against one": lambda: OneVsOneClassifier(LogisticRegression()).fit(FRAME, CLASS),
    "stack by name": lambda: StackingRegressor(
        [("a", picking(["a", "c"]))], LinearRegression()
    ).fit(FRAME, VALUE),
    "stack by name and as it stands": lambda: StackingRegressor(
        [("a", picking(["a", "c"]))], LinearRegression(), passthrough=True
    ).fit(FRAME, VALUE),
    "bagging": lambda: BaggingRegressor(booster(), 2).fit(FRAME, VALUE),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=3).fit(FRAME, VALUE),
    "histograms with categories": lambda: HistGradientBoostingRegressor(max_iter=3).fit(
        WITH_CATEGORIES, VALUE
    ),
    "LightGBM": lambda: booster().fit(FRAME, VALUE),
    "LightGBM on an array": lambda: booster().fit(ARRAY, VALUE),
    "LightGBM on numbered columns": lambda: booster().fit(NUMBERED, VALUE),
    "LightGBM booster": lambda: booster().fit(FRAME, VALUE).booster_,
    "LightGBM behind a scaler": lambda: make_pipeline(StandardScaler(), booster()).fit(
        FRAME, VALUE
    ),
    "voting of LightGBM": lambda: VotingRegressor([("a", booster()), ("b", booster())]).fit(
        FRAME, VALUE
    ),
    "XGBoost": lambda: trees().fit(FRAME, VALUE),
    "XGBoost on an array": lambda: trees().fit(ARRAY, VALUE),
    "XGBoost on numbered columns": lambda: trees().fit(NUMBERED, VALUE),
    "XGBoost linear": lambda: xgb.XGBRegressor(n_estimators=3, booster="gblinear", n_jobs=1).fit(
        FRAME, VALUE
    ),
    "XGBoost booster": lambda: trees().fit(FRAME, VALUE).get_booster(),
    "voting of XGBoost": lambda: VotingRegressor([("a", trees())]).fit(FRAME, VALUE),
    "CatBoost": lambda: oblivious().fit(FRAME, VALUE),
    "CatBoost on an array": lambda: oblivious().fit(ARRAY, VALUE),
    "CatBoost on numbered columns": lambda: oblivious().fit(NUMBERED, VALUE),
    "voting of CatBoost": lambda: VotingRegressor([("a", oblivious())]).fit(FRAME, VALUE),
    "voting of LightGBM and XGBoost": lambda: VotingRegressor(
        [("a", booster()), ("b", trees())]
    ).fit(FRAME, VALUE),
    "voting of LightGBM and CatBoost": lambda: VotingRegressor(
        [("a", booster()), ("b", oblivious())]
    ).fit(FRAME, VALUE),
    "voting of LightGBM and columns by name": lambda: VotingRegressor(
        [("a", booster()), ("b", picking(["a", "c"]))]
    ).fit(FRAME, VALUE),
}

CHANGES = {
    "same": lambda f: f,
    "reordered": lambda f: f[["b", "a", "c"]],
    "renamed": lambda f: f.set_axis(list("xyz"), axis=1),
    "one renamed": lambda f: f.rename(columns={"c": "z"}),
    "one more": lambda f: f.assign(d=1.0),
    "one more first": lambda f: f.assign(d=1.0)[["d", "a", "b", "c"]],
    "the last missing": lambda f: f[["a", "b"]],
    "the second missing": lambda f: f[["a", "c"]],
}
LIBRARIES = {
    "pandas": lambda f: f,
    "polars": pl.from_pandas,
    "Arrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
}
PANDAS = {
    "a name twice": lambda f: f.set_axis(["a", "a", "c"], axis=1),
    "a column twice": lambda f: pd.concat([f, f[["a"]]], axis=1),
    "numbered": lambda f: f.set_axis([0, 1, 2], axis=1),
    "numbered otherwise": lambda f: f.set_axis([1, 0, 2], axis=1),
    "names and numbers": lambda f: f.set_axis(["a", 1, "c"], axis=1),
    "array": lambda f: f.to_numpy(),
    "array, one more": lambda f: np.column_stack([f, f["a"]]),
    "mapping": lambda f: {name: f[name].to_numpy() for name in "bac"},
    "structured": lambda f: f.to_records(index=False),
}


def table_name(library: str, change: str) -> str:
    return change if library == "pandas" else f"{library}, {change}"


TABLES = PANDAS | {
    table_name(library, change): (lambda f, made=made, changed=changed: made(changed(f)))
    for library, made in LIBRARIES.items()
    for change, changed in CHANGES.items()
}

BY_NAME = (
    "columns",
    "union by",
    "histograms with",
    "search",
    "calibration",
    "stack",
    "voting of LightGBM and columns",
)
ADDED = {
    (
        "",
        "mapping structured",
    ): "No source reads these: a mapping's columns have names and no order.",
    (
        BY_NAME,
        "array numbered",
    ): "The source refuses an array where columns were fitted on by name; it is read by position, with a warning.",
    (
        ("XGBoost linear", "XGBoost booster"),
        "array",
    ): "A DMatrix of an array has no names, which the source refuses; read by position, with a warning.",
    (
        ("LightGBM and",),
        "numbered",
    ): "A voting has scikit-learn's names, and numbers are none: read by position, with a warning.",
    (
        ("on an array", "on numbered", "CatBoost"),
        "twice",
    ): "Read by position as ever: the names are not looked at.",
    (("columns", "union", "CatBoost"), "Arrow"): "The source reads no Arrow table here.",
    (
        ("CatBoost on numbered",),
        "same reordered name numbered",
    ): "No attribute of the source tells that the numbers are names: read by position.",
}
"""Tables that hbconv answers and the source refuses: words of a model, words of a table, and
why.
"""

REFUSED = {
    (
        ("LightGBM", "stack by name and", "union by name and"),
        "reordered twice numbered",
    ): "The source takes a column for another, by position.",
    (
        ("XGBoost", "passes first"),
        "polars Arrow",
    ): "The source checks the names of pandas alone: the same columns in polars or Arrow are read by position.",
    (("CatBoost",), "more"): "The source leaves out the last columns of a wider table or array.",
    (
        ("CatBoost on",),
        "reordered numbered",
    ): "No attribute of the source tells whether the numbers are names, by which it finds the columns.",
}
"""Tables that the source answers and hbconv refuses, by a sentence that says how to mend it."""


@cache
def models(name: str) -> tuple[Any, hbconv.Model]:
    source = MODELS[name]()
    return source, hbconv.convert(source, "reference")


def outcome(call: Any, x: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call(x))
        except Exception as error:  # each library has errors of its own
            return error


def asked(source: Any, x: Any) -> Any:
    return ask(source, "predict", x)


def is_listed(listed: dict[Any, str], name: str, table: str) -> bool:
    return any(
        any(w in name for w in words or [""]) and any(w in table for w in tables.split())
        for (words, tables) in listed
    )


def assert_found(name: str, table: str) -> None:
    source, model = models(name)
    frame = WITH_CATEGORIES if name == "histograms with categories" else FRAME
    x = TABLES[table](frame)
    want, got = outcome(lambda rows: asked(source, rows), x), outcome(model.predict, x)
    assert not isinstance(got, Exception) or isinstance(got, HbconvError), repr(got)
    if isinstance(got, Exception):
        assert isinstance(want, Exception) or is_listed(REFUSED, name, table), (repr(got), want[:3])
        assert isinstance(got, InputError)
        return
    if isinstance(want, Exception):
        assert is_listed(ADDED, name, table), repr(want)
        stands_otherwise = "reordered" in table or table == "mapping"
        want = (
            None if stands_otherwise and not model.schema.named else fitted_on(name, source, frame)
        )
    if want is not None:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def fitted_on(name: str, source: Any, frame: pd.DataFrame) -> Any:
    """The source's answer to the rows it was fitted on, in a table as it was then."""
    rows = (
        frame.to_numpy()
        if name.endswith("array")
        else NUMBERED
        if name.endswith("numbered columns")
        else frame
    )
    return asked(source, rows)


@cache
def chosen() -> list[tuple[str, ...]]:
    return pairs_covered({"model": [*MODELS], "library": [*LIBRARIES], "change": [*CHANGES]})


def tables_of(name: str) -> list[str]:
    """Return the tables of an ordinary run: each change and each library, and all of pandas alone."""
    return [*PANDAS, *(table_name(*factors) for model, *factors in chosen() if model == name)]


@pytest.mark.parametrize("name", MODELS)
def test_columns_are_found_as_the_source_finds_them(name: str, pytestconfig: pytest.Config) -> None:
    tables = TABLES if pytestconfig.getoption("--whole") else tables_of(name)
    assert failing(assert_found, [(name, table) for table in tables]) == {}


def test_a_departure_that_is_not_listed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for listed in ("ADDED", "REFUSED"):
        monkeypatch.setitem(globals(), listed, {})
    cases = [("linear", "same"), ("linear", "mapping"), ("LightGBM", "reordered")]
    assert [*failing(assert_found, cases)] == ["linear, mapping", "LightGBM, reordered"]


def test_a_refusal_says_how_to_mend_it() -> None:
    model, reordered = models("LightGBM")[1], FRAME[["b", "a", "c"]]
    with pytest.raises(
        InputError,
        match=r"'b' stands at position 0, .* Give X\[list\(model.feature_names_in_\)\], or X.to_numpy\(\)",
    ):
        model.predict(reordered)
    np.testing.assert_array_equal(
        model.predict(reordered[list(model.feature_names_in_)]), model.predict(FRAME)
    )
    np.testing.assert_array_equal(
        outcome(model.predict, reordered.to_numpy()),
        outcome(models("LightGBM")[0].predict, reordered),
    )
    with pytest.raises(InputError, match=r"Columns are missing: 'b'\. .* Not fitted on: 'z'\."):
        models("linear")[1].predict(FRAME.rename(columns={"b": "z"}))
    with pytest.raises(
        InputError,
        match=r"LinearRegression was not fitted on the columns 'd', and refuses them\. Give X\[list",
    ):
        models("linear")[1].predict(FRAME.assign(d=1.0))


def test_other_names_are_warned_of_where_columns_are_read_by_position() -> None:
    with pytest.warns(
        UserWarning,
        match="X has other feature names than LGBMRegressor was fitted with, which reads columns by position",
    ):
        models("LightGBM")[1].predict(FRAME.set_axis(list("xyz"), axis=1))


def test_a_saved_model_finds_columns_as_before(tmp_path: Any) -> None:
    for name in ("linear", "columns by name", "LightGBM", "CatBoost"):
        model = models(name)[1]
        model.save(tmp_path / "model.hbc")
        loaded = hbconv.load(tmp_path / "model.hbc")
        assert loaded.schema == model.schema
        for table in ("reordered", "renamed", "one more"):
            before, after = (outcome(m.predict, TABLES[table](FRAME)) for m in (model, loaded))
            assert str(before) == str(after)


def test_a_file_from_before_finds_columns_by_name() -> None:
    document, arrays = encode({"schema": Schema.table(["a", "b"], finds="positions")})
    assert "positions" in str(document)
    del document["shared"][0]["finds"]
    assert decode(document, arrays)["schema"] == Schema.table(["a", "b"])


def test_every_library_is_asked() -> None:
    assert {library(models(name)[0]) for name in MODELS} == {
        "sklearn",
        "lightgbm",
        "xgboost",
        "catboost",
    }
