"""Transformers with functions of their own: interpolation, powers, quantiles, splines, encoders of targets and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, target, with_missing
from sklearn.isotonic import IsotonicRegression
from sklearn.preprocessing import PowerTransformer, QuantileTransformer


def fit(estimator: Any, y: str | None = None) -> Callable[[], Any]:
    """Return a function that fits the estimator on all columns."""
    return lambda: estimator.fit(fit_rows(), None if y is None else target(y))


def one_column(n: int) -> np.ndarray:
    """One hostile column, as IsotonicRegression takes it."""
    return rows(n)[:, 2:3]


def inside(n: int) -> np.ndarray:
    """The same, held to the range it was fitted on."""
    seen = fit_rows()[:, 2].astype(np.float32)
    return np.clip(one_column(n).astype(np.float32), seen.min(), seen.max()).astype(np.float64)


def isotonic(x_dtype: str = "float64", **settings: Any) -> Callable[[], Any]:
    """Return a function that fits an isotonic regression on one column."""
    return lambda: IsotonicRegression(**settings).fit(fit_rows()[:, 2].astype(x_dtype), target("value"))


def isotonics() -> Iterator[Case]:
    """Isotonic regressions: each rule for values out of bounds."""
    case = partial(Case, "sklearn.isotonic.IsotonicRegression", kind="elementwise", rows=one_column)
    yield case("clip", isotonic(out_of_bounds="clip"))
    yield case("missing", isotonic(out_of_bounds="nan", increasing=False))
    yield case("refused", isotonic("float32", out_of_bounds="raise"), rows=inside)
    yield case("float32", isotonic("float32", out_of_bounds="clip", y_min=-3.0))
    yield case("one threshold", lambda: IsotonicRegression().fit([1.0, 1.0], [2.0, 4.0]))


def powers() -> Iterator[Case]:
    """Powers."""
    case = partial(Case, "sklearn.preprocessing.PowerTransformer", rows=partial(rows, large=30.0))
    yield case("yeo-johnson", fit(PowerTransformer()))
    yield case("not scaled", fit(PowerTransformer(standardize=False)))
    yield case("powers of 0 and 2", fit_lambdas([0.0, 2.0, 1e-17, 2 - 1e-17, 1.0, -1.5, 3.0, 0.5]))
    yield case("box-cox", fit_positive(PowerTransformer(method="box-cox")), rows=positive)
    yield case("box-cox, not scaled", fit_positive(PowerTransformer(method="box-cox", standardize=False)), rows=positive)


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
    yield case("normal, few quantiles", fit(QuantileTransformer(n_quantiles=3, output_distribution="normal")))
    yield case("missing values", lambda: QuantileTransformer(n_quantiles=50).fit(with_missing(fit_rows())))
    yield case("constant columns", lambda: QuantileTransformer(n_quantiles=5).fit(np.zeros((9, 8))))


CASES = (*isotonics(), *powers(), *quantiles())
