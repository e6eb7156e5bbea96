"""Local outlier factor: the density around a row, beside that around its neighbours."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    Cast,
    CastLike,
    Choose,
    Compare,
    ConstantRows,
    GroupSums,
    LookupRows,
    Map,
    Maximum,
    Node,
    Output,
    Quotient,
)
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.search import Neighbors, finite_rows, kneighbors, nearest
from hbconv.parse.step import Step


@parses("sklearn.neighbors.LocalOutlierFactor")
def parse_local_outlier_factor(step: Step) -> dict[str, Output]:
    """Score new rows, where the model was fitted with ``novelty=True``."""
    est = step.estimator
    if not est.novelty:
        raise step.refuse(
            "novelty", est.novelty, "It scores no new rows: fit it with novelty=True."
        )
    scores = _scores(step, nearest(step, est, finite_rows(step), est.n_neighbors_))
    decision = Affine.of(scores, sub=est.offset_)
    inlier, outlier = (ConstantRows(decision, Array(np.array([label]))) for label in (1, -1))
    outputs = {
        "predict": Output(Choose(Compare.of(decision, "lt", 0.0), outlier, inlier), VECTOR),
        "decision_function": Output(decision, VECTOR),
        "score_samples": Output(scores, VECTOR),
    }
    # With more neighbors than rows the scores take all rows, and the source refuses the others.
    if est.n_neighbors <= est.n_samples_fit_:
        outputs |= kneighbors(step).outputs(est.n_samples_fit_)
    return outputs


def _scores(step: Step, neighbors: Neighbors) -> Node:
    """Return minus the mean density of the neighbours, divided by the density of the row.

    A density is one by the mean distance; each distance is at least the neighbour's reach.
    Distances have the dtype of float rows.
    """
    est = step.estimator
    count = neighbors.positions.type.width
    distances = CastLike(neighbors.distances, Cast(step.x, "float"))
    reach = LookupRows(neighbors.positions, Array(est._distances_fit_X_[:, count - 1 : count]))
    mean = Affine.of(GroupSums(Maximum((distances, reach)), 1), div=count, add=1e-10)
    own = Map(mean, "reciprocal")
    densities = LookupRows(neighbors.positions, Array(est._lrd[:, None]))
    return Affine.of(GroupSums(Quotient((densities, own)), 1), div=count, mul=-1.0)
