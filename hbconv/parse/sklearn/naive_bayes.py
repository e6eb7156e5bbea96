"""Naive Bayes: log joint probabilities, one matrix product for counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Choose,
    Compare,
    ConstantRows,
    GroupSums,
    Linear,
    LookupSum,
    Map,
    Node,
    Output,
    Select,
)
from hbconv.parse.common.linear_scores import classify, promote
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


def _joint_outputs(joint: Node, classes: npt.ArrayLike) -> dict[str, Output]:
    """Return what follows from the log joint probability of each class, and that itself."""
    return {**classify(joint, classes), "predict_joint_log_proba": Output(joint)}


@parses("sklearn.naive_bayes.GaussianNB")
def parse_gaussian_nb(step: Step) -> dict[str, Output]:
    """Return the log joint density of each class.

    ``log prior - sum(log(2 pi var)) / 2 - sum((x - mean) ** 2 / var) / 2``
    """
    est = step.estimator
    x = step.require_finite()
    means = est.theta_
    variances = est.var_
    n_classes = len(est.classes_)
    repeated = Select(
        promote(x, means, variances),
        Array.of(np.tile(np.arange(x.type.width), n_classes), np.int32),
    )
    squares = Map(Affine.of(repeated, sub=means.ravel()), "square")
    distances = GroupSums(Affine.of(squares, div=variances.ravel()), n_classes)
    densities = Affine.of(
        distances,
        mul=-0.5,
        add=[-0.5 * np.log(2.0 * np.pi * variance).sum() for variance in variances],
    )
    return _joint_outputs(
        Affine.of(promote(densities, est.class_prior_), add=np.log(est.class_prior_)), est.classes_
    )


@parses("sklearn.naive_bayes.MultinomialNB")
def parse_multinomial_nb(step: Step) -> dict[str, Output]:
    """Weigh each count by the log probability of its feature in the class."""
    est = step.estimator
    return _joint_outputs(
        _weigh_counts(step, step.require_finite(), est.feature_log_prob_.T, est.class_log_prior_),
        est.classes_,
    )


@parses("sklearn.naive_bayes.ComplementNB")
def parse_complement_nb(step: Step) -> dict[str, Output]:
    """Weigh each count; the prior counts only where there is one class."""
    est = step.estimator
    prior = est.class_log_prior_ if len(est.classes_) == 1 else 0.0
    return _joint_outputs(
        _weigh_counts(step, step.require_finite(), est.feature_log_prob_.T, prior), est.classes_
    )


@parses("sklearn.naive_bayes.BernoulliNB")
def parse_bernoulli_nb(step: Step) -> dict[str, Output]:
    """Weigh the features present and absent by the logs of their probabilities."""
    est = step.estimator
    x = step.require_finite()
    present: Node = x if est.binarize is None else _binarize(x, est.binarize)
    # A probability of 1 leaves log(0) for the absent feature, as in the source.
    with np.errstate(divide="ignore", invalid="ignore"):
        absent = np.log(1 - np.exp(est.feature_log_prob_))
    joint = _weigh_counts(
        step, present, (est.feature_log_prob_ - absent).T, est.class_log_prior_ + absent.sum(axis=1)
    )
    return _joint_outputs(joint, est.classes_)


def _weigh_counts(
    step: Step, counts: Node, weights: npt.NDArray[np.float64], bias: npt.ArrayLike
) -> Node:
    """Multiply counts by weights; absent entries of a sparse matrix stay out.

    A count of zero times an infinite weight would be NaN.
    """
    infinite = np.isinf(weights)
    if not (step.x_sparse and infinite.any()):
        return Linear.of(counts, weights, bias)
    # Infinite weights are added where they are met; 0 * inf would be NaN.
    finite = Linear.of(counts, np.where(infinite, 0.0, weights), bias)
    added: list[Node] = [finite]
    for sign in (-1.0, 1.0):
        met = Compare.of(
            Linear.of(counts, (weights == sign * np.inf).astype(np.float64)), "gt", 0.0
        )
        added.append(Choose(met, _everywhere(finite, sign * np.inf), _everywhere(finite, 0.0)))
    return Add(tuple(added))


def _everywhere(x: Node, value: float) -> Node:
    """Return one number in every column of x."""
    return ConstantRows(x, Array(np.full(x.type.width, value)))


def _binarize(x: Node, threshold: float) -> Node:
    """Return zeros and ones in x's dtype.

    numpy rounds the threshold to that dtype, unless it is a numpy scalar.
    """
    constant = Array(np.full(x.type.width, threshold, dtype=np.float64))
    return Compare(x, "gt", constant, None, weak=not isinstance(threshold, np.generic))


@parses("sklearn.naive_bayes.CategoricalNB")
def parse_categorical_nb(step: Step) -> dict[str, Output]:
    """Look up the log probability of each category.

    Values are truncated to integers; categories never seen are refused.
    """
    est = step.estimator
    x = step.require_finite()
    sizes = Array(np.array([table.shape[1] for table in est.feature_log_prob_], dtype=np.float64))
    step.check(
        Compare.of(x, "le", -1.0),
        f"Negative values in data passed to CategoricalNB (step {step.where!r}).",
    )
    step.check(
        Compare(x, "ge", sizes),
        f"A category was not seen when CategoricalNB was fitted (step {step.where!r}).",
    )
    # The entry of the code -1, which the checks keep from being looked up.
    none = np.zeros((1, len(est.classes_)))
    tables = tuple(Array(np.concatenate([none, table.T])) for table in est.feature_log_prob_)
    joint = Affine.of(LookupSum(Cast(x, "int32"), tables), add=est.class_log_prior_)
    return _joint_outputs(joint, est.classes_)
