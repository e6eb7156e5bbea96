"""TopicMixture: the topics that a document is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import misfit_of_rounds

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["TopicMixture"]

_EULER = 0.577215664901532860606512090082402431


@container
class TopicMixture(Node):
    """Infer the shares of the topics in each row of counts, in x's dtype.

    This is the variational inference of latent Dirichlet allocation: algorithm 1 of M. Hoffman,
    D. Blei and F. Bach, Online learning for latent Dirichlet allocation (2010). A row is done when
    its topics change by less than ``tolerance`` on average, or after ``steps`` steps.

    Parameters
    ----------
    topics : Array, shape (n_topics, width)
        ``exp(E[log(beta)])``: the weight of each word in each topic.
    prior : float
        Parameter of the Dirichlet distribution of topics over documents.
    tolerance : float
    steps : int
    """

    x: Node
    topics: Array
    prior: float
    tolerance: float
    steps: int

    @property
    def detail(self) -> str:
        return f"{len(self.topics)} topics  at most {self.steps} steps"

    def infer(self) -> Type:
        return Type(len(self.topics), self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_rounds(self.steps, self.topics, self.x.type.width, self.tolerance)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Repeat a step on the state of each row, starting from even weights.

        The state is each topic's weight, its ``exp(E[log(theta)])``, and whether the row is done.
        """
        (x,) = inputs
        even, working = (
            b.op("expand", x, b.constant(values, x.dtype))
            for values in (np.ones(len(self.topics)), np.zeros(1))
        )
        state = b.concat([even, _expected(b, even), working])
        state = b.iterate(self.steps, state, x, self._step) if self.steps else state
        weights = b.take(state, np.arange(len(self.topics)))
        return weights / b.reshape(b.reduce("reduce_sum", weights), 1)

    def _step(self, b: Builder, state: Value, counts: Value) -> Value:
        """Share each word among the topics; a row that is done keeps its state.

        The weight of a topic is the number of words that it gets.
        """
        size = len(self.topics)
        before, theta, is_done = (
            b.take(state, run) for run in np.split(np.arange(2 * size + 1), [size, 2 * size])
        )
        likelihood = b.matmul(theta, b.constant(self.topics, state.dtype)) + b.constant(
            float(np.finfo(state.dtype).eps), state.dtype
        )
        shares = b.matmul(
            counts / likelihood, b.constant(np.ascontiguousarray(self.topics.data.T), state.dtype)
        )
        weights = theta * shares + b.constant(self.prior, state.dtype)
        change = b.reduce("ordered_sum", b.cast(b.op("abs", before - weights), "float64"))
        converged = change / b.constant(float(size), change.dtype) < b.constant(
            self.tolerance, change.dtype
        )
        after = b.concat(
            [weights, _expected(b, weights), b.cast(b.reshape(converged, 1), state.dtype)]
        )
        return b.where(is_done > b.constant(0.0, state.dtype), state, after)


def _expected(b: Builder, weights: Value) -> Value:
    """``exp(psi(weight) - psi(sum of the weights))``."""
    total = b.reshape(b.reduce("ordered_sum", weights), 1)
    psi = _digamma(b, b.concat([weights, total]))
    size = weights.shape[0]
    return b.op("exp", b.take(psi, np.arange(size)) - b.take(psi, [size]))


def _digamma(b: Builder, x: Value) -> Value:
    """Write the derivative of log gamma at positive x, to about nine digits.

    J. Bernardo, Algorithm AS 103 (1976).
    """

    def number(value: float) -> Value:
        return b.constant(value, x.dtype)

    result = b.op("expand", x, b.constant(np.zeros(x.shape), x.dtype))
    shifted = x
    for _ in range(6):
        is_small = shifted < number(6.0)
        result = b.where(is_small, result - number(1.0) / shifted, result)
        shifted = b.where(is_small, shifted + number(1.0), shifted)
    inverse = number(1.0) / shifted
    square = inverse * inverse
    series = square * (number(1 / 12) - square * (number(1 / 120) - square * number(1 / 252)))
    result = result + (b.op("log", shifted) - number(0.5) * inverse) - series
    return b.where(x <= number(1e-6), number(-_EULER) - number(1.0) / x, result)
