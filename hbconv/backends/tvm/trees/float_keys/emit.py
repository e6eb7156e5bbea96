"""Emit keys: the integer of a value, in the order of floats."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import literal

__all__ = ["key_of"]


def key_of(value: Any, dtype: str, key_dtype: str, lanes: int = 1) -> Any:
    """Return the key of a float, or of a vector of them, to be read as unsigned.

    ``keys_of`` in ``tables.py`` does the same in numpy, but for NaN, which callers handle. A key of
    32 bits is widened where ``key_dtype`` is int64.
    """
    bits = {"float32": 32, "float64": 64}[dtype]
    integer = f"int{bits}"
    sign = -(1 << (bits - 1))
    as_integer = integer if lanes == 1 else f"{integer}x{lanes}"
    raw = tirx.Select(
        tirx.EQ(value, literal(0, dtype, lanes)),
        literal(0, integer, lanes),
        tirx.reinterpret(as_integer, value),
    )
    key = raw ^ (
        tirx.shift_right(raw, literal(bits - 1, integer, lanes)) | literal(sign, integer, lanes)
    )
    if (key_dtype, bits) != ("int64", 32):
        return key
    suffix = "" if lanes == 1 else f"x{lanes}"
    return tirx.Cast(f"int64{suffix}", tirx.reinterpret(f"uint32{suffix}", key))
