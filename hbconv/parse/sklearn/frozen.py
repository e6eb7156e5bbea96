"""FrozenEstimator: a fitted estimator that refuses to be fitted again."""

from __future__ import annotations

from hbconv.containers import Output
from hbconv.parse.common.members import pass_on
from hbconv.parse.inverses import inverts, read_inverse
from hbconv.parse.registry import parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step


@parses(
    "sklearn.frozen.FrozenEstimator",
    features=lambda frozen: read_schema(frozen.estimator),
    takes_sparse=True,
)
def parse_frozen_estimator(step: Step) -> dict[str, Output]:
    """Predict as the frozen estimator does."""
    return pass_on(step, step.child(step.estimator.estimator, step.x, "", x_sparse=step.x_sparse))


@inverts("sklearn.frozen.FrozenEstimator", takes_sparse=True)
def invert_frozen_estimator(step: Step) -> Output:
    """Invert as the frozen estimator does."""
    return read_inverse(step, step.estimator.estimator, step.x, "", x_sparse=step.x_sparse)
