"""Linear models: one matrix product, then a decision, a link, or probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    Cast,
    Clip,
    Compare,
    Concat,
    ConstantRows,
    GroupSums,
    Linear,
    Map,
    Multiply,
    Node,
    Output,
    Proportions,
    Softmax,
    sparse_form,
)
from hbconv.parse.common.linear_scores import (
    beside_complement,
    decide_by_scores,
    linear_scores,
    with_probabilities,
)
from hbconv.parse.common.versions import centres_deviations
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, select

__all__ = ["outlier_outputs"]


@parses(
    "sklearn.linear_model.ElasticNet",
    "sklearn.linear_model.ElasticNetCV",
    "sklearn.linear_model.HuberRegressor",
    "sklearn.linear_model.Lars",
    "sklearn.linear_model.LarsCV",
    "sklearn.linear_model.Lasso",
    "sklearn.linear_model.LassoCV",
    "sklearn.linear_model.LassoLars",
    "sklearn.linear_model.LassoLarsCV",
    "sklearn.linear_model.LassoLarsIC",
    "sklearn.linear_model.LinearRegression",
    "sklearn.linear_model.MultiTaskElasticNet",
    "sklearn.linear_model.MultiTaskElasticNetCV",
    "sklearn.linear_model.MultiTaskLasso",
    "sklearn.linear_model.MultiTaskLassoCV",
    "sklearn.linear_model.OrthogonalMatchingPursuit",
    "sklearn.linear_model.OrthogonalMatchingPursuitCV",
    "sklearn.linear_model.QuantileRegressor",
    "sklearn.linear_model.Ridge",
    "sklearn.linear_model.RidgeCV",
    "sklearn.linear_model.TheilSenRegressor",
    takes_sparse=True,
)
def parse_linear_regressor(step: Step) -> dict[str, Output]:
    """Return the scores; a vector where ``coef_`` is one."""
    return {
        "predict": Output(
            linear_scores(step), VECTOR if np.ndim(step.estimator.coef_) == 1 else MATRIX
        )
    }


@parses(
    "sklearn.linear_model.ARDRegression", "sklearn.linear_model.BayesianRidge", takes_sparse=True
)
def parse_bayesian_regressor(step: Step) -> dict[str, Output]:
    """Return the mean of the predicted distribution, and its standard deviation.

    ARDRegression leaves columns out whose weights have too large a precision.
    """
    est = step.estimator
    noise = 1.0 / est.alpha_
    columns = np.arange(len(est.coef_))
    if hasattr(est, "threshold_lambda"):
        # sigma_ has only these rows and columns.
        columns = np.flatnonzero(est.lambda_ < est.threshold_lambda)
    scores = linear_scores(step)
    variance: Node = ConstantRows(step.x, Array.of([noise], np.float64))
    if len(columns):
        x = Affine.of(step.x, add=-np.asarray(est.X_offset_)) if centres_deviations() else step.x
        x = select(x, columns.tolist())
        terms = Multiply((Linear.of(x, est.sigma_), x))
        variance = Affine.of(GroupSums(terms, 1), add=noise)
    return {
        "predict": Output(scores, VECTOR),
        "predict_std": Output(Map(variance, "sqrt"), VECTOR, on_demand=True),
    }


@parses("sklearn.linear_model.PassiveAggressiveRegressor", "sklearn.linear_model.SGDRegressor")
def parse_sgd_regressor(step: Step) -> dict[str, Output]:
    """Return the scores, always a vector."""
    return {"predict": Output(linear_scores(step), VECTOR)}


@parses("sklearn.linear_model.GammaRegressor", "sklearn.linear_model.PoissonRegressor")
def parse_log_link_regressor(step: Step) -> dict[str, Output]:
    """Take the exponential of the score."""
    return {"predict": Output(Map(linear_scores(step), "exp"), VECTOR)}


@parses("sklearn.linear_model.TweedieRegressor")
def parse_tweedie_regressor(step: Step) -> dict[str, Output]:
    """Take the score, or its exponential.

    The link "auto" is the identity for a power of at most 0.
    """
    link = step.require("link", "auto", "identity", "log")
    scores = linear_scores(step)
    identity = link == "identity" or (link == "auto" and step.estimator.power <= 0)
    return {"predict": Output(scores if identity else Map(scores, "exp"), VECTOR)}


@parses("sklearn.linear_model.RANSACRegressor")
def parse_ransac_regressor(step: Step) -> dict[str, Output]:
    """Predict as ``estimator_``, the regressor fitted on the inliers."""
    outputs = step.child(step.estimator.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    return {"predict": outputs["predict"]}


@parses(
    "sklearn.linear_model.PassiveAggressiveClassifier",
    "sklearn.linear_model.Perceptron",
)
def parse_linear_classifier(step: Step) -> dict[str, Output]:
    """Return decisions alone."""
    return decide_by_scores(step)


@parses("sklearn.linear_model.RidgeClassifier", "sklearn.linear_model.RidgeClassifierCV")
def parse_ridge_classifier(step: Step) -> dict[str, Output]:
    """Return decisions alone; several labels a row are decided by the sign of each score."""
    binarizer = step.estimator._label_binarizer
    if not binarizer.y_type_.startswith("multilabel"):
        return decide_by_scores(step)
    scores = linear_scores(step)
    labels = Output(
        Compare.of(scores, "gt", 0.0, "int64"), sparse_form(bool(binarizer.sparse_input_))
    )
    return {"predict": labels, "decision_function": Output(scores)}


@parses("sklearn.linear_model.LogisticRegression", "sklearn.linear_model.LogisticRegressionCV")
def parse_logistic_regression(step: Step) -> dict[str, Output]:
    """Return probabilities: the sigmoid of one score, or the softmax of several.

    Older models may use one classifier against the rest for each class.
    """
    outputs = decide_by_scores(step)
    scores = outputs["decision_function"].node
    if _one_against_rest(step):
        return with_probabilities(outputs, _one_against_rest_probabilities(scores))
    if scores.type.width == 1:
        scores = Concat((Affine.of(scores, mul=-1.0), scores))
    return with_probabilities(outputs, Softmax(scores))


def _one_against_rest(step: Step) -> bool:
    """Tell whether probabilities come from one sigmoid for each class.

    scikit-learn from 1.8 on decides by the number of classes.
    Before, the parameter ``multi_class`` did, which older models may still carry without effect.
    """
    estimator = step.estimator
    # One class has one score as well.
    two = len(estimator.classes_) <= 2
    if "multi_class" not in type(estimator)._get_param_names():
        return two
    mode = step.require("multi_class", "auto", "deprecated", "multinomial", "ovr", "warn")
    return mode in ("ovr", "warn") or (
        mode in ("auto", "deprecated") and (two or estimator.solver == "liblinear")
    )


def _one_against_rest_probabilities(scores: Node) -> Node:
    p = Map(scores, "sigmoid")
    return beside_complement(p) if scores.type.width == 1 else Proportions(p)


@parses("sklearn.linear_model.SGDClassifier")
def parse_sgd_classifier(step: Step) -> dict[str, Output]:
    """Return probabilities only for the losses "log_loss" and "modified_huber"."""
    outputs = decide_by_scores(step)
    scores = outputs["decision_function"].node
    if step.estimator.loss == "log_loss":
        return with_probabilities(outputs, _one_against_rest_probabilities(scores))
    if step.estimator.loss == "modified_huber":
        return with_probabilities(outputs, _huber_probabilities(scores))
    return outputs


def _huber_probabilities(scores: Node) -> Node:
    """Return ``(clip(score, -1, 1) + 1) / 2``, for two classes in float64."""
    two = scores.type.width == 1
    p = Affine.of(Clip.of(Cast(scores, "float64") if two else scores, -1.0, 1.0), add=1.0, div=2.0)
    return beside_complement(p) if two else Proportions(p)


@parses("sklearn.linear_model.SGDOneClassSVM")
def parse_sgd_one_class_svm(step: Step) -> dict[str, Output]:
    """Count a row as an inlier where its score is not negative."""
    est = step.estimator
    return outlier_outputs(
        Linear.of(step.require_finite(), est.coef_, -est.offset_), "ge", est.offset_, "int32"
    )


def outlier_outputs(
    score: Node, inlier: str, offset: npt.NDArray[Any], dtype: str
) -> dict[str, Output]:
    """Return the methods of a one-class machine: rows of an inlying score are 1, others -1.

    ``inlier`` is the comparison with 0 that holds for inliers; ``dtype`` is that of predict.
    """
    signs = Affine.of(Compare.of(score, inlier, 0.0, "float64"), mul=2.0, sub=1.0)
    return {
        "predict": Output(Cast(signs, dtype), VECTOR),
        "decision_function": Output(score, VECTOR),
        "score_samples": Output(Affine.of(score, add=offset), VECTOR),
    }
