"""Sums and other reductions of groups of columns: GroupSums, RunningSums, Pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import misfit_of_groups

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["FUNCTIONS", "GroupSums", "Pool", "RunningSums"]


@container
class GroupSums(Node):
    """The sum of each of ``groups`` equal blocks of columns."""

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"of {self.groups} groups"

    def infer(self) -> Type:
        return Type(self.groups, self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reduce(
            "reduce_sum",
            b.reshape(inputs[0], self.groups, self.x.type.width // self.groups),
            axis=1,
        )


@container
class RunningSums(Node):
    """Add up equal blocks of columns: each block becomes the sum of itself and those before it.

    The blocks are added one after another.
    """

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"of {self.groups} groups"

    def infer(self) -> Type:
        return self.x.type

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        return b.reshape(
            b.op("cumsum", b.reshape(inputs[0], self.groups, width // self.groups), axis=0), width
        )


def _median(b: Builder, x: Value) -> Value:
    """Middle of the sorted columns, or the mean of the two that are."""
    width = x.shape[0]
    middle = b.take(b.reduce("sort", x), [(width - 1) // 2, width // 2])
    return b.reduce("reduce_sum", middle) * b.constant(0.5, x.dtype)


FUNCTIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "max": lambda b, x: b.reduce("reduce_max", x),
    "median": _median,
    "min": lambda b, x: b.reduce("reduce_min", x),
    "sum": lambda b, x: b.reduce("reduce_sum", x),
}
"""What a Pool may make of a group."""

_OF_FLOATS = ("median",)


@container
class Pool(Node):
    """A function of each group of columns, in x's dtype; a median of ints is float64."""

    x: Node
    groups: tuple[tuple[int, ...], ...]
    function: str

    @property
    def detail(self) -> str:
        return f"{self.function} of {len(self.groups)} groups"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, groups=tuple(self.groups[j] for j in columns.data))

    def infer(self) -> Type:
        dtype = self.x.type.dtype
        return Type(
            len(self.groups),
            "float64" if self.function in _OF_FLOATS and not dtype.startswith("float") else dtype,
        )

    def check(self) -> str | None:
        width = self.x.type.width
        fits = self.function in FUNCTIONS and all(
            group and min(group) >= 0 and max(group) < width for group in self.groups
        )
        return None if fits else f"pools other columns than the {width} there are"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.concat(
            [b.reshape(FUNCTIONS[self.function](b, b.take(x, group)), 1) for group in self.groups]
        )
