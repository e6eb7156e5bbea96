"""CategoryCodes and MissingBetween: what a tree library makes of a value before its trees read it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["FIRST_CODE", "CategoryCodes", "MissingBetween"]

FIRST_CODE = 2
"""Code of category 0; NaN is 1, and what is no category 0."""


@container
class CategoryCodes(Node):
    """Columns of category numbers as the codes that a forest's tables are for: 0 no category, 1 NaN, ``2 + category`` else.

    Columns of size 0 pass as they are. A number is cut off to a whole one, as C does; it is no category where that is not
    below the column's size, nor where it is negative: before it was cut off, or (``cut_first``) after, so that -0.5 is
    category 0. The codes keep the dtype of x, float32 or float64.

    Parameters
    ----------
    sizes : Array of int32, shape (width,)
        Number of categories of each column that any table knows, at most 2**24 - 2; 0 for columns of plain numbers.
    cut_first : bool
    """

    x: Node
    sizes: Array
    cut_first: bool = False

    @property
    def detail(self) -> str:
        return f"{np.count_nonzero(self.sizes.data)} columns of up to {self.sizes.data.max(initial=0)} categories"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns), sizes=Array(self.sizes.data[columns.data]))

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        listed = np.flatnonzero(self.sizes.data)
        if not len(listed):
            return x
        codes = b.cast(self._codes(b, b.cast(b.take(x, listed), "float64"), self.sizes.data[listed]), x.dtype)
        order = np.arange(x.shape[0])
        order[listed] = x.shape[0] + np.arange(len(listed))
        return b.take(b.concat([x, codes]), order)

    def _codes(self, b: Builder, x: Value, sizes: npt.NDArray[np.int32]) -> Value:
        zero, one = b.constant(0.0, "float64"), b.constant(1.0, "float64")
        is_category = (x > b.constant(-1.0, "float64") if self.cut_first else x >= zero) & (x < b.constant(sizes, "float64"))
        category = b.op("floor", b.op("maximum", x, zero))
        return b.where(b.op("isnan", x), one, b.where(is_category, category + b.constant(float(FIRST_CODE), "float64"), zero))


@container
class MissingBetween(Node):
    """NaN (or ``fill``) where a value is from ``low`` to ``high``, both included, column by column; bounds of NaN leave a column as it is.

    The bounds are compared in x's dtype.
    """

    x: Node
    low: Array
    high: Array
    fill: float = float("nan")

    finite: ClassVar[str] = "computed"

    @staticmethod
    def of(x: Node, low: npt.ArrayLike, high: npt.ArrayLike, fill: float = float("nan")) -> MissingBetween:
        """Scalars stand for all columns."""
        lows, highs = (Array(np.broadcast_to(numbers(bound, np.float64), (x.type.width,))) for bound in (low, high))
        return MissingBetween(x, lows, highs, fill)

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns), low=Array(self.low.data[columns.data]), high=Array(self.high.data[columns.data]))

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        low, high = (b.constant(bound, x.dtype) for bound in (self.low, self.high))
        return b.where((x >= low) & (x <= high), b.constant(self.fill, x.dtype), x)
