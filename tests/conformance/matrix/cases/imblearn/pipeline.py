"""Pipelines with samplers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from imblearn import FunctionSampler, over_sampling, pipeline, under_sampling
from matrix.case import Case
from matrix.data import table_rows
from matrix.fitting import MODERATE, Entries, Trees, fit, missing_rows
from matrix.tables import encode, fit_mixed
from sklearn import decomposition, impute, linear_model, preprocessing, tree


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


CASES = (*pipelines(),)
