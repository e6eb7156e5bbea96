"""Linear models, naive Bayes, neural networks and clusters of Spark ML."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from hbconv.containers import (
    VECTOR,
    ArgMax,
    Cast,
    Compare,
    Concat,
    Linear,
    Map,
    Node,
    Output,
    Softmax,
)
from hbconv.parse.common.distance_metrics import squared_distances
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.spark.saved_model import dense_vector
from hbconv.parse.spark.stage import SparkStage, predicted, stage


@stage("LinearRegressionModel")
def read_linear_regression(at: SparkStage) -> None:
    """Predict the product of columns and coefficients, and the intercept."""
    at.frame.answers = {"predict": Output(_product(at), VECTOR)}


@stage("LinearSVCModel")
def read_linear_svc(at: SparkStage) -> None:
    """Compare the margin with the threshold."""
    margin = _product(at)
    at.frame.answers = {
        "predict": predicted(Compare.of(margin, "gt", float(at.get("threshold")), "int32"), 2),
        "raw_scores": Output(Concat((Map(margin, "neg"), margin))),
    }


def _product(at: SparkStage) -> Node:
    weights = at.model.vector("coefficients")
    return Linear.of(at.column(at.inputs()[0]), weights, np.float64(at.model.learned["intercept"]))


@stage("LogisticRegressionModel")
def read_logistic_regression(at: SparkStage) -> None:
    """Take the logistic of one margin, or the softmax of a margin for each class."""
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "Set threshold instead.")
    weights = at.model.matrix("coefficientMatrix")
    margins = Linear.of(at.column(at.inputs()[0]), weights.T, at.model.vector("interceptVector"))
    if at.model.learned["isMultinomial"]:
        _answer_classes(at, margins, Softmax(margins))
        return
    p = Map(margins, "sigmoid")
    least = _margin_of(float(at.get("threshold")))
    at.frame.answers = {
        "predict": predicted(Compare.of(margins, "gt", least, "int32"), 2),
        "predict_proba": Output(beside_complement(p)),
        "raw_scores": Output(Concat((Map(margins, "neg"), margins))),
    }


def _margin_of(share: float) -> float:
    """Return the margin that the threshold of a probability stands for: Spark compares margins."""
    if share in (0.0, 1.0):
        return math.inf if share else -math.inf
    return math.log(share / (1.0 - share))


@stage("NaiveBayesModel")
def read_naive_bayes(at: SparkStage) -> None:
    """Add the logarithms of shares, times counts, to those of the classes."""
    at.require("modelType", "multinomial")
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    theta = at.model.matrix("theta")
    scores = Linear.of(at.column(at.inputs()[0]), theta.T, at.model.vector("pi"))
    x = at.column(at.inputs()[0])
    at.step.check(Compare.of(x, "lt", 0.0), f"Features are negative (step {at.step.where!r}).")
    _answer_classes(at, scores, Softmax(scores))


@stage("MultilayerPerceptronClassificationModel")
def read_perceptron(at: SparkStage) -> None:
    """Pass layers with logistic units; the last one has the softmax.

    The weights of a layer lie by columns of (outputs, inputs), with its offsets behind them.
    """
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    weights = at.model.vector("weights")
    layers = list(at.get("layers"))
    x: Node = at.column(at.inputs()[0])
    start = 0
    for n_inputs, n_outputs in pairwise(layers):
        end = start + n_inputs * n_outputs
        own = weights[start:end].reshape(n_inputs, n_outputs)
        x = Linear.of(Map(x, "sigmoid") if start else x, own, weights[end : end + n_outputs])
        start = end + n_outputs
    _answer_classes(at, x, Softmax(x))


def _answer_classes(at: SparkStage, scores: Node, p: Node) -> None:
    at.frame.answers = {
        "predict": predicted(ArgMax(scores), p.type.width),
        "predict_proba": Output(p),
        "raw_scores": Output(scores),
    }


@stage("KMeansModel")
def read_k_means(at: SparkStage) -> None:
    """Find the nearest centre."""
    at.require("distanceMeasure", "euclidean", None)
    rows = sorted(at.model.rows, key=lambda row: int(row["clusterIdx"]))
    centres = np.array([dense_vector(row["clusterCenter"]) for row in rows])
    distances = squared_distances(at.column(at.inputs()[0]), centres)
    nearest = ArgMax(Map(distances, "neg"))
    at.frame.answers = {"predict": Output(Cast(nearest, "int32"), VECTOR)}
