"""Gaussian processes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.fitting import MODERATE
from matrix.kernel_rows import fit_few
from sklearn import (
    gaussian_process,
)
from sklearn.gaussian_process import kernels


def processes() -> Iterator[Case]:
    """Gaussian processes over every kernel."""
    g = gaussian_process
    k = kernels
    case = partial(Case, "sklearn.gaussian_process.GaussianProcessRegressor", rows=MODERATE)
    regressor = partial(g.GaussianProcessRegressor, optimizer=None, alpha=0.1)
    several = {
        "scaled rbf and noise": k.ConstantKernel(2.0) * k.RBF(3.0) + k.WhiteKernel(0.1),
        "anisotropic rbf": k.RBF([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        "matern of 0.5": k.Matern(5.0, nu=0.5),
        "matern of 1.5": k.Matern([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], nu=1.5),
        "matern of 2.5": k.Matern(5.0, nu=2.5),
        "matern of inf": k.Matern(5.0, nu=np.inf),
        "rational quadratic": k.RationalQuadratic(2.0, 0.7),
        "periodic": k.ExpSineSquared(2.0, 30.0) + k.WhiteKernel(10.0),
        "dot product squared": k.DotProduct(0.5) ** 2,
        "pairwise": k.PairwiseKernel(gamma=0.01, metric="laplacian")
        + k.PairwiseKernel(1.0, metric="poly", pairwise_kernels_kwargs={"degree": 2}),
    }
    for name, kernel in several.items():
        yield case(name, fit_few(regressor(kernel), "value"))
    yield case("no kernel, normalized", fit_few(regressor(normalize_y=True), "value"))
    yield case(
        "two targets, normalized, float32",
        fit_few(regressor(k.RBF(3.0), normalize_y=True), "values", "float32"),
    )
    case = partial(Case, "sklearn.gaussian_process.GaussianProcessClassifier", rows=MODERATE)
    classifier = partial(g.GaussianProcessClassifier, optimizer=None)
    yield case("two text", fit_few(classifier(k.RBF(3.0)), "two_text"))
    yield case(
        "one against the rest",
        fit_few(
            classifier(2.0 * k.Matern(3.0) + k.DotProduct(0.1) * k.WhiteKernel(0.1)), "three_text"
        ),
    )
    one = classifier(
        k.RationalQuadratic(3.0) ** 2 + k.PairwiseKernel(0.01, metric="rbf"),
        multi_class="one_vs_one",
    )
    yield case("one against one", fit_few(one, "three"), methods=("predict",))


CASES = (*processes(),)
