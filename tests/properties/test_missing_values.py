"""A missing value means one thing: each door answers a row as the source answers its frame of
pandas, or all refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from doors import ABSENT, DOORS, TELLS_NAN, UNCHECKED, Asked
from pairwise import failing, pairs_covered
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from skrub import ApplyToCols, DatetimeEncoder
from sources import quietly
from suite.shares import is_whole

import hbconv
from hbconv.errors import HbconvError

ROWS = 30
NOW = datetime(2026, 1, 2, 3, 4, 5)
MISSING = np.arange(ROWS) % 5 == 4
INTS = np.arange(ROWS) % 3
TEXTS = np.array(["a", "b", "c"], object)[INTS]
SPELLINGS = {"None": None, "NaN": float("nan"), "NA": pd.NA, "absent": ABSENT}


def holed(values: Any, hole: Any = None) -> Any:
    return np.where(MISSING, np.array(hole, object), np.array(values, object))


class Kind(NamedTuple):
    """A column that is fitted, and the dtype and the cell of a missing value in its frame."""

    fitted: pd.Series
    dtype: Any
    hole: Any

    @property
    def present(self) -> Any:
        """A value as records have it."""
        value = self.fitted[0]
        return value.item() if hasattr(value, "item") else value

    def frame(self, n_present: int, hole: Any) -> pd.DataFrame:
        """Some rows with a value, and one without."""
        cells = pd.Series([self.present] * n_present + [hole], dtype=object)
        rows = pd.DataFrame({"c": cells.astype(self.dtype)})
        return rows.assign(x=np.arange(len(rows)) + 0.5)


def kind(values: Any, dtype: Any, shown: Any = None, hole: Any = np.nan) -> Kind:
    return Kind(pd.Series(values, dtype=dtype), shown or dtype, hole)


NUMBERS = {
    "float64": kind(holed(INTS / 2, np.nan), "float64"),
    "float64, none missing": kind(INTS / 2, "float64"),
    "int64": kind(INTS, "int64", "float64"),
    "bool": kind(INTS > 0, "bool", object),
    "category of ints": kind(holed(INTS), "category"),
    "nullable ints": kind(holed(INTS), "Int64", hole=pd.NA),
    "nullable bools": kind(holed(INTS > 0), "boolean", hole=pd.NA),
    "Arrow ints": kind(holed(INTS), pd.ArrowDtype(pa.int64()), hole=pd.NA),
}
OBJECTS_WITH_NONE = {
    "objects with None": kind(holed(TEXTS), object, hole=None),
    "objects, ints and None": kind(holed(INTS), object, hole=None),
    "objects, bools and None": kind(holed(INTS > 0), object, hole=None),
}
"""Columns to whose encoders NaN is another value than None."""
MIXED = ("objects, ints and None", "objects, bools and None")
KINDS = {
    **NUMBERS,
    **OBJECTS_WITH_NONE,
    "texts": kind(holed(TEXTS), "str"),
    "texts, none missing": kind(TEXTS, "str"),
    "objects with NaN": kind(holed(TEXTS, np.nan), object),
    "category of texts": kind(holed(TEXTS), "category"),
    "nullable texts": kind(TEXTS, "string", object),
    "Arrow texts": kind(TEXTS, pd.ArrowDtype(pa.string()), object),
}
READERS = {
    "one hot": lambda: OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    "strict": OrdinalEncoder,
    "imputed, one hot": lambda: make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    ),
    "mean, scaled": lambda: make_pipeline(SimpleImputer(), StandardScaler()),
    "passed": lambda: "passthrough",
}


class Fitted(NamedTuple):
    """A source, and its model in memory and in a file."""

    source: Any
    model: hbconv.Model
    path: Path


@cache
def fitted(column: str, reader: str) -> Fitted | None:
    """Fit a source that ignores the column ``unread``, and convert it; None if either refuses."""
    rows = pd.DataFrame({"c": KINDS[column].fitted, "x": np.arange(ROWS) / 4, "unread": 0.5})
    read = [("c", READERS[reader](), ["c"]), ("x", "passthrough", ["x"])]
    try:
        source = quietly(ColumnTransformer(read), "fit", rows)
        model = hbconv.convert(source, "reference")
    except (TypeError, ValueError, HbconvError):
        return None
    path = Path(mkdtemp(), "model.hbc")
    model.save(path)
    return Fitted(source, model, path)


def answered(call: Callable[[], Any]) -> Any:
    try:
        return np.asarray(call(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        return error


def compare(found: Any, want: Any, door: str = "") -> None:
    if isinstance(want, Exception):
        assert isinstance(found, HbconvError) or door in UNCHECKED, (found, want)
        return
    assert not isinstance(found, Exception), (found, want)
    np.testing.assert_allclose(found, want, rtol=1e-12)


def is_asked(door: str, spelling: str, column: str, reader: str, others: str) -> bool:
    """Whether a door can be asked.

    Most have no NaN but among numbers. gRPC has no missing text, and BYTES of v2 are texts alone.
    """
    is_number = column in NUMBERS
    if (reader in ("mean, scaled", "passed") and not is_number) or (
        door in ("serve v2", "serve gRPC") and column in MIXED
    ):
        return False
    if (spelling, others) == ("absent", "beside a value"):
        return not door.endswith(("one by one", "gRPC"))
    if spelling == "NaN" and (not is_number or door == "score of JSON lines"):
        return door in TELLS_NAN
    return door != "serve gRPC" or spelling == "absent" or (is_number and spelling == "NaN")


def assert_one_answer(door: str, spelling: str, column: str, reader: str, others: str) -> None:
    """Assert that a row with a missing value is answered as its frame is, or refused as that is.

    Where all rows lack a key, its column is missing.
    """
    made = fitted(column, reader)
    if made is None:
        return
    kind, n_present = KINDS[column], int(others == "beside a value")
    is_other = spelling == "NaN" and column in OBJECTS_WITH_NONE
    rows = kind.frame(n_present, np.nan if is_other else kind.hole)
    is_lacking = spelling == "absent" and not n_present
    asked = rows.drop(columns="c") if is_lacking else rows
    want = answered(lambda: quietly(made.source, "transform", asked))
    cells = [kind.present] * n_present + [SPELLINGS[spelling]]
    records = [{"c": cell, "x": x} for cell, x in zip(cells, rows.x.tolist(), strict=True)]
    compare(answered(lambda: DOORS[door](Asked(made.model, made.path, records))), want, door)


OTHERS = ("alone", "beside a value")


@cache
def chosen() -> list[tuple[str, ...]]:
    factors = {"door": [*DOORS], "spelling": [*SPELLINGS], "column": [*KINDS]}
    return pairs_covered({**factors, "reader": [*READERS], "others": OTHERS}, is_asked)


@pytest.mark.parametrize("door", DOORS)
def test_a_missing_value_means_one_thing(door, pytestconfig):
    every = product([door], SPELLINGS, KINDS, READERS, OTHERS)
    whole = [row for row in every if is_asked(*row)]
    rows = whole if is_whole(pytestconfig) else [row for row in chosen() if row[0] == door]
    assert failing(assert_one_answer, rows) == {}


def test_a_null_is_what_an_imputer_before_another_fills():
    """Where codes pass a table, only the missing value that is known has a code of its own."""
    mark = SimpleImputer(missing_values="?", strategy="constant", fill_value="b")
    source = make_pipeline(SimpleImputer(strategy="most_frequent"), mark, READERS["one hot"]())
    source.fit(pd.DataFrame({"c": ["a", "b", "?", np.nan, "a"]}))
    model = hbconv.convert(source, "reference")
    want = source.transform(pd.DataFrame({"c": ["a", np.nan, "?"]}))
    np.testing.assert_array_equal(model.transform([{"c": "a"}, {"c": None}, {"c": "?"}]), want)
    np.testing.assert_array_equal(model.transform({"c": None}), want[1:2])


@cache
def dated() -> Fitted:
    """Fit an encoder of dates, some of them missing."""
    days = pd.Series(np.arange(ROWS), dtype="datetime64[us]").where(~MISSING)
    source = ApplyToCols(DatetimeEncoder(), cols=["c"])
    source.fit(pd.DataFrame({"c": days, "x": np.arange(ROWS) / 4}))
    model = hbconv.convert(source, "reference")
    path = Path(mkdtemp(), "model.hbc")
    model.save(path)
    return Fitted(source, model, path)


WITHOUT_DATES = ("JSON", "score of CSV", "score of JSON lines", "serve v1", "serve v2")
"""Doors that know dates as texts alone, which this source refuses."""


def assert_no_date_is_read(door: str, others: str) -> None:
    cells = [NOW] * int(others == "beside a value") + [None]
    rows = pd.DataFrame({"c": pd.Series(cells, dtype="datetime64[us]"), "x": 0.5})
    want = np.asarray(dated().source.transform(rows), dtype=np.float64)
    records = [{"c": cell, "x": 0.5} for cell in cells]
    compare(answered(lambda: DOORS[door](Asked(dated().model, dated().path, records))), want)


def test_a_missing_date_means_one_thing():
    doors = [door for door in DOORS if door != "serve gRPC"]
    rows = [(door, "alone") for door in doors]
    rows += [(door, "beside a value") for door in doors if door not in WITHOUT_DATES]
    assert failing(assert_no_date_is_read, rows) == {}


def assert_frame_is_read(spelling: str, column: str, reader: str, others: str) -> None:
    """Assert that a frame of objects is read as it stands: None, NaN and NA are three values."""
    made = fitted(column, reader)
    if made is None:
        return
    cells = [KINDS[column].present] * int(others == "beside a value") + [SPELLINGS[spelling]]
    frame = pd.DataFrame({"c": pd.Series(cells, dtype=object), "x": 0.5})
    want = answered(lambda: quietly(made.source, "transform", frame))
    compare(answered(lambda: made.model.transform(frame)), want)


def test_a_frame_of_pandas_is_read_as_it_stands():
    spellings, readers = ("None", "NaN", "NA"), ("one hot", "strict")
    rows = [
        (spelling, column, readers[i % 2], OTHERS[i // 2 % 2])
        for i, (spelling, column) in enumerate(product(spellings, KINDS))
    ]
    assert failing(assert_frame_is_read, rows) == {}


UNREAD = {"absent": ABSENT, "a text": "x1", "missing": None, "a bool": True, "a date": NOW}


def assert_unread_is_ignored(door: str, unread: str) -> None:
    made = fitted("texts", "one hot")
    rows = pd.DataFrame({"c": ["a", "b"], "x": [1.0, 2.0], "unread": 0.5})
    want = quietly(made.source, "transform", rows)
    cells = (ABSENT, UNREAD[unread])
    records = [
        {"c": c, "x": x, "unread": cell} for c, x, cell in zip("ab", rows.x, cells, strict=True)
    ]
    compare(answered(lambda: DOORS[door](Asked(made.model, made.path, records))), want)


@pytest.mark.parametrize("unread", UNREAD)
def test_a_column_that_is_not_read_is_never_looked_at(unread):
    assert failing(assert_unread_is_ignored, [(door, unread) for door in DOORS]) == {}


def test_a_door_that_reads_otherwise_is_found(monkeypatch):
    wrong = {"c": "b", "x": 1.5}
    monkeypatch.setitem(DOORS, "records", lambda asked: asked.model.transform([wrong]))
    rows = [("records", "None", "texts", "one hot", "alone")]
    rows += [("JSON", "None", "texts", "one hot", "alone")]
    assert [*failing(assert_one_answer, rows)] == [", ".join(rows[0])]
