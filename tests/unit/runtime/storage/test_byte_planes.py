"""Members as byte planes come back to the last byte; damage and bombs end by name."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from hbconv.errors import StoreError
from hbconv.runtime.storage import byte_planes
from hbconv.runtime.storage.byte_planes import LEAST_BYTES, deflate_members, inflate_members

RNG = np.random.default_rng(0)
NODES = RNG.integers(0, 1000, LEAST_BYTES).astype(np.int64).tobytes()


@pytest.mark.parametrize("length", [0, 7, LEAST_BYTES - 1, LEAST_BYTES, (2 << 20) + 13])
def test_members_come_back(length):
    data = (NODES * 9)[:length]
    written, lengths = deflate_members({"a": data, "b": b"few"})
    assert lengths == ({"a": length} if length >= LEAST_BYTES else {})
    assert sum(map(len, written.values())) <= len(data) + 3
    assert inflate_members(written, lengths, 1) == {"a": data, "b": b"few"}


def test_what_is_no_shorter_is_written_as_it_is():
    data = RNG.bytes(LEAST_BYTES)
    assert deflate_members({"a": data}) == ({"a": data}, {})


@pytest.mark.parametrize(
    ("changed", "length", "says"),
    [
        (lambda data: data[:-9], len(NODES), "is not 524,288 bytes long"),
        (lambda data: data + b"more", len(NODES), "is not 524,288 bytes long"),
        (lambda data: data, len(NODES) - 1, "is not 524,287 bytes long"),
        (lambda data: data, len(NODES) + 8, "is not 524,296 bytes long"),
        (lambda data: b"\0" * len(data), len(NODES), "cannot be unpacked"),
        (lambda data: data, True, "no number of bytes"),
        (lambda data: data, -1, "no number of bytes"),
        (lambda data: data, 1 << 40, "more than 64 times its own size"),
    ],
)
def test_damage_ends_by_name(changed, length, says):
    written, _ = deflate_members({"a": NODES})
    with pytest.raises(StoreError, match=says):
        inflate_members({"a": changed(written["a"])}, {"a": length}, len(written["a"]))


def test_a_bomb_is_never_unpacked(monkeypatch):
    monkeypatch.setattr(byte_planes, "MOST_ROOM", 1 << 16)
    bomb = zlib.compress(bytes(1 << 21))
    with pytest.raises(StoreError, match="unpacks to 2,097,152 bytes"):
        inflate_members({"a": bomb}, {"a": 1 << 21}, len(bomb))
    # What would look like one is written as it is.
    members = {"a": bytes(1 << 21)}
    assert deflate_members(members) == (members, {})
