"""Bins and polynomials."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.fitting import Entries, fit
from sklearn import preprocessing


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
    averaged = {"strategy": "quantile", "quantile_method": "averaged_inverted_cdf"}
    yield Entries(name("KBinsDiscretizer"), "one-hot, quantile", fit(bins(4, **averaged)))
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
        fit(bins(4, encode="ordinal", dtype=np.float32, **averaged)),
    )


CASES = (*features(),)
