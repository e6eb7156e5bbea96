"""Nearest centroid: the nearest class, or the likeliest by its distance.

NeighborhoodComponentsAnalysis: a learned projection.
"""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    Distances,
    Labels,
    Linear,
    Map,
    Node,
    Output,
)
from hbconv.parse.common.distance_metrics import read_metric
from hbconv.parse.common.linear_scores import below_largest, classify
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.neighbors.NearestCentroid")
def parse_nearest_centroid(step: Step) -> dict[str, Output]:
    """Return the class of the nearest centroid, weighed by unequal priors.

    Probabilities come with the Euclidean metric only.
    """
    est = step.estimator
    x = step.require_finite()
    classes = Array(est.classes_)
    metric = step.require("metric", "euclidean", "manhattan")
    scores = _scores(step, x, metric)
    nearest = np.isclose(est.class_prior_, 1 / len(classes)).all()
    near = Map(read_metric(step, x, est.centroids_, metric, {}).node, "neg") if nearest else scores
    predict = {"predict": Output(ArgMax(near), Labels(classes))}
    if metric == "manhattan":
        return predict
    two = len(classes) == 2
    decision = Linear.of(scores, np.array([-1.0, 1.0])) if two else scores
    return {
        **classify(below_largest(scores), est.classes_),
        **predict,
        "decision_function": Output(decision, VECTOR if two else MATRIX),
    }


def _scores(step: Step, x: Node, metric: str) -> Node:
    """Return ``2 log(prior) - distance^2``, columns divided by their spread within the classes."""
    est = step.estimator
    spread = np.where(est.within_class_std_dev_ == 0, 1.0, est.within_class_std_dev_)
    scaled = Affine.of(Cast(x, "float64"), div=spread)
    squares: Node = Distances(
        scaled, Array(est.centroids_ / spread), "square" if metric == "euclidean" else "absolute"
    )
    squares = squares if metric == "euclidean" else Map(squares, "square")
    with np.errstate(divide="ignore"):
        return Affine.of(squares, mul=-1.0, add=2.0 * np.log(est.class_prior_))


@parses("sklearn.neighbors.NeighborhoodComponentsAnalysis")
def parse_neighborhood_components(step: Step) -> Node:
    """Project on the components."""
    return Linear.of(step.require_finite(), step.estimator.components_.T)
