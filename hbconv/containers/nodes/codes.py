"""Codes of categories: replaced, and written as zeros and ones.

Rows of constant tables, looked up by code: LookupSum, LookupRows, WeightedLookup.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

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
from hbconv.containers.nodes.find_code import FindCode
from hbconv.containers.nodes.inputs import Codes, Columns
from hbconv.containers.nodes.wiring import Cast
from hbconv.containers.schema import Schema, Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "FIRST_CODE",
    "CategoryCodes",
    "CategoryNumbers",
    "LookupRows",
    "LookupSum",
    "OneHot",
    "Recode",
    "WeightedLookup",
]


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
        order[listed] = x.shape[0] + np.arange(len(listed))
        return b.take(b.concat([x, codes]), order)

    def _codes(self, b: Builder, x: Value, sizes: npt.NDArray[np.int32]) -> Value:
        zero = b.constant(0.0, "float64")
        one = b.constant(1.0, "float64")
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
