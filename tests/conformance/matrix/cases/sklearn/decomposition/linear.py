"""Projections on fixed components."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.fitting import fit
from sklearn import (
    decomposition,
)


def factors() -> Iterator[Case]:
    """Independent components, factors, sparse components."""
    name = "sklearn.decomposition.{}".format
    for whiten in ("unit-variance", "arbitrary-variance", False):
        yield Case(
            name("FastICA"),
            f"whiten {whiten}",
            fit(
                decomposition.FastICA(None if whiten is False else 3, whiten=whiten, random_state=0)
            ),
        )
    yield Case(
        name("FastICA"),
        "fitted on float32",
        fit(decomposition.FastICA(3, random_state=0), dtype="float32"),
    )
    yield Case(
        name("FactorAnalysis"),
        "three factors",
        fit(decomposition.FactorAnalysis(3, random_state=0)),
    )
    yield Case(
        name("FactorAnalysis"),
        "varimax",
        fit(decomposition.FactorAnalysis(2, rotation="varimax", svd_method="lapack")),
    )
    yield Case(
        name("FactorAnalysis"), "all factors", fit(decomposition.FactorAnalysis(random_state=0))
    )
    sparse = decomposition.SparsePCA
    batches = decomposition.MiniBatchSparsePCA
    yield Case(
        name("SparsePCA"),
        "three components",
        fit(sparse(3, max_iter=20, random_state=0)),
    )
    yield Case(
        name("SparsePCA"),
        "more components than features",
        fit(sparse(10, ridge_alpha=1.0, max_iter=5, random_state=0)),
    )
    yield Case(
        name("MiniBatchSparsePCA"),
        "three components",
        fit(batches(3, max_iter=20, random_state=0)),
        same_as="SparsePCA",
    )


def decompositions() -> Iterator[Case]:
    """Projections."""
    d = decomposition
    yield Case("sklearn.decomposition.PCA", "three", fit(d.PCA(3)))
    yield Case(
        "sklearn.decomposition.PCA", "whiten, float32", fit(d.PCA(4, whiten=True), dtype="float32")
    )
    yield Case("sklearn.decomposition.PCA", "all", fit(d.PCA()))
    yield Case(
        "sklearn.decomposition.PCA",
        "whiten, a share",
        fit(d.PCA(0.9, whiten=True, svd_solver="full")),
    )
    yield Case(
        "sklearn.decomposition.IncrementalPCA",
        "whiten",
        fit(d.IncrementalPCA(3, whiten=True)),
        same_as="PCA",
    )
    yield Case(
        "sklearn.decomposition.TruncatedSVD", "three", fit(d.TruncatedSVD(3, random_state=0))
    )
    yield Case(
        "sklearn.decomposition.TruncatedSVD",
        "arpack, float32",
        fit(d.TruncatedSVD(2, algorithm="arpack", random_state=0), dtype="float32"),
    )


CASES = (*factors(), *decompositions())
