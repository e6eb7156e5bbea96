"""Convert a pipeline of your own estimators: a transformer and a classifier, each with its parser.

    python examples/third_party.py

The estimators follow scikit-learn's interface. A parser is an ordinary function: it gets a
``Step``, reads the fitted attributes of ``step.estimator``, and returns nodes over ``step.x``.
That is all, for any backend. The program exits with 1 if a converted model differs.
"""

from __future__ import annotations

import sys
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import validate_data

import hbconv
from hbconv.array import Array
from hbconv.containers import ArgMax, Cast, Clip, Labels, Linear, Node, Output, Softmax
from hbconv.parse import Step
from hbconv.parse.common.linear_scores import with_probabilities

BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")


class Winsorizer(TransformerMixin, BaseEstimator):
    """Hold each column between two of its quantiles."""

    def __init__(self, share: float = 0.05) -> None:
        self.share = share

    def fit(self, X: np.ndarray, y: np.ndarray | None = None) -> Self:  # noqa: ARG002
        """Find the quantiles."""
        X = validate_data(self, X, dtype="float64")
        self.low_, self.high_ = np.quantile(X, [self.share, 1 - self.share], axis=0)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Clip."""
        return np.clip(validate_data(self, X, dtype="float64", reset=False), self.low_, self.high_)


class CentroidClassifier(ClassifierMixin, BaseEstimator):
    """Choose the class whose mean is nearest; probabilities fall off with the squared distance."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Find the mean of each class."""
        X, y = validate_data(self, X, y, dtype="float64")
        self.classes_ = np.unique(y)
        self.centroids_ = np.stack([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Half the squared distance from the origin, less that from each mean."""
        X = validate_data(self, X, dtype="float64", reset=False)
        return X @ self.centroids_.T - (self.centroids_**2).sum(axis=1) / 2

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Softmax of the scores."""
        return softmax(self.decision_function(X))

    def predict_log_proba(self, X: np.ndarray) -> np.ndarray:
        """Logarithm of the probabilities."""
        return np.log(self.predict_proba(X))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Label of the largest score."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]


# For classes that others import, a plain name such as "mypackage.Winsorizer".
@hbconv.parses(f"{__name__}.Winsorizer")
def parse_winsorizer(step: Step) -> Node:
    """Return the node of ``transform``; refuse NaN and infinity, as ``validate_data`` does."""
    return Clip.of(as_float64(step), step.estimator.low_, step.estimator.high_)


@hbconv.parses(f"{__name__}.CentroidClassifier")
def parse_centroid_classifier(step: Step) -> dict[str, Output]:
    """Return an Output for each method the estimator has."""
    centroids = step.estimator.centroids_
    scores = Linear.of(as_float64(step), centroids.T, -(centroids**2).sum(axis=1) / 2)
    outputs = {
        "predict": Output(ArgMax(scores), Labels(Array(step.estimator.classes_))),
        "decision_function": Output(scores),
    }
    return with_probabilities(outputs, Softmax(scores))


def as_float64(step: Step) -> Node:
    """Return the input as ``validate_data(dtype="float64")`` does."""
    return step.require_finite(Cast(step.x, "float64"))


def main() -> int:
    """Fit, convert to every backend, verify."""
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(Winsorizer(0.1), StandardScaler(), CentroidClassifier()).fit(
        X[::2], y[::2]
    )
    reports = [
        hbconv.verify(pipeline, hbconv.convert(pipeline, backend), X[1::2]) for backend in BACKENDS
    ]
    print(*reports, sep="\n\n")
    return 0 if all(report.ok for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
