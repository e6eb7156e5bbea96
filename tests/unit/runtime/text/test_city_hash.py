"""Categories known by hashes alone: text and whole numbers of every form find their code,
anything else is refused.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hbconv.containers import HashCodes, Hashes
from hbconv.errors import InputError
from hbconv.runtime.inputs.dataframes import read_frame
from hbconv.runtime.text.text_hash import city_hash, encode_hashed

WORDS = (
    "",
    "a",
    "b7",
    "-31",
    "word",
    "é",
    "日本語",
    "8 bytes!",
    "nine byte",
    "x" * 16,
    "x" * 17,
    "y" * 32,
    "z" * 33,
    "w" * 64,
    "v" * 65,
    "u" * 128,
    "t" * 129,
    "s" * 500,
)


def hashed(text: str) -> int:
    whole = city_hash(np.frombuffer(text.encode(), np.uint8)[None])
    return int(whole.astype(np.uint32).view(np.int32)[0])


KNOWN = Hashes(tuple(sorted(map(hashed, WORDS))))


def codes(values):
    return encode_hashed(values, KNOWN, "Column 'c'").tolist()


def place(text):
    return KNOWN.values.index(hashed(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 797982799),
        ("a", -805065478),
        ("c", -1883343840),
        ("hello world, it is CityHash", -1845699780),
        ("x" * 100, -971471741),
    ],
)
def test_hashes_are_those_that_catboost_writes(text, value):
    assert hashed(text) == value


def test_text_of_every_length_and_form():
    expected = [*map(place, WORDS), -1]
    given = [*WORDS, "never seen"]
    assert codes(np.array(given, dtype=object)) == expected
    assert codes(np.array(given)) == expected
    for column in (
        pa.array(given),
        pa.chunked_array([given[:3], given[3:]]),
        pa.array(given).dictionary_encode(),
    ):
        assert codes(read_frame(pa.table({"c": column})).read(0)) == expected
    for dtype in ("str", "string", "category", object):
        assert (
            codes(read_frame(pd.DataFrame({"c": pd.Series(given, dtype=dtype)})).read(0))
            == expected
        )


def test_whole_numbers_are_their_digits():
    expected = [place("-31"), -1, place("-31")]
    for dtype in (np.int64, np.int8, object):
        assert codes(np.array([-31, 5, -31], dtype)) == expected
    assert codes(np.array([-31, "a", np.int16(-31)], dtype=object)) == [
        place("-31"),
        place("a"),
        place("-31"),
    ]
    assert codes(np.array([True, False])) == [-1, -1]
    assert codes(np.array([2**64 - 31], np.uint64)) == [-1]


def test_no_rows_and_no_known_categories():
    assert codes(np.array([], dtype=object)) == []
    assert encode_hashed(np.array(["a"]), Hashes(()), "Column 0").tolist() == [-1]


@pytest.mark.parametrize("value", [None, float("nan"), 1.0, pd.NA, b"a"])
def test_other_values_are_refused(value):
    with pytest.raises(
        InputError, match=r"Column 'c' holds .*, where the model was fitted on categories"
    ):
        codes(np.array(["a", value], dtype=object))


@pytest.mark.parametrize(
    "column", [pa.array(["a", None]), pa.array(["a", None]).dictionary_encode()]
)
def test_missing_values_are_refused(column):
    with pytest.raises(InputError, match="missing values"):
        codes(read_frame(pa.table({"c": column})).read(0))


def test_columns_of_floats_are_refused():
    with pytest.raises(InputError, match="not whole"):
        codes(np.array([1.0, 2.0]))


@pytest.mark.parametrize("make", [pa.array, lambda texts: np.array(texts, object)])
def test_hashes_of_few_texts_are_remembered_and_those_of_many_the_same(make, monkeypatch):
    texts = [f"text {i}" for i in range(300)] + ["long" * 100]
    many = encode_hashed(make(texts), HashCodes(), "t").tolist()
    monkeypatch.setattr("hbconv.runtime.text.text_hash.MOST_HASHED", 20)
    remembered = {}
    monkeypatch.setattr("hbconv.runtime.text.text_hash._REMEMBERED", remembered)
    for first in (0, 8, 4, 290, 0):
        few = texts[first : first + 16]
        assert encode_hashed(make(few), HashCodes(), "t").tolist() == many[first : first + 16]
        assert 0 < len(remembered) <= 40
    assert not any(len(one) > 256 for one in remembered)
