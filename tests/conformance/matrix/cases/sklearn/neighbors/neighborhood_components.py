"""A learned projection."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import NEAR, fit
from sklearn.neighbors import NeighborhoodComponentsAnalysis


def learned() -> Iterator[Case]:
    """A learned projection."""
    case = partial(Case, "sklearn.neighbors.NeighborhoodComponentsAnalysis", rows=NEAR)
    learn = NeighborhoodComponentsAnalysis
    yield case("default", fit(learn(3, max_iter=5, random_state=0), "three"))
    yield case("identity, float32", fit(learn(init="identity", max_iter=2), "three", "float32"))


CASES = (*learned(),)
