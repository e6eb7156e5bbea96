"""TriangularSolution: rows that a triangular matrix maps to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TriangularSolution"]


@container
class TriangularSolution(Node):
    """``solve(lower, x.T).T`` in float64: the rows v for which ``v @ lower.T`` is x.

    A product with the inverse loses digits by the condition of the matrix: the deviations of a
    process beside its fitted rows lost all of them. One step of iterative refinement has the error
    of a substitution (Skeel, 1980): they are as near to the source's as its own are when its rows
    are fitted in another order. So it is no Linear, of which a rule would make one product.
    """

    x: Node
    triangle: Array

    @property
    def detail(self) -> str:
        return f"of {len(self.triangle)} rows"

    def check(self) -> str | None:
        width = self.x.type.width
        fits = self.triangle.shape == (width, width)
        return None if fits else f"has a matrix of shape {self.triangle.shape}"

    def infer(self) -> Type:
        return Type(len(self.triangle), "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        inverse = b.constant(np.linalg.inv(self.triangle.data).T)
        first = b.matmul(x, inverse)
        rest = x - b.matmul(first, b.constant(self.triangle.data.T))
        return first + b.matmul(rest, inverse)
