"""Gaussian processes: sums over kernels with the fitted rows, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    CastLike,
    Compare,
    ConstantRows,
    ExpectedSigmoid,
    Form,
    GroupSums,
    Labels,
    Linear,
    Map,
    Node,
    Output,
    PairVotes,
    Proportions,
    TriangularSolution,
)
from hbconv.errors import UnsupportedError
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.pairwise_kernels import covariance, variance
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat, select

MOST_ROWS = 4096
"""Fitted rows up to which a process predicts deviations: their matrix takes 128 MiB."""


def _columns(est: Any) -> int | None:
    """Return the columns of a process whose kernel reads no vectors, such as a constant."""
    if hasattr(est, "n_features_in_") or not (
        hasattr(est, "X_train_") or hasattr(est, "base_estimator_")
    ):
        return None
    process = getattr(est, "base_estimator_", est)
    return int(np.shape(getattr(process, "estimators_", [process])[0].X_train_)[-1])


@parses(
    "sklearn.gaussian_process.GaussianProcessRegressor",
    features=_columns,
    # An unfitted process predicts by its prior, so it always counts as fitted.
    is_fitted=lambda _: True,
)
def parse_gaussian_process_regressor(step: Step) -> dict[str, Output]:
    """Return ``kernel(x, rows) @ alpha``, scaled back to the targets."""
    est = step.estimator
    if not hasattr(est, "X_train_"):
        return _prior(step)
    kernel = covariance(step, est.kernel_, step.require_finite(), _points(step, est))
    mean = Affine.of(Linear.of(kernel, est.alpha_), mul=est._y_train_std, add=est._y_train_mean)
    if len(est.L_) > MOST_ROWS:
        return _mean_alone(step, len(est.L_), mean)
    explained = _explained(TriangularSolution(kernel, Array(est.L_)))
    # A variance grows with the square of the scale.
    scales = np.atleast_1d(est._y_train_std) ** 2
    return _process_outputs(step, mean, est.kernel_, explained, scales)


def _mean_alone(step: Step, n_rows: int, mean: Node) -> dict[str, Output]:
    hint = f"A model would hold its square in numbers. Fit it on {MOST_ROWS:,} rows at most."
    step.refuse_method("predict_std", "n_rows", n_rows, hint)
    return {"predict": Output(mean, _form(mean))}


def _form(mean: Node) -> Form:
    return VECTOR if mean.type.width == 1 else MATRIX


def _prior(step: Step) -> dict[str, Output]:
    """Return zeros, the mean of a process that has seen no rows."""
    est = step.estimator
    x = step.require_finite()
    mean = ConstantRows(x, Array(np.zeros(est.n_targets or 1)))
    # Without fitted rows nothing of the variance is explained.
    nothing = ConstantRows(x, Array(np.zeros(1)))
    return _process_outputs(step, mean, est.kernel, nothing, np.ones(1))


def _process_outputs(
    step: Step, mean: Node, kernel: Any, explained: Node, scales: npt.NDArray[np.float64]
) -> dict[str, Output]:
    """Return the mean of each target, and the deviation that the fitted rows leave it.

    Parameters
    ----------
    step : Step
    mean : Node
    kernel : object
        None where the variance is 1.
    explained : Node
        Minus the part of the variance that the fitted rows explain.
    scales : float array, shape (n_targets,) or (1,)
        Squared scales of the targets.
    """
    count = mean.type.width
    form = _form(mean)
    outputs = {"predict": Output(mean, form)}
    try:
        unit = ConstantRows(step.x, Array(np.ones(1)))
        prior = unit if kernel is None else variance(step, kernel, step.x)
    except UnsupportedError as error:
        step.conditions.refused["predict_std"] = str(error)
        return outputs
    # The source subtracts in place, in the dtype of the prior.
    left = CastLike(Add((prior, explained)), prior)
    # Near fitted rows rounding makes variances negative; the source sets them to 0 as well.
    each = select(Cast(Map(left, "relu"), "float64"), [0] * count)
    each = Affine.of(each, mul=np.broadcast_to(scales, count))
    return outputs | {"predict_std": Output(Map(each, "sqrt"), form, on_demand=True)}


def _explained(factors: Node) -> Node:
    """Return minus the part of the variance that is known from the fitted rows."""
    return Affine.of(GroupSums(Map(factors, "square"), 1), mul=-1.0)


@parses("sklearn.gaussian_process.GaussianProcessClassifier", features=_columns)
def parse_gaussian_process_classifier(step: Step) -> dict[str, Output]:
    """Use one process for two classes, else one for each class or each pair."""
    est = step.estimator
    step.require_finite()
    if len(est.classes_) == 2:
        # np.where of the source makes one array of the two labels, of a common dtype.
        pair = Array(np.array(list(est.classes_)))
        p = _probability(step, est.base_estimator_)
        codes = Compare.of(_latent(step, est.base_estimator_)[1], "gt", 0.0, "int32")
        return {
            "predict": Output(codes, Labels(pair)),
            "predict_proba": Output(beside_complement(p)),
        }
    members = est.base_estimator_.estimators_
    classes = Array(est.base_estimator_.classes_)
    each = concat([_probability(step, member) for member in members])
    if step.require("multi_class", "one_vs_rest", "one_vs_one") == "one_vs_rest":
        return {
            "predict": Output(ArgMax(each), Labels(classes)),
            "predict_proba": Output(Proportions(each, of_nothing=0.0)),
        }
    winners = Compare.of(
        concat([_latent(step, member)[1] for member in members]), "gt", 0.0, "int32"
    )
    return {"predict": Output(ArgMax(PairVotes(winners, each, len(classes))), Labels(classes))}


def _points(step: Step, process: Any) -> npt.NDArray[np.float64]:
    """Return the rows that a process was fitted on, which must be numbers."""
    rows = np.asarray(process.X_train_)
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise step.refuse(
            "kernel", type(process.kernel_).__name__, "It was fitted on rows that are not numbers."
        )
    return rows.astype(np.float64)


def _latent(step: Step, process: Any) -> tuple[Node, Node]:
    """Return the kernel with the fitted rows, and the mean of the latent function."""
    kernel = covariance(step, process.kernel_, step.x, _points(step, process))
    return kernel, Linear.of(kernel, process.y_train_ - process.pi_)


def _probability(step: Step, process: Any) -> Node:
    """Return the probability of the second class, averaged over the latent function."""
    kernel, mean = _latent(step, process)
    # Rasmussen and Williams (2006), algorithm 3.2: v = solve(L, sqrt(W) k).
    factors = Linear.of(kernel, np.linalg.solve(process.L_, np.diag(process.W_sr_)).T)
    explained = _explained(factors)
    return ExpectedSigmoid(mean, Add((variance(step, process.kernel_, step.x), explained)))
