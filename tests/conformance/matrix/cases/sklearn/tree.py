"""Single trees of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matrix.case import Case
from matrix.fitting import Trees, fit
from matrix.tree_families import of_family
from sklearn import tree


def single() -> Iterator[Case]:
    """Single trees."""
    for family in ("DecisionTree", "ExtraTree"):
        yield from of_family(tree, family, max_depth=6, random_state=0)
    yield Trees(
        "sklearn.tree.DecisionTreeClassifier", "entropy, weights", fit(make_entropy(), "two")
    )
    poisson = tree.DecisionTreeRegressor(criterion="poisson", max_depth=4)
    yield Trees("sklearn.tree.DecisionTreeRegressor", "poisson", fit(poisson, "count"))


def make_entropy() -> Any:
    """Return a tree with unequal class weights."""
    return tree.DecisionTreeClassifier(
        criterion="entropy", class_weight={3: 1.0, 7: 2.5}, max_depth=4, random_state=0
    )


CASES = (*single(),)
