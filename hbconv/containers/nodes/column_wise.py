"""Select columns, and the base of nodes that compute each column alone.

Such a node declares what it is by its fields. From them follow its narrower form, the columns that
it reads, its type and its trend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_type_hints

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers.interval import Interval, Trend
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.schema import Type, as_float

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = [
    "BetweenBounds",
    "ColumnWise",
    "OwnConstants",
    "PerColumn",
    "PerOutput",
    "Select",
    "TablePerColumn",
    "one_to_one",
    "spread_over",
]


@dataclass(frozen=True)
class _Entries:
    """Says of a field that each output column has an entry of its own, along an axis."""

    axis: int


PerColumn = Annotated[Array, _Entries(0)]
"""A constant with an entry, or a row, for each output column."""
PerOutput = Annotated[Array, _Entries(-1)]
"""A constant whose last axis is the output columns, as that of a matrix of weights."""
TablePerColumn = Annotated[tuple[Array, ...], _Entries(0)]
"""A table for each output column."""


@container
class Select(Node):
    """The given columns of x, in the given order."""

    x: Node
    indices: Array

    trends: ClassVar[Trend] = Trend.RISES

    def narrowed(self, columns: Array) -> Node:
        return Select(self.x, Array(self.indices.data[columns.data]))

    @cached_property
    def weak_int(self) -> bool:
        return self.x.weak_int

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return (self.indices.data.astype(np.int32),)

    def infer(self) -> Type:
        return Type(len(self.indices), self.x.type.dtype)

    def check(self) -> str | None:
        fits = self.indices.are_places(self.x.type.width)
        return None if fits else "selects a column that does not exist"

    def interval(self, *inputs: Interval) -> Interval:
        return inputs[0]

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.take(inputs[0], self.indices.data)

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows | None:  # type: ignore[override]
        (rows,) = inputs
        return rows.selected(b, self.indices.data)


class OwnConstants(Node):
    """Base of nodes whose output columns read all of the inputs, each by constants of its own."""

    def narrowed(self, columns: Array) -> Node | None:
        return replace(self, **cut_constants(self, columns))


class ColumnWise(Node):
    """Base of nodes each of whose columns is computed from the same column of the inputs.

    An input of one column serves all columns. Constants that have an entry for each column are
    annotated as ``PerColumn`` or ``TablePerColumn``.
    """

    gives: ClassVar[str] = ""
    """Dtype of the values; empty for that of the first input, and "float" for its float."""

    def narrowed(self, columns: Array) -> Node | None:
        width = self.type.width
        # An input of one column stays whole, since the columns that are left read it too.
        selected = {x: Select(x, columns) for x in self.inputs if x.type.width == width}
        return replace(self.with_inputs(selected), **cut_constants(self, columns))

    def reads(self) -> tuple[npt.NDArray[np.int32], ...] | None:
        return one_to_one(self)

    def infer(self) -> Type:
        first = self.inputs[0].type
        dtype = as_float(first.dtype) if self.gives == "float" else self.gives or first.dtype
        return Type(first.width, dtype)


@container_base
class BetweenBounds(ColumnWise):
    """Base of nodes that compare each column with a low and a high bound of its own."""

    x: Node
    low: PerColumn
    high: PerColumn

    bounds_dtype: ClassVar[str | None] = "float64"
    """Dtype to which bounds of other kinds are converted; None keeps that of the numbers given."""

    @classmethod
    def of(
        cls, x: Node, low: npt.ArrayLike, high: npt.ArrayLike, *others: Any, **named: Any
    ) -> Self:
        """Make the node; scalars stand for all columns, and other fields follow the bounds."""
        bounds = (spread_over(x, bound, cls.bounds_dtype) for bound in (low, high))
        return cls(x, *bounds, *others, **named)


def one_to_one(node: Node) -> tuple[npt.NDArray[np.int32], ...]:
    """Read column by column: an input of one column stands for all."""
    places = np.arange(node.type.width, dtype=np.int32)
    return tuple(places if n.type.width > 1 else np.zeros_like(places) for n in node.inputs)


def cut_constants(node: Node, columns: Array) -> dict[str, Any]:
    """Return the constants of some output columns, by field."""
    return {
        name: _cut(getattr(node, name), columns.data, axis)
        for name, axis in _entry_axes(type(node)).items()  # type: ignore[arg-type]
    }


def _cut(constant: Any, columns: npt.NDArray[np.integer], axis: int) -> Any:
    if isinstance(constant, tuple):
        return tuple(constant[j] for j in columns)
    return Array(constant.data[..., columns] if axis else constant.data[columns])


@cache
def _entry_axes(cls: type[Node]) -> dict[str, int]:
    """Return the axis of the output columns in each constant that has one, by field."""
    hints = get_type_hints(cls, include_extras=True)
    # Annotations are texts, so they are resolved once for each class.
    return {
        name: mark.axis
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, _Entries)
    }


def spread_over(x: Node, constants: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """Return constants with an entry for each column of x; a scalar stands for all columns."""
    return Array(np.broadcast_to(numbers(constants, dtype), (x.type.width,)))
