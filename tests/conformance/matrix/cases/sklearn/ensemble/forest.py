"""Averages of trees."""

from __future__ import annotations

from collections.abc import Iterator

from matrix.case import Case
from matrix.tree_families import of_family
from sklearn import ensemble


def forests() -> Iterator[Case]:
    """Averages of trees."""
    for family in ("RandomForest", "ExtraTrees"):
        yield from of_family(ensemble, family, n_estimators=6, max_depth=5, random_state=0)


CASES = (*forests(),)
