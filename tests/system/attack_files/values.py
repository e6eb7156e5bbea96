"""Values that hurt, for each kind of value that a file holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["hostile", "hostile_array"]

Rng = np.random.Generator

NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2, 3, 7, 64, 1000, 3000, 65_536, 2**20, 2**22, 2**24, 2**26, 2**31 - 1, 2**31, 2**32,
    2**53, 2**60, 2**63 - 1, 2**63, 10**30, -2, -(2**31), -(2**60), -(2**63),
    0.5, -0.0, -1.0, -1e-300, 1e-300, 1e300, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
WORDS: tuple[Any, ...] = (
    "", "x", "float64", "int64", "-1", "nan", "1e400", "\ud800", "\udfff", "a" * 100_000, "\x00",
    "\x1b]0;owned\x07\x1b[2J", "</script><script>", "${x}", "../../x", "é日本😀", "\r\n", "*/",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"a": 1})

MOST_REPEATED = 3000


def hostile(value: Any, rng: Rng) -> Any:
    """Return another value in the place of one: of its kind mostly, else of any."""
    if rng.random() < 0.1:
        return _one_of((*NUMBERS, *WORDS, *OTHERS), rng)
    if isinstance(value, bool) or value is None:
        return _one_of((not value, *OTHERS, 0, 1, "x"), rng)
    if isinstance(value, int | float):
        return _one_of((*NUMBERS, value + 1, value - 1, -value, value * 2), rng)
    if isinstance(value, str):
        return _one_of(
            (*WORDS, value * 2, value[:-1], value.upper(), str(_one_of(NUMBERS, rng))), rng
        )
    if isinstance(value, list):
        return _other_list(value, rng)
    return _one_of((*OTHERS, *NUMBERS), rng)


def _other_list(values: list[Any], rng: Rng) -> Any:
    kind = rng.integers(8)
    if not values or kind == 0:
        return _one_of(([], [None], [0], NUMBERS[0], values * 2, [values]), rng)
    place = int(rng.integers(len(values)))
    if kind == 1:
        return values[:place]
    if kind == 2:
        return values[::-1]
    if kind == 3:
        return values * int(_one_of((2, 50, max(1, MOST_REPEATED // len(values))), rng))
    if kind == 4:
        return [hostile(values[place], rng)] * len(values)
    return [*values[:place], hostile(values[place], rng), *values[place + 1 :]]


def _one_of(values: tuple[Any, ...], rng: Rng) -> Any:
    return values[rng.integers(len(values))]


def hostile_array(array: npt.NDArray[Any], rng: Rng) -> npt.NDArray[Any]:
    """Return another array: other numbers, dtype, length or shape."""
    kind = rng.integers(9)
    if kind == 0:
        return array[:0] if array.ndim else array[None]
    if kind == 1:
        return array[: len(array) // 2] if array.ndim else array
    if kind == 2:
        return np.concatenate([array] * 3) if array.ndim else array
    if kind == 3:
        return [array.reshape(-1), array[None], array[..., None], array.T][rng.integers(4)].copy()
    if kind == 4:
        with np.errstate(all="ignore"):
            return array.astype(
                str(rng.choice(["int32", "int64", "float32", "float64", "bool", "uint8"]))
            )
    return _with_number(array.copy(), rng)


def _with_number(array: npt.NDArray[Any], rng: Rng) -> npt.NDArray[Any]:
    """Write a hostile number to one place, or to all."""
    if not array.size:
        return np.zeros((3, *array.shape[1:]), array.dtype)
    if array.dtype.kind == "f":
        numbers = [-1.0, 0.0, np.nan, np.inf, -np.inf, np.finfo(array.dtype).max, 5e-324, 1e-40]
    elif array.dtype.kind == "b":
        numbers = [True, False]
    else:
        info = np.iinfo(array.dtype)
        numbers = [
            0,
            1,
            info.max,
            info.min,
            max(info.min, -1),
            min(info.max, array.size),
            1000 % info.max,
        ]
    where = slice(None) if rng.random() < 0.3 else int(rng.integers(array.size))
    with np.errstate(all="ignore"):
        array.reshape(-1)[where] = np.array(numbers, array.dtype)[rng.integers(len(numbers))]
    return array
