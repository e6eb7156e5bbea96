"""PairwiseCoupling: probabilities of classes from those between each two of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["PairwiseCoupling"]

SWEEPS = 6
"""Sweeps over the classes at most, and one more than there are classes. The stopping rule is loose: a search for rows of up to
twelve classes that take long found none that needed more than five, nor more than the number of classes and one."""

TOLERANCE = 0.005
"""A row is done when no error exceeds this over the number of classes."""


@container
class PairwiseCoupling(Node):
    """The second method of Wu, Lin and Weng (2004), as libsvm iterates it: p minimizes ``p @ Q @ p``, one class after another.

    Here ``Q[t, t]`` is the sum of the squares of all ``r[j, t]``, and ``Q[t, j] = -r[j, t] * r[t, j]``. A row keeps its
    probabilities from the sweep on where it is done; one that is not done after the last sweep gets NaN.

    Parameters
    ----------
    x : Node
        ``r[i, j]``, the probability of class i where the label is i or j, of the pairs (0, 1), (0, 2), ... (1, 2), ...
    n_classes : int
    """

    x: Node
    n_classes: int

    @property
    def detail(self) -> str:
        return f"{self.n_classes} classes"

    def infer(self) -> Type:
        return Type(self.n_classes, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        k = self.n_classes
        q, diagonal = _quadratic_form(b, x, k)
        moves = b.concat([b.op("expand", x, b.constant(np.c_[np.eye(k), np.ones(k)], x.dtype)), q], axis=1)
        rows = [b.reshape(b.take(moves, [t]), 2 * k + 1) for t in range(k)]
        p = b.op("expand", x, b.constant(np.full(k, 1 / k), x.dtype))
        for _ in range(min(k + 1, SWEEPS)):
            gradient, value, done = _errors(b, q, p)
            p = b.where(done, p, _sweep(b, p, gradient, value, rows, diagonal))
        return b.where(_errors(b, q, p)[2], p, b.constant(np.nan, x.dtype))


def _quadratic_form(b: Builder, x: Value, k: int) -> tuple[Value, Value]:
    """Return Q, and its diagonal."""
    place = np.zeros((k, k), dtype=np.int32)
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        place[i, j], place[j, i] = pair, pair + x.shape[0]
    both = b.concat([x, b.constant(1.0, x.dtype) - x])
    wins = b.reshape(b.take(both, place.ravel()), k, k)
    losses = b.reshape(b.take(both, place.T.ravel()), k, k)
    apart = b.constant(1 - np.eye(k), x.dtype)
    diagonal = b.reduce("reduce_sum", losses * losses * apart, axis=1)
    return b.where(b.constant(np.eye(k, dtype=bool)), b.reshape(diagonal, k, 1), -(losses * wins)), diagonal


def _errors(b: Builder, q: Value, p: Value) -> tuple[Value, Value, Value]:
    """Return ``Q @ p``, ``p @ Q @ p``, and whether they agree."""
    (k,) = p.shape
    gradient = b.reduce("reduce_sum", q * b.reshape(p, 1, k), axis=1)
    value = b.reshape(b.reduce("reduce_sum", p * gradient), 1)
    largest = b.reshape(b.reduce("reduce_max", b.op("abs", gradient - value)), 1)
    return gradient, value, largest < b.constant(TOLERANCE / k, p.dtype)


def _sweep(b: Builder, p: Value, gradient: Value, value: Value, rows: list[Value], diagonal: Value) -> Value:
    """Move one class after another to where its error vanishes; the probabilities are divided by their sum at the end only."""
    (k,) = p.shape
    state = b.concat([p, b.op("expand", p, b.constant([1.0], p.dtype)), gradient])
    for t, row in enumerate(rows):
        ratio = value / b.take(state, [k])
        error = b.take(state, [k + 1 + t])
        step = (ratio - error) / b.take(diagonal, [t])
        value = value + step * (ratio + error)
        state = state + step * row
    return b.take(state, range(k)) / b.take(state, [k])
