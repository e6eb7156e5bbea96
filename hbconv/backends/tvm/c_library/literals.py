"""Values as C writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import BackendError

__all__ = ["C_TYPES", "c_text", "c_type", "numbers", "texts"]

C_TYPES = {
    "bool": "uint8_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""C's type of each dtype; a bool is a byte, as in numpy."""


def c_type(dtype: str) -> str:
    """Return C's type of a dtype, or raise BackendError."""
    if dtype not in C_TYPES:
        raise BackendError(
            f"C has no type for answers of dtype {dtype}. Export .onnx, or save as .hbc."
        )
    return C_TYPES[dtype]


def c_text(text: str) -> str:
    r"""Return a string literal of the UTF-8 bytes of a text.

    Examples
    --------
    >>> print(c_text('a "ü"'))
    "a \042\303\274\042"
    """
    return f'"{"".join(map(_character, text.encode()))}"'


def _character(byte: int) -> str:
    """Return a byte as itself, or by its number where C would read it otherwise."""
    plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if plain else f"\\{byte:03o}"


def texts(values: Iterable[Any]) -> str:
    """Return the initializer of an array of texts."""
    return "{" + ", ".join(c_text(str(value)) for value in values) + "}"


def numbers(values: npt.NDArray[Any]) -> str:
    """Return the initializer of an array of numbers, exactly."""
    if values.dtype.kind == "f":
        return "{" + ", ".join(_float(value) for value in values.tolist()) + "}"
    smallest = np.iinfo(np.int64).min
    plain = [f"({v + 1}LL - 1)" if v == smallest else f"{int(v)}LL" for v in values.tolist()]
    return "{" + ", ".join(plain) + "}"


def _float(value: float) -> str:
    if value != value:
        return '__builtin_nan("")'
    return value.hex() if abs(value) < float("inf") else f"{'-' * (value < 0)}__builtin_inf()"
