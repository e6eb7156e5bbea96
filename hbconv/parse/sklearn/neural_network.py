"""Multi-layer perceptrons and the Bernoulli restricted Boltzmann machine."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    Cast,
    Compare,
    ConstantRows,
    Labels,
    Linear,
    Map,
    Node,
    Output,
    Softmax,
    sparse_form,
)
from hbconv.parse.common.linear_scores import beside_complement, with_probabilities
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

_FUNCTIONS = {"logistic": "sigmoid", "tanh": "tanh", "relu": "relu", "exp": "exp"}


@parses("sklearn.neural_network.MLPRegressor")
def parse_mlp_regressor(step: Step) -> dict[str, Output]:
    """Return the last layer; a vector where it has one column."""
    y = _forward(step)
    return {"predict": Output(y, VECTOR if y.type.width == 1 else MATRIX)}


@parses("sklearn.neural_network.MLPClassifier")
def parse_mlp_classifier(step: Step) -> dict[str, Output]:
    """Decide by the probabilities of the last layer."""
    p = _forward(step)
    probabilities = beside_complement(p) if step.estimator.n_outputs_ == 1 else p
    return with_probabilities({"predict": _decide(step, p)}, probabilities)


def _decide(step: Step, p: Node) -> Output:
    """Take the largest of several classes; of two, and of several labels, above one half."""
    binarizer = step.estimator._label_binarizer
    classes = Array(binarizer.classes_)
    if binarizer.y_type_ == "multiclass":
        return Output(ArgMax(p), Labels(classes))
    if binarizer.y_type_ == "multilabel-indicator":
        return Output(Compare.of(p, "gt", 0.5, "int64"), sparse_form(bool(binarizer.sparse_input_)))
    if binarizer.y_type_ != "binary":
        raise step.refuse(
            "y_type_",
            binarizer.y_type_,
            "hbconv handles binary, multiclass and multilabel targets.",
        )
    codes = (
        Compare.of(p, "gt", 0.5, "int32")
        if len(classes) == 2
        else ConstantRows(p, Array(np.zeros(1, np.int32)))
    )
    return Output(codes, Labels(classes))


def _forward(step: Step) -> Node:
    """Apply all layers: the hidden ones share an activation, the last has its own."""
    x = step.require_finite()
    est = step.estimator
    last = est.n_layers_ - 2
    for layer, (weights, bias) in enumerate(zip(est.coefs_, est.intercepts_, strict=True)):
        x = Linear.of(x, weights, bias)
        # Fitting replaces the activation of the last layer by that of the loss.
        parameter = "out_activation_" if layer == last else "activation"
        x = _activate(step, x, parameter)
    return x


def _activate(step: Step, x: Node, parameter: str) -> Node:
    name = step.require(parameter, "identity", "softmax", *_FUNCTIONS)
    if name == "identity":
        return x
    return Softmax(x) if name == "softmax" else Map(x, _FUNCTIONS[name])


@parses("sklearn.neural_network.BernoulliRBM")
def parse_bernoulli_rbm(step: Step) -> Node:
    """Return the sigmoid of the hidden units' input.

    ``score_samples`` is left out: it flips an entry of each row at random.
    """
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    return Map(Linear.of(x, est.components_.T, est.intercept_hidden_), "sigmoid")
