"""PairwiseCoupling: probabilities of classes from those between each two of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.counts import misfit_of_pairs
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["PairwiseCoupling"]

SWEEPS = 100
"""Largest number of sweeps over the classes, if there are not more classes.

The stopping rule is loose: few rows need more than three.
"""

TOLERANCE = 0.005
"""A row is done when no error exceeds this over the number of classes."""


@container
class PairwiseCoupling(Node):
    """Couple the probabilities of pairs of classes into probabilities of classes.

    This is the second method of Wu, Lin and Weng (2004), as libsvm iterates it: p minimizes
    ``p @ Q @ p``, one class after another. Here ``Q[t, t]`` is the sum of the squares of all
    ``r[j, t]``, and ``Q[t, j] = -r[j, t] * r[t, j]``. A row that is done keeps its probabilities.

    Parameters
    ----------
    x : Node
        ``r[i, j]``, the probability of class i where the label is i or j, of the pairs (0, 1),
        (0, 2), ... (1, 2), ...
    n_classes : int
    """

    x: Node
    n_classes: int

    @property
    def detail(self) -> str:
        return f"{self.n_classes} classes"

    def infer(self) -> Type:
        return Type(self.n_classes, self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_pairs(self.n_classes, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        k = self.n_classes
        q = _quadratic_form(b, x, k)
        start = b.op("expand", x, b.constant(np.full(k, 1 / k), x.dtype))
        return b.iterate(max(SWEEPS, k), start, b.reshape(q, k * k), _sweep_unless_done)


def _sweep_unless_done(b: Builder, p: Value, form: Value) -> Value:
    (k,) = p.shape
    q = b.reshape(form, k, k)
    gradient, value, done = _errors(b, q, p)
    return b.where(done, p, _sweep(b, p, gradient, value, q))


def _quadratic_form(b: Builder, x: Value, k: int) -> Value:
    """Return Q."""
    place = np.zeros((k, k), dtype=np.int32)
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        place[i, j] = pair
        place[j, i] = pair + x.shape[0]
    both = b.concat([x, b.constant(1.0, x.dtype) - x])
    wins = b.reshape(b.take(both, place.ravel()), k, k)
    losses = b.reshape(b.take(both, place.T.ravel()), k, k)
    apart = b.constant(1 - np.eye(k), x.dtype)
    diagonal = b.reduce("reduce_sum", losses * losses * apart, axis=1)
    return b.where(b.constant(np.eye(k, dtype=bool)), b.reshape(diagonal, k, 1), -(losses * wins))


def _errors(b: Builder, q: Value, p: Value) -> tuple[Value, Value, Value]:
    """Return ``Q @ p``, ``p @ Q @ p``, and whether they agree."""
    (k,) = p.shape
    gradient = b.reduce("reduce_sum", q * b.reshape(p, 1, k), axis=1)
    value = b.reshape(b.reduce("reduce_sum", p * gradient), 1)
    largest = b.reshape(b.reduce("reduce_max", b.op("abs", gradient - value)), 1)
    return gradient, value, largest < b.constant(TOLERANCE / k, p.dtype)


def _sweep(b: Builder, p: Value, gradient: Value, value: Value, q: Value) -> Value:
    """Move one class after another to where its error vanishes.

    The probabilities are divided by their sum only at the end.
    """
    (k,) = p.shape
    moves = b.concat(
        [b.op("expand", p, b.constant(np.c_[np.eye(k), np.ones(k)], p.dtype)), q], axis=1
    )
    state = b.concat([p, b.op("expand", p, b.constant([1.0], p.dtype)), gradient])
    for t in range(k):
        row = b.reshape(b.take(moves, [t]), 2 * k + 1)
        ratio = value / b.take(state, [k])
        error = b.take(state, [k + 1 + t])
        step = (ratio - error) / b.take(row, [k + 1 + t])
        value = value + step * (ratio + error)
        state = state + step * row
    return b.take(state, range(k)) / b.take(state, [k])
