"""Read what ``score`` of an estimator computes."""

from __future__ import annotations

from typing import Any

__all__ = ["read_metric"]

_METRICS = {
    "ClassifierMixin.score": "accuracy",
    "KNeighborsClassifier.score": "accuracy",
    "RadiusNeighborsClassifier.score": "accuracy",
    "RegressorMixin.score": "r2",
}
"""What methods of scikit-learn compute of ``predict``, for rows and true answers."""


def read_metric(estimator: Any) -> str:
    """Return the metric that ``score`` computes of ``predict``: "accuracy", "r2", or "" for others.

    A search scores by its best estimator where no scoring was named, and a pipeline by its last
    step.
    """
    if type(estimator).__name__ == "FrozenEstimator":
        return read_metric(estimator.estimator)
    method: Any = getattr(estimator, "score", None)
    if getattr(method, "__module__", "").partition(".")[0] != "sklearn":
        return ""
    if method.__qualname__ == "Pipeline.score":
        return read_metric(estimator.steps[-1][1])
    if method.__qualname__ == "BaseSearchCV.score":
        names_none = type(estimator.scorer_).__name__ == "_PassthroughScorer"
        return read_metric(estimator.best_estimator_) if names_none else ""
    return _METRICS.get(method.__qualname__, "")
