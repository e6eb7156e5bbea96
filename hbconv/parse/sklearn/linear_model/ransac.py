"""RANSACRegressor: the estimator fitted on the inliers answers."""

from __future__ import annotations

from hbconv.containers import Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.linear_model.RANSACRegressor")
def parse_ransac_regressor(step: Step) -> dict[str, Output]:
    """Predict as ``estimator_`` does."""
    outputs = step.child(step.estimator.estimator_, step.x, "estimator_", sparse=step.sparse)
    return {"predict": outputs["predict"]}
