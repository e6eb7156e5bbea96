"""Where the parts of a call's own memory lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbconv.backends.tvm.c_library.method import CMethod, rounded
from hbconv.interface import label_tables

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
    values : int or None
        Place of the values that are converted to the answer; None where a loop writes it itself.
    scratch : dict of str to tuple of int
        Places of the buffers of each loop, by its symbol. Loops do not run at once.
    """

    rows: int
    bytes: int
    codes: int
    flags: tuple[int, ...]
    values: int | None
    scratch: dict[str, tuple[int, ...]]

    @staticmethod
    def of(method: CMethod) -> CallMemory:
        """Lay out the memory of a method."""
        converts = label_tables(method.output) is not None or method.dtype != method.told.dtype
        widths = [width for _, width in method.messages]
        item = np.dtype(method.dtype).itemsize * method.width if converts else 0
        row_bytes = 4 * len(method.coded) + sum(widths) + item
        rows = _slice_rows(method, row_bytes)
        end = rounded(4 * len(method.coded) * rows)
        flags = []
        for width in widths:
            flags.append(end)
            end = rounded(end + width * rows)
        values = end
        end = rounded(end + item * rows)
        scratch = {}
        ends = [end]
        for loop in method.loops:
            places, last = _places(loop.scratch_bytes, end)
            scratch[loop.symbol] = places
            ends.append(last)
        return CallMemory(rows, max(ends), 0, tuple(flags), values if converts else None, scratch)


def _slice_rows(method: CMethod, row_bytes: int) -> int:
    inputs = [1 if given.is_text else len(given.columns) for given in method.inputs]
    widest = max([*inputs, len(method.coded), method.width, *(w for _, w in method.messages)])
    fitting = max(LEAST_ROWS, SLICE_BYTES // max(1, row_bytes))
    return max(1, min(SLICE_ROWS, fitting, MAX_INDEX // (widest + 1)))


def _places(sizes: tuple[int, ...], end: int) -> tuple[tuple[int, ...], int]:
    places = []
    for size in sizes:
        places.append(end)
        end = rounded(end + size)
    return tuple(places), max(end, 64)
