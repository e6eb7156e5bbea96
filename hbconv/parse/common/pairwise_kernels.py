"""Kernel functions between rows and constant points, by scikit-learn's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    CastLike,
    Compare,
    Distances,
    Linear,
    Map,
    Node,
    Normalize,
    Power,
    SquaredDistances,
)
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.common.promotion import promoted
from hbconv.parse.step import Step

__all__ = ["KERNELS", "PairwiseKernel", "pairwise_kernel"]

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
    return KERNELS[kernel.name](step, promoted(x, array), array, kernel)


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
    norms = np.linalg.norm(points.astype(np.float64), axis=1)
    dense = np.where(norms < 10 * np.finfo(points.dtype).eps, 1.0, norms)
    return step.by_form(
        Affine.of(Linear.of(Normalize(x, "l2"), points.T), div=dense),
        Affine.of(Linear.of(Normalize(x, "l2", sparse=True), points.T), div=norms),
    )


def _additive_chi2(
    step: Step,
    x: Node,
    points: Floats,
    _kernel: PairwiseKernel,
) -> Node:
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
