"""Support vector machines, kernel methods and approximations, Gaussian processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from matrix.case import Case
from matrix.data import fit_rows, rows, target
from sklearn import (
    decomposition,
    gaussian_process,
    kernel_approximation,
    kernel_ridge,
    linear_model,
    preprocessing,
    svm,
)
from sklearn.gaussian_process import kernels
from sklearn.metrics.pairwise import rbf_kernel

MODERATE = partial(rows, large=30.0)


def small() -> np.ndarray:
    """The first rows to fit on."""
    return fit_rows()[:60]


def fit(
    estimator: Any,
    y: str | None = None,
    dtype: str = "float64",
    make: Callable[[np.ndarray], Any] = np.asarray,
) -> Callable[[], Any]:
    """Return a function that fits the estimator on few rows."""
    return lambda: estimator.fit(make(small().astype(dtype)), None if y is None else target(y)[:60])


def positive(n: int) -> np.ndarray:
    """New rows without negative values."""
    return np.abs(rows(n, large=30.0))


def kernel_rows(n: int) -> np.ndarray:
    """Rows of a kernel with those that were fitted on."""
    return rbf_kernel(rows(n, large=30.0), small()) if n else np.zeros((0, 60))


def kernel_of(x: np.ndarray) -> np.ndarray:
    """Kernel among the rows."""
    return rbf_kernel(x.astype(np.float64))


def machines() -> Iterator[Case]:
    """Classifiers, regressors and outlier detectors over support vectors."""
    warnings.filterwarnings("ignore", "The `probability` parameter")
    name = "sklearn.svm.{}".format
    svc = partial(Case, name("SVC"), rows=MODERATE)
    likely = {"probability": True, "random_state": 0}
    yield svc("rbf, three text, probabilities", fit(svm.SVC(**likely), "three_text"))
    yield svc(
        "sigmoid, two, probabilities",
        fit(svm.SVC(kernel="sigmoid", coef0=0.1, **likely), "two_bool"),
    )
    yield svc("linear, ovo", fit(svm.SVC(kernel="linear", decision_function_shape="ovo"), "three"))
    yield svc(
        "poly, break ties",
        fit(svm.SVC(kernel="poly", gamma=0.01, degree=2, coef0=1.0, break_ties=True), "three"),
    )
    yield svc(
        "precomputed", fit(svm.SVC(kernel="precomputed"), "three", make=kernel_of), rows=kernel_rows
    )
    yield svc(
        "fitted on a sparse matrix",
        fit(
            svm.SVC(gamma=0.05, class_weight="balanced", **likely),
            "three",
            make=scipy.sparse.csr_matrix,
        ),
    )
    nu_svc = partial(Case, name("NuSVC"), rows=MODERATE, same_as="SVC")
    yield nu_svc("two text, probabilities", fit(svm.NuSVC(nu=0.3, **likely), "two_text"))
    yield nu_svc("three", fit(svm.NuSVC(nu=0.3, gamma="auto"), "three"))
    for each, same_as in (("SVR", ""), ("NuSVR", "SVR")):
        case = partial(Case, name(each), rows=MODERATE, same_as=same_as)
        yield case("rbf", fit(getattr(svm, each)(), "value"))
        yield case("linear, float32", fit(getattr(svm, each)(kernel="linear"), "value", "float32"))
    yield Case(name("SVR"), "no support vectors", fit(svm.SVR(epsilon=1000.0), "value"))
    yield Case(
        name("SVR"),
        "sigmoid, sparse",
        fit(svm.SVR(kernel="sigmoid"), "value", make=scipy.sparse.csr_matrix),
        rows=MODERATE,
    )
    yield Case(name("OneClassSVM"), "rbf", fit(svm.OneClassSVM(nu=0.2)), rows=MODERATE)
    yield Case(
        name("OneClassSVM"),
        "poly",
        fit(svm.OneClassSVM(nu=0.2, kernel="poly", gamma=0.1, coef0=1.0)),
        rows=MODERATE,
    )
    yield Case(
        "sklearn.linear_model.SGDOneClassSVM",
        "default",
        fit(linear_model.SGDOneClassSVM(random_state=0)),
    )


def methods() -> Iterator[Case]:
    """Ridge regression and principal components over every kernel."""
    ridge, pca = kernel_ridge.KernelRidge, decomposition.KernelPCA
    case = partial(Case, "sklearn.kernel_ridge.KernelRidge", rows=MODERATE)
    yield case("rbf", fit(ridge(kernel="rbf", gamma=0.05), "value"))
    yield case("rbf, float32, two targets", fit(ridge(kernel="rbf"), "values", "float32"))
    yield case(
        "a kernel of a Gaussian process",
        fit(ridge(kernel=kernels.Matern(2.0) + kernels.DotProduct(0.5)), "value"),
    )
    for kernel in ("linear", "poly", "sigmoid", "cosine", "laplacian"):
        yield case(kernel, fit(ridge(kernel=kernel, degree=2, gamma=0.01), "value"))
    for kernel in ("chi2", "additive_chi2"):
        yield case(
            kernel, fit(ridge(kernel=kernel, gamma=0.1), "value", make=np.abs), rows=positive
        )
    yield case(
        "chi2, float32",
        fit(ridge(kernel="chi2", gamma=0.1), "value", "float32", make=np.abs),
        rows=positive,
    )
    yield case(
        "precomputed", fit(ridge(kernel="precomputed"), "value", make=kernel_of), rows=kernel_rows
    )
    case = partial(Case, "sklearn.decomposition.KernelPCA", rows=MODERATE)
    yield case("rbf", fit(pca(3, kernel="rbf", random_state=0)))
    yield case(
        "poly, all components",
        fit(pca(kernel="poly", gamma=0.001, degree=2, eigen_solver="dense", remove_zero_eig=True)),
    )
    yield case("cosine, float32", fit(pca(3, kernel="cosine"), dtype="float32"))
    yield case("precomputed", fit(pca(3, kernel="precomputed"), make=kernel_of), rows=kernel_rows)
    centre = "sklearn.preprocessing.KernelCenterer"
    yield Case(
        centre, "default", fit(preprocessing.KernelCenterer(), make=kernel_of), rows=kernel_rows
    )


def approximations() -> Iterator[Case]:
    """Features whose products approximate a kernel."""
    k, name = kernel_approximation, "sklearn.kernel_approximation.{}".format
    case = partial(Case, name("Nystroem"), rows=MODERATE)
    yield case("rbf", fit(k.Nystroem(n_components=10, random_state=0, gamma=0.05)))
    yield case(
        "poly by parameters",
        fit(
            k.Nystroem(
                "poly",
                n_components=5,
                kernel_params={"degree": 2, "gamma": 0.1},
                coef0=0.5,
                random_state=0,
            )
        ),
    )
    yield case(
        "chi2", fit(k.Nystroem("chi2", n_components=5, random_state=0), make=np.abs), rows=positive
    )
    yield case(
        "precomputed",
        fit(k.Nystroem("precomputed", n_components=60, random_state=0), make=kernel_of),
        rows=kernel_rows,
    )
    for dtype in ("float64", "float32"):
        yield Case(
            name("RBFSampler"),
            dtype,
            fit(k.RBFSampler(n_components=7, random_state=0), dtype=dtype),
            rows=MODERATE,
        )
    yield Case(
        name("RBFSampler"),
        "scale",
        fit(k.RBFSampler(gamma="scale", n_components=7, random_state=0)),
        rows=MODERATE,
    )
    yield Case(
        name("SkewedChi2Sampler"),
        "default",
        fit(k.SkewedChi2Sampler(skewedness=0.5, n_components=7, random_state=0), make=np.abs),
        rows=positive,
    )
    yield Case(
        name("SkewedChi2Sampler"),
        "float32",
        fit(k.SkewedChi2Sampler(n_components=7, random_state=0), dtype="float32", make=np.abs),
        rows=positive,
    )
    for steps, interval in ((2, None), (1, None), (3, None), (4, 0.3)):
        yield Case(
            name("AdditiveChi2Sampler"), f"{steps} steps of {interval}", fit(k.AdditiveChi2Sampler(sample_steps=steps, sample_interval=interval), make=np.abs),
            rows=positive,
        )  # fmt: skip
    sketch = partial(k.PolynomialCountSketch, random_state=0)
    yield Case(
        name("PolynomialCountSketch"), "degree 2", fit(sketch(n_components=10)), rows=MODERATE
    )
    yield Case(
        name("PolynomialCountSketch"),
        "degree 3, coef0",
        fit(sketch(gamma=0.1, degree=3, coef0=0.5, n_components=7)),
        rows=MODERATE,
    )


def processes() -> Iterator[Case]:
    """Gaussian processes over every kernel."""
    g, k = gaussian_process, kernels
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
        yield case(name, fit(regressor(kernel), "value"))
    yield case("no kernel, normalized", fit(regressor(normalize_y=True), "value"))
    yield case(
        "two targets, normalized, float32",
        fit(regressor(k.RBF(3.0), normalize_y=True), "values", "float32"),
    )
    case = partial(Case, "sklearn.gaussian_process.GaussianProcessClassifier", rows=MODERATE)
    classifier = partial(g.GaussianProcessClassifier, optimizer=None)
    yield case("two text", fit(classifier(k.RBF(3.0)), "two_text"))
    yield case(
        "one against the rest",
        fit(classifier(2.0 * k.Matern(3.0) + k.DotProduct(0.1) * k.WhiteKernel(0.1)), "three_text"),
    )
    one = classifier(
        k.RationalQuadratic(3.0) ** 2 + k.PairwiseKernel(0.01, metric="rbf"),
        multi_class="one_vs_one",
    )
    yield case("one against one", fit(one, "three"), methods=("predict",))


CASES = (*machines(), *methods(), *approximations(), *processes())
