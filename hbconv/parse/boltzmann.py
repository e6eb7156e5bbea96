"""BernoulliRBM: probabilities of the hidden units."""

from __future__ import annotations

from hbconv.containers import Node
from hbconv.containers.elementwise import Map
from hbconv.containers.linear import Linear
from hbconv.containers.wiring import Cast
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.neural_network.BernoulliRBM")
def parse_bernoulli_rbm(step: Step) -> Node:
    """Sigmoid of the hidden units' input. ``score_samples`` is left out: it flips an entry of each row at random."""
    est, x = step.estimator, step.require_finite(Cast(step.x, "float"))
    return Map(Linear.of(x, est.components_.T, est.intercept_hidden_), "sigmoid")
