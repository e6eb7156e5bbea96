"""Where the parts of a call's own memory lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbconv.backends.tvm.c_library.function import CAnswer, CFunction, rounded

__all__ = ["MAX_INDEX", "CallMemory"]

MAX_INDEX = 2**31 - 1
"""Row times column stays below this in one call of a loop, since positions are int32."""
SLICE_ROWS = 4096
"""Rows of one call of a loop: their flags and codes stay in the second-level cache."""
LEAST_ROWS = 256
SLICE_BYTES = 1 << 20
"""Bytes that the codes, flags and values of a slice may take."""


@dataclass(frozen=True)
class CallMemory:
    """Memory that a call has for itself: codes, flags, values to convert, and scratch.

    Parameters
    ----------
    rows : int
        Rows of a slice.
    bytes : int
    codes : int
        Place of the codes of texts.
    flags : tuple of int
        Place of what each check says.
    values : tuple of int or None
        Place of the values that are converted to each answer; None where a loop writes it itself.
    scratch : dict of str to tuple of int
        Places of the buffers of each loop, by its symbol. Loops do not run at once.
    """

    rows: int
    bytes: int
    codes: int
    flags: tuple[int, ...]
    values: tuple[int | None, ...]
    scratch: dict[str, tuple[int, ...]]

    @staticmethod
    def of(function: CFunction) -> CallMemory:
        """Lay out the memory of a function."""
        widths = [width for _, width in function.messages]
        items = [_value_bytes(answer) for answer in function.answers]
        row_bytes = 4 * len(function.coded) + sum(widths) + sum(items)
        rows = _slice_rows(function, row_bytes)
        first = rounded(4 * len(function.coded) * rows)
        flags, first = _places([width * rows for width in widths], first)
        values, first = _places([item * rows for item in items], first)
        scratch = {}
        ends = [first]
        for loop in function.loops:
            scratch[loop.symbol], end = _places(loop.scratch_bytes, first)
            ends.append(end)
        held = tuple(p if item else None for p, item in zip(values, items, strict=True))
        return CallMemory(rows, max(64, *ends), 0, flags, held, scratch)


def _value_bytes(answer: CAnswer) -> int:
    """Return the bytes of a row's values that are converted."""
    return np.dtype(answer.dtype).itemsize * answer.width if answer.converts else 0


def _slice_rows(function: CFunction, row_bytes: int) -> int:
    inputs = [1 if given.is_text else len(given.columns) for given in function.inputs]
    answers = [answer.width for answer in function.answers]
    checks = [width for _, width in function.messages]
    widest = max([*inputs, len(function.coded), *answers, *checks])
    fitting = max(LEAST_ROWS, SLICE_BYTES // max(1, row_bytes))
    return max(1, min(SLICE_ROWS, fitting, MAX_INDEX // (widest + 1)))


def _places(sizes: list[int] | tuple[int, ...], first: int) -> tuple[tuple[int, ...], int]:
    """Return where buffers lie one after another, and where the last one ends."""
    places = []
    for size in sizes:
        places.append(first)
        first = rounded(first + size)
    return tuple(places), first
