"""Searches, which predict as their best estimator, and classifiers with a tuned threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Compare, Labels, Output, Schema
from hbconv.errors import UnsupportedError
from hbconv.parse.common.members import pass_on, response
from hbconv.parse.inverses import inverts, read_inverse
from hbconv.parse.registry import parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step, is_fitted


def _best(search: Any, path: str = "") -> Any:
    if not search.refit:
        hint = (
            "Without refit it cannot predict: fit it with refit=True, or convert an estimator "
            "fitted with best_params_."
        )
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
    """Predict as the best estimator does."""
    return pass_on(
        step, step.child(_best(step.estimator, step.where), step.x, "", x_sparse=step.x_sparse)
    )


@inverts(
    "sklearn.model_selection.GridSearchCV",
    "sklearn.model_selection.HalvingGridSearchCV",
    "sklearn.model_selection.HalvingRandomSearchCV",
    "sklearn.model_selection.RandomizedSearchCV",
    takes_sparse=True,
)
def invert_search(step: Step) -> Output:
    """Invert as the best estimator does."""
    return read_inverse(step, _best(step.estimator, step.where), step.x, "", x_sparse=step.x_sparse)


def _inner(estimator: Any) -> Any:
    """Return the inner classifier, which may be prefit while the outer one was never fitted."""
    return getattr(estimator, "estimator_", estimator.estimator)


def _columns(estimator: Any) -> Any:
    return read_schema(_inner(estimator))


def _is_prefit(estimator: Any) -> bool:
    return is_fitted(estimator.estimator)


@parses("sklearn.model_selection.FixedThresholdClassifier", features=_columns, is_fitted=_is_prefit)
def parse_fixed_threshold_classifier(step: Step) -> dict[str, Output]:
    """Compare with the threshold given; "auto" is that of the inner classifier."""
    return _decide(step, step.estimator.threshold, step.estimator.pos_label)


@parses("sklearn.model_selection.TunedThresholdClassifierCV", features=_columns)
def parse_tuned_threshold_classifier(step: Step) -> dict[str, Output]:
    """Compare with the best threshold; the metric may name the positive class."""
    return _decide(
        step, step.estimator.best_threshold_, step.estimator._curve_scorer._get_pos_label()
    )


def _decide(step: Step, threshold: Any, positive_label: Any) -> dict[str, Output]:
    """Take the positive class, by default the second, for scores at or above the threshold."""
    est = step.estimator
    inner = _inner(est)
    outputs = step.child(inner, step.x, "estimator_", x_sparse=step.x_sparse)
    classes = np.asarray(est.classes_)
    if positive_label is not None and positive_label not in classes:
        raise step.refuse(
            "pos_label",
            positive_label,
            f"It is not one of the classes {classes.tolist()}: the source model cannot "
            "predict either.",
        )
    positive = 1 if positive_label is None else int(np.flatnonzero(classes == positive_label)[0])
    methods = (
        ("predict_proba", "decision_function")
        if est.response_method == "auto"
        else (est.response_method,)
    )
    score, method = response(step, inner, outputs, *methods, positive=positive)
    if isinstance(threshold, str):
        # As _threshold_scores_to_class_labels reads "auto".
        threshold = 0.5 if method == "predict_proba" else 0.0
    above = Compare(
        score,
        "ge",
        Array([float(threshold)]),
        "int32",
        # A Python float takes the dtype of the scores, a numpy float64 widens them (NEP 50).
        weak=not isinstance(threshold, np.generic),
    )
    return pass_on(
        step,
        {
            **outputs,
            # Code 1 is the positive class, which may be the first.
            "predict": Output(above, Labels(Array(classes if positive else classes[::-1]))),
        },
    )
