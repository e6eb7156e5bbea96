"""Linear regressors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import MODERATE, fit
from sklearn import (
    linear_model,
)


def deprecated(name: str, y: str) -> Any:
    """Make and fit an estimator that warns when it is made."""
    return fit(getattr(linear_model, name)(random_state=0), y)()


def regressors() -> Iterator[Case]:
    """Regressors of one matrix product."""
    name = "sklearn.linear_model.{}".format
    m = linear_model
    yield Case(name("LinearRegression"), "one target", fit(m.LinearRegression(), "value"))
    yield Case(name("LinearRegression"), "two targets", fit(m.LinearRegression(), "values"))
    yield Case(
        name("LinearRegression"),
        "a column",
        lambda: m.LinearRegression().fit(fit_rows(), target("value")[:, None]),
    )
    yield Case(
        name("LinearRegression"),
        "positive, no intercept",
        fit(m.LinearRegression(positive=True, fit_intercept=False), "value"),
    )
    for each in ("Ridge", "Lasso", "ElasticNet"):
        estimator = partial(getattr(m, each), alpha=0.1)
        yield Case(name(each), "one target", fit(estimator(), "value"))
        yield Case(name(each), "two targets", fit(estimator(), "values"))
        yield Case(name(each), "fitted on float32", fit(estimator(), "value", "float32"))
        yield Case(
            name(each),
            "float32, no intercept",
            fit(estimator(fit_intercept=False), "values", "float32"),
        )
    yield Case(
        name("SGDRegressor"), "huber", fit(m.SGDRegressor(loss="huber", random_state=0), "value")
    )
    yield Case(
        name("SGDRegressor"),
        "float32, averaged",
        fit(m.SGDRegressor(average=True, random_state=0), "value", "float32"),
    )
    yield Case(
        name("PassiveAggressiveRegressor"),
        "default",
        partial(deprecated, "PassiveAggressiveRegressor", "value"),
        same_as="SGDRegressor",
    )
    for each in ("PoissonRegressor", "GammaRegressor"):
        yield Case(name(each), "default", fit(getattr(m, each)(), "positive"), rows=MODERATE)
    for power, link in ((0, "auto"), (1.5, "auto"), (0, "log"), (1, "identity")):
        yield Case(
            name("TweedieRegressor"),
            f"power {power}, link {link}",
            fit(m.TweedieRegressor(power=power, link=link), "positive"),
            rows=MODERATE,
        )


def relatives() -> Iterator[Case]:
    """Regressors that predict as LinearRegression does, however they fit."""
    m = linear_model
    case = partial(Case, same_as="LinearRegression")
    more = {
        "ARDRegression": {}, "BayesianRidge": {}, "ElasticNetCV": {"cv": 2, "alphas": 3},
        "HuberRegressor": {}, "Lars": {}, "LarsCV": {"cv": 2},
        "LassoCV": {"cv": 2, "alphas": 3}, "LassoLars": {"alpha": 0.1}, "LassoLarsCV": {"cv": 2},
        "LassoLarsIC": {}, "OrthogonalMatchingPursuit": {},
        "OrthogonalMatchingPursuitCV": {"cv": 2}, "QuantileRegressor": {"alpha": 0.01},
        "RidgeCV": {},
        "TheilSenRegressor": {"max_subpopulation": 50, "random_state": 0},
    }  # fmt: skip
    for name, settings in more.items():
        yield case(
            f"sklearn.linear_model.{name}", "default", fit(getattr(m, name)(**settings), "value")
        )
    yield case("sklearn.linear_model.RidgeCV", "two targets", fit(m.RidgeCV(), "values"))
    tasks = {
        "MultiTaskElasticNet": {},
        "MultiTaskElasticNetCV": {"cv": 2, "alphas": 3},
        "MultiTaskLasso": {},
        "MultiTaskLassoCV": {"cv": 2, "alphas": 3},
    }
    for name, settings in tasks.items():
        yield case(
            f"sklearn.linear_model.{name}",
            "two targets",
            fit(getattr(m, name)(**settings), "values"),
        )


def consensus() -> Iterator[Case]:
    """Regressors fitted on inliers."""
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


CASES = (*regressors(), *relatives(), *consensus())
