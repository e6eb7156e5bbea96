"""Naive Bayes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import MODERATE, fit
from sklearn import naive_bayes


def fit_counts(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator on what is not negative."""
    return lambda: estimator.fit(np.abs(fit_rows()), target(y))


def categories(n: int) -> np.ndarray:
    """Rows of four categories, numbered from zero; a fraction is cut off."""
    rng = np.random.default_rng(n)
    return np.maximum(
        rng.integers(0, 4, (n, 4)) + rng.choice([0.0, 0.75, -0.5], (n, 4)), -0.5
    ).clip(max=3.75)


def fit_categories(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator on categories."""
    return lambda: estimator.fit(categories(200), target(y))


def bayes() -> Iterator[Case]:
    """The five of them."""
    name = "sklearn.naive_bayes.{}".format
    nb = naive_bayes
    yield Case(name("GaussianNB"), "three text", fit(nb.GaussianNB(), "three_text"))
    yield Case(
        name("GaussianNB"),
        "two bool, float32, priors",
        fit(nb.GaussianNB(priors=[0.1, 0.9], var_smoothing=1e-3), "two_bool", "float32"),
    )
    yield Case(name("MultinomialNB"), "three", fit_counts(nb.MultinomialNB(), "three"))
    yield Case(
        name("MultinomialNB"),
        "two text, uniform prior",
        fit_counts(nb.MultinomialNB(alpha=0.1, fit_prior=False), "two_text"),
        rows=MODERATE,
    )
    yield Case(name("ComplementNB"), "three text", fit_counts(nb.ComplementNB(), "three_text"))
    yield Case(name("ComplementNB"), "two, norm", fit_counts(nb.ComplementNB(norm=True), "two"))
    yield Case(
        name("ComplementNB"),
        "one class",
        lambda: nb.ComplementNB().fit(np.abs(fit_rows()), np.ones(200, int)),
    )
    yield Case(name("BernoulliNB"), "three", fit(nb.BernoulliNB(), "three"))
    yield Case(
        name("BernoulliNB"),
        "two, threshold of a tenth",
        fit(nb.BernoulliNB(binarize=0.1, alpha=0.5), "two"),
    )
    yield Case(
        name("BernoulliNB"),
        "not binarized",
        lambda: nb.BernoulliNB(binarize=None).fit(fit_rows() > 0, target("two_text")),
    )
    yield Case(
        name("CategoricalNB"),
        "three text",
        fit_categories(nb.CategoricalNB(), "three_text"),
        rows=categories,
    )
    yield Case(
        name("CategoricalNB"),
        "two, more categories",
        fit_categories(nb.CategoricalNB(min_categories=[4, 5, 6, 9]), "two"),
        rows=categories,
    )


CASES = (*bayes(),)
