"""Scalers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matrix.case import Case
from matrix.data import rows
from matrix.fitting import Entries, fit
from sklearn import preprocessing


def scalers() -> Iterator[Case]:
    """Scalers, which keep the input's dtype."""
    name = "sklearn.preprocessing.{}".format
    p = preprocessing
    yield Entries(name("StandardScaler"), "default", fit(p.StandardScaler()))
    yield Entries(name("StandardScaler"), "no mean", fit(p.StandardScaler(with_mean=False)))
    yield Entries(
        name("StandardScaler"),
        "no scale, float32",
        fit(p.StandardScaler(with_std=False), dtype="float32"),
    )
    yield Entries(
        name("StandardScaler"), "neither", fit(p.StandardScaler(with_mean=False, with_std=False))
    )
    yield Entries(name("MinMaxScaler"), "default", fit(p.MinMaxScaler()))
    yield Entries(
        name("MinMaxScaler"),
        "clip to -2 ... 3",
        fit(p.MinMaxScaler(feature_range=(-2, 3), clip=True)),
    )
    yield Entries(name("MaxAbsScaler"), "default", fit(p.MaxAbsScaler()))
    yield Entries(name("RobustScaler"), "default", fit(p.RobustScaler()))
    yield Entries(
        name("RobustScaler"),
        "wide, unit variance",
        fit(p.RobustScaler(quantile_range=(5, 95), unit_variance=True)),
    )
    yield Entries(name("RobustScaler"), "no centre", fit(p.RobustScaler(with_centering=False)))
    for norm in ("l2", "l1", "max"):
        yield Case(name("Normalizer"), norm, fit(p.Normalizer(norm)), rows=rows_with_zeros)
    yield Entries(name("Binarizer"), "0", fit(p.Binarizer()))
    yield Entries(name("Binarizer"), "0.5", fit(p.Binarizer(threshold=0.5)))


def rows_with_zeros(n: int) -> np.ndarray:
    """Rows of which some are all zeros."""
    x = rows(n)
    x[2::5] = 0.0
    return x


CASES = (*scalers(),)
