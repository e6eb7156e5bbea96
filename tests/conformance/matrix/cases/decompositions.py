"""Decompositions, random projections, and what is fitted on few rows again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, target
from sklearn import (
    cross_decomposition,
    decomposition,
    linear_model,
    neural_network,
    random_projection,
)

MODERATE = partial(rows, large=30.0)


def fit(estimator: Any, y: str | None = None, dtype: str = "float64") -> Callable[[], Any]:
    """Return a function that fits the estimator."""
    return lambda: estimator.fit(fit_rows().astype(dtype), None if y is None else target(y))


def ask_rows(estimator: Any, method: str, x: Any) -> Any:
    """Ask the source, which returns a vector for a single row."""
    return getattr(estimator, method)(x).reshape(len(x), -1)


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
    sparse, batches = decomposition.SparsePCA, decomposition.MiniBatchSparsePCA
    yield Case(
        name("SparsePCA"),
        "three components",
        fit(sparse(3, max_iter=20, random_state=0)),
        ask=ask_rows,
    )
    yield Case(
        name("SparsePCA"),
        "more components than features",
        fit(sparse(10, ridge_alpha=1.0, max_iter=5, random_state=0)),
        ask=ask_rows,
    )
    yield Case(
        name("MiniBatchSparsePCA"),
        "three components",
        fit(batches(3, max_iter=20, random_state=0)),
        ask=ask_rows,
        same_as="SparsePCA",
    )


def projections() -> Iterator[Case]:
    """Partial least squares, Boltzmann machines, random projections, consensus."""
    name = "sklearn.cross_decomposition.{}".format
    for each in ("PLSRegression", "PLSCanonical", "CCA"):
        estimator = getattr(cross_decomposition, each)
        same_as = "" if each == "PLSRegression" else "PLSRegression"
        yield Case(name(each), "two targets", fit(estimator(2), "values"), same_as=same_as)
        yield Case(
            name(each),
            "one target, not scaled",
            fit(estimator(1, scale=False), "value"),
            same_as=same_as,
        )
    yield Case(name("PLSSVD"), "two targets", fit(cross_decomposition.PLSSVD(2), "values"))
    yield Case(
        name("PLSSVD"),
        "one target, not scaled",
        fit(cross_decomposition.PLSSVD(1, scale=False), "value"),
    )
    machine = neural_network.BernoulliRBM(3, n_iter=3, random_state=0)
    yield Case(
        "sklearn.neural_network.BernoulliRBM", "three units", fit(machine), methods=("transform",)
    )
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
    name = "sklearn.linear_model.RANSACRegressor"
    yield Case(name, "linear", fit(linear_model.RANSACRegressor(random_state=0), "value"))
    yield Case(
        name,
        "two targets",
        fit(
            linear_model.RANSACRegressor(linear_model.Ridge(), min_samples=20, random_state=0),
            "values",
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


def positive(n: int) -> np.ndarray:
    """Rows without negative numbers."""
    return np.abs(rows(n, large=300.0))


def fit_positive(estimator: Any, dtype: str = "float64") -> Callable[[], Any]:
    """Return a function that fits the estimator on numbers that are not negative."""
    return lambda: estimator.fit(np.abs(fit_rows()).astype(dtype))


def topics() -> Iterator[Case]:
    """Topics: rows stop when they change little; in float32, where rounding moves that step, all take the same number of steps."""
    case, model = (
        partial(Case, "sklearn.decomposition.LatentDirichletAllocation", rows=positive),
        partial(decomposition.LatentDirichletAllocation, max_iter=3),
    )
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


def weights() -> Iterator[Case]:
    """Non-negative factors: all rounds, whatever the other rows are."""
    case, model = (
        partial(Case, "sklearn.decomposition.NMF", rows=positive, dtypes=("float64",)),
        partial(decomposition.NMF, init="nndsvd", tol=0),
    )
    yield case("three components", fit_positive(model(3, max_iter=60)))
    yield case(
        "fitted on float32", fit_positive(model(3, max_iter=60), "float32"), dtypes=("float32",)
    )
    yield case("penalties", fit_positive(model(4, alpha_W=0.01, l1_ratio=0.3, max_iter=30)))
    yield case(
        "more components than features",
        fit_positive(model(10, init="random", random_state=0, max_iter=20)),
    )


CASES = (*factors(), *projections(), *coders(), *topics(), *weights())
