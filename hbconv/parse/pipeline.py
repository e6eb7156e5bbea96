"""Meta-estimators that only wire sub-graphs together."""

from __future__ import annotations

from hbconv.containers import Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.pipeline.Pipeline")
def parse_pipeline(step: Step) -> dict[str, Output]:
    """Each step reads what the one before it made; the last gives the methods."""
    x, last = step.x, len(step.estimator.steps) - 1
    for name, estimator in step.estimator.steps[:last]:
        x = x if estimator is None or estimator == "passthrough" else step.transform(estimator, x, name)
    name, estimator = step.estimator.steps[last]
    return {"transform": Output(x)} if estimator is None or estimator == "passthrough" else step.child(estimator, x, name)
