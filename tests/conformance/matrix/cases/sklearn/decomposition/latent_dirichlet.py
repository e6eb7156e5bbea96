"""Topics of documents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import fit_positive, positive_rows
from sklearn import (
    decomposition,
)


def topics() -> Iterator[Case]:
    """Topics: rows stop when they change little; in float32, where rounding moves that step,
    all take the same number of steps.
    """
    case = partial(Case, "sklearn.decomposition.LatentDirichletAllocation", rows=positive_rows)
    model = partial(decomposition.LatentDirichletAllocation, max_iter=3)
    yield case("three topics", fit_positive(model(3, random_state=0)))
    yield case(
        "online, many steps",
        fit_positive(
            model(
                4,
                learning_method="online",
                mean_change_tol=1e-9,
                max_doc_update_iter=300,
                random_state=0,
            )
        ),
    )
    yield case(
        "few steps",
        fit_positive(
            model(
                2, doc_topic_prior=1e-7, mean_change_tol=0.0, max_doc_update_iter=3, random_state=0
            )
        ),
    )
    yield case(
        "fitted on float32",
        fit_positive(
            model(3, mean_change_tol=0.0, max_doc_update_iter=30, random_state=0), "float32"
        ),
    )


CASES = (*topics(),)
