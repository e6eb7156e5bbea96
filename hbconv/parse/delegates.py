"""Estimators that answer as one inner estimator does: searches, frozen and self-trained estimators."""

from __future__ import annotations

from typing import Any

from hbconv.containers import Output, Schema
from hbconv.errors import UnsupportedError
from hbconv.parse.members import columns_of_array, passed_on
from hbconv.parse.registry import parses
from hbconv.parse.schemas import read_schema
from hbconv.parse.step import Step


def _best(search: Any, path: str = "") -> Any:
    if not search.refit:
        hint = "Without refit it cannot predict: fit it with refit=True, or convert an estimator fitted with best_params_."
        raise UnsupportedError(type(search).__name__, path, "refit", search.refit, hint)
    return search.best_estimator_


def _columns_of_best(search: Any) -> Schema:
    return read_schema(_best(search))


@parses(
    "sklearn.model_selection.GridSearchCV",
    "sklearn.model_selection.HalvingGridSearchCV",
    "sklearn.model_selection.HalvingRandomSearchCV",
    "sklearn.model_selection.RandomizedSearchCV",
    features=_columns_of_best,
    takes_sparse=True,
)
def parse_search(step: Step) -> dict[str, Output]:
    """Answer as the best estimator does."""
    return passed_on(step, step.child(_best(step.estimator, step.where), step.x, "", sparse=step.sparse))


@parses("sklearn.frozen.FrozenEstimator", features=lambda frozen: read_schema(frozen.estimator), takes_sparse=True)
def parse_frozen_estimator(step: Step) -> dict[str, Output]:
    """Answer as the frozen estimator does."""
    return passed_on(step, step.child(step.estimator.estimator, step.x, "", sparse=step.sparse))


@parses("sklearn.semi_supervised.SelfTrainingClassifier")
def parse_self_training_classifier(step: Step) -> dict[str, Output]:
    """Answer as the classifier that was fitted last, which is given one array."""
    x = columns_of_array(step.x, range(step.x.type.width))
    return passed_on(step, step.child(step.estimator.estimator_, x, "estimator_", sparse=step.sparse))
