"""Ensembles of members fitted on resampled rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from imblearn import ensemble
from matrix.case import Case
from matrix.fitting import MODERATE, Trees, fit
from sklearn import ensemble as sklearn_ensemble
from sklearn import linear_model, tree


def ensembles() -> Iterator[Case]:
    """Forests, bags and boosting."""
    name = "imblearn.ensemble.{}".format
    few = {"n_estimators": 4, "random_state": 0}
    bag = partial(ensemble.BalancedBaggingClassifier, **few)
    yield Trees(name("BalancedBaggingClassifier"), "trees", fit(bag(), "three_text", missing=True))
    some = bag(linear_model.LogisticRegression(max_iter=50), max_features=0.5)
    linear = fit(some, "two")
    yield Case(name("BalancedBaggingClassifier"), "linear members", linear, rows=MODERATE)
    boost = sklearn_ensemble.AdaBoostClassifier(n_estimators=3, random_state=0)
    easy = ensemble.EasyEnsembleClassifier(estimator=boost, **few)
    yield Trees(name("EasyEnsembleClassifier"), "three", fit(easy, "three"))
    forest = partial(ensemble.BalancedRandomForestClassifier, max_depth=4, **few)
    yield Trees(name("BalancedRandomForestClassifier"), "three", fit(forest(), "three_text"))
    options = {"sampling_strategy": "all", "replacement": True, "bootstrap": False}
    yield Trees(
        name("BalancedRandomForestClassifier"), "two", fit(forest(**options), "two", missing=True)
    )
    stumps = tree.DecisionTreeClassifier(max_depth=2)
    rus = ensemble.RUSBoostClassifier(stumps, **few)
    yield Trees(name("RUSBoostClassifier"), "three", fit(rus, "three_text"))


CASES = (*ensembles(),)
