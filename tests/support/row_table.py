"""Rows of every kind: columns, cells, and the forms of tables and of one row.

A kind that is added here runs through the readers of tables, of records, and of one row. Forms of a
table keep the storage of its columns; forms of a record keep the class of its cells.
"""

from __future__ import annotations

import decimal
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pairwise import pairs_covered
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

__all__ = [
    "CELLS",
    "COLUMNS",
    "DOCUMENTS",
    "ESTIMATORS",
    "FORMS",
    "FRAMES",
    "NUMBERS",
    "OTHER",
    "PEOPLE",
    "RECORD",
    "TARGET",
    "TEXTS",
    "WORDS",
    "covered_columns",
    "fitted_on",
    "labels",
    "may_fit",
    "people",
    "records",
    "table",
]

ROWS = 40
RNG = np.random.default_rng(0)
SIZES = RNG.integers(0, 5, ROWS)
MISSING = RNG.random(ROWS) < 0.2
OTHER = RNG.normal(size=ROWS)
TARGET = RNG.integers(0, 2, ROWS)
NAMES = np.array(["a", "bb", "é日本", "", "a long word"], dtype=object)[SIZES]


def _holed(values: Any, hole: Any = None) -> Any:
    values = np.array(values, dtype=object)
    values[MISSING] = hole
    return values


def _strings(values: Any, storage: str) -> Any:
    return pd.array(values, dtype=pd.StringDtype(storage))


def _arrow(values: Any, kind: Any) -> Any:
    return pd.array(values, dtype=pd.ArrowDtype(kind))


def _objects(values: Any) -> pd.Series:
    return pd.Series(list(values), dtype=object)


DECIMALS = [decimal.Decimal(size) / 2 for size in SIZES.tolist()]
INTS = SIZES.tolist()
FLOATS = (SIZES / 2).tolist()
BOOLS = (SIZES > 2).tolist()
DTYPES = (
    *("float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)
NULLABLE = (
    *("Float32", "Float64", "Int8", "Int16", "Int32", "Int64"),
    *("UInt8", "UInt32", "UInt64"),
)
ORDER = ["a long word", "a", "bb", "é日本", ""]

COLUMNS: dict[tuple[str, str], Any] = {
    **{("numpy", dtype): SIZES.astype(dtype) for dtype in DTYPES},
    ("numpy", "complex128"): SIZES + 1j,
    ("numpy with NaN", "float64"): np.where(MISSING, np.nan, SIZES.astype(float)),
    ("nullable", "int64"): pd.array(SIZES, dtype="Int64"),
    **{
        ("nullable with NA", dtype.lower()): pd.array(_holed(INTS), dtype=dtype)
        for dtype in NULLABLE
    },
    ("nullable with NA", "bool"): pd.array(_holed(BOOLS), dtype="boolean"),
    ("category", "texts"): pd.Categorical(NAMES),
    ("category", "int64"): pd.Categorical(SIZES),
    ("category", "float64"): pd.Categorical(SIZES / 2),
    ("category", "bool"): pd.Categorical(SIZES > 2),
    ("category with NaN", "texts"): pd.Categorical(_holed(NAMES)),
    ("category with NaN", "int64"): pd.Categorical(_holed(INTS)),
    ("ordered category", "texts"): pd.Categorical(NAMES, categories=ORDER, ordered=True),
    ("objects", "texts"): _objects(NAMES),
    ("objects", "int64"): _objects(INTS),
    ("objects", "bool"): _objects(BOOLS),
    ("objects", "decimals"): _objects(DECIMALS),
    ("objects", "texts of numbers"): _objects(map(str, INTS)),
    ("objects", "ints and texts"): _objects(size if size % 2 else str(size) for size in INTS),
    ("objects", "bytes"): _objects(word.encode() for word in NAMES),
    ("objects with None", "texts"): _objects(_holed(NAMES)),
    ("objects with None", "int64"): _objects(_holed(INTS)),
    ("objects with None", "bool"): _objects(_holed(BOOLS)),
    ("objects with NaN", "texts"): _objects(_holed(NAMES, np.nan)),
    ("objects with NaN", "float64"): _objects(_holed(FLOATS, np.nan)),
    ("objects with NA", "texts"): _objects(_holed(NAMES, pd.NA)),
    ("objects with NA", "int64"): _objects(_holed(INTS, pd.NA)),
    ("str", "texts"): pd.array(NAMES, dtype="str"),
    ("str with NaN", "texts"): pd.array(_holed(NAMES), dtype="str"),
    ("string[python]", "texts"): _strings(NAMES, "python"),
    ("string[pyarrow]", "texts"): _strings(NAMES, "pyarrow"),
    ("string[python] with NA", "texts"): _strings(_holed(NAMES), "python"),
    ("string[pyarrow] with NA", "texts"): _strings(_holed(NAMES), "pyarrow"),
    ("Arrow", "texts"): _arrow(NAMES, pa.string()),
    ("Arrow", "int64"): _arrow(SIZES, pa.int64()),
    ("Arrow", "float32"): _arrow(SIZES / 2, pa.float32()),
    ("Arrow", "decimals"): _arrow(DECIMALS, pa.decimal128(10, 2)),
    ("Arrow with null", "int64"): _arrow(_holed(INTS), pa.int64()),
    ("Arrow with null", "bool"): _arrow(_holed(BOOLS), pa.bool_()),
    ("Arrow dictionary", "texts"): _arrow(NAMES, pa.dictionary(pa.int32(), pa.string())),
    ("sparse", "float64"): pd.arrays.SparseArray(SIZES.astype(float)),
    ("pandas", "dates"): pd.to_datetime(SIZES, unit="D"),
    ("pandas", "dates of a zone"): pd.to_datetime(SIZES, unit="D", utc=True),
    ("pandas", "time spans"): pd.to_timedelta(SIZES, unit="D"),
    ("pandas", "periods"): pd.PeriodIndex.from_ordinals(SIZES, freq="D"),
    ("pandas", "intervals"): pd.arrays.IntervalArray.from_breaks(np.arange(ROWS + 1)),
}
"""Columns of pandas, by how they are stored and what they hold."""


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "scaler, logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "one hot": lambda: OneHotEncoder(handle_unknown="ignore"),
    "ordinal": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "mean": SimpleImputer,
    "most frequent, one hot": lambda: make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    ),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
    "columns, scaled": lambda: ColumnTransformer(
        [("other", "passthrough", ["other"]), ("scaled", StandardScaler(), ["column"])]
    ),
    "columns, one hot": lambda: ColumnTransformer(
        [
            ("scaled", StandardScaler(), ["other"]),
            ("found", OneHotEncoder(handle_unknown="ignore"), ["column"]),
        ]
    ),
}
"""Estimators that read a column, and another of numbers before it."""

NUMERIC = ("scaler, logistic", "mean", "boosting", "columns, scaled")
NO_NUMBERS = ("texts", "bytes", "periods", "intervals")


def may_fit(storage: str, value: str, estimator: str) -> bool:
    """Tell from the names whether an estimator may be fitted to a column.

    Most that the source refuses is left out, and nothing that it takes.
    """
    if " with NA" in storage and storage != "nullable with NA":
        return False
    if " with " in storage and estimator == "scaler, logistic":
        return False
    if estimator in NUMERIC and value in NO_NUMBERS:
        return estimator == "boosting" and ("category" in storage or "dictionary" in storage)
    return value != "complex128"


def covered_columns(
    estimators: Sequence[str] = tuple(ESTIMATORS), **factors: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return rows of storage, value, estimator, and further factors, with each pair in one of them.

    So each column is in a row, and each estimator reads each storage and each value that it may.
    """
    columns = {"storage": [s for s, _ in COLUMNS], "value": [value for _, value in COLUMNS]}
    unique = {name: list(dict.fromkeys(values)) for name, values in columns.items()}
    return pairs_covered({**unique, "estimator": estimators, **factors}, _is_column)


def _is_column(storage: str, value: str, estimator: str, **_: str) -> bool:
    return (storage, value) in COLUMNS and may_fit(storage, value, estimator)


@cache
def table(storage: str, value: str) -> pd.DataFrame:
    """Return a table with one of the columns."""
    return pd.DataFrame({"other": OTHER, "column": COLUMNS[storage, value]})


@cache
def fitted_on(storage: str, value: str, estimator: str) -> Any:
    """Return an estimator that is fitted on a table, or None if the source refuses that."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return ESTIMATORS[estimator]().fit(table(storage, value), TARGET)
        except (TypeError, ValueError):
            return None


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda f: f,
    "pandas of Arrow": lambda f: pa.Table.from_pandas(f).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_pandas,
    "Arrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
    "Arrow, chunks": lambda f: pa.concat_tables([pa.Table.from_pandas(f[:7]), pa.Table.from_pandas(f[7:])]),
    "Arrow batch": lambda f: pa.RecordBatch.from_pandas(f, preserve_index=False),
    "dict": lambda f: {name: f[name].to_numpy() for name in f},
    "dict of lists": lambda f: {name: f[name].tolist() for name in f},
    "structured": lambda f: f.to_records(index=False),
    "records": lambda f: f.to_dict("records"),
}  # fmt: skip
"""Forms of a table, made of a frame of pandas."""

PEOPLE = 80
TEXTS = ["sex", "port"]
NUMBERS = ["age", "fare", "sibsp"]
RECORD = {"sex": "f", "age": 30.5, "fare": 7.25, "port": "S", "sibsp": 1, "name": "Ann"}
WORDS = "the cat sat on a mat, the café was shut; Ann and Zoë 2 x"
DOCUMENTS = [WORDS, "Cat cat", "unknown", " ".join(f"{WORDS} {i}" for i in range(40)), "\ud800 a\0"]
CELLS: tuple[Any, ...] = (
    *(None, float("nan"), pd.NA, pd.NaT, True, False, np.bool_(True), 0, -0.0, 1.5, 3, 1e17, 1e19, 1e300),
    *(2**53, 2**53 + 1, -(2**63), 2**63 + 5, 2**64, 2**70, np.int8(3), np.uint64(2**60)),
    *(float("inf"), np.float16(1.5), np.float32(0.1), np.float64(0.1), decimal.Decimal("30.5"), 1j),
    *((1, 2), [], {}, "f", "S", "unseen", "", "1.5", "fifteen", np.str_("f"), b"f"),
)  # fmt: skip
"""Cells that stand in any column of a record."""


@cache
def people() -> pd.DataFrame:
    """Return a table of texts and numbers, with columns as ``RECORD`` has."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], PEOPLE).astype(object),
            "age": rng.integers(1, 80, PEOPLE).astype(float),
            "fare": rng.gamma(2, 20, PEOPLE).round(2),
            "port": rng.choice(["S", "C", "Q"], PEOPLE).astype(object),
            "sibsp": rng.integers(0, 4, PEOPLE),
            "name": np.array(["x"] * PEOPLE, object),
        }
    )
    frame.loc[::7, "age"] = np.nan
    return frame


def labels() -> pd.Series:
    """Return labels of people, which a text and a number decide."""
    frame = people()
    return ((frame["fare"] + 20 * (frame["sex"] == "m")) > 45).astype(int)


def records(names: Iterable[str] = tuple(RECORD)) -> Iterator[dict[Any, Any]]:
    """Yield records: with other columns than were fitted on, or in another order, and with every
    cell in columns of these names.
    """
    for shape in _shapes():
        yield shape
        yield {n: v for n, v in shape.items() if n != "name"}
    for name in names:
        for cell in CELLS:
            yield {**RECORD, name: cell}
    yield {**RECORD, "sex": "m", "age": 3.0, "sibsp": 2}
    yield {**RECORD, "fare": 7, "sibsp": 1.5}
    for text in DOCUMENTS:
        yield {**RECORD, "name": text}


def _shapes() -> Iterator[dict[Any, Any]]:
    yield RECORD
    yield dict(reversed(RECORD.items()))
    yield {**RECORD, "more": 1}
    yield {**RECORD, 5: 1}
    yield from ({n: v for n, v in RECORD.items() if n != name} for name in RECORD)
    yield {}


def _as_json(record: dict[Any, Any]) -> Any:
    try:
        return json.dumps(record)
    except TypeError:
        return record


def _as_pandas(record: dict[Any, Any], **options: Any) -> pd.DataFrame:
    return pd.DataFrame([list(record.values())], columns=list(record), **options)


def _with_categories(record: dict[Any, Any]) -> pd.DataFrame:
    known = {"sex": ["f", "m"], "port": ["C", "Q", "S"]}
    frame = _as_pandas(record)
    for name in set(known).intersection(record):
        frame[name] = pd.Categorical(frame[name], known[name])
    return frame


def _small_dtypes(record: dict[Any, Any]) -> pd.DataFrame:
    wanted = {"age": "float32", "fare": "Float64", "sibsp": "Int8"}
    return _as_pandas(record).astype({n: wanted[n] for n in set(wanted).intersection(record)})


def _as_polars(record: dict[Any, Any]) -> pl.DataFrame:
    return pl.DataFrame({name: [value] for name, value in record.items()}, strict=False)


def _arrow_categories(record: dict[Any, Any]) -> pa.RecordBatch:
    columns = {name: pa.array([value]) for name, value in record.items()}
    for name in set(TEXTS).intersection(columns):
        columns[name] = columns[name].dictionary_encode()
    return pa.RecordBatch.from_pydict(columns)


def _as_objects(record: dict[Any, Any]) -> dict[Any, Any]:
    return {name: np.array([value, None], object)[:1] for name, value in record.items()}


FORMS: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "record": dict,
    "list of one record": lambda record: [record],
    "series": lambda record: pd.Series(record, dtype=object),
    "JSON": _as_json,
    "columns": lambda record: {name: [value] for name, value in record.items()},
    "arrays": lambda record: {name: np.array([value]) for name, value in record.items()},
    "arrays of objects": _as_objects,
    "pandas": _as_pandas,
    "pandas objects": lambda record: _as_pandas(record, dtype=object),
    "pandas categories": _with_categories,
    "pandas small": _small_dtypes,
    "polars": _as_polars,
    "Arrow": lambda record: pa.table({name: [value] for name, value in record.items()}),
    "Arrow categories": _arrow_categories,
}
"""Forms of one row, made of a record. The library of a form refuses some records."""
