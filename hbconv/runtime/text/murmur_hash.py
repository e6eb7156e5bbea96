"""MurmurHash3 for 32 bits (A. Appleby's MurmurHash3_x86_32), seed 0, of many names at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["hash_name", "murmur_hash", "murmur_hash_of"]

Halves = npt.NDArray[np.uint32]

ONES = 0xFFFFFFFF
FINISH = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))
"""Shifts and factors of the end."""
MOST_PADDED, LONGEST_PADDED = 500, 100
"""Names, and bytes of each, that are hashed in less time if all are padded to one length."""


def murmur_hash(names: Sequence[str | bytes]) -> npt.NDArray[np.int32]:
    """Return the hash of each name, text as UTF-8, as a signed number.

    Raises
    ------
    TypeError, UnicodeError
        A name is neither text nor bytes, or is no text that UTF-8 can hold.

    Examples
    --------
    >>> murmur_hash(["", "foo", b"foo"]).tolist()
    [0, -156908512, -156908512]
    """
    if len(names) <= MOST_PADDED:
        encoded = list(map(_encoded, names))
        if max(map(len, encoded), default=0) <= LONGEST_PADDED:
            return _hash_padded(encoded)
    data, lengths = _side_by_side(names)
    return murmur_hash_of(data, np.cumsum(lengths) - lengths, lengths)


def hash_name(name: str) -> int:
    """Return the hash of one name as ``murmur_hash`` does; of a few, one by one is faster.

    Examples
    --------
    >>> hash_name("foo")
    -156908512
    """
    data = name.encode()
    size = len(data)
    value = 0
    for at in range(0, size & -4, 4):
        value ^= _scrambled_one(data[at : at + 4])
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & ONES
    value ^= _scrambled_one(data[size & -4 :]) ^ size
    for shift, factor in FINISH:
        value = (value ^ value >> shift) * factor & ONES
    value ^= value >> 16
    return value - (value >> 31 << 32)


def _scrambled_one(data: bytes) -> int:
    word = int.from_bytes(data, "little") * 0xCC9E2D51 & ONES
    return (word << 15 | word >> 17) * 0x1B873593 & ONES


def _hash_padded(names: list[bytes]) -> npt.NDArray[np.int32]:
    """Return the hash of each name: a row of four bytes of all names after another.

    What follows the last four bytes is 0, as the hash of the rest takes it.
    """
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    blocks = lengths >> 2
    most = int(blocks.max(initial=0))
    padded = np.array(names, f"S{4 * most + 4}").view("<u4").reshape(len(names), most + 1)
    words = _scrambled(padded.T.astype(np.uint32))
    hashes = np.zeros(len(names), np.uint32)
    for block, word in enumerate(words[:-1]):
        np.copyto(hashes, _stirred(hashes ^ word), where=blocks > block)
    hashes ^= words[blocks, np.arange(len(names))]
    hashes ^= lengths.astype(np.uint32)
    return _finished(hashes).view(np.int32)


def murmur_hash_of(
    data: bytes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Return the hash of each part of the data, given by where it begins and how long it is."""
    words = _words(data)
    blocks = lengths >> 2
    hashes = np.zeros(len(starts), np.uint32)
    rows = np.flatnonzero(blocks)
    at = starts[rows]
    left = blocks[rows]
    while len(rows):
        hashes[rows] = _mixed(hashes[rows], words[at])
        left -= 1
        more = np.flatnonzero(left)
        rows = rows[more]
        left = left[more]
        at = at[more] + 4
    rest = words[starts + (blocks << 2)]
    rest &= _MASKS.take(lengths & 3)
    hashes ^= _scrambled(rest)
    hashes ^= lengths.astype(np.uint32)
    return _finished(hashes).view(np.int32)


_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def _side_by_side(names: Sequence[Any]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return all names as one, and the length of each; ASCII is joined first, which is faster."""
    try:
        data = "".join(names).encode("ascii")
    except (TypeError, UnicodeEncodeError):
        names = list(map(_encoded, names))
        data = b"".join(names)
    return data, np.fromiter(map(len, names), np.int64, len(names))


def _encoded(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else str.encode(name)


def _words(data: bytes) -> Halves:
    """Return the four bytes from each position on, the first lowest, as one number."""
    return np.ndarray((len(data) + 1,), "<u4", data + bytes(4), strides=(1,))


def _mixed(hashes: Halves, words: Halves) -> Halves:
    """Return the hashes after one more word of each; both are written over."""
    hashes ^= _scrambled(words)
    return _stirred(hashes)


def _stirred(hashes: Halves) -> Halves:
    hashes = _rotated(hashes, 13)
    hashes *= np.uint32(5)
    hashes += np.uint32(0xE6546B64)
    return hashes


def _scrambled(words: Halves) -> Halves:
    words *= np.uint32(0xCC9E2D51)
    words = _rotated(words, 15)
    words *= np.uint32(0x1B873593)
    return words


def _finished(hashes: Halves) -> Halves:
    for shift, factor in FINISH:
        hashes ^= hashes >> np.uint32(shift)
        hashes *= np.uint32(factor)
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _rotated(words: Halves, by: int) -> Halves:
    rotated: Halves = words << np.uint32(by)
    rotated |= words >> np.uint32(32 - by)
    return rotated
