"""Pipeline: each step reads what the one before it made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbconv.containers import Output, Schema
from hbconv.parse.registry import declared_columns, parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step

PASSED_ON = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
)
"""Methods that a pipeline has because its last step does."""


def _columns_of_first(pipeline: Any) -> Sequence[str] | int | Schema | None:
    """Input columns where the first step's parser declares them, or where the pipeline does not show those of a step after ``"passthrough"``."""
    name, first = next(
        ((name, step) for name, step in pipeline.steps if not _passes(step)), ("", None)
    )
    if first is None:
        return None
    is_hidden = hasattr(first, "n_features_in_") and not hasattr(pipeline, "n_features_in_")
    return read_schema(first) if is_hidden else declared_columns(first, name)


@parses("sklearn.pipeline.Pipeline", features=_columns_of_first, takes_sparse=True)
def parse_pipeline(step: Step) -> dict[str, Output]:
    """Pass the value from step to step; the last gives the methods, but for those that a pipeline does not pass on."""
    *before, (name, last) = step.estimator.steps
    output = Output(step.x, sparse=step.sparse, layout="kept", arrays=True)
    for inner, estimator in before:
        output = (
            output
            if _passes(estimator)
            else step.transform_output(estimator, output.node, inner, sparse=output.sparse).after(
                output
            )
        )
    outputs = (
        {"transform": output}
        if _passes(last)
        else step.child(last, output.node, name, sparse=output.sparse)
    )
    return {method: made.after(output) for method, made in outputs.items() if method in PASSED_ON}


def _passes(estimator: object) -> bool:
    return estimator is None or (isinstance(estimator, str) and estimator == "passthrough")
