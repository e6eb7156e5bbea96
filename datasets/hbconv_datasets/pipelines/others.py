"""Pipelines that end in kernels, neighbours, Bayes or neurons."""

from __future__ import annotations

from typing import Any

from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def nystroem(_: int) -> Any:
    """Scale, kernel map of 100 points, logistic regression."""
    points = Nystroem(gamma=0.05, n_components=100, random_state=0)
    return make_pipeline(StandardScaler(), points, LogisticRegression())


def random_cosines(_: int) -> Any:
    """Scale, 200 random cosines, ridge regression."""
    cosines = RBFSampler(gamma=0.05, n_components=200, random_state=0)
    return make_pipeline(StandardScaler(), cosines, Ridge())


def neurons(_: int) -> Any:
    """Scale, two layers of 64 neurons."""
    layers = MLPClassifier((64, 64), max_iter=20, random_state=0)
    return make_pipeline(StandardScaler(), layers)


def neighbours(_: int) -> Any:
    """Scale, five nearest neighbours."""
    return make_pipeline(StandardScaler(), KNeighborsClassifier(5))


def bayes(_: int) -> Any:
    """Scale, Gaussian naive Bayes."""
    return make_pipeline(StandardScaler(), GaussianNB())


def discriminant(_: int) -> Any:
    """Scale, quadratic discriminants."""
    return make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis())


def support_vectors(_: int) -> Any:
    """Scale, support vector machine."""
    return make_pipeline(StandardScaler(), SVC(C=0.5))
