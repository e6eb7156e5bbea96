"""Conditions and choices, and marks of what rows may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers.interval import Interval, Trend, union
from hbconv.containers.node import Node, container, one_to_one
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "AreBools",
    "Choose",
    "IsOtherDtype",
    "IsOutside",
    "NoTexts",
    "Not",
    "OnlyNumbers",
    "Relation",
]


@container
class Choose(Node):
    """Take x where the condition holds and y elsewhere, in their common dtype.

    A condition of one column decides for all columns.
    """

    condition: Node
    x: Node
    y: Node

    def narrowed(self, columns: Array) -> Node:
        condition = (
            self.condition if self.condition.type.width == 1 else Select(self.condition, columns)
        )
        return Choose(condition, Select(self.x, columns), Select(self.y, columns))

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return Trend.RISES

    def infer(self) -> Type:
        return Type(self.x.type.width, np.result_type(self.x.type.dtype, self.y.type.dtype).name)

    def interval(self, *inputs: Interval) -> Interval:
        _, x, y = inputs
        return union(x, y)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        condition, x, y = inputs
        return b.where(condition, *b.promote(x, y))


@container
class IsOutside(Node):
    """Test whether ``x < low`` or ``x > high``, column by column: bool.

    It compares in numpy's common dtype of x and the bounds. NaN is not outside.
    """

    x: Node
    low: Array
    high: Array

    @staticmethod
    def of(x: Node, low: npt.ArrayLike, high: npt.ArrayLike) -> IsOutside:
        """Scalars stand for all columns."""
        return IsOutside(
            x, *(Array(np.broadcast_to(numbers(bound), (x.type.width,))) for bound in (low, high))
        )

    def narrowed(self, columns: Array) -> Node:
        return replace(
            self,
            x=Select(self.x, columns),
            low=Array(self.low.data[columns.data]),
            high=Array(self.high.data[columns.data]),
        )

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return Trend.FLAT

    def breaks(self, column: int) -> npt.NDArray[np.float64]:
        return np.array([self.low.data[column], self.high.data[column]], np.float64)

    def infer(self) -> Type:
        return Type(self.x.type.width, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, low, high = b.promote(inputs[0], b.constant(self.low), b.constant(self.high))
        return (x < low) | (x > high)


@container
class NoTexts(Node):
    """Return x itself, and let the host refuse rows that hold texts.

    The source reads a text by rules of its own. In other columns a text is the number that Python
    reads in it.
    """

    x: Node

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns))

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return Trend.RISES

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)


@container
class OnlyNumbers(NoTexts):
    """Return x itself, and let the host refuse rows that hold None or texts.

    The source reads these columns as objects, where None and texts are values that no number can
    stand for. In other columns None is NaN.
    """


@container
class IsOtherDtype(Node):
    """True in every row unless x is of the dtype: the condition of a check.

    The dtype ``"float"`` stands for float32 and float64.
    """

    x: Node
    dtype: str

    @property
    def never(self) -> bool:
        dtype = self.x.type.dtype
        return dtype.startswith("float") if self.dtype == "float" else dtype == self.dtype

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("expand", inputs[0], b.constant([not self.never]))


@container
class Not(Node):
    """The opposite of each bool."""

    x: Node

    def narrowed(self, columns: Array) -> Node:
        return Not(Select(self.x, columns))

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def infer(self) -> Type:
        return Type(self.x.type.width, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("not", inputs[0])


@container
class Relation(Node):
    """Compare two nodes entry by entry, or combine bools: bool.

    Numbers are compared in their common dtype. The relation is ``"lt"``, ``"le"``, ``"gt"``,
    ``"ge"``, ``"eq"`` or ``"ne"``, of bools ``"and"``, ``"or"`` or ``"xor"``.
    """

    x: Node
    y: Node
    relation: str

    decides: ClassVar[bool] = True

    def narrowed(self, columns: Array) -> Node:
        return Relation(Select(self.x, columns), Select(self.y, columns), self.relation)

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return one_to_one(self)

    def check(self) -> str | None:
        known = self.relation in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor")
        return None if known else f"has no relation {self.relation:.50}"

    def infer(self) -> Type:
        return Type(self.x.type.width, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op(self.relation, *b.promote(*inputs))


@container
class AreBools(Node):
    """Whether the columns of x are all bools: the condition of a check.

    The source makes an array of bools of them, which it refuses. The host tells, when it reads the
    rows: programs take bools as ints.
    """

    x: Node

    @property
    def never(self) -> bool:
        return True

    def infer(self) -> Type:
        return Type(1, "bool")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("expand", inputs[0], b.constant([False]))
