"""Interleave planes to whole values: the first bytes of all, the second ones, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.transpose import HALF

__all__ = ["weave", "woven_rows"]


def weave(k: Kernel, planes: list[Any], width: int, unit: int = 1) -> list[Any]:
    """Interleave planes, each a vector of ``width`` bytes, of which ``unit`` are of one value.

    Rows end in the order of ``woven_rows``.
    """

    def shuffle(a: Any, b: Any, order: list[int]) -> Any:
        return k.bind(tirx.Shuffle([a, b], [tirx.IntImm("int32", i) for i in order]))

    return _weave([[plane] for plane in planes], shuffle, width, unit)


def woven_rows(count: int, width: int, unit: int = 1) -> npt.NDArray[np.int64]:
    """Return the row of each value that weaving so many planes gives.

    Examples
    --------
    >>> woven_rows(2, 32, 4).tolist()
    [0, 1, 4, 5, 2, 3, 6, 7]
    """
    rows = [[np.arange(width // unit)] for _ in range(count)]
    woven = _weave(rows, lambda a, b, order: np.concatenate([a, b])[order], width, unit)
    return np.concatenate([vector[::count] for vector in woven])


def _weave(
    planes: list[list[Any]],
    shuffle: Callable[[Any, Any, list[int]], Any],
    width: int,
    unit: int,
) -> list[Any]:
    """Interleave planes.

    1. Pairs of planes give one plane of units twice as long: unit by unit, one of each in turn.
    2. Each half of 16 bytes is interleaved by itself, as processors shuffle: first the low units
       of all halves, then the high ones.
    3. This repeats until one plane is left, whose units are whole values.
    """
    length = unit
    while len(planes) > 1:
        pairs = zip(planes[::2], planes[1::2], strict=True)  # 1
        orders = [_interleaved(length, high, width)[::unit] for high in (0, 1)]  # 2
        planes = [
            [
                shuffle(a, b, [i // unit for i in order])
                for a, b in zip(first, second, strict=True)
                for order in orders
            ]
            for first, second in pairs
        ]
        length *= 2  # 3
    return planes[0]


def _interleaved(length: int, high: int, width: int) -> list[int]:
    """Bytes, of two vectors end to end, of the low or high units of all halves in turn."""
    units = np.arange(HALF // 2).reshape(-1, length) + high * HALF // 2
    order: list[int] = [
        i
        for half in range(0, width, HALF)
        for pair in units
        for vector in (0, width)
        for i in (pair + half + vector).tolist()
    ]
    return order
