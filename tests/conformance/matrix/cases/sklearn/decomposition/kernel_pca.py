"""Principal components of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import MODERATE
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows
from sklearn import (
    decomposition,
)


def components() -> Iterator[Case]:
    """Principal components of kernels."""
    pca = decomposition.KernelPCA
    case = partial(Case, "sklearn.decomposition.KernelPCA", rows=MODERATE)
    yield case("rbf", fit_few(pca(3, kernel="rbf", random_state=0)))
    yield case(
        "poly, all components",
        fit_few(
            pca(kernel="poly", gamma=0.001, degree=2, eigen_solver="dense", remove_zero_eig=True)
        ),
    )
    yield case("cosine, float32", fit_few(pca(3, kernel="cosine"), dtype="float32"))
    yield case(
        "precomputed", fit_few(pca(3, kernel="precomputed"), make=kernel_of), rows=kernel_rows
    )


CASES = (*components(),)
