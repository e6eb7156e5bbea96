"""NonNegativeWeights: rows as sums of components, none of which is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["NonNegativeWeights"]


@container
class NonNegativeWeights(Node):
    """Find weights ``w >= 0`` of the components in each row, in x's dtype.

    Coordinate descent starts from zero and takes a fixed number of rounds. Each round takes the
    components in order, and moves the weight of each to the minimum of
    ``||x - w @ components||**2 / 2 + l1 * sum(w) + l2 * sum(w**2) / 2``.

    Parameters
    ----------
    components : Array, shape (n_components, width)
    l1, l2 : float
    steps : int
    """

    x: Node
    components: Array
    l1: float
    l2: float
    steps: int

    @property
    def detail(self) -> str:
        return f"{len(self.components)} components  {self.steps} rounds"

    def infer(self) -> Type:
        return Type(len(self.components), self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        components = self.components.data
        start = b.op("expand", x, b.constant(np.zeros(len(components)), x.dtype))
        return b.iterate(
            self.steps,
            start,
            b.matmul(x, b.constant(components.T, x.dtype)) - b.constant(self.l1, x.dtype),
            self._round,
        )

    def _round(self, b: Builder, weights: Value, target: Value) -> Value:
        components = self.components.data
        gram = components @ components.T + self.l2 * np.eye(len(components), dtype=components.dtype)
        for t in np.flatnonzero(np.diag(gram)):
            slope = b.matmul(weights, b.constant(gram[:, [t]], weights.dtype)) - b.take(target, [t])
            moved = b.take(weights, [t]) - slope / b.constant(gram[t, t], weights.dtype)
            is_moved = b.constant(np.arange(len(gram)) == t)
            weights = b.where(
                is_moved, b.op("maximum", moved, b.constant(0.0, weights.dtype)), weights
            )
        return weights
