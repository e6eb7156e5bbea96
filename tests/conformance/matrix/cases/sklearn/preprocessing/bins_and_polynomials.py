"""Bins, polynomials and splines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows
from matrix.fitting import MODERATE, Entries, fit, known
from sklearn import preprocessing
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    SplineTransformer,
)


def features() -> Iterator[Case]:
    """Polynomials and bins."""
    name = "sklearn.preprocessing.{}".format
    p = preprocessing
    yield Entries(name("PolynomialFeatures"), "2", fit(p.PolynomialFeatures(2)))
    yield Entries(
        name("PolynomialFeatures"),
        "3, interactions",
        fit(p.PolynomialFeatures(3, interaction_only=True)),
    )
    yield Entries(
        name("PolynomialFeatures"),
        "2 ... 3, no bias",
        fit(p.PolynomialFeatures((2, 3), include_bias=False)),
    )
    bins = partial(p.KBinsDiscretizer, subsample=None, random_state=0)
    averaged = known(bins, strategy="quantile", quantile_method="averaged_inverted_cdf")
    yield Entries(name("KBinsDiscretizer"), "one-hot, quantile", fit(averaged(4)))
    yield Entries(
        name("KBinsDiscretizer"),
        "ordinal, uniform",
        fit(bins(5, encode="ordinal", strategy="uniform")),
    )
    yield Entries(
        name("KBinsDiscretizer"),
        "dense, kmeans",
        fit(bins(3, encode="onehot-dense", strategy="kmeans")),
    )
    yield Entries(
        name("KBinsDiscretizer"),
        "float32 out",
        fit(averaged(4, encode="ordinal", dtype=np.float32)),
    )


def within(n: int) -> np.ndarray:
    """Rows well within those fitted on."""
    return 0.9 * fit_rows()[np.arange(n) % 200] + 0.1 * fit_rows().mean(axis=0)


def splines() -> Iterator[Case]:
    """Splines: each rule for values beyond the knots."""
    case = partial(Case, "sklearn.preprocessing.SplineTransformer")
    yield case("constant", fit(SplineTransformer()))
    yield case(
        "linear, quantiles", fit(SplineTransformer(4, extrapolation="linear", knots="quantile"))
    )
    yield case(
        "linear, of degree 2", fit(SplineTransformer(4, 2, extrapolation="linear", order="F"))
    )
    yield case(
        "continue",
        fit(SplineTransformer(extrapolation="continue", include_bias=False)),
        rows=MODERATE,
    )
    yield case("periodic", fit(SplineTransformer(6, extrapolation="periodic")))
    yield case(
        "periodic, sparse",
        fit(SplineTransformer(6, 2, extrapolation="periodic", sparse_output=True)),
    )
    yield case(
        "two knots", fit(SplineTransformer(2, 2, knots=np.linspace(-1, 1, 2)[:, None].repeat(8, 1)))
    )
    yield case("missing values", fit(known(SplineTransformer, handle_missing="zeros")()))
    yield case("steps", fit(SplineTransformer(5, 0, extrapolation="continue", sparse_output=True)))
    yield case("refused", fit(SplineTransformer(extrapolation="error")), rows=within)


CASES = (
    *features(),
    *splines(),
)
