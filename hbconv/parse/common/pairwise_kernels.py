"""Kernel functions between rows and constant points, by scikit-learn's names.

Those of Gaussian processes are computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    CastLike,
    Compare,
    ConstantRows,
    Distances,
    Linear,
    Map,
    Multiply,
    Node,
    Normalize,
    Power,
    RowDot,
    SquaredDistances,
)
from hbconv.parse.common.linear_scores import dense, promote
from hbconv.parse.step import Step

__all__ = [
    "KERNELS",
    "PairwiseKernel",
    "covariance",
    "is_process_kernel",
    "kernel_matrix",
    "pairwise_kernel",
    "variance",
]

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class PairwiseKernel:
    """A kernel function and its parameters; gamma None is one over the number of features.

    Examples
    --------
    >>> PairwiseKernel("poly", degree=2)
    PairwiseKernel(name='poly', gamma=None, degree=2, coef0=1)
    """

    name: str
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1

    def affine(self, x: Node, points: Floats) -> Node:
        """Return ``gamma * x @ point + coef0``."""
        return Affine.of(Linear.of(x, points.T), mul=self.scale(points), add=self.coef0)

    def scale(self, points: Floats) -> float:
        """Return gamma."""
        return 1.0 / points.shape[1] if self.gamma is None else float(self.gamma)


def pairwise_kernel(step: Step, x: Node, points: Any, kernel: PairwiseKernel) -> Node:
    """Return the kernel of x and each point, float32 where both are, else float64."""
    array = dense(points)
    array = array if array.dtype == np.float32 else array.astype(np.float64)
    return KERNELS[kernel.name](step, promote(x, array), array, kernel)


def _linear(_step: Step, x: Node, points: Floats, _kernel: PairwiseKernel) -> Node:
    return Linear.of(x, points.T)


def _poly(_step: Step, x: Node, points: Floats, kernel: PairwiseKernel) -> Node:
    return Power(kernel.affine(x, points), float(kernel.degree))


def _sigmoid(_step: Step, x: Node, points: Floats, kernel: PairwiseKernel) -> Node:
    """Take the hyperbolic tangent, in spite of the name."""
    return Map(kernel.affine(x, points), "tanh")


def _rbf(_step: Step, x: Node, points: Floats, kernel: PairwiseKernel) -> Node:
    return Map(Affine.of(SquaredDistances(x, Array(points)), mul=-kernel.scale(points)), "exp")


def _laplacian(_step: Step, x: Node, points: Floats, kernel: PairwiseKernel) -> Node:
    """Add up differences in float64, whatever dtype the rows have."""
    distances = Distances(Cast(x, "float64"), Array(points.astype(np.float64)), "absolute")
    return Map(Affine.of(distances, mul=-kernel.scale(points)), "exp")


def _cosine(step: Step, x: Node, points: Floats, _kernel: PairwiseKernel) -> Node:
    # normalize() divides sparse rows by any norm but 0, dense ones by 1 below 10 eps.
    norms = np.linalg.norm(points.astype(np.float64), axis=1)
    dense = np.where(norms < 10 * np.finfo(points.dtype).eps, 1.0, norms)
    return step.by_form(
        Affine.of(Linear.of(Normalize(x, "l2"), points.T), div=dense),
        Affine.of(Linear.of(Normalize(x, "l2", sparse=True), points.T), div=norms),
    )


def _additive_chi2(step: Step, x: Node, points: Floats, _kernel: PairwiseKernel) -> Node:
    """Refuse negative values; add up in float64, round to the dtype of x."""
    step.check(Compare.of(x, "lt", 0.0), f"X contains negative values (step {step.where!r}).")
    distances = Distances(Cast(x, "float64"), Array(points.astype(np.float64)), "chi_square")
    return CastLike(Affine.of(distances, mul=-1.0), x)


def _chi2(step: Step, x: Node, points: Floats, kernel: PairwiseKernel) -> Node:
    gamma = 1.0 if kernel.gamma is None else float(kernel.gamma)
    return Map(Affine.of(_additive_chi2(step, x, points, kernel), mul=gamma), "exp")


KERNELS: dict[str, Callable[[Step, Node, Floats, PairwiseKernel], Node]] = {
    "additive_chi2": _additive_chi2,
    "chi2": _chi2,
    "cosine": _cosine,
    "laplacian": _laplacian,
    "linear": _linear,
    "poly": _poly,
    "polynomial": _poly,
    "rbf": _rbf,
    "sigmoid": _sigmoid,
}
"""Each kernel by its name."""


_MODULE = "sklearn.gaussian_process.kernels"


def is_process_kernel(kernel: Any) -> bool:
    """Tell whether an object is one of scikit-learn's kernels for Gaussian processes."""
    return any(cls.__module__ == _MODULE for cls in type(kernel).__mro__)


def covariance(step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    """Return ``kernel(x, points)``, of shape (n_rows, n_points)."""
    _require_kernel(step, kernel)
    return _COVARIANCES[type(kernel).__name__](step, kernel, x, points)


def variance(step: Step, kernel: Any, x: Node) -> Node:
    """Return ``kernel.diag(x)``: the kernel of each row with itself."""
    _require_kernel(step, kernel)
    return _VARIANCES[type(kernel).__name__](step, kernel, x)


def _require_kernel(step: Step, kernel: Any) -> None:
    cls = type(kernel)
    if cls.__module__ != _MODULE or cls.__name__ not in _COVARIANCES:
        raise step.refuse("kernel", cls.__name__, f"hbconv handles {', '.join(_COVARIANCES)}.")


def _sum(step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return Add((covariance(step, kernel.k1, x, points), covariance(step, kernel.k2, x, points)))


def _product(step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return Multiply(
        (covariance(step, kernel.k1, x, points), covariance(step, kernel.k2, x, points))
    )


def _exponentiation(step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return Power(covariance(step, kernel.kernel, x, points), float(kernel.exponent))


def _constant(_step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return ConstantRows(x, Array(np.full(len(points), kernel.constant_value, dtype=np.float64)))


def _white(_step: Step, _kernel: Any, x: Node, points: Floats) -> Node:
    """Return zeros: no row shares its noise with a point, not even with an equal one."""
    return ConstantRows(x, Array(np.zeros(len(points))))


def _scaled_squares(kernel: Any, x: Node, points: Floats) -> Node:
    """Return squared distances, each feature in units of its length scale."""
    # As in _check_length_scale of scikit-learn: one length may be given as an array of one.
    scale = np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64))
    return Distances(Affine.of(Cast(x, "float64"), div=scale), Array(points / scale))


def _covariance_rbf(_step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return Map(Affine.of(_scaled_squares(kernel, x, points), mul=-0.5), "exp")


def _matern(step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    """Return ``exp(-d)`` times a polynomial in the distance d; the limit is the RBF kernel."""
    if kernel.nu == inf:
        return _covariance_rbf(step, kernel, x, points)
    if kernel.nu not in (0.5, 1.5, 2.5):
        raise step.refuse(
            "nu",
            kernel.nu,
            "Other values than 0.5, 1.5, 2.5 and inf need Bessel functions, which no backend has.",
        )
    # sqrt(2 nu) is the factor of each closed form: 1, sqrt(3) and sqrt(5).
    d = Affine.of(Map(_scaled_squares(kernel, x, points), "sqrt"), mul=sqrt(2 * kernel.nu))
    decay = Map(Affine.of(d, mul=-1.0), "exp")
    if kernel.nu == 0.5:
        return decay
    growth: Node = Affine.of(d, add=1.0)
    if kernel.nu == 2.5:
        growth = Add((growth, Affine.of(Map(d, "square"), div=3.0)))
    return Multiply((growth, decay))


def _rational_quadratic(_step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    squares = Distances(Cast(x, "float64"), Array(points))
    return Power(
        Affine.of(squares, div=2 * kernel.alpha * kernel.length_scale**2, add=1.0),
        -float(kernel.alpha),
    )


def _exp_sine_squared(_step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    d = Map(Distances(Cast(x, "float64"), Array(points)), "sqrt")
    sine = Map(Affine.of(d, mul=pi / kernel.periodicity), "sin")
    return Map(Affine.of(Map(Affine.of(sine, div=kernel.length_scale), "square"), mul=-2.0), "exp")


def _dot_product(_step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return Linear.of(Cast(x, "float64"), points.T, np.float64(kernel.sigma_0**2))


def _pairwise(step: Step, kernel: Any, x: Node, points: Floats) -> Node:
    return pairwise_kernel(step, Cast(x, "float64"), points, _pairwise_of(step, kernel))


def _pairwise_of(step: Step, kernel: Any) -> PairwiseKernel:
    if not isinstance(kernel.metric, str) or kernel.metric not in KERNELS:
        raise step.refuse("metric", kernel.metric, f"hbconv handles {', '.join(KERNELS)}.")
    more = kernel.pairwise_kernels_kwargs or {}
    return PairwiseKernel(kernel.metric, kernel.gamma, more.get("degree", 3), more.get("coef0", 1))


_COVARIANCES: dict[str, Callable[[Step, Any, Node, Floats], Node]] = {
    "ConstantKernel": _constant,
    "DotProduct": _dot_product,
    "ExpSineSquared": _exp_sine_squared,
    "Exponentiation": _exponentiation,
    "Matern": _matern,
    "PairwiseKernel": _pairwise,
    "Product": _product,
    "RBF": _covariance_rbf,
    "RationalQuadratic": _rational_quadratic,
    "Sum": _sum,
    "WhiteKernel": _white,
}


def _same(_step: Step, kernel: Any, x: Node, *, value: Callable[[Any], float]) -> Node:
    return ConstantRows(x, Array(np.array([value(kernel)], dtype=np.float64)))


def _variance_of_sum(step: Step, kernel: Any, x: Node) -> Node:
    return Add((variance(step, kernel.k1, x), variance(step, kernel.k2, x)))


def _variance_of_product(step: Step, kernel: Any, x: Node) -> Node:
    return Multiply((variance(step, kernel.k1, x), variance(step, kernel.k2, x)))


def _variance_of_exponentiation(step: Step, kernel: Any, x: Node) -> Node:
    return Power(variance(step, kernel.kernel, x), float(kernel.exponent))


def _variance_of_dot_product(_step: Step, kernel: Any, x: Node) -> Node:
    # The products are of the dtype of the rows.
    x = Cast(x, "float")
    product: Node = RowDot(x, x)
    # Fitting leaves a numpy scalar, which widens float32; a Python float does not (NEP 50).
    if isinstance(kernel.sigma_0, np.float64):
        product = Cast(product, "float64")
    return Affine.of(product, add=kernel.sigma_0**2)


def _variance_of_pairwise(step: Step, kernel: Any, x: Node) -> Node:
    """Take the row's product with itself, for the metrics that start from it."""
    pairwise = _pairwise_of(step, kernel)
    x = Cast(x, "float64")
    # A row has distance 0 to itself, whose exponential is 1.
    if pairwise.name in ("rbf", "laplacian", "chi2", "additive_chi2"):
        return _same(step, kernel, x, value=lambda _: float(pairwise.name != "additive_chi2"))
    if pairwise.name == "cosine":
        x = Normalize(x, "l2")
    product = RowDot(x, x)
    if pairwise.name in ("linear", "cosine"):
        return product
    affine = Affine.of(product, mul=kernel.gamma, add=pairwise.coef0)
    return (
        Map(affine, "tanh") if pairwise.name == "sigmoid" else Power(affine, float(pairwise.degree))
    )


_VARIANCES: dict[str, Callable[[Step, Any, Node], Node]] = {
    **dict.fromkeys(
        ("ExpSineSquared", "Matern", "RBF", "RationalQuadratic"),
        partial(_same, value=lambda _: 1.0),
    ),
    "ConstantKernel": partial(_same, value=lambda kernel: float(kernel.constant_value)),
    "DotProduct": _variance_of_dot_product,
    "Exponentiation": _variance_of_exponentiation,
    "PairwiseKernel": _variance_of_pairwise,
    "Product": _variance_of_product,
    "Sum": _variance_of_sum,
    "WhiteKernel": partial(_same, value=lambda kernel: float(kernel.noise_level)),
}


def kernel_matrix(step: Step, points: Any, **parameters: Any) -> Node:
    """Return the kernel of the rows and each point, of shape (n_rows, n_points).

    Rows of a precomputed kernel stay as they are.
    """
    kernel = step.estimator.kernel
    x = step.require_finite()
    if kernel in ("precomputed", "chi2", "additive_chi2") or is_process_kernel(kernel):
        step.refuse_sparse("has a kernel that takes no sparse matrix")
    if is_process_kernel(kernel):
        return covariance(step, kernel, x, np.asarray(dense(points), dtype=np.float64))
    if callable(kernel):
        raise step.refuse(
            "kernel",
            getattr(kernel, "__name__", kernel),
            "hbconv cannot read a function: use a kernel that has a name.",
        )
    if kernel == "precomputed":
        return promote(x, dense(points))
    if kernel not in KERNELS:
        raise step.refuse("kernel", kernel, f"hbconv handles {', '.join(KERNELS)} and precomputed.")
    return pairwise_kernel(step, x, points, PairwiseKernel(kernel, **parameters))
