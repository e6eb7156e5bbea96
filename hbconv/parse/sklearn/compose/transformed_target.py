"""TransformedTargetRegressor: a regressor of a transformed target."""

from __future__ import annotations

from hbconv.containers import MATRIX, VECTOR, Output
from hbconv.parse.common.responses import as_numbers
from hbconv.parse.inverses import inverted, numbers
from hbconv.parse.registry import parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step


@parses(
    "sklearn.compose.TransformedTargetRegressor", features=lambda est: read_schema(est.regressor_)
)
def parse_transformed_target_regressor(step: Step) -> dict[str, Output]:
    """Invert the transform of the target.

    A target of one dimension is predicted as one.
    """
    est = step.estimator
    predicted = as_numbers(
        step, step.child(est.regressor_, step.x, "regressor_", x_sparse=step.x_sparse)["predict"]
    )
    target = numbers(step, inverted(step, est.transformer_, predicted, "transformer_"))
    return {
        "predict": Output(
            target, VECTOR if est._training_dim == 1 and target.type.width == 1 else MATRIX
        )
    }
