"""Natural gradient boosting of several distributions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import Trees, fit
from ngboost import NGBClassifier, NGBRegressor
from ngboost.distns import Exponential, Laplace, LogNormal, Normal, Poisson, k_categorical


def boosters() -> Iterator[Case]:
    """Means of distributions, classes, and trees of some columns.

    What the source answers after each stage is not converted.
    """
    values = partial(Trees, "ngboost.NGBRegressor", methods=("predict",))
    classes = partial(Trees, "ngboost.NGBClassifier", methods=("predict", "predict_proba"))
    small = {"n_estimators": 6, "random_state": 0, "verbose": False, "natural_gradient": True}
    regressor = partial(NGBRegressor, **small)
    for distribution, y in ((Normal, "value"), (LogNormal, "positive"), (Exponential, "positive")):
        yield values(distribution.__name__, fit(regressor(Dist=distribution), y))
    yield values("Poisson", fit(regressor(Dist=Poisson), "count"))
    some = regressor(Dist=Laplace, col_sample=0.5, minibatch_frac=0.7)
    yield values("some columns a stage", fit(some, "value"))
    missing = fit(regressor(Dist=Normal), "value", missing=True)
    yield values("missing values", missing)
    classifier = partial(NGBClassifier, **small)
    yield classes("two", fit(classifier(), "flag"))
    three = fit(classifier(Dist=k_categorical(3)), "three")
    yield classes("three", three)


CASES = (*boosters(),)
