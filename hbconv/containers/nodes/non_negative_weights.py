"""NonNegativeWeights: rows as sums of components, none of which is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.counts import misfit_of_rounds
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["NonNegativeWeights"]


@container
class NonNegativeWeights(Node):
    """Find weights ``w >= 0`` of the components in each row, in x's dtype.

    Coordinate descent starts from zero. Each round takes the components in order, and moves the
    weight of each to the minimum of
    ``||x - w @ components||**2 / 2 + l1 * sum(w) + l2 * sum(w**2) / 2``.

    The violation of a round is the sum of the slopes that it met, without those that push a weight
    of zero below zero. A row is done when its violation is at most ``tolerance`` times that of its
    first round, or after ``steps`` rounds.

    Parameters
    ----------
    components : Array, shape (n_components, width)
    l1, l2 : float
    tolerance : float
    steps : int
    """

    x: Node
    components: Array
    l1: float
    l2: float
    tolerance: float
    steps: int

    @property
    def detail(self) -> str:
        return f"{len(self.components)} components  at most {self.steps} rounds"

    @property
    def alone(self) -> bool:
        """The source model adds up the violations of all rows, and stops them together."""
        return self.tolerance > 0

    def infer(self) -> Type:
        return Type(len(self.components), self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_rounds(self.steps, self.components, self.x.type.width, self.tolerance)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Repeat a round on the state of each row.

        The state is the weights, the violation of the first round, which is -1 before it, and
        whether the row is done.
        """
        (x,) = inputs
        components = self.components.data
        size = len(components)
        start = b.op("expand", x, b.constant([*np.zeros(size), -1.0, 0.0], x.dtype))
        target = b.matmul(x, b.constant(components.T, x.dtype)) - b.constant(self.l1, x.dtype)
        state = b.iterate(self.steps, start, target, self._round)
        return b.take(state, np.arange(size))

    def _round(self, b: Builder, state: Value, target: Value) -> Value:
        size = len(self.components)
        weights, first, is_done = (
            b.take(state, run) for run in np.split(np.arange(size + 2), [size, size + 1])
        )
        weights, violation = self._descend(b, weights, target)
        first = b.where(first < b.constant(0.0, first.dtype), violation, first)
        after = b.concat([weights, first, b.cast(self._stops(b, violation, first), state.dtype)])
        return b.where(is_done > b.constant(0.0, state.dtype), state, after)

    def _descend(self, b: Builder, weights: Value, target: Value) -> tuple[Value, Value]:
        """Move each weight once; return the weights and the violation."""
        components = self.components.data
        gram = components @ components.T + self.l2 * np.eye(len(components), dtype=components.dtype)
        zero = b.constant(0.0, weights.dtype)
        violation = b.constant([0.0], weights.dtype)
        for t in range(len(gram)):
            weight = b.take(weights, [t])
            slope = b.matmul(weights, b.constant(gram[:, [t]], weights.dtype)) - b.take(target, [t])
            kept = b.where(b.op("eq", weight, zero), b.op("minimum", slope, zero), slope)
            violation = violation + b.op("abs", kept)
            if gram[t, t] != 0:
                moved = weight - slope / b.constant(gram[t, t], weights.dtype)
                is_moved = b.constant(np.arange(len(gram)) == t)
                weights = b.where(is_moved, b.op("maximum", moved, zero), weights)
        return weights, violation

    def _stops(self, b: Builder, violation: Value, first: Value) -> Value:
        """Tell whether a violation is small beside the first; the quotient is of float64."""
        share = b.cast(violation, "float64") / b.cast(first, "float64")
        is_small = share <= b.constant(self.tolerance, share.dtype)
        return is_small | b.op("eq", first, b.constant(0.0, first.dtype))
