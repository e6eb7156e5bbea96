"""Naive Bayes, discriminant analysis, mixtures, covariances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, target
from sklearn import covariance, discriminant_analysis, mixture, naive_bayes

MODERATE = partial(rows, large=30.0)


def fit(estimator: Any, y: str | None = None, dtype: str = "float64") -> Callable[[], Any]:
    """Return a function that fits the estimator to a target."""
    x = fit_rows().astype(dtype)
    return lambda: estimator.fit(x) if y is None else estimator.fit(x, target(y))


def fit_counts(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator on what is not negative."""
    return lambda: estimator.fit(np.abs(fit_rows()), target(y))


def categories(n: int) -> np.ndarray:
    """Rows of four categories, numbered from zero; a fraction is cut off."""
    rng = np.random.default_rng(n)
    return np.maximum(
        rng.integers(0, 4, (n, 4)) + rng.choice([0.0, 0.75, -0.5], (n, 4)), -0.5
    ).clip(max=3.75)


def fit_categories(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator on categories."""
    return lambda: estimator.fit(categories(200), target(y))


def bayes() -> Iterator[Case]:
    """The five of them."""
    name = "sklearn.naive_bayes.{}".format
    nb = naive_bayes
    yield Case(name("GaussianNB"), "three text", fit(nb.GaussianNB(), "three_text"))
    yield Case(
        name("GaussianNB"),
        "two bool, float32, priors",
        fit(nb.GaussianNB(priors=[0.1, 0.9], var_smoothing=1e-3), "two_bool", "float32"),
    )
    yield Case(name("MultinomialNB"), "three", fit_counts(nb.MultinomialNB(), "three"))
    yield Case(
        name("MultinomialNB"),
        "two text, uniform prior",
        fit_counts(nb.MultinomialNB(alpha=0.1, fit_prior=False), "two_text"),
        rows=MODERATE,
    )
    yield Case(name("ComplementNB"), "three text", fit_counts(nb.ComplementNB(), "three_text"))
    yield Case(name("ComplementNB"), "two, norm", fit_counts(nb.ComplementNB(norm=True), "two"))
    yield Case(
        name("ComplementNB"),
        "one class",
        lambda: nb.ComplementNB().fit(np.abs(fit_rows()), np.ones(200, int)),
    )
    yield Case(name("BernoulliNB"), "three", fit(nb.BernoulliNB(), "three"))
    yield Case(
        name("BernoulliNB"),
        "two, threshold of a tenth",
        fit(nb.BernoulliNB(binarize=0.1, alpha=0.5), "two"),
    )
    yield Case(
        name("BernoulliNB"),
        "not binarized",
        lambda: nb.BernoulliNB(binarize=None).fit(fit_rows() > 0, target("two_text")),
    )
    yield Case(
        name("CategoricalNB"),
        "three text",
        fit_categories(nb.CategoricalNB(), "three_text"),
        rows=categories,
    )
    yield Case(
        name("CategoricalNB"),
        "two, more categories",
        fit_categories(nb.CategoricalNB(min_categories=[4, 5, 6, 9]), "two"),
        rows=categories,
    )


def discriminants() -> Iterator[Case]:
    """Linear and quadratic, by every solver."""
    name = "sklearn.discriminant_analysis.{}".format
    linear, quadratic = (
        discriminant_analysis.LinearDiscriminantAnalysis,
        discriminant_analysis.QuadraticDiscriminantAnalysis,
    )
    predicts = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    yield Case(name("LinearDiscriminantAnalysis"), "three text", fit(linear(), "three_text"))
    yield Case(name("LinearDiscriminantAnalysis"), "two, float32", fit(linear(), "two", "float32"))
    yield Case(
        name("LinearDiscriminantAnalysis"),
        "eigen, one component",
        fit(linear(solver="eigen", shrinkage="auto", n_components=1), "three"),
    )
    yield Case(
        name("LinearDiscriminantAnalysis"),
        "lsqr",
        fit(linear(solver="lsqr", shrinkage=0.1), "two_bool"),
        methods=predicts,
    )
    yield Case(name("QuadraticDiscriminantAnalysis"), "three text", fit(quadratic(), "three_text"))
    yield Case(
        name("QuadraticDiscriminantAnalysis"),
        "two, regularized",
        fit(quadratic(reg_param=0.1, priors=[0.2, 0.8]), "two"),
    )
    yield Case(
        name("QuadraticDiscriminantAnalysis"),
        "eigen, float32",
        fit(quadratic(solver="eigen", shrinkage=0.1), "three", "float32"),
    )


def mixtures() -> Iterator[Case]:
    """Mixtures with covariances of every type."""
    for each in ("GaussianMixture", "BayesianGaussianMixture"):
        make = partial(getattr(mixture, each), n_components=3, random_state=0, max_iter=20)
        case = partial(Case, f"sklearn.mixture.{each}")
        for kind in ("full", "tied", "diag", "spherical"):
            yield case(kind, fit(make(covariance_type=kind)), rows=MODERATE)
        yield case("full, float32", fit(make(), dtype="float32"), rows=MODERATE)
    dirichlet = mixture.BayesianGaussianMixture(
        n_components=2, weight_concentration_prior_type="dirichlet_distribution", random_state=0
    )
    yield Case(
        "sklearn.mixture.BayesianGaussianMixture",
        "dirichlet distribution",
        fit(dirichlet),
        rows=MODERATE,
    )


def covariances() -> Iterator[Case]:
    """Estimators of a covariance matrix."""
    c, case = covariance, partial(Case, same_as="EmpiricalCovariance")
    yield Case("sklearn.covariance.EmpiricalCovariance", "default", fit(c.EmpiricalCovariance()))
    yield Case(
        "sklearn.covariance.EmpiricalCovariance",
        "precision not stored",
        fit(c.EmpiricalCovariance(store_precision=False, assume_centered=True)),
    )
    relatives = {
        "GraphicalLasso": {"alpha": 0.1, "max_iter": 20}, "GraphicalLassoCV": {"alphas": [0.1, 0.5], "cv": 2}, "LedoitWolf": {}, "OAS": {},
        "MinCovDet": {"random_state": 0}, "ShrunkCovariance": {},
    }  # fmt: skip
    for name, settings in relatives.items():
        yield case(f"sklearn.covariance.{name}", "default", fit(getattr(c, name)(**settings)))
    envelope = "sklearn.covariance.EllipticEnvelope"
    yield Case(envelope, "default", fit(c.EllipticEnvelope(random_state=0)))
    yield Case(
        envelope,
        "a third outside, float32",
        fit(c.EllipticEnvelope(contamination=0.3, random_state=0), dtype="float32"),
    )


CASES = (*bayes(), *discriminants(), *mixtures(), *covariances())
