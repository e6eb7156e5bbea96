"""Support vector machines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial

import scipy.sparse
from matrix.case import Case
from matrix.fitting import MODERATE, fit
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows
from sklearn import (
    svm,
)


def machines() -> Iterator[Case]:
    """Classifiers, regressors and outlier detectors over support vectors."""
    warnings.filterwarnings("ignore", "The `probability` parameter")
    name = "sklearn.svm.{}".format
    svc = partial(Case, name("SVC"), rows=MODERATE)
    likely = {"probability": True, "random_state": 0}
    yield svc("rbf, three text, probabilities", fit_few(svm.SVC(**likely), "three_text"))
    yield svc(
        "sigmoid, two, probabilities",
        fit_few(svm.SVC(kernel="sigmoid", coef0=0.1, **likely), "two_bool"),
    )
    yield svc(
        "linear, ovo", fit_few(svm.SVC(kernel="linear", decision_function_shape="ovo"), "three")
    )
    yield svc(
        "poly, break ties",
        fit_few(svm.SVC(kernel="poly", gamma=0.01, degree=2, coef0=1.0, break_ties=True), "three"),
    )
    yield svc(
        "precomputed",
        fit_few(svm.SVC(kernel="precomputed"), "three", make=kernel_of),
        rows=kernel_rows,
    )
    yield svc(
        "fitted on a sparse matrix",
        fit_few(
            svm.SVC(gamma=0.05, class_weight="balanced", **likely),
            "three",
            make=scipy.sparse.csr_matrix,
        ),
    )
    nu_svc = partial(Case, name("NuSVC"), rows=MODERATE, same_as="SVC")
    yield nu_svc("two text, probabilities", fit_few(svm.NuSVC(nu=0.3, **likely), "two_text"))
    yield nu_svc("three", fit_few(svm.NuSVC(nu=0.3, gamma="auto"), "three"))
    for each, same_as in (("SVR", ""), ("NuSVR", "SVR")):
        case = partial(Case, name(each), rows=MODERATE, same_as=same_as)
        yield case("rbf", fit_few(getattr(svm, each)(), "value"))
        yield case(
            "linear, float32", fit_few(getattr(svm, each)(kernel="linear"), "value", "float32")
        )
    yield Case(name("SVR"), "no support vectors", fit_few(svm.SVR(epsilon=1000.0), "value"))
    yield Case(
        name("SVR"),
        "sigmoid, sparse",
        fit_few(svm.SVR(kernel="sigmoid"), "value", make=scipy.sparse.csr_matrix),
        rows=MODERATE,
    )
    yield Case(name("OneClassSVM"), "rbf", fit_few(svm.OneClassSVM(nu=0.2)), rows=MODERATE)
    yield Case(
        name("OneClassSVM"),
        "poly",
        fit_few(svm.OneClassSVM(nu=0.2, kernel="poly", gamma=0.1, coef0=1.0)),
        rows=MODERATE,
    )


def linear_machines() -> Iterator[Case]:
    """Linear support vector machines."""
    yield Case(
        "sklearn.svm.LinearSVR",
        "default",
        fit(svm.LinearSVR(random_state=0), "value"),
        same_as="LinearRegression",
    )
    yield Case("sklearn.svm.LinearSVC", "two bool", fit(svm.LinearSVC(random_state=0), "two_bool"))
    yield Case(
        "sklearn.svm.LinearSVC", "three text", fit(svm.LinearSVC(random_state=0), "three_text")
    )
    yield Case(
        "sklearn.svm.LinearSVC",
        "crammer_singer",
        fit(svm.LinearSVC(multi_class="crammer_singer", random_state=0), "two"),
    )


CASES = (*machines(), *linear_machines())
