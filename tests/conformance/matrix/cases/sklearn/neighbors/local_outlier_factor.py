"""The local outlier factor of new rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import NEAR, fit
from sklearn import neighbors

NAME = "sklearn.neighbors.{}".format


def outliers() -> Iterator[Case]:
    """The local outlier factor of new rows."""
    case = partial(Case, NAME("LocalOutlierFactor"), rows=NEAR)
    factor = partial(neighbors.LocalOutlierFactor, novelty=True)
    yield case("default", fit(factor()))
    yield case("contamination, float32", fit(factor(5, contamination=0.1, p=1), dtype="float32"))


CASES = (*outliers(),)
