"""FindCode: the positions of numbers among the known ones, many columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.interval import Trend
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise, TablePerColumn
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["FindCode"]

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
        exact = values.astype(np.float64).astype(values.dtype) == values
        return Trend.FLAT if np.all(exact | np.isnan(values)) else Trend.UNKNOWN

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        return _without_nan(self.values[column].data.astype(np.float64))

    def infer(self) -> Type:
        return Type(len(self.values), "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Find the columns of one dtype and form at once, then put all in their order."""
        (x,) = inputs
        known = [self._known(b, j, x.dtype) for j in range(len(self.values))]
        groups: dict[tuple[str, Find], list[int]] = {}
        for j, values in enumerate(known):
            groups.setdefault((values.dtype.name, _form(values)), []).append(j)
        found = [
            self._found(b, b.cast(b.take(x, columns), dtype), columns, find)
            for (dtype, find), columns in groups.items()
        ]
        order = np.concatenate([np.empty(0, np.intp), *groups.values()])
        return b.take(b.concat(found), np.argsort(order))

    def _known(self, b: Builder, column: int, dtype: str) -> Numbers:
        """Return the numbers among the known values, in the dtype in which they are compared."""
        values = self.values[column]
        compared = np.result_type(dtype, values.dtype).name
        return _without_nan(values.data).astype(
            b.dtype("int32" if compared == "bool" else compared)
        )

    def _found(self, b: Builder, x: Value, columns: Sequence[int], find: Find) -> Value:
        """Find numbers, and give NaN its code where it is a known value."""
        values = [self.values[j].data for j in columns]
        known = [_without_nan(v).astype(x.dtype) for v in values]
        code = find(b, x, known)
        nan = [len(k) if len(k) < len(v) else -1 for k, v in zip(known, values, strict=True)]
        if max(nan) < 0 or not x.dtype.startswith("float"):
            return code
        return b.where(b.op("isnan", x), _row(b, nan, "int32"), code)


def _without_nan(values: Numbers) -> Numbers:
    return values[~np.isnan(values)]


def _row(b: Builder, values: Sequence[Any], dtype: str) -> Value:
    """Write a constant for each column, or one for all: that takes fewer loads."""
    row = np.array(values, dtype)
    return b.constant(row[:1] if np.array_equal(row[:1].repeat(len(row)), row) else row)


def _form(known: Numbers) -> Find:
    """Choose how a column is found, from its known values."""
    if _are_whole(known):
        places = int(known[-1]) - int(known[0]) + 1
        if places == len(known):
            return _find_consecutive
        if len(known) > MAX_COMPARED and places <= MAX_RANGE:
            return _find_in_range
    if len(known) <= MAX_COMPARED:
        return _find_by_compares
    return _find_by_search if _cell_bits(known) is None else _find_in_cells


def _are_whole(known: Numbers) -> bool:
    """Whether they are distinct whole numbers, which int32 holds; float32 rounds its limits."""
    limits = np.iinfo(np.int32)
    fits = len(known) > 0 and limits.min <= float(known[0]) and float(known[-1]) <= limits.max
    return bool(fits and np.all(known == np.floor(known)) and np.all(known[1:] > known[:-1]))


def _find_consecutive(b: Builder, x: Value, known: Sequence[Numbers]) -> Value:
    """Compute the places of whole numbers that follow one another: ``x - first``.

    1. A number out of range, and NaN, are replaced by the first: they become no int32.
    2. A number that is not whole differs from what it is cut off to, and so do those replaced.
    """
    first, last = ([values[i] for values in known] for i in (0, -1))
    low = _row(b, first, x.dtype)
    inside = (x >= low) & (x <= _row(b, last, x.dtype))
    number = b.cast(b.where(inside, x, low), "int32")  # 1
    found = inside if x.dtype.startswith("int") else b.op("eq", b.cast(number, x.dtype), x)  # 2
    place = number - _row(b, first, "int32") if any(first) else number
    return b.where(found, place, b.constant([-1], "int32"))


def _find_in_range(b: Builder, x: Value, known: Sequence[Numbers]) -> Value:
    """Look up which of the whole numbers from the first to the last are known."""
    ranges = [np.arange(int(values[0]), int(values[-1]) + 1).astype(x.dtype) for values in known]
    tables = []
    for values, numbers in zip(known, ranges, strict=True):
        place = np.searchsorted(values, numbers)
        tables.append(np.append(-1, np.where(values[place] == numbers, place, -1)).astype(np.int32))
    return b.lookup_codes(tables, _find_consecutive(b, x, ranges))


def _find_by_compares(b: Builder, x: Value, known: Sequence[Numbers]) -> Value:
    """Compare with each known value, the last first: the first of equal ones is the code.

    A shorter list is as if its last value came again. Without values the code is always -1.
    """
    code = b.op("expand", x, b.constant(np.full(len(known), -1, np.int32)))
    for place in reversed(range(max(map(len, known)))):
        places = [min(place, len(values) - 1) for values in known]
        own = [values[i] if i >= 0 else 0 for values, i in zip(known, places, strict=True)]
        equal = b.op("eq", x, _row(b, own, x.dtype))
        code = b.where(equal, _row(b, places, "int32"), code)
    return code


def _find_by_search(b: Builder, x: Value, known: Sequence[Numbers]) -> Value:
    """Count the values below x: where x is known, that is its position.

    A shorter list is as if its last value came again, which no other number is above.
    """
    most = max(map(len, known))
    edges = np.stack([np.append(v, np.repeat(v[-1:], most - len(v))) for v in known])
    last = _row(b, [len(values) - 1 for values in known], "int32")
    place = b.op("minimum", b.op("bucketize", x, b.constant(edges), right=False), last)
    firsts = np.cumsum([0, *map(len, known)])[:-1]
    value = b.lookup(b.constant(np.concatenate(known)), place + b.constant(firsts, "int32"))
    return b.where(b.op("eq", value, x), place, b.constant([-1], "int32"))


def _cell_bits(known: Numbers) -> int | None:
    """Return how many low bits of ints a cell leaves open; None where ints do not lie evenly."""
    if known.dtype.kind != "i" or np.any(known[1:] < known[:-1]):
        return None
    reach = int(known[-1]) - int(known[0])
    for cells in CELLS:
        bits = max(reach // (cells * len(known)), 1).bit_length()
        if np.bincount(_cells(known, bits)).max() <= MAX_IN_CELL:
            return bits
    return None


def _cells(known: Numbers, bits: int) -> npt.NDArray[np.int64]:
    cells: npt.NDArray[np.int64] = ((known >> bits) - (known[0] >> bits)).astype(np.int64)
    return cells


def _find_in_cells(b: Builder, x: Value, known: Sequence[Numbers]) -> Value:
    """Compare with the known values of the cell of x alone; cells are of equal width.

    1. A number out of range is in the first or the last cell.
    2. Read which known value is the first of the cell.
    3. Compare with it and those behind it, the last first. Copies of the last known value stand
       behind it, which no other number equals.
    """
    bits = [_cell_bits(values) or 0 for values in known]
    cells = [_cells(values, own) for values, own in zip(known, bits, strict=True)]
    sizes = [np.bincount(own) for own in cells]
    deepest = max(int(own.max()) for own in sizes)
    low, high = (_row(b, [values[i] for values in known], x.dtype) for i in (0, -1))
    lowest = _row(b, [values[0] >> own for values, own in zip(known, bits, strict=True)], x.dtype)
    inside = b.op("minimum", b.op("maximum", x, low), high)  # 1
    cell = b.op("shift_right", inside, _row(b, bits, x.dtype)) - lowest
    firsts = [np.append(-1, np.cumsum(own) - own).astype(np.int32) for own in sizes]
    first = b.lookup_codes(firsts, b.cast(cell, "int32"))  # 2
    padded = [np.append(values, np.repeat(values[-1:], deepest)) for values in known]
    starts = np.cumsum([0, *map(len, padded)])[:-1]
    place = first + b.constant(starts, "int32")
    values = b.constant(np.concatenate(padded))
    code = b.op("expand", x, b.constant(np.full(len(known), -1, np.int32)))
    for i in reversed(range(deepest)):  # 3
        step = b.constant([i], "int32")
        equal = b.op("eq", b.lookup(values, place + step), x)
        code = b.where(equal, first + step, code)
    return code
