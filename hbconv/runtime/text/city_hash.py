"""Categories that a model knows by hashes: the low 32 bits of CityHash64, first version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Hashed
from hbconv.errors import InputError, shown
from hbconv.runtime.text.categories import Categories, Text

__all__ = ["city_hash", "encode_hashed"]

Words = npt.NDArray[np.uint64]

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
        _require(not np.any(column.codes < 0), where, "missing values")
        return np.take(encode_hashed(column.values, hashes, where), column.codes)
    values = column.values if isinstance(column, Text) else column
    if not isinstance(values, np.ndarray):
        return _encode_arrow(values, hashes, where)
    if values.dtype.kind in "biu":
        whole = values.astype(np.int64) if values.dtype.kind == "b" else values
        distinct, places = np.unique(whole, return_inverse=True)
        return _codes(map(str, distinct.tolist()), hashes)[places]
    _require(values.dtype.kind in "OU", where, f"numbers that are not whole (dtype {values.dtype})")
    return _encode_objects(values.tolist(), hashes, where)


def _encode_arrow(values: Any, hashes: Hashed, where: str) -> npt.NDArray[np.int32]:
    _require(values.null_count == 0, where, "missing values")
    encoded = (values.combine_chunks() if hasattr(values, "chunks") else values).dictionary_encode()
    return np.take(_codes(encoded.dictionary.to_pylist(), hashes), np.asarray(encoded.indices))


def _encode_objects(values: list[Any], hashes: Hashed, where: str) -> npt.NDArray[np.int32]:
    odd = next((v for v in values if not isinstance(v, str | int | np.integer | np.bool_)), None)
    _require(
        odd is None and None not in values, where, f"{shown(odd)} of type {type(odd).__name__}"
    )
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
    return hashes.codes(_hashes([text.encode("utf-8", "surrogatepass") for text in texts]))


def _hashes(texts: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Hash texts as signed numbers of 32 bits, all those of one length at once."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    found = np.zeros(len(texts), np.int64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        table = np.frombuffer(b"".join(texts[row] for row in rows.tolist()), np.uint8).reshape(
            len(rows), length
        )
        found[rows] = city_hash(table).astype(np.uint32).view(np.int32)
    return found


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
