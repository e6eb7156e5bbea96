"""Random projections."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.fitting import fit
from sklearn import (
    random_projection,
)


def random_projections() -> Iterator[Case]:
    """Random projections."""
    name = "sklearn.random_projection.{}".format
    yield Case(
        name("GaussianRandomProjection"),
        "three",
        fit(random_projection.GaussianRandomProjection(3, random_state=0)),
    )
    yield Case(
        name("SparseRandomProjection"),
        "three",
        fit(random_projection.SparseRandomProjection(3, random_state=0)),
        same_as="GaussianRandomProjection",
    )


CASES = (*random_projections(),)
