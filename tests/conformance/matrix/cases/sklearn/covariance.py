"""Covariance estimators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import fit
from sklearn import covariance


def covariances() -> Iterator[Case]:
    """Estimators of a covariance matrix."""
    c = covariance
    case = partial(Case, same_as="EmpiricalCovariance")
    yield Case("sklearn.covariance.EmpiricalCovariance", "default", fit(c.EmpiricalCovariance()))
    yield Case(
        "sklearn.covariance.EmpiricalCovariance",
        "precision not stored",
        fit(c.EmpiricalCovariance(store_precision=False, assume_centered=True)),
    )
    relatives = {
        "GraphicalLasso": {"alpha": 0.1, "max_iter": 20},
        "GraphicalLassoCV": {"alphas": [0.1, 0.5], "cv": 2}, "LedoitWolf": {}, "OAS": {},
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


CASES = (*covariances(),)
