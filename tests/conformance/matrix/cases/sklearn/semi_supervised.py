"""Labels passed on from row to row, and self-training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import NEAR
from matrix.members import LOGISTIC, XGB
from sklearn import (
    semi_supervised,
)


def self_trained() -> Iterator[Case]:
    """Self-trained classifiers."""
    known = np.where(np.arange(200) % 3 > 0, target("three"), -1)
    trained = semi_supervised.SelfTrainingClassifier
    yield Case(
        "sklearn.semi_supervised.SelfTrainingClassifier",
        "logistic",
        lambda: trained(LOGISTIC).fit(fit_rows(), known),
    )
    yield Case(
        "sklearn.semi_supervised.SelfTrainingClassifier",
        "xgboost",
        lambda: trained(XGB(), criterion="k_best").fit(fit_rows(), known),
        kind="trees",
    )


def propagations() -> Iterator[Case]:
    """Labels passed on from row to row."""
    labels = np.where(np.arange(len(fit_rows())) % 3, target("three"), -1)
    for each in ("LabelPropagation", "LabelSpreading"):
        estimator = getattr(semi_supervised, each)
        case = partial(Case, f"sklearn.semi_supervised.{each}", rows=NEAR)
        same_as = "" if each == "LabelPropagation" else "LabelPropagation"
        yield case(
            "rbf",
            lambda estimator=estimator: estimator(gamma=0.01, max_iter=30).fit(fit_rows(), labels),
            same_as=same_as,
        )
        yield case(
            "knn",
            lambda estimator=estimator: estimator("knn", n_neighbors=5).fit(
                fit_rows().astype(np.float32), labels
            ),
            same_as=same_as,
        )


CASES = (*self_trained(), *propagations())
