"""Ensembles and pipelines of resampled rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from imblearn import FunctionSampler, ensemble, over_sampling, pipeline, under_sampling
from matrix.case import Case
from matrix.data import table_rows
from matrix.fitting import MODERATE, Entries, Trees, fit, missing_rows
from matrix.tables import encode, fit_mixed
from sklearn import decomposition, impute, linear_model, preprocessing, tree
from sklearn import ensemble as sklearn_ensemble


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


_ENSEMBLE = (*ensembles(),)


def pipelines() -> Iterator[Case]:
    """Samplers before, between and after transformers."""
    chain = partial(Case, "imblearn.pipeline.Pipeline")
    make = pipeline.make_pipeline
    under = partial(under_sampling.RandomUnderSampler, random_state=0)
    over = over_sampling.SMOTE(random_state=0, k_neighbors=2)
    logistic = partial(linear_model.LogisticRegression, max_iter=50)
    yield chain(
        "sampler between a scaler and a classifier",
        fit(make(preprocessing.StandardScaler(), over, logistic()), "three_text"),
        rows=MODERATE,
    )
    trees = make(under(), impute.SimpleImputer(), tree.DecisionTreeClassifier(max_depth=4))
    yield Trees(
        "imblearn.pipeline.Pipeline",
        "sampler first, missing values",
        fit(trees, "two", missing=True),
        rows=missing_rows,
    )
    reduced = make(FunctionSampler(), preprocessing.MinMaxScaler(), decomposition.PCA(3))
    yield chain("ends in a transformer", fit(reduced, "two"), rows=MODERATE)
    passed = make("passthrough", under(), preprocessing.MaxAbsScaler(), "passthrough")
    yield Entries("imblearn.pipeline.Pipeline", "passthrough", fit(passed, "two"))
    mixed = make(encode(impute.SimpleImputer()), under(), logistic())
    yield chain("a table of numbers and text", fit_mixed(mixed, "two"), rows=table_rows)


_PIPELINE = (*pipelines(),)


CASES = (
    *_ENSEMBLE,
    *_PIPELINE,
)
