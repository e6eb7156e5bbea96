"""A model that Spark ML saved: stages that read columns by name, one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import Labels, Node, Output, Schema
from hbconv.parse.damage import reading
from hbconv.parse.registry import parses
from hbconv.parse.spark import boosters, stages
from hbconv.parse.spark.boosters import BOOSTERS, count_slots
from hbconv.parse.spark.saved_model import STAGES, SparkColumns, SparkModel, SparkStage, reads_of
from hbconv.parse.step import Step, select

__all__ = ["boosters", "stages"]

_MADE = (
    "outputCol",
    "predictionCol",
    "probabilityCol",
    "rawPredictionCol",
    "leafPredictionCol",
    "featuresShapCol",
)


def _stages(model: SparkModel) -> tuple[SparkModel, ...]:
    """Return all stages, those of pipelines within pipelines too."""
    if not model.stages:
        return (model,) if model.kind != "PipelineModel" else ()
    return tuple(inner for stage in model.stages for inner in _stages(stage))


def _names_read(model: SparkModel) -> tuple[str, ...]:
    """Return the columns that stages read and none of them makes."""
    columns_made: set[str] = set()
    names: dict[str, None] = {}
    for stage in _stages(model):
        # A dict keeps the order in which stages read the columns, and each once.
        names |= dict.fromkeys(name for name in reads_of(stage) if name not in columns_made)
        columns_made |= {stage.get(parameter) for parameter in _MADE}
        columns_made |= set(stage.get("outputCols") or ())
    return tuple(names)


def _booster_of_vectors(model: SparkModel) -> SparkModel | None:
    """Return the booster that reads a vector which no stage makes, where that is all that is read.

    Rows are this vector then.
    """
    names = list(_names_read(model))
    # The booster must be the only reader of the input: otherwise rows are named columns.
    alone = (s for s in _stages(model) if s.kind in BOOSTERS and reads_of(s) == names)
    return next(alone, None)


def _columns_read(model: SparkModel) -> Schema:
    """Return the columns of the input, which Spark finds by name, or the slots of a vector."""
    with reading(model.folder.name, "Save the model again."):
        booster = _booster_of_vectors(model)
        if booster:
            return Schema.matrix(count_slots(booster))
        return Schema.table(_names_read(model))


def _columns(step: Step) -> dict[str, Node]:
    """Return the input as named columns, or as one vector."""
    names = _names_read(step.estimator)
    if _booster_of_vectors(step.estimator):
        return {names[0]: step.x}
    return {name: select(step.x, [place]) for place, name in enumerate(names)}


@parses("hbconv.parse.spark.saved_model.SparkModel", features=_columns_read)
def parse_spark_model(step: Step) -> dict[str, Output]:
    """Read stage after stage; the last model gives the answers, else the last column.

    ``raw_scores`` are Spark's column ``rawPrediction``.
    """
    step.refuse_sparse("finds columns by name")
    frame = SparkColumns(_columns(step))
    prediction = ""
    for model in _stages(step.estimator):
        # Refused when it is met, so that the message names the first stage that is not read.
        if model.kind not in STAGES:
            hint = f"hbconv reads {', '.join(sorted(STAGES))}."
            raise step.refuse("stages", model.kind, hint)
        STAGES[model.kind](SparkStage(model, step, frame))
        prediction = prediction or str(model.get("predictionCol") or "")
    if not frame.answers:
        return {"transform": Output(frame.columns[frame.last])}
    return _name_classes(frame, prediction)


def _name_classes(frame: SparkColumns, prediction: str) -> dict[str, Output]:
    """Replace the numbers of classes by the texts that a later stage names them by."""
    labels = frame.labels.get(prediction)
    if labels is None:
        return frame.answers
    texts = Labels(Array(np.array(labels)))
    return {**frame.answers, "predict": replace(frame.answers["predict"], form=texts)}
