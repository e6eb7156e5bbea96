"""Support vector machines: sums over kernels with the support vectors, in float64."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    Clip,
    Compare,
    ConstantRows,
    Distances,
    Labels,
    Linear,
    Map,
    Node,
    Output,
    PairVotes,
    PairwiseCoupling,
    Select,
    SquaredDistances,
)
from hbconv.parse.common.linear_scores import (
    decide_by_scores,
    dense,
    linear_scores,
    with_probabilities,
)
from hbconv.parse.common.pairwise_kernels import PairwiseKernel, pairwise_kernel
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.linear_model import outlier_outputs
from hbconv.parse.step import Step

Floats = npt.NDArray[np.float64]

_LEAST = 1e-7
"""Least distance of a probability between two classes from 0 and 1."""

_FAR = 1000.0
"""Largest squared radius of the support vectors, times gamma, that products are exact for."""

_LARGEST = 1e150
"""Largest number whose square is finite; the kernel of larger ones is 0 as well."""

_MOST_CLASSES = 32
"""Largest number of classes: the coupling grows with its square."""


def _columns(est: Any) -> int | None:
    """Return the columns of a machine whose kernel is a function of the user."""
    return None if hasattr(est, "n_features_in_") else int(est.shape_fit_[-1])


@parses("sklearn.svm.SVC", "sklearn.svm.NuSVC", features=_columns)
def parse_svc(step: Step) -> dict[str, Output]:
    """Decide between each two classes; a positive score is for the first."""
    est = step.estimator
    n_classes = len(est.classes_)
    classes = Array(est.classes_)
    _refuse_other_form(step)
    pairs = Linear.of(_kernel(step), _pair_weights(est), est._intercept_)
    decision = _decision(step, pairs, n_classes)
    votes = decision if _breaks_ties(step, n_classes) else _votes(pairs, n_classes)
    outputs = {
        "predict": Output(ArgMax(votes), Labels(classes)),
        "decision_function": Output(decision, VECTOR if n_classes == 2 else MATRIX),
    }
    # The default of scikit-learn 1.9; older estimators have a bool.
    has_probabilities = est.probability != "deprecated" and est.probability
    return (
        with_probabilities(outputs, _probabilities(step, pairs, n_classes))
        if has_probabilities
        else outputs
    )


@parses("sklearn.svm.SVR", "sklearn.svm.NuSVR", features=_columns)
def parse_svr(step: Step) -> dict[str, Output]:
    """Return the one sum."""
    return {"predict": Output(_score(step), VECTOR)}


@parses("sklearn.svm.OneClassSVM", features=_columns)
def parse_one_class_svm(step: Step) -> dict[str, Output]:
    """Count a row as an inlier where its score is positive."""
    return outlier_outputs(_score(step), "gt", step.estimator.offset_, "int64")


@parses("sklearn.svm.LinearSVR", takes_sparse=True)
def parse_linear_svr(step: Step) -> dict[str, Output]:
    """Return the scores; a vector where ``coef_`` is one."""
    return {
        "predict": Output(
            linear_scores(step), VECTOR if np.ndim(step.estimator.coef_) == 1 else MATRIX
        )
    }


@parses("sklearn.svm.LinearSVC")
def parse_linear_svc(step: Step) -> dict[str, Output]:
    """Return decisions alone."""
    return decide_by_scores(step)


def _score(step: Step) -> Node:
    """Return the sum of the only model; the intercept alone without support vectors."""
    est = step.estimator
    _refuse_other_form(step)
    if not len(est.support_):
        return ConstantRows(step.require_finite(), Array(est._intercept_))
    return Linear.of(_kernel(step), dense(est._dual_coef_).T, est._intercept_)


def _refuse_other_form(step: Step) -> None:
    if not step.estimator._sparse:
        step.refuse_sparse("was fitted on dense rows, and refuses a sparse matrix")


def _kernel(step: Step) -> Node:
    """Return the kernel with each support vector; of a precomputed kernel, its columns."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float64"))
    name = step.require("kernel", "linear", "poly", "rbf", "sigmoid", "precomputed")
    if name == "precomputed":
        return Select(x, Array(est.support_))
    if len(est.support_) != est.support_vectors_.shape[0]:
        raise step.damaged(
            f"support_ names {len(est.support_)} rows, but there are "
            f"{est.support_vectors_.shape[0]} support_vectors_"
        )
    if name == "rbf":
        return Map(
            Affine.of(
                _squared_distances(x, dense(est.support_vectors_), est._gamma), mul=-est._gamma
            ),
            "exp",
        )
    return pairwise_kernel(
        step, x, est.support_vectors_, PairwiseKernel(name, est._gamma, est.degree, est.coef0)
    )


def _squared_distances(x: Node, vectors: Floats, gamma: float) -> Node:
    """Use products where they round the kernel by at most 1e-13 of itself.

    Else sum squared differences, as libsvm does.
    """
    # Expanded squares lose digits as squared lengths grow, here about the mean of the vectors.
    radius = ((vectors - vectors.mean(axis=0)) ** 2).sum(axis=1).max()
    if gamma * radius >= _FAR:
        return Distances(x, Array(vectors))
    return SquaredDistances(Clip.of(x, -_LARGEST, _LARGEST), Array(vectors))


def _pair_weights(est: Any) -> Floats:
    """Return the weight of each support vector in the score of each pair of classes.

    Row j - 1 of the coefficients holds class i against j, row i holds class j against i.
    """
    coefficients = dense(est._dual_coef_)
    # Support vectors are sorted by class.
    ends = np.cumsum([0, *est._n_support])
    of_class = [slice(first, last) for first, last in pairwise(ends)]
    weights = np.zeros((ends[-1], len(est._intercept_)))
    for pair, (i, j) in enumerate(combinations(range(len(of_class)), 2)):
        weights[of_class[i], pair] = coefficients[j - 1, of_class[i]]
        weights[of_class[j], pair] = coefficients[i, of_class[j]]
    return weights


def _votes(pairs: Node, n_classes: int) -> Node:
    """Count the pairs that each class wins; a score that is not positive is for the second."""
    weights = np.zeros((pairs.type.width, n_classes))
    bias = np.zeros(n_classes)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        weights[pair, [i, j]] = 1.0, -1.0
        # A pair is worth w for the first class and 1 - w for the second, w being 0 or 1.
        bias[j] += 1.0
    return Linear.of(Compare.of(pairs, "gt", 0.0, "float64"), weights, bias)


def _breaks_ties(step: Step, n_classes: int) -> bool:
    est = step.estimator
    if est.break_ties and est.decision_function_shape == "ovo":
        raise step.refuse(
            "break_ties",
            True,
            "The source model refuses it with decision_function_shape='ovo': use 'ovr'.",
        )
    return bool(est.break_ties) and n_classes > 2


def _decision(step: Step, pairs: Node, n_classes: int) -> Node:
    shape = step.require("decision_function_shape", "ovr", "ovo")
    # libsvm's score is positive for the first class, scikit-learn's for the second.
    negative = Affine.of(pairs, mul=-1.0)
    if n_classes == 2:
        return negative
    return (
        PairVotes(Compare.of(pairs, "lt", 0.0, "int32"), negative, n_classes)
        if shape == "ovr"
        else pairs
    )


def _probabilities(step: Step, pairs: Node, n_classes: int) -> Node:
    """Couple ``1 / (1 + exp(A * score + B))`` of all pairs."""
    a = step.estimator._probA
    b = step.estimator._probB
    if not len(a):
        raise step.refuse(
            "probability", True, "It was fitted with probability=False: fit it again."
        )
    if n_classes > _MOST_CLASSES:
        hint = (
            f"hbconv couples the pairs of up to {_MOST_CLASSES} classes. Use "
            "CalibratedClassifierCV(SVC(), ensemble=False), as scikit-learn advises."
        )
        raise step.refuse("probability", True, hint)
    p = Map(Affine.of(pairs, mul=-a, sub=b), "sigmoid")
    # libsvm clips them alike (min_prob in svm.cpp): coupling divides by them.
    return PairwiseCoupling(Clip.of(p, _LEAST, 1 - _LEAST), n_classes)
