"""TransformedTargetRegressor: predictions turned back to the scale of the target."""

from __future__ import annotations

from hbconv.containers import Output
from hbconv.parse.inverses import inverse_transform
from hbconv.parse.registry import parses
from hbconv.parse.responses import as_numbers
from hbconv.parse.schemas import read_schema
from hbconv.parse.step import Step


@parses("sklearn.compose.TransformedTargetRegressor", features=lambda est: read_schema(est.regressor_))
def parse_transformed_target_regressor(step: Step) -> dict[str, Output]:
    """Invert what was done to the target; a target of one dimension is predicted as one."""
    est = step.estimator
    predicted = as_numbers(step, step.child(est.regressor_, step.x, "regressor_", sparse=step.sparse)["predict"])
    target = inverse_transform(step, est.transformer_, predicted)
    return {"predict": Output(target, vector=est._training_dim == 1 and target.type.width == 1)}  # noqa: SLF001
