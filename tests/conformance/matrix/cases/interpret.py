"""Explainable boosting machines of numbers, text, missing values and pairs of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
from matrix.case import Case
from matrix.data import fit_rows, rows, table_rows, target
from matrix.fitting import Trees, fit, missing_rows
from matrix.tables import fit_mixed

_SMALL = {"max_rounds": 20, "outer_bags": 1, "n_jobs": 1, "random_state": 0}


def machines() -> Iterator[Case]:
    """Links, classes, and kinds of columns."""
    classifier = partial(ExplainableBoostingClassifier, **_SMALL)
    regressor = partial(ExplainableBoostingRegressor, **_SMALL)
    classes = partial(Trees, "interpret.glassbox.ExplainableBoostingClassifier")
    values = partial(Trees, "interpret.glassbox.ExplainableBoostingRegressor")
    yield classes(
        "two, pairs, text, missing values",
        fit_mixed(classifier(interactions=6), "two_text"),
        rows=table_rows,
    )
    yield classes("three", fit(classifier(interactions=2), "three_text"))
    yield classes(
        "categories of numbers, missing values",
        _of_categories(classifier(interactions=[(0, 4), (0, 1, 3)])),
        rows=missing_rows,
    )
    yield values("missing values", fit(regressor(interactions=0), "value", missing=True))
    yield values("log link", fit(regressor(objective="poisson_deviance"), "count"))
    yield values("no terms", _without_terms(regressor(interactions=0)), rows=_one_column)


def _of_categories(machine: Any) -> Callable[[], Any]:
    kinds = ["nominal" if column in (0, 4) else "continuous" for column in range(8)]
    return fit(machine.set_params(feature_types=kinds), "two", missing=True)


def _one_column(n: int) -> np.ndarray:
    return rows(n)[:, 2:3]


def _without_terms(machine: Any) -> Callable[[], Any]:
    def made() -> Any:
        fitted = machine.fit(fit_rows()[:, 2:3], target("value"))
        return fitted.remove_terms([0])

    return made


CASES = (*machines(),)
