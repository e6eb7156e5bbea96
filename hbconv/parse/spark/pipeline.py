"""A model that Spark ML saved: stages that read columns by name, one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import Labels, Output, Schema
from hbconv.parse.checks.damage import reading
from hbconv.parse.registry import parses
from hbconv.parse.spark import features, models, trees
from hbconv.parse.spark.saved_model import SparkModel
from hbconv.parse.spark.stage import STAGES, SparkColumns, SparkStage, reads_of
from hbconv.parse.step import Step, select

__all__ = ["features", "models", "trees"]

_SYNAPSE_LIGHTGBM = "com.microsoft.azure.synapse.ml.lightgbm."
_MADE = ("outputCol", "predictionCol", "probabilityCol", "rawPredictionCol")


def _stages(model: SparkModel) -> tuple[SparkModel, ...]:
    """Return all stages, those of pipelines within pipelines too."""
    if not model.stages:
        return (model,) if model.kind != "PipelineModel" else ()
    return tuple(inner for stage in model.stages for inner in _stages(stage))


def _columns_read(model: SparkModel) -> Schema:
    """Return the columns that stages read and none of them makes; Spark finds them by name."""
    made: set[str] = set()
    names: dict[str, None] = {}
    with reading(model.folder.name, "Save the model anew."):
        for stage in _stages(model):
            names |= dict.fromkeys(name for name in reads_of(stage) if name not in made)
            made |= {stage.get(parameter) for parameter in _MADE}
            made |= set(stage.get("outputCols") or ())
        return Schema.table(list(names))


@parses("hbconv.parse.spark.saved_model.SparkModel", features=_columns_read)
def parse_spark_model(step: Step) -> dict[str, Output]:
    """Read stage after stage; the last model gives the answers, else the last column.

    ``raw_scores`` are Spark's column ``rawPrediction``.
    """
    step.refuse_sparse("finds columns by name")
    names = step.x.schema.names if hasattr(step.x, "schema") else ()
    frame = SparkColumns({name: select(step.x, [place]) for place, name in enumerate(names)})
    prediction = ""
    for model in _stages(step.estimator):
        if model.kind not in STAGES:
            raise step.refuse("stages", model.kind, _way_out(model))
        STAGES[model.kind](SparkStage(model, step, frame))
        prediction = prediction or str(model.get("predictionCol") or "")
    if not frame.answers:
        return {"transform": Output(frame.columns[frame.last])}
    return _named(frame, prediction)


def _way_out(model: SparkModel) -> str:
    """Say what to do about a stage that is not read."""
    if str(model.metadata["class"]).startswith(_SYNAPSE_LIGHTGBM):
        return (
            "Its booster is stored as an object of Java. Call saveNativeModel of the stage, rename "
            "the part file that it writes to model.txt, and convert that file."
        )
    return f"hbconv reads {', '.join(sorted(STAGES))}."


def _named(frame: SparkColumns, prediction: str) -> dict[str, Output]:
    """Replace the numbers of classes by the texts that a later stage names them by."""
    labels = frame.labels.get(prediction)
    if labels is None:
        return frame.answers
    texts = Labels(Array(np.array(labels)))
    return {**frame.answers, "predict": replace(frame.answers["predict"], form=texts)}
