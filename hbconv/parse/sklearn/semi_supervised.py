"""Label propagation over the fitted rows, and self-training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    ArgMax,
    ConstantRows,
    GroupSums,
    Labels,
    Linear,
    Map,
    Node,
    Output,
    Quotient,
    WeightedLookup,
)
from hbconv.parse.common.distance_metrics import squared_distances
from hbconv.parse.common.linear_scores import dense
from hbconv.parse.common.members import columns_of_array, pass_on
from hbconv.parse.common.versions import self_trained_classifier
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.search import nearest
from hbconv.parse.step import Step


@parses("sklearn.semi_supervised.SelfTrainingClassifier")
def parse_self_training_classifier(step: Step) -> dict[str, Output]:
    """Predict as the classifier fitted last, which reads one array."""
    x = columns_of_array(step.x, range(step.x.type.width))
    inner = self_trained_classifier(step.estimator)
    return pass_on(step, step.child(inner, x, "estimator_", x_sparse=step.x_sparse))


@parses("sklearn.semi_supervised.LabelPropagation", "sklearn.semi_supervised.LabelSpreading")
def parse_label_propagation(step: Step) -> dict[str, Output]:
    """Sum the label distributions of near rows, and normalize."""
    est = step.estimator
    totals = _totals(step, step.require_finite(), est.label_distributions_)
    shares = Quotient((totals, GroupSums(totals, 1)))
    return {
        "predict": Output(ArgMax(shares), Labels(Array(est.classes_))),
        "predict_proba": Output(shares),
    }


def _totals(step: Step, x: Node, distributions: npt.NDArray[Any]) -> Node:
    """Sum over the nearest rows, or over all rows weighted ``exp(-gamma distance^2)``."""
    est = step.estimator
    if step.require("kernel", "rbf", "knn") == "rbf":
        squares = squared_distances(x, dense(est.X_))
        return Linear.of(Map(Affine.of(squares, mul=-est.gamma), "exp"), distributions)
    neighbors = nearest(step, est.nn_fit, x, est.n_neighbors)
    ones = ConstantRows(neighbors.positions, Array(np.ones(est.n_neighbors)))
    return WeightedLookup(neighbors.positions, ones, Array(distributions))
