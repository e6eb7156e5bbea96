"""Hashes of names are scikit-learn's, whatever way they are computed."""

from __future__ import annotations

import sys
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from hbconv.runtime.text import text_hash as ways
from hbconv.runtime.text.text_hash import murmur_hash

NAME = st.one_of(st.text(st.characters(codec="utf-8"), max_size=30), st.binary(max_size=70))


def hashes(names: list[str | bytes], most_few: int, loaded: bool) -> list[int]:
    """Return hashes of names that are few or not, with scikit-learn loaded or not."""
    absent = {} if loaded else {"sklearn.utils": None}
    with mock.patch.object(ways, "MOST_FEW", most_few), mock.patch.dict(sys.modules, absent):
        return murmur_hash(names).tolist()


@given(st.lists(NAME))
def test_hashes_as_the_source(names: list[str | bytes]) -> None:
    """All lengths, alone and beside others: one by one, padded, and side by side."""
    want = [murmurhash3_32(name, seed=0) for name in names]
    for most_few, loaded in ((10**9, True), (10**9, False), (-1, False)):
        assert hashes(names, most_few, loaded) == want


@pytest.mark.parametrize("names", [[1], ["a", None], ["\ud800"], [b"a", 2.0]])
def test_refuses_what_is_no_name(names: list[str]) -> None:
    """The compiled function would hash numbers too."""
    for most_few, loaded in ((10**9, True), (10**9, False), (-1, False)):
        with pytest.raises((TypeError, UnicodeError)):
            hashes(names, most_few, loaded)


def test_hashes_names_of_more_blocks_than_16_bits_count() -> None:
    """Two that are longer than others, and one another."""
    names = ["a", "x" * (4 << 16), "bcdefg", "y" * ((4 << 16) + 9), "hi"]
    want = [murmurhash3_32(name, seed=0) for name in names]
    assert hashes(names, -1, False) == want


def test_hashes_names_that_hold_what_stands_between_names() -> None:
    """Null bytes in a name, and at both ends of one, beside letters of several bytes."""
    for names in (
        ["a\0b", "", "é\0"],
        ["\0", "日本"],
        [b"\0a", "é", b"b"],
        ["é", "a", "日本"],
        [""],
    ):
        assert hashes(names, -1, False) == [murmurhash3_32(name, seed=0) for name in names]
