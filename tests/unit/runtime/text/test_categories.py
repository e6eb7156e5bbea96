"""Text becomes codes exactly, in every form that text comes in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hbconv.containers import Vocabulary
from hbconv.errors import InputError
from hbconv.runtime.inputs import dataframes as tables
from hbconv.runtime.inputs.dataframes import read_frame
from hbconv.runtime.text import categories as text
from hbconv.runtime.text.categories import encode

WORDS = ["abcd", "abcdX", "abc", "", "é", "日本", "ABCD", " abcd", "a\x00", "a"]
VOCABULARY = Vocabulary(("abcd", "", "é", "日本", "a"))
CODES = [0, -1, -1, 1, 2, 3, -1, -1, -1, 4]

NONE, NAN = 7, 8

FORMS = {
    "object": np.array(WORDS, dtype=object),
    "list": WORDS,
    "pandas str": pd.Series(WORDS, dtype="str"),
    "pandas string": pd.Series(WORDS, dtype="string"),
    "pandas object": pd.Series(WORDS, dtype=object),
    "pandas category": pd.Series(pd.Categorical(WORDS)),
    "pandas arrow": pd.Series(WORDS, dtype="string[pyarrow]"),
    "pandas ArrowDtype": pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string())),
    "pandas ArrowDtype dictionary": pd.Series(
        WORDS, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
    ),
    "polars": pl.Series(WORDS),
    "polars categorical": pl.Series(WORDS, dtype=pl.Categorical),
    "polars enum": pl.Series(WORDS, dtype=pl.Enum(WORDS)),
    "arrow": pa.array(WORDS),
    "arrow large": pa.array(WORDS, pa.large_string()),
    "arrow view": pa.array(WORDS, pa.string_view()),
    "arrow chunks": pa.chunked_array([WORDS[:3], WORDS[3:]]),
    "arrow dictionary": pa.array(WORDS).dictionary_encode(),
    "arrow dictionary chunks": pa.chunked_array(
        [pa.array(WORDS[:3]).dictionary_encode(), pa.array(WORDS[3:]).dictionary_encode()]
    ),
}


def frame(values):
    kind = type(values).__module__.partition(".")[0]
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}.get(kind, dict)(
        {"t": values}
    )


def codes(values, vocabulary=VOCABULARY):
    return encode(read_frame(frame(values)).read(0), vocabulary, "Column 't'").tolist()


@pytest.mark.parametrize("values", FORMS.values(), ids=FORMS)
def test_every_form_of_text_has_the_same_codes(values):
    assert codes(values) == CODES


@pytest.mark.parametrize("values", FORMS.values(), ids=FORMS)
def test_some_rows_of_every_form_have_the_same_codes(values):
    column = read_frame(frame(values)).read(0)
    places = np.array([2, 0, 1])
    part = column[places] if isinstance(column, np.ndarray) else column.part(places)
    assert encode(part, VOCABULARY, "Column 't'").tolist() == [CODES[i] for i in places]


@pytest.mark.parametrize(
    "values",
    [v for k, v in FORMS.items() if "arrow" not in k.lower()],
    ids=[k for k in FORMS if "arrow" not in k.lower()],
)
def test_without_pyarrow_the_codes_are_the_same(values, monkeypatch):
    monkeypatch.setattr(tables, "has_arrow", lambda: False)
    assert codes(values) == CODES


def test_numpy_text_drops_trailing_nulls_and_is_else_the_same():
    assert encode(np.array(WORDS), VOCABULARY, "t").tolist() == [*CODES[:8], 4, 4]


@pytest.mark.parametrize("values", FORMS.values(), ids=FORMS)
def test_long_columns_have_the_same_codes(values):
    if isinstance(values, list):
        assert codes(values * 200) == CODES * 200
    else:
        column = read_frame(frame(values)).read(0)
        many = np.tile(np.arange(len(WORDS)), 200)
        long = column[many] if isinstance(column, np.ndarray) else _taken(column, many)
        assert encode(long, VOCABULARY, "t").tolist() == CODES * 200


def _taken(column, rows):
    if isinstance(column, text.Categories):
        return text.Categories(column.codes[rows], column.values)
    return text.Text(
        column.values[rows]
        if isinstance(column.values, np.ndarray)
        else pa.array(column.values.to_pylist() * 200),
        column.null,
    )


def test_long_columns_of_objects_tell_kinds_of_missing_apart():
    values = np.array(
        ["a", None, np.nan, pd.NA, pd.NaT, np.float32("nan"), 1, "b"] * 200, dtype=object
    )
    assert (
        encode(values, Vocabulary(("a",), none=NONE, nan=NAN), "t").tolist()
        == [0, NONE, NAN, -1, -1, NAN, -1, -1] * 200
    )


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("width", [1, 4, 9])
def test_numpy_text_of_every_width_is_compared_whole(width, order):
    values = np.array(WORDS).astype(f"{order}U{width}")
    assert (
        encode(values, VOCABULARY, "t").tolist()
        == encode(values.astype(object), VOCABULARY, "t").tolist()
    )
    assert (
        encode(np.tile(values, 2)[::2], VOCABULARY, "t").tolist()
        == encode(np.tile(values, 2)[::2].astype(object), VOCABULARY, "t").tolist()
    )


def test_halves_of_surrogate_pairs_are_texts_too():
    words = Vocabulary(("\udc80", "a"))
    assert codes(pa.array(["a", "b"]), words) == [1, -1]
    assert (
        codes(np.array(["a", "\udc80"], dtype=object), words)
        == codes(np.array(["a", "\udc80"]), words)
        == [1, 0]
    )


OBJECTS = Vocabulary(("a", 1, 2.5, b"a", False, 2**53 + 1), none=NONE, nan=NAN)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["a", "1", 1, 1.0, True, 2.5, b"a", False, 0, None, np.nan, 2**53, 2.0**53, 2**53 + 1], dtype=object),
         [0, -1, 1, 1, 1, 2, 3, 4, 4, NONE, NAN, -1, -1, 5]),
        (np.array([1.0, 2.5, np.nan, 0.0, 7.0]), [1, 2, NAN, 4, -1]),
        (np.array([1, 2**53 + 1, 7]), [1, 5, -1]),
        (np.array([True, False]), [1, 4]),
        (np.array([b"a", b"b"]), [3, -1]),
        (np.array(["a", "1"]), [0, -1]),
        (pa.array(["1", "a", None]), [-1, 0, NONE]),
        (pd.Series(pd.Categorical(["1", "a"])), [-1, 0]),
    ],
    ids=str,
)  # fmt: skip
def test_objects_are_equal_as_in_python(values, expected):
    assert codes(values, OBJECTS) == expected


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (np.array([None], dtype=object), NONE),
        (np.array([np.nan], dtype=object), NAN),
        (np.array([float("nan")], dtype=object), NAN),
        (np.array([np.float32("nan")], dtype=object), NAN),
        (np.array([pd.NA], dtype=object), -1),
        (np.array([1], dtype=object), -1),
        (pd.Series(["a", None], dtype="str")[1:], NAN),
        (pd.Series(["a", None], dtype="string")[1:], -1),
        (pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string()))[1:], -1),
        (pd.Series(pd.Categorical(["a", None]))[1:], NAN),
        (pl.Series(["a", None])[1:], NONE),
        (pl.Series(["a", None], dtype=pl.Categorical)[1:], NONE),
        (pa.array(["a", None])[1:], NONE),
        (pa.array(["a", None]).dictionary_encode()[1:], NONE),
        (np.array([np.nan]), NAN),
    ],
    ids=str,
)
def test_none_nan_and_na_are_told_apart(values, code):
    assert codes(values, Vocabulary(("a",), none=NONE, nan=NAN)) == [code]


def test_an_arrow_null_is_nan_for_a_model_that_knows_only_nan():
    assert codes(pa.array(["a", None]), Vocabulary(("a",), nan=NAN)) == [0, NAN]
    assert codes(pa.array(["a", None]), Vocabulary(("a",))) == [0, -1]


@pytest.mark.parametrize(
    "values", [np.array([1.0, np.nan]), np.array([1, 2]), np.array([True])], ids=str
)
def test_numbers_in_a_text_column_are_refused(values):
    with pytest.raises(
        InputError, match=r"Column 't' holds numbers .* where the model was fitted on text"
    ):
        codes(values)


def test_dates_in_a_text_column_are_refused():
    with pytest.raises(InputError, match=r"Column 't' holds dates \(dtype datetime64\[s\]\)"):
        codes(np.array(["2020-01-01"], "datetime64[s]"))


def test_a_list_in_a_text_column_is_refused():
    values = np.empty(2, dtype=object)
    values[:] = ["a", ["b"]]
    with pytest.raises(
        InputError, match=r"Column 't' holds \['b'\] of type list, where the model needs text"
    ):
        codes(values)


def test_no_rows_have_no_codes():
    assert codes(np.array([], dtype=object)) == codes(pa.array([], pa.string())) == []
    assert text.has_arrow()


MORE = tuple(f"more {i}" for i in range(2000))
LOOK_UPS = {
    "few rows": ((), 1),
    "fewer rows than texts": (MORE, 40),
    "more rows than texts": ((), 40),
}
VOCABULARIES = {
    "plain": lambda more: Vocabulary((*VOCABULARY.values, *more), none=NONE, nan=NAN),
    "blank": lambda more: Vocabulary(("abcd", "é", *more), none=1, blank=1, nulls=("abc",)),
    "spelled": lambda more: Vocabulary(("abcd", "a", *more), spelled=True),
    "of objects": lambda more: Vocabulary(("abcd", 1, b"a", "\udc80", *more), none=NONE),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize(("more", "times"), LOOK_UPS.values(), ids=LOOK_UPS)
def test_every_look_up_of_arrow_finds_what_python_finds(vocabulary, more, times):
    known = VOCABULARIES[vocabulary](more)
    words = [*WORDS, None, "a\0\0", "1", "more 7"] * times
    null = known.codes[None] if known.none != -1 else known.nan
    wanted = [null if word is None else known.codes[word] for word in words]
    for kind in (pa.string(), pa.large_string()):
        column = pa.chunked_array([pa.array(words[:5], kind), pa.array(words[5:], kind)])
        assert encode(text.Text(column), known, "t").tolist() == wanted
        assert encode(text.Text(column[3:]), known, "t").tolist() == wanted[3:]
        assert encode(text.Text(column.combine_chunks()), known, "t").tolist() == wanted


@pytest.mark.parametrize(("more", "times"), LOOK_UPS.values(), ids=LOOK_UPS)
def test_bytes_that_are_no_text_are_unknown(more, times):
    bytes_of = pa.array([b"abcd", b"\xff", b"a"] * times)
    column = pa.StringArray.from_buffers(len(bytes_of), *bytes_of.buffers()[1:])
    known = Vocabulary((*VOCABULARY.values, *more))
    assert encode(text.Text(column), known, "t").tolist() == [0, -1, 4] * times


@pytest.mark.parametrize("rows", [3, 3000])
def test_categories_are_encoded_alike_for_fewer_and_for_more_rows(rows):
    categories = np.array([*VOCABULARY.values, *MORE[:100]], object)
    places = np.arange(rows) % 107 - 1
    known = Vocabulary(VOCABULARY.values, nan=NAN)
    wanted = [NAN, *range(5), *[-1] * 100][: min(rows, 107)]
    for values in (categories, pa.array(categories)):
        column = text.Categories(places, text.Text(values, "nan"))
        assert encode(column, known, "t").tolist()[:106] == wanted[:106]
