"""Support vector machines: SVMRegressor and SVMClassifier."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    ArgMax,
    Cast,
    Clip,
    Compare,
    Concat,
    Linear,
    Map,
    Node,
    PairwiseCoupling,
    Power,
    SquaredDistances,
)
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.scores import class_labels, labelled, largest, transformed
from hbconv.parse.onnx.values import LabelTensor, RowTensor

__all__: list[str] = []

ML = "ai.onnx.ml"

Numbers = npt.NDArray[Any]


@operator("SVMRegressor", domain=ML)
def read_regressor(op: OnnxOperator) -> RowTensor:
    """Weigh the kernels of the support vectors; of one class only their sign is told.

    onnxruntime reads no ``post_transform`` here.
    """
    x = op.matrix().cast("float32")
    rho = _checked(op, "rho", 1)
    count = op.get("n_supports", 0)
    coefficients = op.numbers("coefficients")
    if count > 0:
        kernels = _kernels(op, x, _support_vectors(op, x, count))
        weights = _of_size(op, "coefficients", coefficients, count)
        score: Node = Linear.of(kernels, weights, rho)
    else:
        weights = _of_size(op, "coefficients", coefficients, x.width)
        score = Linear.of(x.node, weights, rho)
    if op.get("one_class", 0):
        sign = Affine.of(Compare(score, "gt", Array(np.zeros(1, np.float32)), "float32"),
                         mul=2.0, sub=1.0)  # fmt: skip
        return RowTensor((1, 1), 0, sign)
    return RowTensor((1, 1), 0, score)


def _checked(op: OnnxOperator, name: str, least: int) -> Numbers:
    found = op.numbers(name)
    if len(found) < least:
        raise op.damaged(f"has {len(found)} entries of {name}, where there are {least}")
    return found[:least]


def _of_size(op: OnnxOperator, name: str, found: Numbers, size: int) -> Numbers:
    if len(found) != size:
        raise op.damaged(f"has {len(found)} entries of {name}, where there are {size}")
    return found


def _support_vectors(op: OnnxOperator, x: RowTensor, count: int) -> Numbers:
    found = _of_size(op, "support_vectors", op.numbers("support_vectors"), count * x.width)
    return found.reshape(count, x.width)


def _kernels(op: OnnxOperator, x: RowTensor, vectors: Numbers) -> Node:
    """Return the kernel of each row and support vector, in float32."""
    kernel = op.one_of("kernel_type", "LINEAR", "LINEAR", "POLY", "RBF", "SIGMOID")
    params = op.numbers("kernel_params")
    gamma, coef0, degree = (*(float(p) for p in params[:3]), *(0.0, 0.0, 0.0)[len(params) :])
    if kernel == "RBF":
        return Map(Affine.of(SquaredDistances(x.node, Array(vectors)), mul=-gamma), "exp")
    products = Linear.of(x.node, vectors.T)
    if kernel == "LINEAR":
        return products
    scaled = Affine.of(products, mul=gamma, add=coef0)
    return Power(scaled, degree) if kernel == "POLY" else Map(scaled, "tanh")


@operator("SVMClassifier", domain=ML)
def read_classifier(op: OnnxOperator) -> tuple[LabelTensor, RowTensor]:
    """Score each pair of classes; votes decide, and probabilities are coupled from the pairs."""
    labels = class_labels(op, "classlabels_strings")
    x = op.matrix().cast("float32")
    counts = op.numbers("vectors_per_class", "int64").astype(np.int64)
    if not counts.sum():
        return _linear(op, labels, x)
    classes = len(labels)
    if len(counts) != classes or counts.min() < 0 or classes < 2:
        raise op.damaged(f"has {len(counts)} counts of vectors for {classes} classes")
    scores = _pair_scores(op, x, counts)
    votes = _votes(scores, classes)
    if len(op.numbers("prob_a")):
        probabilities = _coupled(op, scores, classes)
        transform = op.get("post_transform", "NONE")
        found = transformed(op, probabilities, transform)
        return labelled(ArgMax(votes), labels), RowTensor((1, classes), 0, found)
    return _without_probabilities(op, labels, scores, votes)


def _linear(op: OnnxOperator, labels: Numbers, x: RowTensor) -> tuple[LabelTensor, RowTensor]:
    """Score each class by a linear model, all with the first rho."""
    classes = len(labels)
    if classes < 3:
        raise op.refuse("vectors_per_class", [], "Linear machines of two classes are not read.")
    weights = _of_size(op, "coefficients", op.numbers("coefficients"), classes * x.width)
    rho = np.repeat(_checked(op, "rho", 1), classes)
    scores = Linear.of(x.node, weights.reshape(classes, x.width).T, rho)
    found = transformed(op, scores, op.get("post_transform", "NONE"))
    return labelled(largest(scores), labels), RowTensor((1, classes), 0, found)


def _pair_scores(op: OnnxOperator, x: RowTensor, counts: npt.NDArray[np.int64]) -> Node:
    """Weigh the kernels of the vectors of both classes of each pair, in float64."""
    classes = len(counts)
    total = int(counts.sum())
    vectors = _support_vectors(op, x, total)
    given = _of_size(op, "coefficients", op.numbers("coefficients"), (classes - 1) * total)
    coefficients = given.reshape(classes - 1, total).astype(np.float64)
    ends = np.cumsum(counts)
    own = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((total, len(pairs)))
    for k, (i, j) in enumerate(pairs):
        weights[own[i], k] = coefficients[j - 1, own[i]]
        weights[own[j], k] = coefficients[i, own[j]]
    rho = _checked(op, "rho", len(pairs)).astype(np.float64)
    return Linear.of(_kernels(op, x, vectors), weights, rho)


def _votes(scores: Node, classes: int) -> Node:
    """Count the pairs that each class wins: the first of a pair wins above 0."""
    pairs = list(combinations(range(classes), 2))
    first_wins = Compare(scores, "gt", Array(np.zeros(len(pairs))), "float32")
    weights = np.zeros((len(pairs), classes), np.float32)
    for k, (i, j) in enumerate(pairs):
        weights[k, i] = 1
        weights[k, j] = -1
    losses = np.bincount([j for _, j in pairs], minlength=classes).astype(np.float32)
    return Linear.of(first_wins, weights, losses)


def _coupled(op: OnnxOperator, scores: Node, classes: int) -> Node:
    pairs = scores.type.width
    a, b = _checked(op, "prob_a", pairs), _checked(op, "prob_b", pairs)
    value = Affine.of(Cast(scores, "float32"), mul=a, add=b)
    first = Clip.of(Affine.of(Map(value, "sigmoid"), mul=-1.0, add=1.0), 1e-7, 1 - 1e-7)
    return PairwiseCoupling(first, classes)


def _without_probabilities(
    op: OnnxOperator, labels: Numbers, scores: Node, votes: Node
) -> tuple[LabelTensor, RowTensor]:
    """Return the scores of the pairs; of two classes both signs of the one."""
    single = Cast(scores, "float32")
    transform = op.get("post_transform", "NONE")
    if len(labels) > 2:
        found = transformed(op, single, transform)
        return labelled(ArgMax(votes), labels), RowTensor((1, found.type.width), 0, found)
    return labelled(ArgMax(votes), labels), RowTensor((1, 2), 0, _both(op, single, transform))


def _both(op: OnnxOperator, score: Node, transform: str) -> Node:
    if transform == "NONE":
        return Concat((Map(score, "neg"), score))
    raise op.refuse("post_transform", transform, "Use prob_a and prob_b, or NONE.")
