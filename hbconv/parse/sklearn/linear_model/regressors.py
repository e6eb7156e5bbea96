"""Linear regressors: one matrix product."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ConstantRows,
    GroupSums,
    Linear,
    Map,
    Multiply,
    Node,
    Output,
)
from hbconv.parse.common.linear_scores import linear_scores
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, select


@parses(
    "sklearn.linear_model.ElasticNet",
    "sklearn.linear_model.ElasticNetCV",
    "sklearn.linear_model.HuberRegressor",
    "sklearn.linear_model.Lars",
    "sklearn.linear_model.LarsCV",
    "sklearn.linear_model.Lasso",
    "sklearn.linear_model.LassoCV",
    "sklearn.linear_model.LassoLars",
    "sklearn.linear_model.LassoLarsCV",
    "sklearn.linear_model.LassoLarsIC",
    "sklearn.linear_model.LinearRegression",
    "sklearn.linear_model.MultiTaskElasticNet",
    "sklearn.linear_model.MultiTaskElasticNetCV",
    "sklearn.linear_model.MultiTaskLasso",
    "sklearn.linear_model.MultiTaskLassoCV",
    "sklearn.linear_model.OrthogonalMatchingPursuit",
    "sklearn.linear_model.OrthogonalMatchingPursuitCV",
    "sklearn.linear_model.QuantileRegressor",
    "sklearn.linear_model.Ridge",
    "sklearn.linear_model.RidgeCV",
    "sklearn.linear_model.TheilSenRegressor",
    takes_sparse=True,
)
def parse_linear_regressor(step: Step) -> dict[str, Output]:
    """Return the scores; a vector where ``coef_`` is one."""
    return {
        "predict": Output(
            linear_scores(step), VECTOR if np.ndim(step.estimator.coef_) == 1 else MATRIX
        )
    }


@parses(
    "sklearn.linear_model.ARDRegression", "sklearn.linear_model.BayesianRidge", takes_sparse=True
)
def parse_bayesian_regressor(step: Step) -> dict[str, Output]:
    """Return the mean of the predicted distribution, and its standard deviation.

    ARDRegression leaves columns out whose weights have too large a precision.
    """
    est = step.estimator
    noise = 1.0 / est.alpha_
    columns = np.arange(len(est.coef_))
    if hasattr(est, "threshold_lambda"):
        columns = np.flatnonzero(est.lambda_ < est.threshold_lambda)
    scores = linear_scores(step)
    variance: Node = ConstantRows(step.x, Array.of([noise], np.float64))
    if len(columns):
        x = select(Affine.of(step.x, add=-np.asarray(est.X_offset_)), columns.tolist())
        terms = Multiply((Linear.of(x, est.sigma_), x))
        variance = Affine.of(GroupSums(terms, 1), add=noise)
    return {
        "predict": Output(scores, VECTOR),
        "predict_std": Output(Map(variance, "sqrt"), VECTOR, on_demand=True),
    }


@parses("sklearn.linear_model.PassiveAggressiveRegressor", "sklearn.linear_model.SGDRegressor")
def parse_sgd_regressor(step: Step) -> dict[str, Output]:
    """Return the scores, always a vector."""
    return {"predict": Output(linear_scores(step), VECTOR)}


@parses("sklearn.linear_model.GammaRegressor", "sklearn.linear_model.PoissonRegressor")
def parse_log_link_regressor(step: Step) -> dict[str, Output]:
    """Take the exponential of the score."""
    return {"predict": Output(Map(linear_scores(step), "exp"), VECTOR)}


@parses("sklearn.linear_model.TweedieRegressor")
def parse_tweedie_regressor(step: Step) -> dict[str, Output]:
    """Take the score, or its exponential.

    The link "auto" is the identity for a power of at most 0.
    """
    link = step.require("link", "auto", "identity", "log")
    scores = linear_scores(step)
    identity = link == "identity" or (link == "auto" and step.estimator.power <= 0)
    return {"predict": Output(scores if identity else Map(scores, "exp"), VECTOR)}


@parses("sklearn.linear_model.RANSACRegressor")
def parse_ransac_regressor(step: Step) -> dict[str, Output]:
    """Predict as ``estimator_``, the regressor fitted on the inliers."""
    outputs = step.child(step.estimator.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    return {"predict": outputs["predict"]}
