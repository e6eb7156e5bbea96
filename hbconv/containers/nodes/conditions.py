"""Conditions and choices, and marks of what rows may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.containers.interval import Interval, Trend, union
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.column_wise import BetweenBounds, ColumnWise
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "NARROW_DTYPES",
    "AreBools",
    "AreNarrow",
    "Choose",
    "IsOtherDtype",
    "IsOutside",
    "NoTexts",
    "Not",
    "OnlyNumbers",
    "Relation",
]


NARROW_DTYPES = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")
"""Bools, and ints of other types than int64."""


@container
class Choose(ColumnWise):
    """Take x where the condition holds and y elsewhere, in their common dtype.

    A condition of one column decides for all columns.
    """

    condition: Node
    x: Node
    y: Node

    trends: ClassVar[Trend] = Trend.RISES

    def infer(self) -> Type:
        return Type(self.x.type.width, np.result_type(self.x.type.dtype, self.y.type.dtype).name)

    def interval(self, *inputs: Interval) -> Interval:
        _, x, y = inputs
        return union(x, y)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        condition, x, y = inputs
        return b.where(condition, *b.promote(x, y))


@container
class IsOutside(BetweenBounds):
    """Test whether ``x < low`` or ``x > high``, column by column: bool.

    It compares in numpy's common dtype of x and the bounds. NaN is not outside.
    """

    gives: ClassVar[str] = "bool"
    trends: ClassVar[Trend] = Trend.FLAT
    bounds_dtype: ClassVar[str | None] = None

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        return np.array([self.low.data[column], self.high.data[column]], np.float64)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, low, high = b.promote(inputs[0], b.constant(self.low), b.constant(self.high))
        return (x < low) | (x > high)


@container
class NoTexts(ColumnWise):
    """Return x itself, and let the host refuse rows that hold texts.

    The source reads a text by rules of its own. In other columns a text is the number that Python
    reads in it.
    """

    x: Node

    trends: ClassVar[Trend] = Trend.RISES

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)


@container
class OnlyNumbers(NoTexts):
    """Return x itself, and let the host refuse rows that hold None or texts.

    The source reads these columns as objects, where None and texts are values that no number can
    stand for. In other columns None is NaN.
    """


@container_base
class _OfDtype(Node):
    """Base of conditions that dtypes decide alone: True in every row unless ``never``."""

    x: Node

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        # The dtype decides for all rows at once, so the program holds the answer as a constant.
        return b.op("expand", inputs[0], b.constant([not self.never]))


@container
class IsOtherDtype(_OfDtype):
    """True in every row unless x is of the dtype: the condition of a check.

    The dtype ``"float"`` stands for float32 and float64.
    """

    dtype: str

    @property
    def never(self) -> bool:
        dtype = self.x.type.dtype
        return dtype.startswith("float") if self.dtype == "float" else dtype == self.dtype


@container
class Not(ColumnWise):
    """The opposite of each bool."""

    x: Node

    gives: ClassVar[str] = "bool"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("not", inputs[0])


@container
class Relation(ColumnWise):
    """Compare two nodes entry by entry, or combine bools: bool.

    Numbers are compared in their common dtype. The relation is ``"lt"``, ``"le"``, ``"gt"``,
    ``"ge"``, ``"eq"`` or ``"ne"``, of bools ``"and"``, ``"or"`` or ``"xor"``.
    """

    x: Node
    y: Node
    relation: str

    decides: ClassVar[bool] = True
    gives: ClassVar[str] = "bool"

    def check(self) -> str | None:
        exists = self.relation in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor")
        return None if exists else f"has no relation {self.relation:.50}"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op(self.relation, *b.promote(*inputs))


@container
class AreBools(_OfDtype):
    """Whether the columns of x are all bools: the condition of a check.

    The source makes an array of bools of them, which it refuses. The host finds out when it reads
    the rows: programs take bools as ints.
    """

    @property
    def never(self) -> bool:
        return True


@container
class AreNullable(_OfDtype):
    """Whether some columns are of pandas' nullable numbers: the condition of a check.

    pandas computes with them in their own types, and hands NA on. The host finds out when it reads
    the rows: programs take them as float64, and NA as NaN.
    """

    @property
    def never(self) -> bool:
        return True


@container
class AreNarrow(_OfDtype):
    """Whether an array of columns is of bools, or of other ints than int64: a check's condition.

    numpy computes with them in their own types, which wrap around, or in narrow floats. The host
    finds out when it reads the rows: programs take them as int64.

    Parameters
    ----------
    x : Node
        Columns, of which numpy makes one array in their common dtype.
    dtypes : tuple of str
        Types that are refused.
    """

    dtypes: tuple[str, ...] = NARROW_DTYPES

    @property
    def never(self) -> bool:
        return True
