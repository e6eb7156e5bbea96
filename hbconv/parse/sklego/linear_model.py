"""Linear regressors that differ from scikit-learn's in how they are fitted alone."""

from __future__ import annotations

from hbconv.containers import VECTOR, Linear, Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses(
    "sklego.linear_model.ImbalancedLinearRegression",
    "sklego.linear_model.LADRegression",
    "sklego.linear_model.QuantileRegression",
)
def parse_minimizer(step: Step) -> dict[str, Output]:
    """Answer as a linear regression, whose coefficients it has."""
    step.refuse_sparse()
    return step.like("sklearn.linear_model.LinearRegression")


@parses("sklego.linear_model.DeadZoneRegressor")
def parse_dead_zone_regressor(step: Step) -> dict[str, Output]:
    """Return one product, without an intercept."""
    step.refuse_sparse()
    return {"predict": Output(Linear.of(step.require_finite(), step.estimator.coef_), VECTOR)}
