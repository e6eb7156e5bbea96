"""Partial least squares."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.fitting import fit
from sklearn import (
    cross_decomposition,
)


def least_squares() -> Iterator[Case]:
    """Partial least squares."""
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


CASES = (*least_squares(),)
