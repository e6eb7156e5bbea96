"""Random projections: one matrix product."""

from __future__ import annotations

from hbconv.containers import Cast, Linear, Node, Output, sparse_form
from hbconv.parse.common.linear_scores import dense
from hbconv.parse.inverses import inverts
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


_MOST_INVERTED = 1 << 33
"""Multiplications that inverting the components may take at conversion: some seconds."""


@inverts(
    "sklearn.random_projection.GaussianRandomProjection",
    "sklearn.random_projection.SparseRandomProjection",
    takes_sparse=True,
)
def invert_random_projection(step: Step) -> Node:
    """Multiply by the pseudo-inverse of the components, which gives a dense matrix.

    The source model computes it at each call unless it did so when fitting.
    """
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    if est.compute_inverse_components:
        return Linear.of(x, est.inverse_components_.T)
    rows, columns = est.components_.shape
    if rows * columns * min(rows, columns) > _MOST_INVERTED:
        raise step.refuse(
            "compute_inverse_components",
            False,
            f"Inverting {rows} x {columns} components takes long. Fit it with "
            "compute_inverse_components=True.",
        )
    # A pseudo-inverse by SVD, computed once here.
    return Linear.of(x, est._compute_inverse_components().T)
