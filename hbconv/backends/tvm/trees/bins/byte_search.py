"""Search the bins of 64 values at once, by look-ups of bytes in registers.

The cell of a value tells how many edges lie below it. The edges in its cell are halved until one is
left to compare with. An edge is looked up byte by byte, and weaving makes values of the bytes. So
what is packed to bytes comes back in the order that it had.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal, spread
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.tir.transpose import WIDE_BYTES, find_wide_bytes, pack
from hbconv.backends.tvm.trees.bins.search_tables import ENTRIES, make_search_tables
from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS, Bins
from hbconv.backends.tvm.trees.byte_columns import ByteColumns
from hbconv.backends.tvm.trees.leaves.weaving import weave, woven_rows

__all__ = ["write_by_bytes"]


def write_by_bytes(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins, features: Any
) -> None:
    """Turn the values of some features into their columns."""
    if not len(features):
        return
    search = _ByteSearch(k, block, x, bins, features)
    feature = k.constant(bins.feature[features])
    start = k.constant(bins.column_start[:-1][features])
    end = k.constant(bins.column_start[1:][features])
    of_nan = np.repeat(bins.edge_count, np.diff(bins.column_start))
    missing = k.constant(np.where(bins.missing < 0, of_nan, bins.missing).astype(np.int32))
    with k.over((k.number(len(features)),)) as (i,):
        source, begin = (k.bind(k.entry(table, i)) for table in (feature, start))
        n_columns = k.bind(k.entry(end, i) - begin)
        with block.vectors(WIDE_BYTES) as row:
            found, is_nan = search.find(i, source, row)
            with T.serial(n_columns) as j:
                nan_bin = tirx.Cast("uint8", k.entry(missing, begin + j))
                chosen = (is_nan & spread(nan_bin, WIDE_BYTES)) | (~is_nan & found)
                biased = chosen ^ literal(SIGNED_BYTE_BIAS, "uint8", WIDE_BYTES)
                columns.store(block, begin + j, row, biased)


class _ByteSearch:
    """Finds bins, from 0 to 255."""

    def __init__(self, k: Kernel, block: Block, x: Place, bins: Bins, features: Any) -> None:
        tables = make_search_tables(bins, features)
        self.k = k
        self.block = block
        self.x = x
        self.size = np.dtype(x.dtype).itemsize
        self.lanes = WIDE_BYTES // self.size
        self.number = f"int{8 * self.size}"
        self.low, self.scale = k.constant(tables.low), k.constant(tables.scale)
        self.steps = k.constant(tables.steps)
        self.before, self.edges = k.constant(tables.before), k.constant(tables.edges)

    def find(self, i: Any, source: Any, row: Any) -> tuple[Any, Any]:
        """Return the bins of 64 rows of the i-th feature, and bytes of ones where it is NaN."""
        k = self.k
        values = [
            k.bind(k.load(self.x, (source,), self.block.in_tile(rows)))
            for rows in self._vectors(row)
        ]
        cells = k.bind(pack([self._cell(i, value) for value in values]))
        before = find_wide_bytes(self._tables(self.before, i * ENTRIES), cells)
        found = k.register("uint8", before, WIDE_BYTES)
        steps = k.bind(k.entry(self.steps, i))
        with T.serial(steps) as step:
            half = k.bind(tirx.shift_left(tirx.IntImm("int32", 1), steps - 1 - step))
            found.set(found.get() + self._onward(i, values, found.get(), half))
        is_nan = pack([self._flags(tirx.isnan(value), 255, 0) for value in values])
        return self._in_order(found.get()), self._in_order(is_nan)

    def _vectors(self, row: Any) -> list[Any]:
        """Return the rows of each vector of values."""
        firsts = range(0, WIDE_BYTES, self.lanes)
        return [tirx.Ramp(row.base + first, 1, self.lanes) for first in firsts]

    def _tables(self, place: Place, begin: Any) -> list[Any]:
        """Load a table of 256 bytes."""
        k = self.k
        firsts = range(0, ENTRIES, WIDE_BYTES)
        return [k.bind(k.entries(place, begin + first, WIDE_BYTES)) for first in firsts]

    def _cell(self, i: Any, value: Any) -> Any:
        """Return the cell of each value; NaN has the last one."""
        k, dtype = self.k, self.x.dtype
        low, scale = (spread(k.entry(t, i), self.lanes) for t in (self.low, self.scale))
        zero, last = (literal(bound, dtype, self.lanes) for bound in (0, ENTRIES - 1))
        position = k.bind((value - low) * scale)
        inside = k.bind(tirx.Select(position < last, position, last))
        return tirx.Cast(f"{self.number}x{self.lanes}", tirx.Select(inside > zero, inside, zero))

    def _onward(self, i: Any, values: list[Any], found: Any, half: Any) -> Any:
        """Return the half for rows that lie right of the edge so many on, and 0 for others."""
        k = self.k
        by = spread(tirx.Cast("uint8", half - 1), WIDE_BYTES)
        index = k.bind(
            tirx.call_llvm_pure_intrin(f"uint8x{WIDE_BYTES}", "llvm.uadd.sat.v64i8", found, by)
        )
        begin = k.bind(i * (self.size * ENTRIES))
        planes = [
            k.bind(find_wide_bytes(self._tables(self.edges, begin + byte * ENTRIES), index))
            for byte in range(self.size)
        ]
        kind = f"{self.x.dtype}x{self.lanes}"
        edges = [tirx.reinterpret(kind, each) for each in weave(k, planes, WIDE_BYTES)]
        return pack(
            [self._flags(value <= edge, 0, half) for value, edge in zip(values, edges, strict=True)]
        )

    def _flags(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers for each lane."""
        both = (spread(tirx.Cast(self.number, number), self.lanes) for number in (yes, no))
        return self.k.bind(tirx.Select(condition, *both))

    def _in_order(self, packed: Any) -> Any:
        """Put bytes in the order of the rows."""
        order = woven_rows(self.size, WIDE_BYTES)
        return self.k.bind(
            tirx.Shuffle([packed], [tirx.IntImm("int32", place) for place in order.tolist()])
        )
