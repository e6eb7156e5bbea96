"""Rows placed by the neighbours that they have."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import NEAR, fit
from sklearn import manifold


def places() -> Iterator[Case]:
    """Places among the rows fitted on."""
    isomap = partial(Case, "sklearn.manifold.Isomap", rows=NEAR)
    yield isomap("default", fit(manifold.Isomap()))
    near = manifold.Isomap(n_neighbors=8, n_components=3, p=1)
    yield isomap("Manhattan, float32", fit(near, dtype="float32"))
    linear = partial(Case, "sklearn.manifold.LocallyLinearEmbedding", rows=NEAR)
    embed = manifold.LocallyLinearEmbedding
    yield linear("default", fit(embed(n_neighbors=6)))
    for method in ("modified", "hessian", "ltsa"):
        brute = embed(n_neighbors=7, method=method, neighbors_algorithm="brute")
        yield linear(method, fit(brute))
    regularized = embed(n_neighbors=12, n_components=3, reg=0.1)
    yield linear("regularized, float32", fit(regularized, dtype="float32"))


CASES = (*places(),)
