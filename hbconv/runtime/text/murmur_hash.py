"""MurmurHash3 for 32 bits (A. Appleby's MurmurHash3_x86_32), seed 0, of many names at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["murmur_hash", "murmur_hash_of"]

Halves = npt.NDArray[np.uint32]


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
    data, lengths = _side_by_side(names)
    return murmur_hash_of(data, np.cumsum(lengths) - lengths, lengths)


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
        names = [name if isinstance(name, bytes) else str.encode(name) for name in names]
        data = b"".join(names)
    return data, np.fromiter(map(len, names), np.int64, len(names))


def _words(data: bytes) -> Halves:
    """Return the four bytes from each position on, the first lowest, as one number."""
    return np.ndarray((len(data) + 1,), "<u4", data + bytes(4), strides=(1,))


def _mixed(hashes: Halves, words: Halves) -> Halves:
    """Return the hashes after one more word of each; both are written over."""
    hashes ^= _scrambled(words)
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
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes ^= hashes >> np.uint32(shift)
        hashes *= np.uint32(factor)
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _rotated(words: Halves, by: int) -> Halves:
    rotated: Halves = words << np.uint32(by)
    rotated |= words >> np.uint32(32 - by)
    return rotated
