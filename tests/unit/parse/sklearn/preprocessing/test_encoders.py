import datetime as dt

import numpy as np
import pandas as pd
import pytest
from agreement import agree, refuses_as_source, transform
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, OrdinalEncoder

from hbconv.errors import InputError, UnsupportedError
from hbconv.parse import parse
from hbconv.parse.common.text_columns import are_numbers

TEXTS = ["b", "a", "", "é", "日本", "abcd", "a", "b", "abcd", "a"]
COUNTS = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]
UNSEEN_TEXTS = ["abcdX", "A", " a", "日", "e", "", "b", "a", "é", "abcd"]


def table(**columns):
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=object if isinstance(values[0], str | None) else None)
            for name, values in columns.items()
        }
    )


TRAIN = table(
    text=TEXTS,
    count=COUNTS,
    flag=[True, False] * 5,
    ratio=[0.5, 0.1, np.nan, -0.0, 0.1, 2.5, 0.5, 0.1, 2.5, 1e300],
)
UNSEEN = table(
    text=UNSEEN_TEXTS,
    count=[9, 0, 1, 2, 3, 4, -1, 5, 2, 1],
    flag=[False, True] * 5,
    ratio=[0.0, 0.1, np.nextafter(0.1, 1), np.nan, 3.0, -5.0, 2.5, 0.5, 1e300, 1e-300],
)


@pytest.mark.parametrize("encoder", [
    OneHotEncoder(),
    OneHotEncoder(sparse_output=False, drop="first"),
    OneHotEncoder(drop="if_binary"),
    OneHotEncoder(drop=["a", 3, True, np.nan]),
    OneHotEncoder(min_frequency=2),
    OneHotEncoder(min_frequency=0.25, drop="first"),
    OneHotEncoder(max_categories=2),
    OneHotEncoder(max_categories=1, drop="if_binary"),
    OneHotEncoder(max_categories=3, drop="if_binary"),
    OneHotEncoder(dtype=np.float32),
    OneHotEncoder(dtype=int),
    OneHotEncoder(dtype=np.int32),
    OneHotEncoder(dtype=np.uint8),
    OneHotEncoder(dtype=bool),
    OneHotEncoder(categories=[["é", "zz", "a", "b", "", "日本", "abcd"], [1, 2, 3, 4, 5], [False, True], [-0.0, 0.1, 0.5, 2.5, 1e300, np.nan]]),
    OrdinalEncoder(),
    OrdinalEncoder(dtype=np.float32),
    OrdinalEncoder(dtype=np.int64, encoded_missing_value=-7),
    OrdinalEncoder(dtype=np.int32, encoded_missing_value=-7),
    OrdinalEncoder(min_frequency=2),
    OrdinalEncoder(max_categories=2, encoded_missing_value=9),
])  # fmt: skip
def test_encodes_seen_categories(encoder):
    encoder.fit(TRAIN)
    agree(encoder, TRAIN)
    agree(encoder, TRAIN[::-2])
    agree(encoder, TRAIN[:1])


@pytest.mark.parametrize("handle_unknown", ["ignore", "infrequent_if_exist", "warn"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"drop": "first"},
        {"drop": "if_binary"},
        {"min_frequency": 2},
        {"max_categories": 3, "drop": "first"},
        {"max_categories": 2, "drop": "if_binary"},
    ],
)
def test_one_hot_encodes_unknown_categories(handle_unknown, options):
    agree(OneHotEncoder(handle_unknown=handle_unknown, **options).fit(TRAIN), UNSEEN)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_frequency": 2},
        {"max_categories": 3},
        {"encoded_missing_value": -3, "max_categories": 3},
    ],
)
@pytest.mark.parametrize("unknown_value", [-1, 99, np.nan])
def test_ordinal_encodes_unknown_categories(unknown_value, options):
    agree(
        OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=unknown_value, **options
        ).fit(TRAIN),
        UNSEEN,
    )


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()])
def test_refuses_unknown_categories(encoder):
    encoder.fit(TRAIN)
    for column in ("text", "count", "ratio"):
        refuses_as_source(
            encoder,
            TRAIN.assign(**{column: UNSEEN[column]}),
            f"unknown categories in column '{column}'",
        )


def test_refuses_infinite_numbers():
    encoder = OneHotEncoder(handle_unknown="ignore").fit(TRAIN)
    refuses_as_source(encoder, TRAIN.assign(ratio=np.inf), "infinity")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("fitted", [np.float32, np.float64, np.int64, np.int16, np.uint8, np.bool_])
def test_compares_numbers_in_the_common_dtype(fitted, dtype):
    train = np.array([[0.0, 3.3], [1.0, 0.1], [5.0, 0.1]]).astype(fitted)
    rows = np.array(
        [[0.0, 3.3], [1.0, 0.1], [5.0, 0.1], [-0.0, 1.7], [2.5, -1.0], [1.0, 2.0**53 + 1]]
    ).astype(dtype)
    agree(OneHotEncoder(handle_unknown="ignore").fit(train), rows)
    agree(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(train), rows)


def test_tells_none_from_nan():
    train = pd.DataFrame(
        {
            "both": ["a", None, np.nan, "b"],
            "none": ["a", None, "c", "b"],
            "nan": ["x", np.nan, "z", "b"],
        },
        dtype=object,
    )
    rows = pd.DataFrame(
        {
            "both": [None, np.nan, "a", "q"],
            "none": [None, np.nan, "a", "q"],
            "nan": [None, np.nan, "x", "q"],
        },
        dtype=object,
    )
    for encoder in (
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ):
        agree(encoder.fit(train), rows)
        agree(encoder, train)


def test_keeps_a_category_none_in_its_place():
    train = pd.DataFrame({"a": ["x", None, "y"]}, dtype=object)
    agree(OneHotEncoder(categories=[["y", None, "x"]]).fit(train), train)
    agree(OrdinalEncoder(categories=[["y", None, "x"]]).fit(train), train)


def test_reads_arrays_of_text():
    train = np.array([["a", "1"], ["b", "2"], ["a", "3"]])
    rows = np.array([["a", "1"], ["abcdef", "2"], ["", "33"]])
    agree(OneHotEncoder(handle_unknown="ignore").fit(train), rows)
    agree(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(
            train.astype(object)
        ),
        rows.astype(object),
    )


def test_reads_objects_that_are_numbers():
    train = np.array([["a", 1], ["b", 2], ["a", 2.5]], dtype=object)
    rows = np.array([["a", 1.0], ["zz", 2], ["b", 1.7]], dtype=object)
    agree(OneHotEncoder(handle_unknown="ignore").fit(train), rows)


OBJECTS = {
    "numbers and None": (
        [1.5, None, 0.5, 7],
        [7, None, 1.5, 0, "a", 1.50001, True, np.nan],
        "auto",
    ),
    "numbers, None and NaN": ([1, None, np.nan], [np.nan, None, 1, 1.0, "1"], "auto"),
    "truth values": ([True, False, True], [False, 0, 1, 2, "True", None], "auto"),
    "truth values and None": ([True, None, False], [None, True, 1.0, 0, 7], "auto"),
    "bytes": ([b"b", b"a"], [b"a", "a", b"ab", 1], "auto"),
    "numbers in no order": ([3, 1], [1, 3, 2, 3.0], [3, 1]),
    "large numbers": ([2**53 + 1, 0.5], [2**53 + 1, 2**53, 2.0**53, 0.5], "auto"),
    "texts that are truth values": (["True", "False"], ["True", "False", True, 1], "auto"),
}


@pytest.mark.parametrize(("train", "rows", "categories"), OBJECTS.values(), ids=OBJECTS)
def test_encodes_objects_as_python_compares_them(train, rows, categories):
    """The source refuses to fit numbers beside texts, which have no order; rows may hold them."""
    train, rows = (pd.DataFrame({"a": pd.Series(values, dtype=object)}) for values in (train, rows))
    categories = categories if categories == "auto" else [np.array(categories, dtype=object)]
    for encoder in (
        OneHotEncoder(categories=categories, handle_unknown="ignore"),
        OrdinalEncoder(categories=categories, handle_unknown="use_encoded_value", unknown_value=-9),
    ):
        agree(encoder.fit(train), train)
        if not are_numbers(encoder.categories_[0]):
            agree(encoder, rows)
    if not are_numbers(encoder.categories_[0]):
        refuses_as_source(
            OrdinalEncoder(categories=categories).fit(train),
            rows,
            "unknown categories in column 'a'",
        )


def test_a_column_of_one_dropped_category_has_no_width():
    train = pd.DataFrame({"one": ["a", "a"], "two": ["a", "b"]}, dtype=object)
    assert agree(OneHotEncoder(drop="first").fit(train), train).shape == (2, 1)


def test_reads_many_categories_fast():
    train = np.array([[f"c{i}"] for i in range(20_000)], dtype=object)
    assert parse(OneHotEncoder().fit(train)).outputs["transform"].node.type.width == 20_000


@pytest.mark.parametrize(("encoder", "train", "parameter"), [
    (OneHotEncoder(dtype=np.float16), TRAIN, "dtype"),
    (OneHotEncoder(dtype=np.uint32), TRAIN, "dtype"),
    (OrdinalEncoder(dtype=np.int8, encoded_missing_value=-1), TRAIN, "dtype"),
    (OneHotEncoder(), np.array([["2020-01-01"], ["2021-01-01"]], dtype="M8[s]"), "categories_"),
    (OneHotEncoder(), np.array([[dt.date(2020, 1, 1)]], dtype=object), "categories_"),
])  # fmt: skip
def test_refuses_by_name(encoder, train, parameter):
    with pytest.raises(UnsupportedError, match=f"{type(encoder).__name__} with {parameter}="):
        parse(encoder.fit(train))


@pytest.mark.parametrize(("labels", "rows"), [
    ([3, 1, 7], [7, 3, 3, 1]),
    ([3, 1, 7], [7.9, 3.2]),
    ([0.5, 0.1, np.nan], [0.1, np.nan, 0.5]),
    ([True, False], [1, 0]),
    (["b", "é", ""], ["", "é", "b"]),
    (np.array(["b", "abc"], dtype=object), ["abc", "b"]),
])  # fmt: skip
def test_encodes_labels(labels, rows):
    encoder = LabelEncoder().fit(labels)
    rows = np.array(rows, dtype=object if isinstance(rows[0], str) else None)
    got, output = transform(encoder, rows[:, None])
    want = encoder.transform(rows)
    assert output.is_vector
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got[:, 0], want)


@pytest.mark.parametrize(
    ("labels", "row"), [([3, 1], 2), ([0.5], 0.4), (["abc"], "abcd"), ([1, 2], np.nan)]
)
def test_refuses_unseen_labels(labels, row):
    with pytest.raises(InputError, match=r"unseen labels|NaN"):
        transform(
            LabelEncoder().fit(labels),
            np.array([[row]], dtype=object if isinstance(row, str) else None),
        )
