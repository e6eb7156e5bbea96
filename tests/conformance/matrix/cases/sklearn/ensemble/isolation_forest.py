"""Isolation forests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.data import fit_rows, with_missing
from matrix.fitting import Trees
from sklearn import ensemble


def isolation() -> Iterator[Case]:
    """Isolation forests."""
    case = partial(Trees, "sklearn.ensemble.IsolationForest")
    make = partial(ensemble.IsolationForest, n_estimators=8, random_state=0)
    yield case("default", lambda: make().fit(fit_rows()))
    yield case("some columns", lambda: make(max_features=3, max_samples=40).fit(fit_rows()))
    yield case(
        "contamination, missing values",
        lambda: make(contamination=0.2).fit(with_missing(fit_rows())),
    )


CASES = (*isolation(),)
