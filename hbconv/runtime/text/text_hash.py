"""Categories that a model knows by hashes: the low 32 bits of CityHash64, first version.

MurmurHash3 for 32 bits (A. Appleby's MurmurHash3_x86_32), seed 0, of many names at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Hashed
from hbconv.errors import InputError, shown
from hbconv.runtime.text.categories import FEW, Categories, Text

__all__ = [
    "LONGEST_HASHED",
    "MOST_HASHED",
    "city_hash",
    "encode_hashed",
    "murmur_hash",
    "murmur_hash_of",
]

Words = npt.NDArray[np.uint64]

MOST_HASHED = 4096
"""Texts of which the hashes are remembered, those of a request and of some before it."""
LONGEST_HASHED = 256
"""Characters of a text that is remembered: clients choose the texts."""
_REMEMBERED: dict[str, int] = {}
"""Hashes of texts that came, which are the same for all models."""

K0, K1, K2, K3, MIX = (
    np.uint64(k)
    for k in (
        0xC3A5C85C97CB3127,
        0xB492B66FBE98F273,
        0x9AE16A3B2F90404F,
        0xC949D7C7509E6557,
        0x9DDFEA08EB382D69,
    )
)
"""The constants of the hash."""


def encode_hashed(
    column: Text | Categories | npt.NDArray[Any], hashes: Hashed, where: str
) -> npt.NDArray[np.int32]:
    """Return the code of each value, by its hash.

    Text is hashed as UTF-8, whole numbers as their decimal digits.

    Raises
    ------
    InputError
        Other numbers, and missing values.
    """
    if isinstance(column, Categories):
        # A negative code is a null, for which the source has no hash.
        _require(not np.any(column.codes < 0), where, "missing values")
        if len(column.codes) < len(column.values.values):
            return encode_hashed(column.values.part(column.codes), hashes, where)
        return np.take(encode_hashed(column.values, hashes, where), column.codes)
    values = column.values if isinstance(column, Text) else column
    if not isinstance(values, np.ndarray):
        return _encode_arrow(values, hashes, where)
    if values.dtype.kind in "biu":
        # True hashes as 1, not as the word.
        whole = values.astype(np.int64) if values.dtype.kind == "b" else values
        distinct, places = np.unique(whole, return_inverse=True)
        return _codes(map(str, distinct.tolist()), hashes)[places]
    _require(values.dtype.kind in "OU", where, f"numbers that are not whole (dtype {values.dtype})")
    return _encode_objects(values.tolist(), hashes, where)


def _encode_arrow(values: Any, hashes: Hashed, where: str) -> npt.NDArray[np.int32]:
    _require(values.null_count == 0, where, "missing values")
    if len(values) <= FEW:
        return _codes(values.to_pylist(), hashes)
    encoded = (values.combine_chunks() if hasattr(values, "chunks") else values).dictionary_encode()
    return np.take(_codes(encoded.dictionary.to_pylist(), hashes), np.asarray(encoded.indices))


def _encode_objects(values: list[Any], hashes: Hashed, where: str) -> npt.NDArray[np.int32]:
    if len(values) <= FEW and set(map(type, values)) == {str}:
        return _codes(values, hashes)
    odd = next((v for v in values if not isinstance(v, str | int | np.integer | np.bool_)), None)
    _require(
        odd is None and None not in values, where, f"{shown(odd)} of type {type(odd).__name__}"
    )
    # Equal values have one hash: 1 and True are one key, and hash alike.
    distinct = {v: place for place, v in enumerate(dict.fromkeys(values))}
    codes = _codes((v if isinstance(v, str) else str(int(v)) for v in distinct), hashes)
    return codes[np.fromiter(map(distinct.__getitem__, values), np.int64, len(values))]


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise InputError(
            f"{where} holds {what}, where the model was fitted on categories: text or whole "
            "numbers. Pass these, as in fitting."
        )


def _codes(texts: Iterable[str], hashes: Hashed) -> npt.NDArray[np.int32]:
    listed = list(texts)
    found = _remembered_hashes(listed) if len(listed) <= FEW else _hashes(_utf8(listed))
    return hashes.codes(found)


def _utf8(texts: list[str]) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def _remembered_hashes(texts: list[str]) -> npt.NDArray[np.int64]:
    """Hash few texts, most of which came before: the first time takes 200 us, the next 5."""
    found = [_REMEMBERED.get(text) for text in texts]
    fresh = [text for text, known in zip(texts, found, strict=True) if known is None]
    if not fresh:
        return np.array(found, np.int64)
    hashes = dict(zip(fresh, _hashes(_utf8(fresh)).tolist(), strict=True))
    # Cleared as a whole, so that threads need no lock.
    if len(_REMEMBERED) > MOST_HASHED:
        _REMEMBERED.clear()
    _REMEMBERED.update({t: h for t, h in hashes.items() if len(t) <= LONGEST_HASHED})
    known = zip(texts, found, strict=True)
    return np.array([hashes[t] if h is None else h for t, h in known], np.int64)


def _hashes(texts: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Hash texts as signed numbers of 32 bits, all those of one length at once."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    hashes = np.zeros(len(texts), np.int64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        # The steps of CityHash depend on the length, so texts of one length go together.
        table = np.frombuffer(b"".join(texts[row] for row in rows.tolist()), np.uint8).reshape(
            len(rows), length
        )
        hashes[rows] = city_hash(table).astype(np.uint32).view(np.int32)
    return hashes


def city_hash(texts: npt.NDArray[np.uint8]) -> Words:
    """CityHash64 of each row of bytes.

    Examples
    --------
    >>> hex(city_hash(np.frombuffer(b"hello", np.uint8)[None])[0] & np.uint64(0xFFFFFFFF))
    '0xf323c8df'
    """
    length = texts.shape[1]
    short = (
        _up_to_16
        if length <= 16
        else _up_to_32
        if length <= 32
        else _up_to_64
        if length <= 64
        else _long
    )
    return short(
        texts, np.array([length], np.uint64)
    )  # an array, for scalars warn where they wrap around


def _up_to_16(s: npt.NDArray[np.uint8], size: Words) -> Words:
    length = s.shape[1]
    if length > 8:
        first, last = _word(s, 0), _word(s, length - 8)
        return _mixed(first, _rotated(last + size, length)) ^ last
    if length >= 4:
        return _mixed(size + (_half(s, 0) << np.uint64(3)), _half(s, length - 4))
    if length == 0:
        return np.full(len(s), K2)
    first, middle, last = (s[:, i].astype(np.uint64) for i in (0, length >> 1, length - 1))
    return (
        _folded((first + (middle << np.uint64(8))) * K2 ^ (size + (last << np.uint64(2))) * K3) * K2
    )


def _up_to_32(s: npt.NDArray[np.uint8], size: Words) -> Words:
    end = s.shape[1]
    a, b, c, d = _word(s, 0) * K1, _word(s, 8), _word(s, end - 8) * K2, _word(s, end - 16) * K0
    return _mixed(_rotated(a - b, 43) + _rotated(c, 30) + d, a + _rotated(b ^ K3, 20) - c + size)


def _up_to_64(s: npt.NDArray[np.uint8], size: Words) -> Words:
    end = s.shape[1]
    first = _half_hash(
        _word(s, 0) + (size + _word(s, end - 16)) * K0, _word(s, 8), _word(s, 16), _word(s, 24)
    )
    last = _half_hash(
        _word(s, 16) + _word(s, end - 32), _word(s, end - 24), _word(s, end - 16), _word(s, end - 8)
    )
    folded = _folded((first[0] + last[1]) * K2 + (last[0] + first[1]) * K0)
    return _folded(folded * K0 + first[1]) * K2


def _half_hash(a: Words, second: Words, third: Words, z: Words) -> tuple[Words, Words]:
    b, c = _rotated(a + z, 52), _rotated(a, 37)
    a = a + second
    c = c + _rotated(a, 7)
    a = a + third
    return a + z, b + _rotated(a, 31) + c


def _long(s: npt.NDArray[np.uint8], size: Words) -> Words:
    """Texts of more than 64 bytes: their last 64 bytes, then the others in blocks of 64."""
    end = s.shape[1]
    x, y, z = _word(s, 0), _word(s, end - 16) ^ K1, _word(s, end - 56) ^ K0
    v, w = _pair(s, end - 64, size, y), _pair(s, end - 32, size * K1, K0)
    z = z + _folded(v[1]) * K1
    x, y = _rotated(z + x, 39) * K1, _rotated(y, 33) * K1
    for at in range(0, (end - 1) // 64 * 64, 64):
        x = _rotated(x + y + v[0] + _word(s, at + 16), 37) * K1 ^ w[1]
        y = _rotated(y + v[1] + _word(s, at + 48), 42) * K1 ^ v[0]
        z = _rotated(z ^ w[0], 33)
        v, w = _pair(s, at, v[1] * K1, x + w[0]), _pair(s, at + 32, z + w[1], y)
        x, z = z, x
    return _mixed(_mixed(v[0], w[0]) + _folded(y) * K1 + z, _mixed(v[1], w[1]) + x)


def _pair(s: npt.NDArray[np.uint8], at: int, a: Any, b: Any) -> tuple[Words, Words]:
    """Two words from 32 bytes and two seeds."""
    first, second, third, fourth = (_word(s, at + 8 * i) for i in range(4))
    a = a + first
    b = _rotated(b + a + fourth, 21)
    both = a + second + third
    return both + fourth, b + _rotated(both, 44) + a


def _mixed(u: Words, v: Words) -> Words:
    return _folded((v ^ _folded((u ^ v) * MIX)) * MIX) * MIX


def _folded(x: Words) -> Words:
    return x ^ (x >> np.uint64(47))


def _rotated(x: Words, bits: int) -> Words:
    return (x >> np.uint64(bits)) | (x << np.uint64(64 - bits))


def _word(s: npt.NDArray[np.uint8], at: int) -> Words:
    return np.ascontiguousarray(s[:, at : at + 8]).view("<u8")[:, 0]


def _half(s: npt.NDArray[np.uint8], at: int) -> Words:
    return np.ascontiguousarray(s[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)


Halves = npt.NDArray[np.uint32]
Parts = tuple[bytes, npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Some data, and where each part of it begins and how long it is."""

MOST_FEW = 500
"""Names that are hashed one by one, or padded: of more, all at once takes less time."""

_FIRST, _SECOND, _THIRD, _FOURTH, _FIVE, _ADDED = (
    np.array(number, np.uint32)  # numpy takes an array in less time than a number
    for number in (0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35, 5, 0xE6546B64)
)
_SHIFTS = {shift: np.array(shift, np.uint32) for shift in (13, 15, 16, 17, 19)}


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
    if len(names) > MOST_FEW:
        return murmur_hash_of(*_side_by_side(names))
    hash_one = _compiled()
    if hash_one is not None and all(
        issubclass(kind, str | bytes) for kind in set(map(type, names))
    ):
        return np.fromiter(map(hash_one, names), np.int32, len(names))
    return _hash_padded(list(map(_encoded, names)))


def _compiled() -> Callable[[str | bytes], int] | None:
    """Return scikit-learn's function for one name, if this process has loaded it.

    It takes 50 ns, and numpy 30 us for any few names.
    """
    return getattr(sys.modules.get("sklearn.utils"), "murmurhash3_32", None)


def _hash_padded(names: list[bytes]) -> npt.NDArray[np.int32]:
    """Return the hash of each of a few names, all padded with zeros to one length.

    1. A row holds the same four bytes of all names.
    2. The state after each row is kept, as some names end there.
    3. What is left of a name is the row after its end.
    """
    lengths = _lengths(names)
    blocks = lengths >> 2
    rows = int(blocks.max(initial=0)) + 1
    padded = np.array(names, f"S{4 * rows}").view("<u4").reshape(len(names), rows)
    words = _scrambled(padded.T.astype(np.uint32))  # 1
    states = np.zeros_like(words)
    for row in range(1, rows):
        states[row] = _stirred(states[row - 1] ^ words[row - 1])  # 2
    states ^= words
    # Zeros behind a short name are rows that its own state never sees.
    hashes = states[blocks, np.arange(len(names))]  # 3
    hashes ^= lengths.astype(np.uint32)
    return _finished(hashes).view(np.int32)


def murmur_hash_of(
    data: bytes, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Return the hash of each part of the data, given by where it begins and how long it is.

    1. The parts with most blocks of four bytes come first, so that each round takes the first ones.
    2. A round mixes one more block of each.
    3. The rest of a part are its last bytes, below four.
    """
    words = _words(data)
    blocks = lengths >> 2
    order = _most_first(blocks)  # 1
    at = starts[order]
    mixed = np.zeros(len(starts), np.uint32)
    for count in np.bincount(blocks)[:0:-1].cumsum()[::-1].tolist():  # 2
        mixed[:count] = _mix_word(mixed[:count], words[at[:count]])
        at += 4
    hashes = np.empty_like(mixed)
    hashes[order] = mixed
    rest = words[starts + (blocks << 2)]
    rest &= _MASKS.take(lengths & 3)
    hashes ^= _scrambled(rest)  # 3
    hashes ^= lengths.astype(np.uint32)
    return _finished(hashes).view(np.int32)


def _most_first(blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sort by numbers of 16 bits, where they are, which is many times as fast."""
    # numpy sorts 16 bits by radix, and wider numbers by comparisons.
    is_short = blocks.max(initial=0) < 1 << 16
    return np.argsort(blocks.astype(np.uint16) if is_short else blocks, kind="stable")[::-1]


_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def _side_by_side(names: Sequence[Any]) -> Parts:
    """Return all names as one, with a null byte between two, which tells the ends of most."""
    try:
        # One encoding of all names takes less time than one of each.
        data = "\0".join(names).encode()
    except TypeError:
        data = b"\0".join(map(_encoded, names))
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
    # There are n - 1 null bytes between n names; more mean that a name holds one.
    if len(ends) < len(names):
        lengths = np.diff(ends, prepend=-1, append=len(data)) - 1
    else:
        lengths = _lengths(list(map(_encoded, names)))
    return data, np.cumsum(lengths + 1) - lengths - 1, lengths


def _lengths(names: Sequence[Any]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, names), np.int64, len(names))


def _encoded(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else str.encode(name)


def _words(data: bytes) -> Halves:
    """Return the four bytes from each position on, the first lowest, as one number."""
    # A view: words overlap, and none is copied.
    return np.ndarray((len(data) + 1,), "<u4", data + bytes(4), strides=(1,))


def _mix_word(hashes: Halves, words: Halves) -> Halves:
    """Return the hashes after one more word of each; both are written over."""
    hashes ^= _scrambled(words)
    return _stirred(hashes)


def _stirred(hashes: Halves) -> Halves:
    hashes = _rotate_halves(hashes, 13)
    hashes *= _FIVE
    hashes += _ADDED
    return hashes


def _scrambled(words: Halves) -> Halves:
    words *= _FIRST
    words = _rotate_halves(words, 15)
    words *= _SECOND
    return words


def _finished(hashes: Halves) -> Halves:
    hashes ^= hashes >> _SHIFTS[16]
    hashes *= _THIRD
    hashes ^= hashes >> _SHIFTS[13]
    hashes *= _FOURTH
    hashes ^= hashes >> _SHIFTS[16]
    return hashes


def _rotate_halves(words: Halves, by: int) -> Halves:
    rotated: Halves = words << _SHIFTS[by]
    rotated |= words >> _SHIFTS[32 - by]
    return rotated
