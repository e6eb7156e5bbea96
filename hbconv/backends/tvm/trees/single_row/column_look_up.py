"""Look the columns of a row up in registers: a byte for each of many trees."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.transpose import (
    BYTES,
    HALF,
    WIDE_BYTES,
    find_bytes,
    find_wide_bytes,
    index_of,
    twice,
)

__all__ = ["ColumnLookUp", "column_look_up"]


class ColumnLookUp:
    """Looks columns up by shuffles of 32 bytes, one for each sixteen columns.

    Attributes
    ----------
    lanes : int
        Trees of a vector, as ``trees_per_vector`` tells.
    part : int
        Columns of one table.
    """

    lanes: int = BYTES
    part: int = HALF

    def tables(self, k: Kernel, bytes_: Place, n_columns: int) -> list[Any]:
        """Load the first columns of a row."""
        return [k.bind(self._table(k, bytes_, at)) for at in range(0, n_columns, self.part)]

    def find(self, k: Kernel, tables: list[Any], column: Any) -> Any:
        """Look columns up in all tables: a shuffle gives zero for those of other tables."""
        found = literal(0, "uint8", BYTES)
        for part, table in enumerate(tables):
            found = found | k.bind(find_bytes(table, index_of(column, part)))
        return found

    def _table(self, k: Kernel, bytes_: Place, first: int) -> Any:
        return twice(k, _columns(k, bytes_, first, HALF))


class WideColumnLookUp(ColumnLookUp):
    """Looks columns up by shuffles of 64 bytes, which search one table or two at once."""

    lanes = WIDE_BYTES
    part = WIDE_BYTES

    def find(self, k: Kernel, tables: list[Any], column: Any) -> Any:
        """Look columns up."""
        return k.bind(find_wide_bytes(tables, column))

    def _table(self, k: Kernel, bytes_: Place, first: int) -> Any:
        return _columns(k, bytes_, first, WIDE_BYTES)


def column_look_up(machine: Machine) -> ColumnLookUp:
    """Choose by the processor."""
    return WideColumnLookUp() if machine.wide_byte_shuffles else ColumnLookUp()


def _columns(k: Kernel, bytes_: Place, first: int, count: int) -> Any:
    return k.load(bytes_, (0,), tirx.Ramp(first, 1, count))
