"""Random projections: one matrix product."""

from __future__ import annotations

from hbconv.containers import Cast, Linear, Output, sparse_form
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses(
    "sklearn.random_projection.GaussianRandomProjection",
    "sklearn.random_projection.SparseRandomProjection",
)
def parse_random_projection(step: Step) -> dict[str, Output]:
    """Project rows.

    Sparse rows with sparse components stay sparse unless ``dense_output``.
    """
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    stays_sparse = hasattr(est.components_, "toarray") and not est.dense_output
    projected = Linear.of(x, dense(est.components_).T)
    return {"transform": Output(projected, sparse_form(stays_sparse and step.x_sparse, "given"))}
