"""Bins: the interval that a value falls in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type
from hbconv.containers.wiring import Select

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Bins"]


@container
class Bins(Node):
    """How many of its column's edges each value reaches (``edge <= x``), as a number of x's dtype (an int x becomes float64).

    Edges are (width, m), ascending, padded with NaN; they are compared in numpy's common dtype of x and the edges.
    """

    x: Node
    edges: Array

    finite: ClassVar[str] = "always"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, x=Select(self.x, columns), edges=Array(self.edges.data[columns.data]))

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64")

    def check(self) -> str | None:
        return None if self.edges.ascends else "its edges do not ascend"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, edges = b.promote(b.cast(inputs[0], self.type.dtype), b.constant(self.edges))
        return b.cast(b.op("bucketize", x, edges, right=True), self.type.dtype)
