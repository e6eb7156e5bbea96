"""Members that are another one but for some numbers are stored as what differs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hbconv.errors import StoreError
from hbconv.runtime.storage.member_patches import LEAST_BYTES, drop_alike, restore_alike

RNG = np.random.default_rng(0)
SIZE = LEAST_BYTES
NODES = RNG.integers(1, 1 << 30, SIZE).astype(np.int32)


def changed(places, values):
    words = NODES.copy()
    words[places] = values
    return words.tobytes()


OTHER = changed(slice(0, None, 2), np.arange(SIZE // 2))
"""Every second word is another one, the first of them 0."""


def test_members_come_back():
    members = {
        "nodes": NODES.tobytes(),
        "other": OTHER,
        "third": changed([7], [1]),
        "shorter": NODES[:-1].tobytes(),
        "text": b"x" * (4 * SIZE + 1),
        "small": b"few",
    }
    written, patches = drop_alike(members)
    assert {name: source for name, (source, _) in patches.items()} == {
        "other": "nodes",
        "third": "nodes",
    }
    assert np.count_nonzero(np.frombuffer(written["third"], np.int32)) == 1
    assert restore_alike(json.loads(json.dumps(patches)), written) == members


@pytest.mark.parametrize(
    "other",
    [
        RNG.integers(1, 1 << 30, SIZE).astype(np.int32).tobytes(),
        changed(slice(100), 0),
        changed(slice(SIZE // 10 * 9), 5),
    ],
    ids=["others", "many zeros", "few alike"],
)
def test_other_members_are_stored_as_they_are(other):
    members = {"nodes": NODES.tobytes(), "other": other}
    assert drop_alike(members) == (members, {})


@pytest.mark.parametrize(
    "patch",
    [["none", []], ["nodes", [10**9]], ["other", []], ["small", []], ["nodes"], 3, ["nodes", "x"]],
)
def test_patches_of_strangers_end(patch):
    written, _ = drop_alike({"nodes": NODES.tobytes(), "other": OTHER, "small": b"few"})
    with pytest.raises((StoreError, ValueError, IndexError, TypeError)):
        restore_alike({"other": patch}, written)
