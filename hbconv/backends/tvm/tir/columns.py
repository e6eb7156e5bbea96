"""Read columns of callers that lie apart in memory: each is converted as it enters the tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.machine.calling_convention import COLUMN_DTYPES, column_dtypes
from hbconv.backends.tvm.tir.kernel import ANY, Kernel, beyond, lanes, literal
from hbconv.backends.tvm.tir.memory import LINE, Place

__all__ = ["ColumnPointers", "live_vectors", "rows_at_a_time"]

WORDS = 2
"""Words of an ``hbconv_column``: an address and a dtype."""


REGISTERS = 4
"""Registers of a vector of rows that are read at a time."""


def rows_at_a_time(k: Kernel, dtype: str) -> int:
    """Return the rows of a column that are read at a time, for a tile of some dtype."""
    return k.machine.vector // np.dtype(dtype).itemsize * REGISTERS


def live_vectors(k: Kernel, lanes: int) -> Iterator[Any]:
    """Loop over whole vectors of live rows, then over the rest one by one."""
    whole = k.bind(k.rows_live // lanes)
    with T.serial(whole) as group:
        yield tirx.Ramp(group * lanes, 1, lanes)
    with T.serial(k.rows_live - whole * lanes) as row:
        yield whole * lanes + row


@dataclass(frozen=True, eq=False)
class ColumnPointers:
    """The columns of an input, if the caller gives them one by one.

    Parameters
    ----------
    word : int64 expression
        Address of an array of ``hbconv_column``, or 0.
    words : Buffer
        That array.
    """

    word: Any
    words: Any

    @classmethod
    def at(cls, word: Any) -> ColumnPointers:
        """Declare the array at an address."""
        pointer = T.Bind(tirx.reinterpret(T.ptr("int64").ty, word))
        return cls(word, T.decl_buffer((ANY,), "int64", data=pointer))

    @property
    def given(self) -> Any:
        """Whether the caller gives the columns one by one."""
        return self.word != tirx.IntImm("int64", 0)

    def read(
        self,
        k: Kernel,
        place: Place,
        first: Any,
        columns: Sequence[int],
        see: Callable[[Any, Any, int], None],
    ) -> None:
        """Read the tile's rows of some columns, from row ``first`` on.

        ``see(number, values, lanes)`` is shown what enters of the column of that number.
        """
        table = None
        if list(columns) != list(range(place.shape[0])):
            table = k.constant(np.array(columns, np.int32))
        with T.serial(len(columns)) as number:
            column = number if table is None else k.bind(k.entry(table, number))
            address = k.bind(self.words[column * WORDS])
            dtype = k.bind(self.words[column * WORDS + 1])
            for source in column_dtypes(place.dtype):
                code = tirx.IntImm("int64", COLUMN_DTYPES.index(source))
                with T.If(dtype == code), T.Then():
                    entries = _entries_at(address, source)
                    for row in live_vectors(k, rows_at_a_time(k, place.dtype)):
                        given = entries[beyond(first, row)]
                        if lanes(row) > 1:
                            _fetch_ahead(k, entries, source, first, row)
                        value = k.bind(_converted(given, source, place.dtype, lanes(row)))
                        k.store(place, (column,), row, value)
                        see(number, value, lanes(row))


def _fetch_ahead(k: Kernel, entries: Any, dtype: str, first: Any, row: Any) -> None:
    """Fetch the same rows of the next tile, which are far from those of the next column.

    28 columns of 200,000 rows take 20 ns a row, and took 26 without (Zen 4, from memory).
    """
    for entry in range(0, lanes(row), LINE // np.dtype(dtype).itemsize):
        k.fetch(entries[beyond(first, row.base + k.tile + entry)])


def _entries_at(address: Any, dtype: str) -> Any:
    """Declare the entries of a column."""
    stored = "uint8" if dtype == "bool" else dtype
    pointer = T.Bind(tirx.reinterpret(T.ptr(stored).ty, address))
    # Callers promise the alignment of an entry and no more.
    return T.decl_buffer((ANY,), stored, data=pointer, align=np.dtype(dtype).itemsize)


def _converted(value: Any, source: str, dtype: str, count: int) -> Any:
    if source == "bool":  # any byte but 0 is true
        one, zero = literal(1, "uint8", count), literal(0, "uint8", count)
        value = tirx.Select(value != zero, one, zero)
    if source != dtype:
        return tirx.Cast(dtype if count == 1 else f"{dtype}x{count}", value)
    if not dtype.startswith("float"):
        return value
    # Behind a fence the loop is no copy: for 2 KB of it LLVM would call memcpy, which took longer
    # than all the rest of a logistic regression.
    return tirx.call_llvm_pure_intrin(str(value.ty), "llvm.arithmetic.fence", value)
