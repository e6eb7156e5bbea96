"""Scalers, centred kernels, powers, quantiles and functions of numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, with_missing
from matrix.fitting import MODERATE, Entries, fit
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows
from sklearn import preprocessing
from sklearn.experimental import (
    enable_halving_search_cv,  # noqa: F401
    enable_iterative_imputer,  # noqa: F401
)
from sklearn.preprocessing import (
    FunctionTransformer,
    PowerTransformer,
    QuantileTransformer,
)


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


def centred() -> Iterator[Case]:
    """Centred kernels."""
    centre = "sklearn.preprocessing.KernelCenterer"
    yield Case(
        centre, "default", fit_few(preprocessing.KernelCenterer(), make=kernel_of), rows=kernel_rows
    )


def powers() -> Iterator[Case]:
    """Powers."""
    case = partial(Case, "sklearn.preprocessing.PowerTransformer", rows=MODERATE)
    yield case("yeo-johnson", fit(PowerTransformer()))
    yield case("not scaled", fit(PowerTransformer(standardize=False)))
    yield case("powers of 0 and 2", fit_lambdas([0.0, 2.0, 1e-17, 2 - 1e-17, 1.0, -1.5, 3.0, 0.5]))
    yield case("box-cox", fit_positive(PowerTransformer(method="box-cox")), rows=positive)
    yield case(
        "box-cox, not scaled",
        fit_positive(PowerTransformer(method="box-cox", standardize=False)),
        rows=positive,
    )


def positive(n: int) -> np.ndarray:
    """Rows of positive numbers."""
    return np.abs(rows(n, large=30.0)) + 0.5


def fit_positive(estimator: Any) -> Callable[[], Any]:
    """Return a function that fits the estimator on positive numbers."""
    return lambda: estimator.fit(np.abs(fit_rows()) + 0.5)


def fit_lambdas(lambdas: list[float]) -> Callable[[], Any]:
    """Return a function that makes a transformer of the given powers."""

    def make() -> Any:
        estimator = PowerTransformer(standardize=False).fit(fit_rows())
        estimator.lambdas_ = np.array(lambdas)
        return estimator

    return make


def quantiles() -> Iterator[Case]:
    """Quantiles."""
    case = partial(Case, "sklearn.preprocessing.QuantileTransformer", kind="elementwise")
    yield case("uniform", fit(QuantileTransformer(n_quantiles=20)))
    yield case("normal", fit(QuantileTransformer(n_quantiles=200, output_distribution="normal")))
    yield case(
        "normal, few quantiles",
        fit(QuantileTransformer(n_quantiles=3, output_distribution="normal")),
    )
    yield case(
        "missing values", lambda: QuantileTransformer(n_quantiles=50).fit(with_missing(fit_rows()))
    )
    yield case("constant columns", lambda: QuantileTransformer(n_quantiles=5).fit(np.zeros((9, 8))))


def functions() -> Iterator[Case]:
    """Functions of numpy."""
    case = partial(Case, "sklearn.preprocessing.FunctionTransformer", kind="elementwise")
    yield case("identity", fit(FunctionTransformer()))
    for function in (np.log1p, np.sqrt, np.exp, np.abs, np.tanh, np.square):
        yield case(function.__name__, fit(FunctionTransformer(function)))


CASES = (
    *scalers(),
    *centred(),
    *powers(),
    *quantiles(),
    *functions(),
)
