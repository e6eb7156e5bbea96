"""Members of a saved model in fewer bytes: byte planes, deflated.

Tables are numbers of 4 or 8 bytes, of which the upper ones repeat. So the bytes of every eighth
place stand together (the shuffle filter of HDF5), where runs of equal bytes take nearly nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from hbconv.errors import StoreError

__all__ = ["deflate_members", "inflate_members"]

WIDTH = 8
"""Planes: bytes of a float64, of two int32, and of a node of a walk."""
PART_BYTES = 1 << 20
"""Bytes whose planes follow each other: Huffman's code of one plane does not suit another."""
LEAST_BYTES = 1 << 16
"""Bytes from which a member is deflated: smaller ones would save little of a file."""
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
    fit = _fit(lengths, sum(map(len, written.values())))
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
    if not _fit(lengths, size):
        raise StoreError(
            f"The model file unpacks to {sum(lengths.values()):,} bytes, more than "
            f"{MOST_TIMES} times its own size."
        )
    inflated = {name: _inflate(name, members[name], length) for name, length in lengths.items()}
    return {**members, **inflated}


def _fit(lengths: Mapping[str, int], size: int) -> bool:
    return sum(lengths.values()) <= max(MOST_ROOM, MOST_TIMES * size)


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
