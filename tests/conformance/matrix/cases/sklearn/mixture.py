"""Mixtures of normal distributions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import MODERATE, fit
from sklearn import mixture


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


CASES = (*mixtures(),)
