"""Codes of categories: found, replaced, written as zeros and ones, and looked up in tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Interval, Trend, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import (
    ColumnWise,
    OwnConstants,
    PerColumn,
    PerOutput,
    Select,
    TablePerColumn,
)
from hbconv.containers.nodes.inputs import Codes, Columns
from hbconv.containers.nodes.wiring import Cast
from hbconv.containers.schema import Schema, Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "FIRST_CODE",
    "CategoryCodes",
    "CategoryNumbers",
    "FindCode",
    "LookupRows",
    "LookupSum",
    "OneHot",
    "Recode",
    "WeightedLookup",
]

# These forms took encoded pipelines from 132 to 80 ns a row on tvm; single limits have no record.
MAX_COMPARED = 8
"""Known values up to which comparing with each beats a search, on every backend."""
MAX_RANGE = 4096
"""Whole numbers from the first known value to the last, up to which a place is computed.

Consecutive values need no table, so their range is limited by int32 alone.
"""

MAX_IN_CELL = 4
"""Known values in a cell up to which comparing with each of them beats a search."""
CELLS = (2, 4, 8, 16)
"""Cells for each known value that are tried, the fewest first."""

Numbers = npt.NDArray[Any]
Find = Callable[["Builder", "Value", Sequence[Numbers]], "Value"]


@container
class FindCode(ColumnWise):
    """Find the position of each value among the known ones of its column, as an int32 code.

    The known values of a column ascend, with NaN last. The code is -1 for any other value.

    Numbers are compared exactly, in numpy's common dtype of x and the values; NaN equals NaN.

    Parameters
    ----------
    x : Node
    values : tuple of Array
        The known values of each column.
    among_objects : bool
        The source compares objects as they are, so None and texts are unknown to it.
    """

    x: Node
    values: TablePerColumn
    among_objects: bool = False

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        sizes = [str(len(values)) for values in self.values]
        return f"{', '.join(sizes[:8])}{' ...' if len(sizes) > 8 else ''} values"

    def check(self) -> str | None:
        fits = len(self.values) == self.x.type.width and all(v.data.ndim == 1 for v in self.values)
        return None if fits else "does not have a list of values for each column"

    def trend(self, column: int) -> Trend:
        """Flat between the known values, where floats can name these as breaks."""
        values = self.values[column].data
        # float64 rounds ints above 2**53: a test beside
        # such a break would be moved to the wrong side.
        exact = values.astype(np.float64).astype(values.dtype) == values
        return Trend.FLAT if np.all(exact | np.isnan(values)) else Trend.UNKNOWN

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        return _without_nan(self.values[column].data.astype(np.float64))

    def infer(self) -> Type:
        return Type(len(self.values), "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Find the columns of one dtype and form at once, then put all in their order."""
        (x,) = inputs
        numbers = [self._numbers_of(b, j, x.dtype) for j in range(len(self.values))]
        # One operator for many columns: 30 encoded columns took some 300 operators one by one.
        groups: dict[tuple[str, Find], list[int]] = {}
        for j, values in enumerate(numbers):
            groups.setdefault((values.dtype.name, _form(values)), []).append(j)
        codes = [
            self._find_group(b, b.cast(b.take(x, columns), dtype), columns, find)
            for (dtype, find), columns in groups.items()
        ]
        # The empty array serves where there are no columns at all.
        order = np.concatenate([np.empty(0, np.intp), *groups.values()])
        return b.take(b.concat(codes), np.argsort(order))

    def _numbers_of(self, b: Builder, column: int, dtype: str) -> Numbers:
        """Return the numbers among the known values, in the dtype in which they are compared."""
        values = self.values[column]
        compared = np.result_type(dtype, values.dtype).name
        return _without_nan(values.data).astype(
            b.dtype("int32" if compared == "bool" else compared)
        )

    def _find_group(self, b: Builder, x: Value, columns: Sequence[int], find: Find) -> Value:
        """Find numbers, and give NaN its code where it is a known value."""
        values = [self.values[j].data for j in columns]
        numbers = [_without_nan(v).astype(x.dtype) for v in values]
        code = find(b, x, numbers)
        nan = [len(k) if len(k) < len(v) else -1 for k, v in zip(numbers, values, strict=True)]
        # Ints hold no NaN, so they need no test for it.
        if max(nan) < 0 or not x.dtype.startswith("float"):
            return code
        return b.where(b.op("isnan", x), _row(b, nan, "int32"), code)


def _without_nan(values: Numbers) -> Numbers:
    return values[~np.isnan(values)]


def _row(b: Builder, values: Sequence[Any], dtype: str) -> Value:
    """Write a constant for each column, or one for all: that takes fewer loads."""
    row = np.array(values, dtype)
    return b.constant(row[:1] if np.array_equal(row[:1].repeat(len(row)), row) else row)


def _form(numbers: Numbers) -> Find:
    """Choose how a column is found, from its known values."""
    if _are_whole(numbers):
        places = int(numbers[-1]) - int(numbers[0]) + 1
        if places == len(numbers):
            return _find_consecutive
        if len(numbers) > MAX_COMPARED and places <= MAX_RANGE:
            return _find_in_range
    if len(numbers) <= MAX_COMPARED:
        return _find_by_compares
    return _find_by_search if _cell_bits(numbers) is None else _find_in_cells


def _are_whole(numbers: Numbers) -> bool:
    """Whether they are distinct whole numbers, which int32 holds; float32 rounds its limits."""
    limits = np.iinfo(np.int32)
    # As Python floats: float32 rounds 2**31 - 1 up to 2**31, which int32 does not hold.
    fits = len(numbers) > 0 and limits.min <= float(numbers[0]) and float(numbers[-1]) <= limits.max
    return bool(
        fits and np.all(numbers == np.floor(numbers)) and np.all(numbers[1:] > numbers[:-1])
    )


def _find_consecutive(b: Builder, x: Value, columns: Sequence[Numbers]) -> Value:
    """Compute the places of whole numbers that follow one another: ``x - first``.

    1. A number out of range, and NaN, are replaced by the first: they become no int32.
    2. A number that is not whole differs from what it is cut off to, and so do those replaced.
    """
    first, last = ([values[i] for values in columns] for i in (0, -1))
    low = _row(b, first, x.dtype)
    inside = (x >= low) & (x <= _row(b, last, x.dtype))
    number = b.cast(b.where(inside, x, low), "int32")  # 1
    is_number = inside if x.dtype.startswith("int") else b.op("eq", b.cast(number, x.dtype), x)  # 2
    place = number - _row(b, first, "int32") if any(first) else number
    return b.where(is_number, place, b.constant([-1], "int32"))


def _find_in_range(b: Builder, x: Value, columns: Sequence[Numbers]) -> Value:
    """Look up which of the whole numbers from the first to the last are known."""
    ranges = [np.arange(int(values[0]), int(values[-1]) + 1).astype(x.dtype) for values in columns]
    tables = []
    for values, candidates in zip(columns, ranges, strict=True):
        place = np.searchsorted(values, candidates)
        tables.append(
            np.append(-1, np.where(values[place] == candidates, place, -1)).astype(np.int32)
        )
    return b.lookup_codes(tables, _find_consecutive(b, x, ranges))


def _find_by_compares(b: Builder, x: Value, columns: Sequence[Numbers]) -> Value:
    """Compare with each known value, the last first: the first of equal ones is the code.

    A shorter list is as if its last value came again. Without values the code is always -1.
    """
    code = b.op("expand", x, b.constant(np.full(len(columns), -1, np.int32)))
    for place in reversed(range(max(map(len, columns)))):
        places = [min(place, len(values) - 1) for values in columns]
        compared = [values[i] if i >= 0 else 0 for values, i in zip(columns, places, strict=True)]
        equal = b.op("eq", x, _row(b, compared, x.dtype))
        code = b.where(equal, _row(b, places, "int32"), code)
    return code


def _find_by_search(b: Builder, x: Value, columns: Sequence[Numbers]) -> Value:
    """Count the values below x: where x is known, that is its position.

    A shorter list is as if its last value came again, which no other number is above.
    """
    most = max(map(len, columns))
    edges = np.stack([np.append(v, np.repeat(v[-1:], most - len(v))) for v in columns])
    last = _row(b, [len(values) - 1 for values in columns], "int32")
    place = b.op("minimum", b.op("bucketize", x, b.constant(edges), right=False), last)
    firsts = np.cumsum([0, *map(len, columns)])[:-1]
    value = b.lookup(b.constant(np.concatenate(columns)), place + b.constant(firsts, "int32"))
    return b.where(b.op("eq", value, x), place, b.constant([-1], "int32"))


def _cell_bits(numbers: Numbers) -> int | None:
    """Return the low bits that a cell leaves open; None where ints are not spread evenly."""
    # Values from a damaged file need not ascend, and cells are counted for ascending ones.
    if numbers.dtype.kind != "i" or np.any(numbers[1:] < numbers[:-1]):
        return None
    reach = int(numbers[-1]) - int(numbers[0])
    # Fewer cells make a smaller table of firsts, so they are tried first.
    for cells in CELLS:
        bits = max(reach // (cells * len(numbers)), 1).bit_length()
        if np.bincount(_cells(numbers, bits)).max() <= MAX_IN_CELL:
            return bits
    return None


def _cells(numbers: Numbers, bits: int) -> npt.NDArray[np.int64]:
    cells: npt.NDArray[np.int64] = ((numbers >> bits) - (numbers[0] >> bits)).astype(np.int64)
    return cells


def _find_in_cells(b: Builder, x: Value, columns: Sequence[Numbers]) -> Value:
    """Compare with the known values of the cell of x alone; cells are of equal width.

    1. A number out of range is in the first or the last cell.
    2. Read which known value is the first of the cell.
    3. Compare with it and those behind it, the last first. Copies of the last known value stand
       behind it, which no other number equals.
    """
    bits = [_cell_bits(values) or 0 for values in columns]
    cells = [_cells(values, low_bits) for values, low_bits in zip(columns, bits, strict=True)]
    sizes = [np.bincount(column_cells) for column_cells in cells]
    deepest = max(int(column_cells.max()) for column_cells in sizes)
    low, high = (_row(b, [values[i] for values in columns], x.dtype) for i in (0, -1))
    lowest = _row(
        b, [values[0] >> low_bits for values, low_bits in zip(columns, bits, strict=True)], x.dtype
    )
    inside = b.op("minimum", b.op("maximum", x, low), high)  # 1
    cell = b.op("shift_right", inside, _row(b, bits, x.dtype)) - lowest
    firsts = [
        np.append(-1, np.cumsum(column_cells) - column_cells).astype(np.int32)
        for column_cells in sizes
    ]
    first = b.lookup_codes(firsts, b.cast(cell, "int32"))  # 2
    # Every cell is compared as often as the fullest, so reads behind the last value must exist.
    padded = [np.append(values, np.repeat(values[-1:], deepest)) for values in columns]
    starts = np.cumsum([0, *map(len, padded)])[:-1]
    place = first + b.constant(starts, "int32")
    values = b.constant(np.concatenate(padded))
    code = b.op("expand", x, b.constant(np.full(len(columns), -1, np.int32)))
    for i in reversed(range(deepest)):  # 3
        step = b.constant([i], "int32")
        equal = b.op("eq", b.lookup(values, place + step), x)
        code = b.where(equal, first + step, code)
    return code


@container
class OneHot(Node):
    """Encode each column of codes as zeros and a one at the code; a code of -1 gives zeros.

    Each column of codes makes as many columns as its size. A ``dtype`` of None means the dtype of
    the codes.
    """

    codes: Node
    sizes: tuple[int, ...]
    dtype: str | None = "float64"

    always_finite: ClassVar[bool] = True
    trends: ClassVar[Trend] = Trend.FLAT

    @property
    def detail(self) -> str:
        return f"width {sum(self.sizes)}"

    def narrowed(self, columns: Array) -> Node | None:
        """Encode the categories that are left, in their order; the others become -1."""
        # The narrower encoding keeps the categories in order, so it cannot repeat or swap columns.
        if self.codes.type.dtype != "int32" or np.any(np.diff(columns.data) <= 0):
            return None
        kept = np.isin(np.arange(sum(self.sizes)), columns.data)
        parts = {
            j: part
            for j, part in enumerate(np.split(kept, np.cumsum(self.sizes)[:-1]))
            if part.any()
        }
        codes: Node = Select(self.codes, Array(np.array(list(parts), dtype=np.int32)))
        if not all(part.all() for part in parts.values()):
            tables = tuple(
                Array(np.append(-1, np.where(part, np.cumsum(part) - 1, -1)).astype(np.int32))
                for part in parts.values()
            )
            codes = Recode(codes, tables)
        return replace(self, codes=codes, sizes=tuple(int(part.sum()) for part in parts.values()))

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return (np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes),)

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        positions = np.concatenate([np.arange(size) for size in self.sizes])
        return positions[column : column + 1].astype(np.float64)

    def infer(self) -> Type:
        return Type(sum(self.sizes), self.dtype or self.codes.type.dtype)

    def check(self) -> str | None:
        fits = len(self.sizes) == self.codes.type.width and min(self.sizes, default=0) >= 0
        return None if fits else "does not have a size for each column"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        if inputs[0].dtype == "int32":
            return b.one_hot(inputs[0], self.sizes, self.type.dtype)
        codes = b.take(inputs[0], np.repeat(np.arange(len(self.sizes)), self.sizes))
        positions = np.concatenate([np.arange(size) for size in self.sizes])
        return b.cast(b.op("eq", codes, b.constant(positions, codes.dtype)), self.type.dtype)


@container
class Recode(ColumnWise):
    """Replace codes by ``tables[j][codes[:, j] + 1]``.

    Each column has a table, and the first entry of a table is for the unknown code -1. All tables
    have one dtype.
    """

    codes: Node
    tables: TablePerColumn

    @property
    def detail(self) -> str:
        return f"tables of {', '.join(str(len(t)) for t in self.tables)}"

    def infer(self) -> Type:
        return Type(len(self.tables), self.tables[0].dtype)

    def interval(self, *inputs: Interval) -> Interval | None:  # noqa: ARG002
        largest = largest_constant(*self.tables)
        return None if largest is None else Interval(largest)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.lookup_codes([t.data for t in self.tables], inputs[0])


FIRST_CODE = 2
"""Code of category 0; NaN is 1, and what is no category 0."""


@container
class CategoryCodes(ColumnWise):
    """Turn columns of category numbers into the codes that a forest's tables are for.

    The code is 0 for no category, 1 for NaN, else ``2 + category``. Columns of size 0 pass as they
    are. A number is cut off to a whole one, as in C. A
    negative number is not a category, nor is one that is not below the column's size. ``cut_first``
    cuts off before it looks at the sign, so that -0.5 is category 0. The codes keep the dtype
    of x, float32 or float64.

    Parameters
    ----------
    sizes : Array of int32, shape (width,)
        Number of categories of each column that any table knows, at most 2**24 - 2. It is 0 for
        columns of plain numbers.
    cut_first : bool
    """

    x: Node
    sizes: PerColumn
    cut_first: bool = False

    @property
    def detail(self) -> str:
        largest = self.sizes.data.max(initial=0)
        return f"{np.count_nonzero(self.sizes.data)} columns of up to {largest} categories"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        listed = np.flatnonzero(self.sizes.data)
        if not len(listed):
            return x
        codes = b.cast(
            self._codes(b, b.cast(b.take(x, listed), "float64"), self.sizes.data[listed]), x.dtype
        )
        order = np.arange(x.shape[0])
        # Columns of plain numbers stay, and codes take the places of the others.
        order[listed] = x.shape[0] + np.arange(len(listed))
        return b.take(b.concat([x, codes]), order)

    def _codes(self, b: Builder, x: Value, sizes: npt.NDArray[np.int32]) -> Value:
        zero = b.constant(0.0, "float64")
        one = b.constant(1.0, "float64")
        # Cut off first, what is above -1 becomes category 0; else a sign below 0 decides.
        is_category = (x > b.constant(-1.0, "float64") if self.cut_first else x >= zero) & (
            x < b.constant(sizes, "float64")
        )
        category = b.op("floor", b.op("maximum", x, zero))
        return b.where(
            b.op("isnan", x),
            one,
            b.where(is_category, category + b.constant(float(FIRST_CODE), "float64"), zero),
        )


@container
class CategoryNumbers(Recode):
    """A Recode of one column whose table holds the numbers that the source computes with.

    Parameters
    ----------
    dtype : str
        Dtype as which the source reads such numbers in an array. ``"float"`` keeps float32 and
        float64.
    """

    dtype: str = "float32"

    def of_array(self, schema: Schema) -> Node:
        """Return the column of an array that stands for this node.

        Return the node itself if its codes are not of one column.
        """
        leaf = self.codes.x if isinstance(self.codes, FindCode) else self.codes
        return (
            Cast(Columns(schema, Array.of(leaf.columns, "int32")), self.dtype)
            if isinstance(leaf, Codes | Columns)
            else self
        )


@container
class LookupSum(Node):
    """Compute ``sum over j of tables[j][codes[:, j] + 1]``.

    Each table is (size + 1, outputs); its first row is for the code -1.

    What ``Linear(OneHot(codes))`` computes, without the zeros.
    """

    codes: Node
    tables: tuple[Array, ...]

    @property
    def detail(self) -> str:
        return f"tables of {', '.join(str(len(t)) for t in self.tables)}  width {self.type.width}"

    def infer(self) -> Type:
        return Type(self.tables[0].shape[1], self.tables[0].dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Look rows up; single numbers as such, since libraries add up a row of them faster."""
        codes = b.cast(inputs[0], "int32")
        single = self.type.width == 1
        tables = [table.data[:, 0] if single else table.data for table in self.tables]
        return b.reshape(b.reduce("reduce_sum", b.lookup_codes(tables, codes)), self.type.width)


@container
class LookupRows(Node):
    """For each column of int32 positions, the row of the table that it names."""

    positions: Node
    table: Array

    @property
    def detail(self) -> str:
        return f"table of {len(self.table)}  width {self.type.width}"

    def narrowed(self, columns: Array) -> Node | None:
        """Look up fewer positions, where all columns of some are left out."""
        each = self.table.shape[1]
        if each == 1:
            return replace(self, positions=Select(self.positions, columns))
        # A row of the table is read as a whole, so only whole positions can be left out.
        read, place = np.unique(columns.data // max(each, 1), return_inverse=True)
        if len(read) == self.positions.type.width:
            return None
        fewer = replace(self, positions=Select(self.positions, Array.of(read, "int32")))
        places = place * each + columns.data % each
        whole = np.array_equal(places, np.arange(fewer.type.width))
        return fewer if whole else Select(fewer, Array.of(places, "int32"))

    def infer(self) -> Type:
        return Type(self.positions.type.width * self.table.shape[1], self.table.dtype)

    def interval(self, *inputs: Interval) -> Interval | None:  # noqa: ARG002
        largest = largest_constant(self.table)
        return None if largest is None else Interval(largest)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reshape(b.lookup(b.constant(self.table), inputs[0]), self.type.width)


@container
class WeightedLookup(OwnConstants):
    """Compute ``sum over i of weights[:, i] * table[positions[:, i]]``.

    The dtype is numpy's common one of weights and table.
    """

    positions: Node
    weights: Node
    table: PerOutput

    @property
    def detail(self) -> str:
        return f"table of {len(self.table)}  width {self.type.width}"

    def infer(self) -> Type:
        return Type(
            self.table.shape[1], np.result_type(self.weights.type.dtype, self.table.dtype).name
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        weights, table = b.promote(inputs[1], b.constant(self.table))
        return b.op("embedding_sum", inputs[0], weights, table)
