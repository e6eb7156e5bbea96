"""Discriminant analysis."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.fitting import fit, known
from sklearn import discriminant_analysis


def discriminants() -> Iterator[Case]:
    """Linear and quadratic, by every solver."""
    name = "sklearn.discriminant_analysis.{}".format
    linear = discriminant_analysis.LinearDiscriminantAnalysis
    quadratic = discriminant_analysis.QuadraticDiscriminantAnalysis
    predicts = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    yield Case(name("LinearDiscriminantAnalysis"), "three text", fit(linear(), "three_text"))
    yield Case(name("LinearDiscriminantAnalysis"), "two, float32", fit(linear(), "two", "float32"))
    yield Case(
        name("LinearDiscriminantAnalysis"),
        "eigen, one component",
        fit(linear(solver="eigen", shrinkage="auto", n_components=1), "three"),
    )
    yield Case(
        name("LinearDiscriminantAnalysis"),
        "lsqr",
        fit(linear(solver="lsqr", shrinkage=0.1), "two_bool"),
        methods=predicts,
    )
    yield Case(name("QuadraticDiscriminantAnalysis"), "three text", fit(quadratic(), "three_text"))
    yield Case(
        name("QuadraticDiscriminantAnalysis"),
        "two, regularized",
        fit(quadratic(reg_param=0.1, priors=[0.2, 0.8]), "two"),
    )
    yield Case(
        name("QuadraticDiscriminantAnalysis"),
        "eigen, float32",
        fit(known(quadratic, solver="eigen", shrinkage=0.1)(), "three", "float32"),
    )


CASES = (*discriminants(),)
