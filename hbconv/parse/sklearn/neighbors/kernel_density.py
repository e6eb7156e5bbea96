"""Kernel density: the log of a sum of bumps around the fitted rows."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma, log, pi

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    Cast,
    Choose,
    Compare,
    ConstantRows,
    LogSumExp,
    Map,
    Node,
    Output,
)
from hbconv.parse.common.distance_metrics import read_metric, refuse_no_metric
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.neighbors.KernelDensity")
def parse_kernel_density(step: Step) -> dict[str, Output]:
    """Return the log of the mean bump; a tolerance is refused."""
    est = step.estimator
    for tolerance in ("atol", "rtol"):
        if getattr(est, tolerance) != 0:
            raise step.refuse(
                tolerance,
                getattr(est, tolerance),
                "Within it the answer depends on the search tree of the source model. Use "
                f"{tolerance}=0.",
            )
    refuse_no_metric(step, est.metric)
    x = step.require_finite(Cast(step.x, "float64"))
    points = np.asarray(est.tree_.data, dtype=np.float64)
    width = step.x.type.width
    surrogate = read_metric(step, x, points, est.metric, est.metric_params or {})
    ratios = Affine.of(surrogate.to_distance(surrogate.node), div=est.bandwidth_)
    bumps = _KERNELS[step.require("kernel", *_KERNELS)](ratios)
    weights = None if est.tree_.sample_weight is None else np.asarray(est.tree_.sample_weight)
    if weights is not None:
        with np.errstate(divide="ignore"):
            bumps = Affine.of(bumps, add=np.log(weights))
    total = log(len(points) if weights is None else float(est.tree_.sum_weight))
    volume = _LOG_VOLUMES[est.kernel](width) + width * log(est.bandwidth_)
    return {"score_samples": Output(Affine.of(LogSumExp(bumps), sub=volume + total), VECTOR)}


def _within(x: Node, bump: Node) -> Node:
    """Return the bump for ratios below 1, and zero elsewhere."""
    return Choose(
        Compare.of(x, "lt", 1.0), bump, ConstantRows(x, Array(np.full(x.type.width, -np.inf)))
    )


_KERNELS: dict[str, Callable[[Node], Node]] = {
    "gaussian": lambda x: Affine.of(Map(x, "square"), mul=-0.5),
    "tophat": lambda x: _within(x, ConstantRows(x, Array(np.zeros(x.type.width)))),
    "epanechnikov": lambda x: _within(
        x, Map(Affine.of(Map(x, "square"), mul=-1.0, add=1.0), "log")
    ),
    "exponential": lambda x: Affine.of(x, mul=-1.0),
    "linear": lambda x: _within(x, Map(Affine.of(x, mul=-1.0, add=1.0), "log")),
    "cosine": lambda x: _within(x, Map(Map(Affine.of(x, mul=0.5 * pi), "cos"), "log")),
}
"""Logarithms of bumps of height 1, by the ratio of distance and bandwidth."""


def _log_ball(width: int) -> float:
    """Return the log volume of the unit ball: ``pi^(d/2) / gamma(d/2 + 1)``."""
    return 0.5 * width * log(pi) - lgamma(0.5 * width + 1)


def _log_sphere(width: int) -> float:
    """Return the log surface of the unit ball: ``2 pi`` times its volume in d - 2 dimensions."""
    return log(2 * pi) + _log_ball(width - 2)


def _log_cosine(width: int) -> float:
    """Return the log integral of ``r^(d - 1) cos(pi r / 2)`` over r from 0 to 1, by parts.

    The terms are those of the source model; the result is NaN where their sum is negative.
    """
    total = 0.0
    term = 2.0 / pi
    for k in range(1, width + 1, 2):
        total += term
        term *= -(width - k) * (width - k - 1) * (2.0 / pi) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.log(total))


_LOG_VOLUMES: dict[str, Callable[[int], float]] = {
    "gaussian": lambda width: 0.5 * width * log(2 * pi),
    "tophat": _log_ball,
    "epanechnikov": lambda width: _log_ball(width) + log(2.0 / (width + 2.0)),
    "exponential": lambda width: _log_sphere(width) + lgamma(width),
    "linear": lambda width: _log_ball(width) - log(width + 1.0),
    "cosine": lambda width: _log_cosine(width) + _log_sphere(width),
}
"""Logarithms of the volumes under the bumps, by the number of dimensions."""
