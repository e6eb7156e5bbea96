"""Perceptrons and Boltzmann machines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import MODERATE, fit, known
from sklearn import (
    neural_network,
)


def perceptrons() -> Iterator[Case]:
    """Multi-layer perceptrons of every activation."""
    name = "sklearn.neural_network.{}".format
    small = {"hidden_layer_sizes": (6, 5), "max_iter": 30, "random_state": 0}
    classifier = partial(neural_network.MLPClassifier, **small)
    regressor = partial(neural_network.MLPRegressor, **small)
    yield Case(
        name("MLPClassifier"), "relu, three text", fit(classifier(), "three_text"), rows=MODERATE
    )
    yield Case(
        name("MLPClassifier"), "tanh, two", fit(classifier(activation="tanh"), "two"), rows=MODERATE
    )
    yield Case(
        name("MLPClassifier"),
        "logistic, two text, float32",
        fit(classifier(activation="logistic"), "two_text", "float32"),
        rows=MODERATE,
    )
    yield Case(
        name("MLPClassifier"),
        "identity, several labels",
        fit(classifier(activation="identity"), "labels"),
        rows=MODERATE,
    )
    yield Case(name("MLPRegressor"), "relu", fit(regressor(), "value"), rows=MODERATE)
    yield Case(
        name("MLPRegressor"),
        "tanh, two targets",
        fit(regressor(activation="tanh"), "values"),
        rows=MODERATE,
    )
    yield Case(
        name("MLPRegressor"),
        "logistic, float32",
        fit(regressor(activation="logistic"), "value", "float32"),
        rows=MODERATE,
    )
    yield Case(
        name("MLPRegressor"),
        "poisson",
        fit(known(regressor, loss="poisson")(), "count"),
        rows=MODERATE,
    )
    yield Case(
        name("MLPRegressor"),
        "no hidden layer",
        fit(regressor(hidden_layer_sizes=()), "value"),
        rows=MODERATE,
    )


def boltzmann_machines() -> Iterator[Case]:
    """Boltzmann machines."""
    machine = neural_network.BernoulliRBM(3, n_iter=3, random_state=0)
    yield Case(
        "sklearn.neural_network.BernoulliRBM", "three units", fit(machine), methods=("transform",)
    )


CASES = (*perceptrons(), *boltzmann_machines())
