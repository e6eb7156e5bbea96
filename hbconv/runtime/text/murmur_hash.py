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
    words, hashes, rows, blocks = (
        _words(data),
        np.zeros(len(starts), np.uint32),
        np.arange(len(starts)),
        lengths >> 2,
    )
    for block in range(int(blocks.max(initial=0))):
        rows = rows[blocks[rows] > block]
        mixed = hashes[rows] ^ _scrambled(words[starts[rows] + 4 * block])
        hashes[rows] = _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    rest = (
        words[starts + 4 * blocks] & np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[lengths & 3]
    )
    return _finished(hashes ^ _scrambled(rest) ^ lengths.astype(np.uint32)).view(np.int32)


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
    found = np.frombuffer(data + bytes(4), np.uint8).astype(np.uint32)
    words: Halves = (
        found[:-3]
        | found[1:-2] << np.uint32(8)
        | found[2:-1] << np.uint32(16)
        | found[3:] << np.uint32(24)
    )
    return words


def _scrambled(words: Halves) -> Any:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _finished(hashes: Halves) -> Halves:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ hashes >> np.uint32(shift)) * np.uint32(factor)
    return hashes ^ hashes >> np.uint32(16)


def _rotated(words: Halves, by: int) -> Any:
    return words << np.uint32(by) | words >> np.uint32(32 - by)
