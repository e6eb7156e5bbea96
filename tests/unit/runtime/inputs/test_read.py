"""Whatever users give becomes the same table, or is refused with a sentence to act on."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch

from hbconv.array import Array
from hbconv.containers import Codes, Columns, Graph, Output, Schema, Vocabulary
from hbconv.errors import InputError
from hbconv.lower import CodesFeed, Feed
from hbconv.runtime.inputs.read import count_columns, read_table
from hbconv.runtime.inputs.table import Reads, Table

WIDTH = 3
NUMBERS = np.arange(12, dtype=np.float64).reshape(4, WIDTH) / 2
NAMES = ("a", "b", "c")


def plain(schema: Schema | None = None) -> Reads:
    schema = schema or Schema.matrix(WIDTH)
    return Reads(schema, frozenset(range(len(schema.columns))), frozenset(), "Ridge")


def named() -> Reads:
    return plain(Schema.table(NAMES))


def whole(table: Table) -> np.ndarray:
    return table.feed(Feed("x", table.dtypes[0], tuple(range(len(table.dtypes)))))


@pytest.mark.parametrize(
    "x",
    [
        NUMBERS,
        np.asfortranarray(NUMBERS),
        NUMBERS.astype(">f8"),
        np.repeat(NUMBERS, 2, axis=0)[::2],
        NUMBERS.tolist(),
        NUMBERS.astype(object),
        NUMBERS.astype(np.longdouble),
        torch.from_numpy(NUMBERS),
        torch.from_numpy(NUMBERS).requires_grad_(),
        scipy.sparse.csr_matrix(NUMBERS),
        scipy.sparse.coo_array(NUMBERS),
        pd.DataFrame(NUMBERS),
        np.ma.array(NUMBERS),
    ],
    ids=lambda x: type(x).__name__,
)
def test_every_form_of_a_matrix_is_read_alike(x):
    table = read_table(x, plain()).part(slice(0, 4))
    assert table.dtypes == ("float64",) * WIDTH
    np.testing.assert_array_equal(whole(table), NUMBERS)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_not_copied_in_either_order_even_when_it_is_read_only(order):
    x = NUMBERS.copy(order)
    x.setflags(write=False)
    assert whole(read_table(x, plain())) is x
    assert np.shares_memory(whole(read_table(x, plain()).part(slice(1, 3))), x)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("float16", "float32"), ("float32", "float32"), ("int8", "int64"), ("uint32", "int64"),
        ("uint64", "int64"), ("bool", "int64"),
    ],
)  # fmt: skip
def test_dtypes_become_one_of_three(given, read):
    table = read_table(NUMBERS.astype(given), plain())
    assert table.dtypes == (read,) * WIDTH
    np.testing.assert_array_equal(whole(table), NUMBERS.astype(given).astype(read))


def test_bfloat16_tensors_become_float32():
    assert read_table(torch.ones(2, WIDTH, dtype=torch.bfloat16), plain()).dtypes[0] == "float32"


FRAMES = {
    "pandas": pd.DataFrame(NUMBERS, columns=list(NAMES)),
    "polars": pl.DataFrame(dict(zip(NAMES, NUMBERS.T, strict=True))),
    "arrow": pa.table(dict(zip(NAMES, NUMBERS.T, strict=True))),
    "batch": pa.RecordBatch.from_pydict(dict(zip(NAMES, NUMBERS.T, strict=True))),
    "dict": dict(zip(NAMES, NUMBERS.T, strict=True)),
    "lists": dict(zip(NAMES, NUMBERS.T.tolist(), strict=True)),
    "structured": np.array([tuple(r) for r in NUMBERS], dtype=[(n, float) for n in NAMES]),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_every_kind_of_table_is_read_alike(frame):
    np.testing.assert_array_equal(whole(read_table(frame, named())), NUMBERS)
    assert count_columns(frame) == WIDTH


def test_columns_are_found_by_name_and_extra_ones_ignored():
    frame = FRAMES["pandas"].assign(extra="text")[["c", "extra", "a", "b"]]
    np.testing.assert_array_equal(whole(read_table(frame, named())), NUMBERS)


def test_missing_columns_are_all_listed():
    with pytest.raises(
        InputError, match=r"Columns are missing: 'a', 'c'\. The table has 'b', 'z'\."
    ):
        read_table(pd.DataFrame({"b": [1.0], "z": [1.0]}), named())


def test_columns_that_the_model_never_reads_may_be_missing_or_of_any_kind():
    reads = Reads(Schema.table(NAMES), frozenset([0, 2]), frozenset())
    table = read_table(pd.DataFrame({"a": [1.0], "c": [2.0]}), reads)
    assert table.feed(Feed("x", "float64", (0, 2))).tolist() == [[1.0, 2.0]]
    assert read_table(pd.DataFrame({"a": [1.0], "b": ["text"], "c": [2.0]}), reads).dtypes == (
        "float64",
        "string",
        "float64",
    )


def test_a_name_that_stands_twice_is_refused():
    frame = pd.DataFrame(np.ones((1, 4)), columns=["a", "b", "c", "b"])
    with pytest.raises(InputError, match="stand more than once in the table: 'b'"):
        read_table(frame, named())


def test_names_of_mixed_types_are_refused():
    with pytest.raises(InputError, match="mix text and other types"):
        read_table(pd.DataFrame({"a": [1.0], 1: [2.0]}), named())


def test_arrays_for_a_named_model_warn_as_the_source_does():
    with pytest.warns(
        UserWarning,
        match="X does not have valid feature names, but Ridge was fitted with feature names",
    ):
        np.testing.assert_array_equal(whole(read_table(NUMBERS, named())), NUMBERS)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(whole(read_table(pd.DataFrame(NUMBERS), named())), NUMBERS)


def test_named_tables_for_a_plain_model_warn_and_are_read_in_order():
    with pytest.warns(
        UserWarning, match="X has feature names, but Ridge was fitted without feature names"
    ):
        np.testing.assert_array_equal(
            whole(read_table(FRAMES["pandas"][["b", "a", "c"]], plain())), NUMBERS[:, [1, 0, 2]]
        )


@pytest.mark.parametrize(
    ("column", "read", "dtype"),
    [
        (pd.array([1, None], dtype="Int64"), [1, np.nan], "float64"),
        (pd.array([1, 2], dtype="Int8"), [1, 2], "float64"),
        (pd.array([True, None], dtype="boolean"), [1, np.nan], "float64"),
        (pd.array([1.5, None], dtype="Float32"), [1.5, np.nan], "float64"),
        (pd.array([1, None], dtype="int64[pyarrow]"), [1, np.nan], "float64"),
        (pd.Categorical([2.5, None]), [2.5, np.nan], "float64"),
        (pd.Categorical(np.float32([2.5, 1])), [2.5, 1], "float64"),
        (pd.Categorical([True, False]), [1, 0], "float64"),
        (pd.Categorical([2, 1]), [2, 1], "int64"),
        (pd.array([1.5, None], dtype="float[pyarrow]"), [1.5, np.nan], "float64"),
        (pd.array([1, 2], dtype="int8[pyarrow]"), [1, 2], "float64"),
        (
            pd.array([decimal.Decimal("1.5")], dtype=pd.ArrowDtype(pa.decimal128(4, 2))),
            [1.5],
            "float64",
        ),
        (pd.arrays.SparseArray([0.0, 3.0]), [0, 3], "float64"),
        (["1", "2.5"], [1, 2.5], "float64"),
        (pd.array(["1", None], dtype="str"), [1, np.nan], "float64"),
        (pd.Categorical(["7", None]), [7, np.nan], "float64"),
        (np.array([1, None], dtype=object), [1, np.nan], "float64"),
        (np.array([decimal.Decimal("1.5"), 2], dtype=object), [1.5, 2], "float64"),
        (np.array([True, False]), [1, 0], "int64"),
        (np.array([1, 2], dtype=np.float32), [1, 2], "float32"),
    ],
    ids=str,
)
def test_columns_of_pandas_become_numbers(column, read, dtype):
    reads = plain(Schema.table(["a"]))
    table = read_table(pd.DataFrame({"a": column}), reads)
    assert table.dtypes == (dtype,)
    np.testing.assert_array_equal(whole(table)[:, 0], read)


@pytest.mark.parametrize(
    ("column", "read"),
    [
        (pa.array([1, None]), [1, np.nan]),
        (pa.chunked_array([[1.5], [2.5]]), [1.5, 2.5]),
        (pa.array([True, None]), [1, np.nan]),
        (pa.array([True, False]), [1, 0]),
        (pa.array([None, None]), [np.nan, np.nan]),
        (pa.array([1.5, None], pa.float32()), [1.5, np.nan]),
        (pa.array([decimal.Decimal("1.5"), None]), [1.5, np.nan]),
        (pa.array([2.5, None]).dictionary_encode(), [2.5, np.nan]),
    ],
    ids=str,
)
def test_arrow_columns_become_numbers(column, read):
    np.testing.assert_array_equal(
        whole(read_table(pa.table({"a": column}), plain(Schema.table(["a"]))))[:, 0], read
    )


REFUSED = {
    "width": (np.ones((2, 4)), r"X has 4 columns, but Ridge expects 3"),
    "width of a frame": (pd.DataFrame(np.ones((2, 2))), r"X has 2 columns, but Ridge expects 3"),
    "one dimension": (
        np.ones(3),
        r"Expected a two-dimensional array, got 1 dimensions .*reshape\(1, -1\)",
    ),
    "a series": (pd.Series([1.0, 2.0, 3.0]), r"got 1 dimensions"),
    "three dimensions": (np.ones((1, 1, 3)), r"got 3 dimensions"),
    "a number": (3.0, r"Expected a table or a two-dimensional array, got float"),
    "None": (None, r"got NoneType"),
    "a text": ("rows.csv", r"X is text, and not JSON of rows \(Expecting value"),
    "an object": (object(), r"got object"),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], r"rows of X differ in length"),
    "complex": (np.ones((1, 3), complex), r"X holds complex numbers \(dtype complex128\)"),
    "dates": (np.zeros((1, 3), "datetime64[s]"), r"X holds dates"),
    "time spans": (np.zeros((1, 3), "timedelta64[s]"), r"X holds time spans"),
    "bytes": (np.array([[b"a", b"b", b"c"]]), r"X holds bytes"),
    "text": (np.array([["1", "2", "red"]]), r"X holds text .* such as 1"),
    "a text among numbers": ([[1.0, 2.0, "red"]], r"Column 2 holds the text 'red'"),
    "a list among numbers": (
        np.array([[1.0, 2.0, [3.0]]], dtype=object),
        r"Column 2 holds \[3.0\] of type list",
    ),
    "a date among numbers": (
        np.array([[1.0, 2.0, pd.Timestamp("2020")]], dtype=object),
        r"Column 2 holds .* of type Timestamp",
    ),
    "pandas.NA among numbers": (
        np.array([[1.0, 2.0, pd.NA]], dtype=object),
        r"Column 2 holds <NA> of type NAType",
    ),
    "beyond int64": (
        np.full((1, 3), 2**63, np.uint64),
        r"X holds 9223372036854775808, which is beyond int64",
    ),
    "masked": (np.ma.array(np.ones((1, 3)), mask=[[0, 1, 0]]), r"masked values. Pass X.filled"),
    "lazy": (pl.LazyFrame({"a": [1.0]}), r"Call .collect\(\) first"),
    "lengths": (
        {"a": [1.0], "b": [1.0, 2.0], "c": [1.0]},
        r"Columns differ in length: 'a' has 1, 'b' has 2",
    ),
    "a list in a record": (
        {"a": 1.0, "b": [2.0], "c": 3.0},
        r"Column 'b' holds a list, and column 'a' one value",
    ),
    "nested columns": ({"a": [[1.0]]}, r"Column 'a' must be one-dimensional"),
    "sparse complex": (
        scipy.sparse.csr_matrix(np.ones((1, 3), complex)),
        r"X holds complex numbers",
    ),
}


@pytest.mark.parametrize(("x", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_with_a_sentence(x, message):
    with pytest.raises(InputError, match=message):
        read_table(x, plain())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            ["1", "red"],
            r"Column 'a' holds the text 'red', where the model needs numbers, in row 1\.",
        ),
        (pd.Categorical(["red"]), r"Column 'a' holds the text 'red'"),
        (pd.to_datetime(["2020-01-01"]), r"Column 'a' holds dates"),
        (
            pd.to_datetime(["2020-01-01"], utc=True),
            r"Column 'a' holds .*Timestamp|Column 'a' holds dates",
        ),
        (np.array([1 + 1j]), r"Column 'a' holds complex numbers"),
        (np.array([b"red"]), r"Column 'a' holds the text b'red'"),
    ],
    ids=str,
)
def test_a_column_of_a_wrong_kind_is_named(column, message):
    with pytest.raises(InputError, match=message):
        read_table(pd.DataFrame({"a": column}), plain(Schema.table(["a"])))


def test_arrow_columns_of_other_types_are_named():
    with pytest.raises(InputError, match=r"Column 'a' has Arrow type list<item: int64>"):
        read_table(pa.table({"a": pa.array([[1]])}), plain(Schema.table(["a"])))


@pytest.mark.parametrize(
    "x",
    [np.empty((0, WIDTH)), pd.DataFrame(np.empty((0, WIDTH))), scipy.sparse.csr_matrix((0, WIDTH))],
    ids=lambda x: type(x).__name__,
)
def test_no_rows_are_a_table_too(x):
    table = read_table(x, plain()).part(slice(0, 0))
    assert whole(table).shape == (0, WIDTH)


def test_sparse_rows_are_written_out_by_the_part():
    table = read_table(scipy.sparse.csr_matrix(NUMBERS), plain())
    assert hasattr(table.matrix, "toarray")
    np.testing.assert_array_equal(whole(table.part(slice(1, 3))), NUMBERS[1:3])


def test_columns_of_several_dtypes_feed_planes():
    reads = named()
    table = read_table(
        pd.DataFrame({"a": np.float32([1, 2]), "b": [3, 4], "c": np.float32([5, 6])}), reads
    )
    assert table.dtypes == ("float32", "int64", "float32")
    assert table.feed(Feed("x_float32", "float32", (0, 2))).tolist() == [[1, 5], [2, 6]]
    assert table.feed(Feed("x_int64", "int64", (1,))).tolist() == [[3], [4]]


def test_small_ints_and_bools_leave_a_float32_beside_them_as_it_is():
    frame = pd.DataFrame({"a": np.float32([1, 2]), "b": np.int8([3, 4]), "c": [True, False]})
    table = read_table(frame, named())
    assert table.dtypes == ("float32", "int16", "int16")
    assert table.feed(Feed("x_int64", "int64", (1, 2))).tolist() == [[3, 1], [4, 0]]
    schema = table.reads.schema.with_dtypes(table.dtypes)
    assert (schema.common_dtype([0, 1]), schema.common_dtype([1, 2])) == ("float32", "int64")
    assert read_table(frame.astype({"a": "float64"}), named()).dtypes == (
        "float64",
        "int64",
        "int64",
    )


def test_text_columns_feed_codes():
    schema = Schema.table(["n", "t"]).with_dtypes(["float64", "string"])
    leaf = Codes(schema, 1, Vocabulary(("x", "y"), none=2))
    outputs = {
        "predict": Output(Columns(schema, Array.of([0], np.int32))),
        "transform": Output(leaf),
    }
    reads = Reads.of(Graph(schema, outputs))
    for x in (
        {"n": [1.0, 2.0, 3.0], "t": ["y", "z", None]},
        pl.DataFrame({"n": [1.0, 2.0, 3.0], "t": ["y", "z", None]}),
    ):
        assert read_table(x, reads).feed(CodesFeed((leaf,)))[:, 0].tolist() == [1, -1, 2]
    with pytest.warns(UserWarning, match="feature names"):
        table = read_table(np.array([[1.0, "y"], [2.0, "z"], [3.0, None]], dtype=object), reads)
    assert table.dtypes == ("float64", "string")
    assert table.feed(CodesFeed((leaf,)))[:, 0].tolist() == [1, -1, 2]


def test_tables_made_of_others_keep_nothing_of_what_these_fed():
    reads = Reads(Schema.matrix(WIDTH), frozenset(range(WIDTH)), frozenset())
    table = read_table(NUMBERS, reads)
    feed = Feed("x", "float64", (2, 0))
    assert table.feed(feed) is table.feed(feed)
    np.testing.assert_array_equal(table.part(slice(2, 4)).feed(feed), NUMBERS[2:, [2, 0]])
