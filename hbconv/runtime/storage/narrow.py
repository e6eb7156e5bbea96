"""Fields, arrays and members as files hold them where that is shorter, and back.

Children of trees in preorder are a bit for each node, and rows of few distinct values are numbers.
Ints that ascend are differences.

Members are byte planes, deflated. Tables are numbers of 4 or 8 bytes, of which the upper ones
repeat. So the bytes of every eighth place stand together (the shuffle filter of HDF5), where runs
of equal bytes take nearly nothing.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, number_rows
from hbconv.containers.forms import Paths
from hbconv.errors import StoreError
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest
from hbconv.trees.preorder import LINKS, PARENT, find_preorder, links_of_preorder

__all__ = [
    "MOST_ROW_BYTES",
    "deflate_members",
    "has_room",
    "inflate_members",
    "narrow_fields",
    "narrow_ints",
    "narrow_rows",
    "wide_fields",
    "wide_ints",
    "wide_rows",
]

WIDTH = 8
"""Planes: bytes of a float64, of two int32, and of a node of a walk."""
PART_BYTES = 1 << 20
"""Bytes whose planes follow each other: Huffman's code of one plane does not suit another."""
LEAST_BYTES = 1 << 12
"""Bytes from which a member is deflated: a file names what is, which takes some."""
MOST_ROOM = 1 << 26
"""Bytes that all members together may always unpack to."""
MOST_TIMES = 64
"""How many times as long as the file all members together may be, beyond that."""


def deflate_members(
    members: Mapping[str, bytes],
) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return members as they are written, and the lengths of those that are deflated.

    Where ``inflate_members`` would refuse them as a bomb, all are written as they are.
    """
    written = {name: _deflate(data) for name, data in members.items()}
    lengths = {name: len(members[name]) for name in members if written[name] != members[name]}
    fit = has_room(sum(lengths.values()), sum(map(len, written.values())))
    return (written, lengths) if fit else (dict(members), {})


def inflate_members(
    members: Mapping[str, bytes], lengths: Mapping[str, int], size: int
) -> dict[str, bytes]:
    """Return members as ``deflate_members`` was given them, from a file of so many bytes.

    Raises
    ------
    StoreError
        They would take far more memory than the file, or are not as long as the file says.
    """
    if not all(type(length) is int and length >= 0 for length in lengths.values()):
        raise StoreError("The model file is damaged: a length of its tables is no number of bytes.")
    if not has_room(sum(lengths.values()), size):
        raise StoreError(
            f"The model file unpacks to {sum(lengths.values()):,} bytes, more than "
            f"{MOST_TIMES} times its own size."
        )
    inflated = {name: _inflate(name, members[name], length) for name, length in lengths.items()}
    return {**members, **inflated}


def has_room(unpacked: int, size: int) -> bool:
    """Whether a file of so many bytes may unpack to so many."""
    return unpacked <= max(MOST_ROOM, MOST_TIMES * size)


def _deflate(data: bytes) -> bytes:
    """Return the planes of each part deflated, or the data where that is no shorter.

    Runs alone are looked for, since what repeats in tables is the same byte: 84,024 nodes took
    0.1 us each, and 1.1 with level 6, for 3.7 and 3.8 bytes (Zen 4).
    """
    if len(data) < LEAST_BYTES:
        return data
    deflater = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    parts = [
        deflater.compress(_to_planes(data[start : start + PART_BYTES]))
        for start in range(0, len(data), PART_BYTES)
    ]
    deflated = b"".join([*parts, deflater.flush()])
    return deflated if len(deflated) < len(data) else data


def _inflate(name: str, data: bytes, length: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # One byte more would show that the file claims too little.
        planes = inflater.decompress(data, length + 1)
    except zlib.error as error:
        raise StoreError(f"The model file is damaged: {name} cannot be unpacked.") from error
    if len(planes) != length or not inflater.eof or inflater.unused_data:
        raise StoreError(f"The model file is damaged: {name} is not {length:,} bytes long.")
    return b"".join(
        _from_planes(planes[start : start + PART_BYTES]) for start in range(0, length, PART_BYTES)
    )


def _to_planes(part: bytes) -> bytes:
    whole = len(part) // WIDTH * WIDTH
    planes = np.frombuffer(part, np.uint8, whole).reshape(-1, WIDTH).T
    return planes.tobytes() + part[whole:]


def _from_planes(part: bytes) -> bytes:
    whole = len(part) // WIDTH * WIDTH
    planes = np.frombuffer(part, np.uint8, whole).reshape(WIDTH, -1).T
    return planes.tobytes() + part[whole:]


Fields = dict[str, Any]
Numbers = npt.NDArray[Any]
LEAST_ROWS = 1 << 12
"""Rows, ints and tests from which a shorter form is looked for: fewer would save little."""
LEAST_BITS = 1.0
"""Bits of each int that differences must save."""
MOST_ROW_BYTES = 16
"""Bytes of a row that may be numbered: a pair of float64.

So numbered rows are at most as many times as long as their numbers, also in files of strangers.
"""
ROWS_OF_VALUE = 4
"""Rows for each distinct one from which they are numbered."""
SHARE_OF_SAMPLE = 0.75
"""Share of the rows of a sample that may be distinct where those of all are few."""
SAMPLE = 1 << 10
"""Rows that are asked first: most arrays of floats are all distinct, and asking all takes time."""


def narrow_fields(value: Any) -> Fields:
    """Return the fields of a dataclass by name, those of forests shorter where they may be.

    The shares of a split are one array of pairs, as the same pairs return.
    """
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Paths):
        return _narrow_paths(fields)
    if not isinstance(value, Forest | CoveredForest) or len(value.feature) < LEAST_ROWS:
        return fields
    if isinstance(value, Forest) and (bits := find_preorder(value)) is not None:
        kept = {name: item for name, item in fields.items() if name not in LINKS}
        return {**kept, "preorder": Array(np.packbits(bits))}
    if isinstance(value, CoveredForest):
        left, right = (fields.pop(f"{side}_share").data for side in ("left", "right"))
        return {**fields, "shares": Array(np.stack([left, right], axis=1))}
    return fields


def wide_fields(cls: type, fields: Fields, known: dict[Array, dict[str, Array]]) -> Fields:
    """Return the fields that ``narrow_fields`` was given.

    Links are added to the known ones, since forests of several methods have the same.
    """
    if cls is Forest and "preorder" in fields:
        kept = {**fields}
        bits = kept.pop("preorder")
        links = _links(bits, len(kept["feature"]) + len(kept["leaf_id"]), known)
        return {**kept, **{name: links[name] for name in LINKS}}
    if cls is Paths and "preorder" in fields:
        kept = {**fields}
        bits, n_nodes = kept.pop("preorder"), kept.pop("n_nodes")
        return {**kept, PARENT: _links(bits, n_nodes, known)[PARENT]}
    if cls is CoveredForest and "shares" in fields:
        kept = {**fields}
        left, right = kept.pop("shares").data.T
        return {**kept, "left_share": Array(left), "right_share": Array(right)}
    return fields


def _narrow_paths(fields: Fields) -> Fields:
    """Return the fields of paths, whose bits are those of the forest: a test has its left child."""
    above = fields["parent"].data
    if above.ndim != 1 or above.dtype != np.int32 or len(above) < LEAST_ROWS:
        return fields
    is_test = np.append(above[1:] == np.arange(len(above) - 1), False)
    try:
        same = np.array_equal(links_of_preorder(is_test)[PARENT].data, above)
    except ValueError:
        return fields
    if not same:
        return fields
    kept = {name: item for name, item in fields.items() if name != "parent"}
    return {**kept, "preorder": Array(np.packbits(is_test)), "n_nodes": len(above)}


def _links(bits: Array, n_nodes: int, known: dict[Array, dict[str, Array]]) -> dict[str, Array]:
    if len(bits) != -(-n_nodes // 8):
        raise StoreError(f"The model file holds {len(bits)} bytes of bits for {n_nodes} nodes.")
    if bits not in known or len(known[bits][PARENT]) != n_nodes:
        known[bits] = links_of_preorder(np.unpackbits(bits.data, count=n_nodes).view(np.bool_))
    return known[bits]


def narrow_rows(rows: Numbers) -> tuple[Numbers, Numbers] | None:
    """Return the number of each row, and the distinct rows; None where they are not few.

    Rows are distinct where a bit of them is: zeros of two signs are.
    """
    if rows.dtype.kind != "f" or rows.itemsize < 4 or rows.ndim not in (1, 2):
        return None
    if not 0 < rows.size // max(1, len(rows)) * rows.itemsize <= MOST_ROW_BYTES:
        return None
    if len(rows) < LEAST_ROWS:
        return None
    table = np.ascontiguousarray(rows.reshape(len(rows), -1))
    step = -(-len(table) // SAMPLE)
    sample = table[::step]
    if _count(number_rows(sample)) > SHARE_OF_SAMPLE * len(sample):
        return None
    numbers = number_rows(table)
    count = _count(numbers)
    if count * ROWS_OF_VALUE > len(rows):
        return None
    distinct = np.empty((count, *rows.shape[1:]), rows.dtype)
    distinct[numbers] = rows
    return numbers.astype(np.min_scalar_type(count - 1)), distinct


def _count(numbers: npt.NDArray[np.int64]) -> int:
    return int(numbers.max(initial=-1)) + 1


def wide_rows(numbers: Array, distinct: Array) -> Array:
    """Return the rows that ``narrow_rows`` was given.

    Raises
    ------
    StoreError
        The numbers are none of the distinct rows.
    """
    places = numbers.data
    if places.dtype.kind != "u" or not numbers.are_places(len(distinct)):
        raise StoreError("The model file numbers rows that it does not hold.")
    return Array(distinct.data[places])


def narrow_ints(ints: Numbers) -> Numbers | None:
    """Return the differences from the int before; None where they are not much smaller."""
    if ints.dtype.kind != "i" or ints.ndim != 1 or len(ints) < LEAST_ROWS:
        return None
    steps = np.diff(ints, prepend=np.zeros(1, ints.dtype))
    return steps if _bits(steps) + LEAST_BITS < _bits(ints) else None


def wide_ints(steps: Array) -> Array:
    """Return the ints that ``narrow_ints`` was given.

    Raises
    ------
    StoreError
        They are not a vector of ints.
    """
    narrow = steps.data
    if narrow.dtype.kind != "i" or narrow.ndim != 1:
        raise StoreError("The model file holds differences that are not a vector of ints.")
    # Sums and differences wrap around alike, so all ints come back.
    return Array(np.cumsum(narrow, dtype=narrow.dtype))


def _bits(ints: Numbers) -> float:
    sample = ints[:: -(-len(ints) // SAMPLE)].astype(np.float64)
    return float(np.log2(1 + np.abs(sample)).mean())
