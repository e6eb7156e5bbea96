"""Text in files for other runtimes: what stands for missing values, and labels that fit."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.array import Array
from hbconv.backends.interface import labels, require_one_meaning, text_codes
from hbconv.backends.onnx.export import MISSING
from hbconv.backends.tvm.c_library.source import texts_of_c
from hbconv.containers import Hashes, Vocabulary
from hbconv.errors import BackendError


def test_texts_that_stand_for_missing_in_onnx() -> None:
    def codes(vocabulary):
        return text_codes(vocabulary, "c", MISSING)

    assert codes(Vocabulary(("a",), none=1, nan=1)) == {"a": 0, "None": 1, "nan": 1, "": 1}
    assert codes(Vocabulary(("a",), none=1, nan=2)) == {"a": 0, "None": 1, "nan": 2}
    assert codes(Vocabulary(("", "a"), nan=2)) == {"": 0, "a": 1, "nan": 2}
    assert codes(Vocabulary(("nan", "a"), nan=2)) == {"nan": 0, "a": 1, "": 2}
    assert codes(Vocabulary(())) == {}
    with pytest.raises(BackendError, match="'c' has missing values"):
        codes(Vocabulary(("nan", ""), nan=2))


def test_the_empty_text_stands_for_missing() -> None:
    assert text_codes(Vocabulary(("a", "nan"), nan=2), "c") == {"a": 0, "nan": 1, "": 2}
    assert text_codes(Vocabulary(("", "a")), "c") == {"": 0, "a": 1}
    for vocabulary in (Vocabulary(("a",), none=1, nan=2), Vocabulary(("",), nan=1)):
        with pytest.raises(BackendError, match="'c' has missing values"):
            text_codes(vocabulary, "c")


def test_categories_that_are_no_text_are_refused() -> None:
    with pytest.raises(BackendError, match="'c' holds objects of several types"):
        text_codes(Vocabulary(("a", 1.5)), "c")
    with pytest.raises(BackendError, match="no operator that hashes text"):
        text_codes(Hashes((1, 2)), "c")


def test_labels_that_files_cannot_hold() -> None:
    for classes in (
        np.array(["a", 1], object),
        np.array([1 + 2j]),
        np.array(["2020-01-01"], "datetime64[D]"),
    ):
        with pytest.raises(BackendError, match="cannot hold"):
            labels(classes)
    assert Array(labels(np.array([1, 2], "uint8"))).dtype == "int64"


def test_encoders_of_one_column_agree_on_the_empty_text() -> None:
    category = Vocabulary(("", "a"))
    missing = Vocabulary(("a",), nan=1)
    neither = Vocabulary(("a", "b"))
    for agreeing in ([category, neither], [missing, neither], [missing, Hashes((1,))]):
        require_one_meaning(agreeing, "c")
    with pytest.raises(BackendError, match="The empty text of column 'c' is a category"):
        require_one_meaning([category, missing], "c")


def test_labels_beyond_int64_are_refused() -> None:
    assert labels(np.array([1, 2**63 - 1], np.uint64)).dtype == np.int64
    with pytest.raises(BackendError, match="9223372036854775808"):
        labels(np.array([1, 2**63], np.uint64))


def test_c_gives_no_null_and_no_half_of_a_character() -> None:
    vocabulary = {"b": 0, "a\ud800": 1, "a": 2, "a\0b": 3, "": 4}
    assert texts_of_c(vocabulary) == [(b"", 4), (b"a", 2), (b"b", 0)]
