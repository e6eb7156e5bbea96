"""NeighborhoodComponentsAnalysis: a learned projection."""

from __future__ import annotations

from hbconv.containers import Linear, Node
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.neighbors.NeighborhoodComponentsAnalysis")
def parse_neighborhood_components(step: Step) -> Node:
    """Project on the components."""
    return Linear.of(step.require_finite(), step.estimator.components_.T)
