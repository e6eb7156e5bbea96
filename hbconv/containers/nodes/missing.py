"""Missing values: find them, fill them, or make them of values in an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Interval, Trend, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import BetweenBounds, ColumnWise, PerColumn
from hbconv.errors import InputError

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["FillMissing", "Impute", "IsMissing", "MissingBetween"]


@container
class Impute(ColumnWise):
    """Replace the values of x that equal ``missing`` by the column's fill; x keeps its dtype.

    ``missing`` is NaN or a number. The number is rounded to x's dtype if x is float, as numpy
    rounds a Python number.
    """

    x: Node
    fill: PerColumn
    missing: float = float("nan")

    trends: ClassVar[Trend] = Trend.RISES

    def breaks(self, column: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        return _points(self.missing, self.type.dtype)

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        largest = largest_constant(self.fill)
        if largest is None:
            return None
        # Once NaN is filled no row holds any; another
        # number that is filled leaves NaN where it was.
        filled = frozenset() if np.isnan(self.missing) else x.nan_from
        return Interval(max(x.bound, largest), filled)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = inputs[0]
        if np.isnan(self.missing) and not x.dtype.startswith("float"):
            return x
        return b.where(_is_missing(b, x, self.missing), b.constant(self._fill_of(x.dtype)), x)

    def _fill_of(self, dtype: str) -> Array:
        # A NaN becomes some int here, and differs from the fill, so the next test refuses it.
        with np.errstate(invalid="ignore"):
            fill = Array.of(self.fill.data.astype(dtype))
        if dtype.startswith("int") and np.any(fill.data != self.fill.data):
            raise InputError(
                f"Step {self.step!r} fills missing values with {self.fill!r}, "
                f"which columns of {dtype} cannot hold. Pass floats."
            )
        return fill


@container
class FillMissing(ColumnWise):
    """Replace the NaN of x by what ``fill`` holds in its column; x keeps its dtype."""

    x: Node
    fill: Node

    def interval(self, *inputs: Interval) -> Interval:
        x, fill = inputs
        return Interval(max(x.bound, fill.bound), fill.nan_from)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, fill = inputs
        return b.where(b.op("isnan", x), b.cast(fill, x.dtype), x)


@container
class IsMissing(ColumnWise):
    """Whether each value equals ``missing``, which is NaN or a number: bool."""

    x: Node
    missing: float = float("nan")

    gives: ClassVar[str] = "bool"
    trends: ClassVar[Trend] = Trend.FLAT

    def breaks(self, column: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        return _points(self.missing, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return _is_missing(b, inputs[0], self.missing)


@container
class MissingBetween(BetweenBounds):
    """Replace the values from ``low`` to ``high``, both included, by NaN (or ``fill``).

    Each column has its own bounds; bounds of NaN leave a column as it is. The bounds are compared
    in x's dtype.
    """

    fill: float = float("nan")

    trends: ClassVar[Trend] = Trend.RISES

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        bounds = np.array([self.low.data[column], self.high.data[column]])
        rounded: npt.NDArray[np.float64] = bounds.astype(self.type.dtype).astype(np.float64)
        # Bounds of NaN hold for no value, so the function does not break there.
        return rounded[~np.isnan(rounded)]

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        low, high = (b.constant(bound, x.dtype) for bound in (self.low, self.high))
        # NaN meets neither bound, so it stays NaN.
        return b.where((x >= low) & (x <= high), b.constant(self.fill, x.dtype), x)


def _points(missing: float, dtype: str) -> npt.NDArray[np.float64]:
    """Return the number that is missing, as it is compared; nothing for NaN."""
    if np.isnan(missing):
        return np.empty(0)
    rounded: npt.NDArray[np.float64] = np.array(
        [missing], dtype if dtype.startswith("float") else np.float64
    )
    return rounded.astype(np.float64)


def _is_missing(b: Builder, x: Value, missing: float) -> Value:
    if np.isnan(missing):
        # No int is NaN: compared with itself it is never unequal, and the result has x's shape.
        return b.op("isnan", x) if x.dtype.startswith("float") else b.op("ne", x, x)
    if x.dtype.startswith("float"):
        return b.op("eq", x, b.constant(missing, x.dtype))
    return b.op("eq", *b.promote(x, b.constant(missing, "float64")))
