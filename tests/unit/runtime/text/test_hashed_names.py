"""Places of names by their hashes, remembered or not."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from hbconv.containers.extractors import Buckets
from hbconv.runtime.text import hashed_names
from hbconv.runtime.text.hashed_names import place_names
from hbconv.runtime.text.murmur_hash import MOST_PADDED, hash_name, murmur_hash


def wanted(names: list[str], buckets: Buckets) -> list[int]:
    """Return places as scikit-learn finds columns and signs."""
    hashes = [murmurhash3_32(name, seed=0) for name in names]
    columns = [abs(value) % buckets.width for value in hashes]
    pairs = zip(hashes, columns, strict=True)
    return [~column if buckets.signed and value < 0 else column for value, column in pairs]


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=120), max_size=60),
    st.sampled_from([1, 7, 2**20, 2**31 - 1]),
    st.booleans(),
)
def test_places_are_those_of_the_source(names: list[str], width: int, signed: bool) -> None:
    """Of names seen before, of few others, and of many others."""
    buckets = Buckets(width, signed)
    for _ in range(2):
        assert place_names(names, buckets) == wanted(names, buckets)
    assert list(map(hash_name, names)) == murmur_hash(names).tolist()


def test_the_memory_is_bounded() -> None:
    """It begins anew where it is full, and long names never enter it."""
    buckets = Buckets(5)
    hashed_names._memory.cache_clear()
    with mock.patch.object(hashed_names, "MOST_NAMES", 40):
        for first in range(0, 300, 30):
            names = [f"name {i}" for i in range(first, first + 30)] + ["x" * 65]
            assert place_names(names, buckets) == wanted(names, buckets)
            assert len(hashed_names._memory(buckets)) <= 40
    assert "x" * 65 not in hashed_names._memory(buckets)


def test_a_name_that_is_no_text_is_remembered_by_none() -> None:
    """Each call refuses it."""
    for names in (["\ud800"], ["\ud800", *map(str, range(90))]):
        for _ in range(2):
            with pytest.raises(UnicodeEncodeError):
                place_names(names, Buckets(6))


@pytest.mark.parametrize("count", [MOST_PADDED, MOST_PADDED + 1])
@pytest.mark.parametrize("longest", [1, 100, 101, 400])
def test_names_of_every_length(count: int, longest: int) -> None:
    """Side by side, or padded to one length, with null characters at their ends."""
    names = ["\0x\0" * (i % longest) for i in range(count - 1)] + ["é" * (longest // 2)]
    assert murmur_hash(names).tolist() == [murmurhash3_32(name, seed=0) for name in names]
