"""LightGBM models of SynapseML, whose answers are those of the native library."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Affine, ArgMax, Cast, Concat, Impute, Map, Node, Output
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.lightgbm.estimators import booster_outputs
from hbconv.parse.spark.boosters import read_booster
from hbconv.parse.spark.stage import SparkStage, predicted, stage


@stage("LightGBMRegressionModel", "LightGBMRankerModel")
def read_lightgbm_regressor(at: SparkStage) -> None:
    """Predict what the booster does."""
    answers = _outputs(at)
    n_outputs = answers["predict"].node.type.width
    if n_outputs > 1:
        hint = "Its booster was trained on classes: load it as LightGBMClassificationModel."
        raise at.refuse("lightGBMBooster", f"{n_outputs} classes", hint)
    at.frame.answers = {name: answers[name] for name in answers if name != "raw_scores"}


@stage("LightGBMClassificationModel")
def read_lightgbm_classifier(at: SparkStage) -> None:
    """Put what the booster predicts of one class beside that of the other: 1 - p, and -score."""
    answers = _outputs(at)
    scores = answers["raw_scores"].node
    p = answers["predict"].node
    if scores.type.width == 1:
        scores = Concat((Map(scores, "neg"), scores))
        p = beside_complement(p)
    at.frame.answers = answers | {
        "predict": predicted(_class(at, scores, p), p.type.width),
        "predict_proba": Output(p),
        "raw_scores": Output(scores),
    }


def _outputs(at: SparkStage) -> dict[str, Output]:
    """Return what the booster answers.

    Leaves are the column ``leafPredictionCol``, contributions the column ``featuresShapCol``.
    SynapseML leaves memory as it was in the leaves of trees that are not asked.
    It has too little of it for the contributions to two columns of scores.
    """
    model, all_iterations = read_booster(at.model)
    x = Cast(at.column(at.inputs()[0]), "float64")
    if x.type.width != len(model.names):
        hint = f"The booster was trained on {len(model.names)} features."
        raise at.refuse("featuresCol", f"{at.inputs()[0]} of {x.type.width} columns", hint)
    answers = booster_outputs(x, model)
    if not all_iterations:
        del answers["apply"]
    if answers["predict"].node.type.width == 2:
        answers.pop("contributions", None)
    return answers


def _class(at: SparkStage, scores: Node, p: Node) -> Node:
    """Return the class of the greatest score.

    Thresholds divide probabilities, and without a column of scores these decide too.
    A threshold and a probability of 0 never win.
    """
    thresholds = at.get("thresholds")
    by_probability = bool(at.get("probabilityCol"))
    if not thresholds:
        by_score = bool(at.get("rawPredictionCol")) or not by_probability
        return ArgMax(scores if by_score else p)
    if not by_probability:
        raise at.refuse("thresholds", thresholds, "Name a probabilityCol, which they divide.")
    if len(thresholds) != at.get("actualNumClasses") or len(thresholds) != p.type.width:
        hint = f"SynapseML wants one for each of {at.get('actualNumClasses')} classes."
        raise at.refuse("thresholds", thresholds, hint)
    never = Array(np.full(p.type.width, -np.inf))
    return ArgMax(Impute(Affine.of(p, div=np.array(thresholds, np.float64)), never))
