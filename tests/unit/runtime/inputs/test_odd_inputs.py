"""Rows of every odd kind: each is answered as the source does, or refused by name."""

from __future__ import annotations

import array
import datetime as dt
import decimal
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from fitted import labels, matrix
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

import hbconv
from hbconv.errors import HbconvError, InputError

ROWS = np.random.default_rng(0).integers(0, 5, (40, matrix().shape[1])).astype(np.float64)
SPARSE = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


class Raises:
    """An array that cannot be had."""

    def __array__(self, dtype=None, copy=None):
        raise KeyError("gone")


def itself():
    """Return a list that holds itself."""
    rows = []
    rows.append(rows)
    return rows


def with_first(value, rows=40):
    """Return objects with another value in front."""
    x = ROWS[:rows].astype(object)
    x[0, 0] = value
    return x


def numpy_kinds():
    yield from (
        (f"numpy {dtype}", ROWS.astype(dtype))
        for dtype in (
            "?",
            "b",
            "B",
            "h",
            "H",
            "i",
            "I",
            "q",
            "Q",
            "e",
            "f",
            ">f4",
            ">f8",
            ">i8",
            "g",
            "F",
            "D",
            "U",
            "S",
            "O",
            "M8[s]",
            "m8[s]",
        )
    )
    yield "string dtype", ROWS.astype("U").astype(np.dtypes.StringDType())
    yield "structured", np.zeros(3, [(f"f{i}", "f8") for i in range(6)])
    yield from ((f"{n} dimensions", np.ones((6,) * n)) for n in (0, 1, 3))
    yield from (
        (f"of shape {shape}", np.ones(shape)) for shape in ((0, 6), (3, 0), (3, 5), (3, 7), (0, 0))
    )
    yield "masked", np.ma.masked_array(ROWS, ROWS > 3)
    yield "masked nowhere", np.ma.masked_array(ROWS)
    yield "matrix", ROWS.view(np.matrix)
    yield "transposed", np.asfortranarray(ROWS)
    yield "backwards", ROWS[::-1]
    yield (
        "unaligned",
        np.frombuffer(b"\0" + ROWS.tobytes(), np.uint8)[1:].view(np.float64).reshape(ROWS.shape),
    )


def objects():
    common = (
        None,
        "a",
        "15.0",
        "nan",
        "",
        b"1",
        1j,
        object(),
        decimal.Decimal("1.5"),
        decimal.Decimal("sNaN"),
        dt.datetime(2020, 1, 1),
        pd.Timestamp(0),
        pd.NA,
        pd.NaT,
    )
    rare = (
        np.float16(1),
        10**400,
        [1],
        (1, 2),
        {"a": 1},
        np.ones(2),
        set(),
        Raises(),
        float,
        True,
        np.datetime64(0, "s"),
        torch.tensor(1.0),
    )
    yield from (
        (f"object {type(value).__name__} {value!r:.20}", with_first(value))
        for value in (*common, *rare)
        if not isinstance(value, np.ndarray)
    )


def python_kinds():
    yield from {
        "None": None,
        "int": 1,
        "text": "a",
        "bytes": b"a",
        "list": [],
        "lists": ROWS.tolist(),
        "ragged": [[1.0], [1.0, 2.0]],
        "deep": [[[[1.0]]]],
        "itself": itself(),
    }.items()
    yield from {
        "generator": iter([1]),
        "set": {1},
        "range": range(6),
        "type": int,
        "array": array.array("d", [1.0]),
        "raises": Raises(),
        "dict": {},
        "object": object(),
    }.items()
    yield "memoryview", memoryview(ROWS)
    yield "dict of scalars", {"a": 1}
    yield "dict ragged", {"a": [1], "b": [1, 2]}
    yield "lists of texts", [["a"] * 6]
    yield "mixed lists", [[1, "a", None, 2.0, [], {}]]


def tensors():
    t = torch.tensor(ROWS)
    yield from (
        (f"torch {dtype}", t.to(dtype))
        for dtype in (
            torch.float16,
            torch.bfloat16,
            torch.float32,
            torch.int8,
            torch.uint8,
            torch.bool,
            torch.complex64,
            torch.float8_e4m3fn,
        )
    )
    yield from {
        "meta": t.to("meta"),
        "negative": torch._neg_view(t),
        "conjugate": t.to(torch.complex64).conj(),
        "needs gradients": t.clone().requires_grad_(),
    }.items()
    yield from {
        "sparse": t.to_sparse(),
        "quantized": torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
        "scalar tensor": torch.tensor(1.0),
    }.items()


def frames():
    x = pd.DataFrame(ROWS)
    kinds = (
        "Int64",
        "Float32",
        "boolean",
        "string",
        "category",
        "object",
        "datetime64[ns]",
        "timedelta64[ns]",
        "period[D]",
        "Sparse[float]",
        "int64[pyarrow]",
        "UInt8",
    )
    for kind in kinds:
        column = (
            pd.PeriodIndex(pd.to_datetime(x[0]), freq="D")
            if kind == "period[D]"
            else (x[0] > 1).astype(kind)
            if kind == "boolean"
            else x[0].astype("int64").astype(kind)
        )
        yield (
            f"pandas {kind}",
            x.assign(**{"0": column})
            .drop(columns=0)[["0", 1, 2, 3, 4, 5]]
            .set_axis(range(6), axis=1),
        )
    missing = x.astype("Int64")
    missing.iloc[0, 0] = pd.NA
    yield "pandas Int64 with NA", missing
    yield "pandas intervals", x.assign(a=pd.cut(x[0], 3)).iloc[:, 1:]
    yield from {
        "twice": x.set_axis(list("aabcde"), axis=1),
        "levels": x.set_axis(pd.MultiIndex.from_product([[0, 1], [0, 1, 2]]), axis=1),
        "no columns": x.iloc[:, :0],
    }.items()
    yield from {
        "mixed names": x.set_axis(["a", 1, 2, 3, 4, 5], axis=1),
        "series": x[0],
        "no rows": x.iloc[:0],
        "tuple names": x.set_axis([(i,) for i in range(6)], axis=1),
    }.items()
    p = pl.DataFrame(ROWS, schema=list("abcdef"))
    yield from (
        (f"polars {dtype}", p.with_columns(pl.col("a").cast(dtype)))
        for dtype in (
            pl.Int128,
            pl.Decimal(10, 2),
            pl.String,
            pl.Boolean,
            pl.Float32,
            pl.Int8,
            pl.UInt64,
        )
    )
    yield from (
        (f"polars {value!r}", p.with_columns(pl.lit(value).alias("a")))
        for value in (None, [1], b"a", dt.date(2020, 1, 1), dt.time(1), dt.timedelta(1))
    )
    yield "polars lazy", p.lazy()


def arrow():
    column, rest = pa.array(ROWS[:, 0]), {c: ROWS[:, i] for i, c in enumerate("bcdef", 1)}
    indices = pa.array(ROWS[:, 0].astype("int8"))
    kinds = {
        "plain": column,
        "chunked": pa.chunked_array([column[:9], column[9:]]),
        "dictionary": column.dictionary_encode(),
        "null": pa.nulls(40),
        "decimal": column.cast("int64").cast(pa.decimal128(20, 1)),
        "texts": indices.cast("string"),
        "views": indices.cast("string").cast(pa.string_view()),
        "dictionary of texts": indices.cast("string").dictionary_encode(),
        "binary": indices.cast("string").cast("binary"),
        "list": pa.array([[1.0]] * 40),
        "date": pa.array([dt.date(2020, 1, 1)] * 40),
        "half": column.cast("float16"),
        "struct": pa.array([{"a": 1}] * 40),
        "run ends": pa.RunEndEncodedArray.from_arrays([40], [1.0]),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([b"0" * 16] * 40, pa.binary(16))
        ),
    }
    yield from (
        (f"arrow {name}", pa.table({"a": values, **rest})) for name, values in kinds.items()
    )


def sparse():
    for kind in SPARSE:
        for dtype in ("f8", "f4", "i8", "i1", "?", "D"):
            yield f"{kind} {dtype}", scipy.sparse.coo_matrix(ROWS.astype(dtype)).asformat(kind)
    yield "sparse array", scipy.sparse.csr_array(ROWS)


@cache
def odd():
    """All of them; some are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: x
            for kind in (numpy_kinds, objects, python_kinds, tensors, frames, arrow, sparse)
            for name, x in kind()
        }


def same(got, want):
    return got.shape == want.shape and (
        np.allclose(got, want, rtol=1e-5) if want.dtype.kind == "f" else np.array_equal(got, want)
    )


@cache
def sources():
    coded = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    return {
        "numbers": make_pipeline(StandardScaler(), LogisticRegression()).fit(matrix(), labels()),
        "trees": RandomForestRegressor(3, random_state=0).fit(matrix(), matrix()[:, 0]),
        "texts": coded.fit(ROWS.astype("U").astype(object), ROWS[:, 0] > 2),
        "documents": make_pipeline(CountVectorizer(), LogisticRegression()).fit(
            ["good day", "bad night"] * 9, [1, 0] * 9
        ),
    }


@cache
def compiled(name, backend):
    model = hbconv.convert(sources()[name], backend=backend)
    if name in ("numbers", "trees"):
        for dtype in ("float32", "float64", "int64"):
            model.predict(ROWS.astype(dtype))  # so that later calls are fast ones
    return model


@pytest.mark.parametrize("backend", ["reference", "tvm", "torch"])
@pytest.mark.parametrize("name", ["numbers", "trees", "texts", "documents"])
def test_odd_rows_are_answered_as_the_source_does_or_refused_by_name(name, backend):
    source, model, wrong = sources()[name], compiled(name, backend), []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind, x in odd().items():
            for rows in (x, x[:2]) if isinstance(x, np.ndarray) and x.ndim else (x,):
                try:
                    got = model.predict(rows)
                except HbconvError:
                    continue
                except Exception as error:
                    wrong.append(f"{kind}: {type(error).__name__} {error!s:.90}")
                    continue
                try:
                    want = source.predict(rows)
                except Exception:
                    continue
                if not same(np.asarray(got), np.asarray(want)):
                    wrong.append(f"{kind}: {np.ravel(got)[:3]} for {np.ravel(want)[:3]}")
    assert not wrong, "\n".join(wrong)


TEXTS = "15.0", "15", " 15 ", "1e1", "1_5", "\u0661\u0665", b"3.0", np.str_("3.0"), None


@pytest.mark.parametrize(
    "source",
    [
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        TargetEncoder(),
    ],
    ids=lambda source: type(source).__name__,
)
def test_what_is_no_number_is_unknown_among_categories_that_are_numbers(source):
    for fitted in (ROWS, np.where(ROWS[0, 0] == ROWS, np.nan, ROWS)):
        model = hbconv.convert(source.fit(fitted, ROWS[:, 1]), backend="reference")
        for text in (*TEXTS, pd.NA, np.nan, 3.0):
            x = with_first(text, 3)
            np.testing.assert_array_equal(model.transform(x), source.transform(x), repr(text))


def test_a_text_that_is_computed_with_is_refused():
    """Boosting makes numbers of an array, and reads a frame as it stands."""
    source = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=2, categorical_features=[0])
    model = hbconv.convert(source.fit(3 * ROWS, ROWS[:, 0]), backend="reference")
    for text in TEXTS:
        with pytest.raises(InputError, match="among numbers"):
            model.predict(with_first(text))


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i8", "<f4"])
def test_the_other_byte_order_is_another_dtype(dtype):
    """The source makes float64 of float32 in it."""
    source = StandardScaler().fit(ROWS)
    rows = (ROWS / 3).astype(dtype)
    want = source.transform(rows)
    found = hbconv.convert(source, backend="reference").transform(rows)
    assert (found.dtype, found.tobytes()) == (want.dtype, want.tobytes())


def test_the_cause_of_what_cannot_be_read_is_told():
    with pytest.raises(InputError, match="KeyError: 'gone'") as caught:
        compiled("numbers", "reference").predict(Raises())
    assert isinstance(caught.value.__cause__, KeyError)
