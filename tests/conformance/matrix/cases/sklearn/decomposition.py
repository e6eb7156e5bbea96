"""Projections on fixed components, kernels, non-negative factors, topics and sparse codes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows
from matrix.fitting import MODERATE, fit, fit_positive, positive_rows
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows
from sklearn import (
    decomposition,
)
from sources import ask


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


def components() -> Iterator[Case]:
    """Principal components of kernels."""
    pca = decomposition.KernelPCA
    case = partial(Case, "sklearn.decomposition.KernelPCA", rows=MODERATE)
    yield case("rbf", fit_few(pca(3, kernel="rbf", random_state=0)))
    yield case(
        "poly, all components",
        fit_few(
            pca(kernel="poly", gamma=0.001, degree=2, eigen_solver="dense", remove_zero_eig=True)
        ),
    )
    yield case("cosine, float32", fit_few(pca(3, kernel="cosine"), dtype="float32"))
    yield case(
        "precomputed", fit_few(pca(3, kernel="precomputed"), make=kernel_of), rows=kernel_rows
    )


def ask_alone(estimator: Any, method: str, x: Any) -> Any:
    """Ask for one row after another, since the source stops all rows of a call together."""
    cut = getattr(x, "iloc", x)
    return np.concatenate([ask(estimator, method, cut[i : i + 1]) for i in range(x.shape[0])])


def weights() -> Iterator[Case]:
    """Non-negative factors: all rounds, whatever the other rows are."""
    case = partial(
        Case, "sklearn.decomposition.NMF", rows=positive_rows, ask=ask_alone, dtypes=("float64",)
    )
    model = partial(decomposition.NMF, init="nndsvd", tol=0)
    yield case("three components", fit_positive(model(3, max_iter=60)))
    yield case(
        "fitted on float32", fit_positive(model(3, max_iter=60), "float32"), dtypes=("float32",)
    )
    yield case("penalties", fit_positive(model(4, alpha_W=0.01, l1_ratio=0.3, max_iter=30)))
    yield case(
        "more components than features",
        fit_positive(model(10, init="random", random_state=0, max_iter=20)),
    )


def topics() -> Iterator[Case]:
    """Topics: rows stop when they change little; in float32, where rounding moves that step,
    all take the same number of steps.
    """
    case = partial(Case, "sklearn.decomposition.LatentDirichletAllocation", rows=positive_rows)
    model = partial(decomposition.LatentDirichletAllocation, max_iter=3)
    yield case("three topics", fit_positive(model(3, random_state=0)))
    yield case(
        "online, many steps",
        fit_positive(
            model(
                4,
                learning_method="online",
                mean_change_tol=1e-9,
                max_doc_update_iter=300,
                random_state=0,
            )
        ),
    )
    yield case(
        "few steps",
        fit_positive(
            model(
                2, doc_topic_prior=1e-7, mean_change_tol=0.0, max_doc_update_iter=3, random_state=0
            )
        ),
    )
    yield case(
        "fitted on float32",
        fit_positive(
            model(3, mean_change_tol=0.0, max_doc_update_iter=30, random_state=0), "float32"
        ),
    )


def coders() -> Iterator[Case]:
    """Sparse codes."""
    atoms = fit_rows()[:12] / np.linalg.norm(fit_rows()[:12], axis=1, keepdims=True)
    case = partial(Case, "sklearn.decomposition.SparseCoder", rows=MODERATE)
    yield case(
        "pursuit of three",
        lambda: decomposition.SparseCoder(atoms, transform_n_nonzero_coefs=3).fit(fit_rows()),
    )
    yield case(
        "one atom, split", lambda: decomposition.SparseCoder(atoms, split_sign=True).fit(fit_rows())
    )
    yield case(
        "threshold",
        lambda: decomposition.SparseCoder(
            atoms, transform_algorithm="threshold", transform_alpha=0.5
        ).fit(fit_rows()),
    )
    for algorithm, settings in {
        "lars": {"transform_n_nonzero_coefs": 3},
        "lasso_cd": {"transform_alpha": 0.2, "positive_code": True},
    }.items():
        yield case(
            algorithm,
            fit(decomposition.SparseCoder(atoms, transform_algorithm=algorithm, **settings)),
            dtypes=("float64", "float32") if algorithm == "lars" else ("float64",),
        )
    learn = partial(decomposition.DictionaryLearning, 6, max_iter=5, random_state=0)
    case = partial(Case, "sklearn.decomposition.DictionaryLearning", rows=MODERATE)
    yield case("pursuit", fit(learn(transform_n_nonzero_coefs=2)))
    yield case(
        "positive threshold, split",
        fit(
            learn(
                transform_algorithm="threshold",
                positive_code=True,
                split_sign=True,
                fit_algorithm="cd",
            )
        ),
    )
    yield case("fitted on float32", fit(learn(transform_algorithm="threshold"), dtype="float32"))
    batches = decomposition.MiniBatchDictionaryLearning(
        6, max_iter=5, transform_n_nonzero_coefs=2, random_state=0
    )
    yield Case(
        "sklearn.decomposition.MiniBatchDictionaryLearning",
        "pursuit",
        fit(batches),
        rows=MODERATE,
        same_as="DictionaryLearning",
    )


CASES = (
    *factors(),
    *decompositions(),
    *components(),
    *weights(),
    *topics(),
    *coders(),
)
