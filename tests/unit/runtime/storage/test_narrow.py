"""Shorter forms of arrays, forests and members come back to the last bit; forged ones end by name."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from forests import hostile_rows, random_forest, with_random_shares

from hbconv.array import Array
from hbconv.containers.forms import Paths
from hbconv.errors import StoreError
from hbconv.runtime.storage import narrow
from hbconv.runtime.storage.codec import decode, encode
from hbconv.runtime.storage.narrow import LEAST_BYTES, deflate_members, inflate_members
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.preorder import PARENT, find_preorder, links_of_preorder

RNG = np.random.default_rng(0)
PLACES = np.arange(5000)
VALUES = np.array([0.0, -0.0, np.nan, np.inf, 5e-324, 1 / 3])


def written(array):
    document, arrays = encode(Array(array))
    return document["root"], arrays


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5000,), (5000, 2), (5000, 1)])
def test_few_distinct_rows_are_numbered(dtype, shape):
    rows = VALUES.astype(dtype)[
        RNG.integers(0, 6, shape)
        * (RNG.random(shape[0]) < 0.01).reshape(-1, *(1 for _ in shape[1:]))
    ]
    document, arrays = encode(Array(rows))
    assert list(document["root"]) == ["rows"]
    assert sum(a.nbytes for a in arrays.values()) < rows.nbytes / 2
    found = decode(document, arrays).data
    assert (found.dtype, found.shape, found.tobytes()) == (rows.dtype, rows.shape, rows.tobytes())


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("form", "ints"),
    [
        ("steps", np.cumsum(RNG.integers(0, 5, 5000))),
        ("array", RNG.integers(0, 28, 5000)),
        ("steps", np.where(PLACES < 2500, -(2**31), 2**31 - 1)),
    ],
)
def test_ints_that_ascend_are_differences(form, ints, dtype):
    ints = ints.astype(dtype)
    document, arrays = encode(Array(ints))
    assert list(document["root"]) == [form]
    found = decode(document, arrays).data
    assert (found.dtype, found.tobytes()) == (ints.dtype, ints.tobytes())


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0),
        np.zeros(10),
        np.zeros((5000, 0)),
        np.zeros((50, 50, 3)),
        np.zeros((5000, 3)),
        np.zeros(5000, np.float16),
        RNG.random(5000),
        np.zeros((5000, 2), np.int32),
        np.zeros(5000, np.bool_),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_other_arrays_are_written_as_they_are(array):
    root, arrays = written(array)
    assert list(root) == ["array"]
    assert arrays["a0"].tobytes() == array.tobytes()


@pytest.fixture
def covered(monkeypatch):
    """Return a forest whose every form is the shorter one."""
    monkeypatch.setattr(narrow, "LEAST_ROWS", 1)
    return with_random_shares(random_forest(RNG, n_trees=7, max_depth=5, n_outputs=2), RNG)


def test_forests_come_back(covered):
    document, arrays = encode(covered)
    (forest,) = document["shared"]
    assert "left" not in forest
    assert "left_share" not in document["root"]
    found = decode(document, arrays)
    assert isinstance(found, CoveredForest)
    assert found == covered
    x = hostile_rows(RNG, covered.forest)
    assert found.contributions(x).tobytes() == covered.contributions(x).tobytes()


@pytest.mark.parametrize(
    ("forged", "says"),
    [
        ({"preorder": np.zeros(1, np.uint8)}, "1 bytes of bits for"),
        ({"preorder": None}, "end within a tree|does not|cannot be"),
    ],
)
def test_bits_that_are_no_trees_end_by_name(covered, forged, says):
    document, arrays = encode(covered)
    name = document["shared"][0]["preorder"]["array"]
    bits = forged["preorder"]
    arrays[name] = np.full_like(arrays[name], 255) if bits is None else bits
    with pytest.raises((StoreError, ValueError), match=says):
        decode(json.loads(json.dumps(document)), arrays)


def test_paths_come_back(covered):
    bits = find_preorder(covered.forest)
    parent = links_of_preorder(bits)[PARENT]
    for first in (None, Array.of([0, 3], "int64")):
        paths = Paths(parent, first)
        document, arrays = encode((covered.forest, paths))
        written = document["root"]["tuple"][1]
        assert "parent" not in written
        # Forest and paths are of the same bits.
        assert written["preorder"] == document["shared"][0]["preorder"]
        assert decode(json.loads(json.dumps(document)), arrays)[1] == paths


def test_paths_of_other_orders_are_written_as_they_are(covered):
    for parent in ([-1, 0, 1, 0, 0], [-1, 0, 0, 1, 1], [0, 0]):
        paths = Paths(Array.of(parent, "int32"))
        document, arrays = encode(paths)
        assert "parent" in document["root"]
        assert decode(document, arrays) == paths


@pytest.mark.parametrize("n_nodes", [10**12, -1, True, 9.0, "9"])
def test_paths_of_other_lengths_end(covered, n_nodes):
    document, arrays = encode(Paths(links_of_preorder(find_preorder(covered.forest))[PARENT]))
    document["root"]["n_nodes"] = n_nodes
    with pytest.raises((StoreError, ValueError, TypeError)):
        decode(document, arrays)


@pytest.mark.parametrize(
    "numbers", [np.uint8([7]), np.int8([-1]), np.float32([0]), np.uint8([[0]])]
)
def test_numbers_of_no_row_end_by_name(numbers):
    with pytest.raises(StoreError, match="does not hold"):
        narrow.wide_rows(Array(numbers), Array([1.0]))


@pytest.mark.parametrize("ints", [np.float64([1]), np.int32([[1]])])
def test_differences_of_no_ints_end_by_name(ints):
    with pytest.raises(StoreError, match="not a vector of ints"):
        narrow.wide_ints(Array(ints))


def test_numbers_shared_by_many_rows_take_little_memory():
    document = {"tuple": [{"rows": ["a", f"b{i}"]} for i in range(20)]}
    arrays = {f"b{i}": np.zeros(1) for i in range(20)}
    arrays["a"] = np.zeros(1000, np.uint8)
    with pytest.raises(StoreError, match="take far more memory"):
        decode({"shared": [], "root": document}, arrays)


NODES = RNG.integers(0, 1000, 1 << 16).astype(np.int64).tobytes()


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
    monkeypatch.setattr(narrow, "MOST_ROOM", 1 << 16)
    bomb = zlib.compress(bytes(1 << 21))
    with pytest.raises(StoreError, match="unpacks to 2,097,152 bytes"):
        inflate_members({"a": bomb}, {"a": 1 << 21}, len(bomb))
    # What would look like one is written as it is.
    members = {"a": bytes(1 << 21)}
    assert deflate_members(members) == (members, {})
