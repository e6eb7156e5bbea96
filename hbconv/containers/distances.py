"""Distances: from each row to constant points, before any root is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Distances"]


@container
class Distances(Node):
    """For each point what the primitive ``pairwise`` folds over the features, in x's dtype (an int x becomes float64).

    Parameters
    ----------
    x : Node
    points : Array, shape (n_points, width)
    kind : str
        Such as ``"square"``: the sum of the squared differences.
    p : float
        The power, of the kind ``"power"``.
    """

    x: Node
    points: Array
    kind: str = "square"
    p: float = 2.0

    @property
    def detail(self) -> str:
        return f"{self.kind} {self.p:g} to {len(self.points)} points" if self.kind == "power" else f"{self.kind} to {len(self.points)} points"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, points=Array(self.points.data[columns.data]))

    def infer(self) -> Type:
        return Type(len(self.points), self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        return b.op("pairwise", x, b.constant(self.points, x.dtype), kind=self.kind, p=self.p)
