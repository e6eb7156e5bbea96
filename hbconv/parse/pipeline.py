"""Pipeline: each step reads what the one before it made."""

from __future__ import annotations

from hbconv.containers import Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

PASSED_ON = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples")
"""Methods that a pipeline has because its last step does."""


@parses("sklearn.pipeline.Pipeline")
def parse_pipeline(step: Step) -> dict[str, Output]:
    """Pass the value from step to step; the last gives the methods, but for those that a pipeline does not pass on."""
    *before, (name, last) = step.estimator.steps
    output = Output(step.x, sparse=step.sparse)
    for inner, estimator in before:
        output = output if _passes(estimator) else step.transform_output(estimator, output.node, inner, sparse=output.sparse)
    outputs = {"transform": output} if _passes(last) else step.child(last, output.node, name, sparse=output.sparse)
    return {method: made for method, made in outputs.items() if method in PASSED_ON}


def _passes(estimator: object) -> bool:
    return estimator is None or (isinstance(estimator, str) and estimator == "passthrough")
