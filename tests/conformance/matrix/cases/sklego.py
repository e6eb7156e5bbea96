"""Estimators around others, linear regressors and transformers of columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import fit_rows, fit_table, rows, table_rows, target
from matrix.fitting import MODERATE, Entries, Trees, fit, missing_rows
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklego import linear_model, meta, preprocessing
from sklego.preprocessing.repeatingbasis import _RepeatingBasisFunction


def _fit_linear_model(kind: type, **options: Any) -> Callable[[], Any]:
    def fitted() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(**options).fit(fit_rows(), target("value"))

    return fitted


_NAME = "sklego.linear_model.{}".format
_PUNISHED = {"overestimation_punishment_factor": 3.0}

_LINEAR_MODEL = (
    Case(_NAME("LADRegression"), "plain", _fit_linear_model(linear_model.LADRegression)),
    Case(
        _NAME("QuantileRegression"),
        "no intercept",
        _fit_linear_model(linear_model.QuantileRegression, quantile=0.8, fit_intercept=False),
    ),
    Case(
        _NAME("ImbalancedLinearRegression"),
        "punished",
        _fit_linear_model(linear_model.ImbalancedLinearRegression, **_PUNISHED),
    ),
    Case(_NAME("DeadZoneRegressor"), "plain", _fit_linear_model(linear_model.DeadZoneRegressor)),
)


def estimators() -> Iterator[Case]:
    """Around trees, whose answers are exact, and around linear models."""
    name = "sklego.meta.{}".format
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    forest = RandomForestClassifier(4, max_depth=3, random_state=0)
    numbers = DecisionTreeRegressor(max_depth=4, random_state=0)
    logistic = LogisticRegression(max_iter=200)
    moderate = partial(Case, rows=MODERATE)
    yield Trees(name("Thresholder"), "trees", fit(meta.Thresholder(forest, 0.25), "two_text"))
    odd = meta.Thresholder(logistic, np.float64(0.7), check_input=True)
    yield moderate(name("Thresholder"), "logistic", fit(odd, "two"))
    yield Trees(name("DecayEstimator"), "numbers", fit(meta.DecayEstimator(numbers), "value"))
    named = meta.DecayEstimator(tree, decay_func="linear", check_input=True)
    yield Trees(name("DecayEstimator"), "classes", fit(named, "three_text"))
    transformed = meta.EstimatorTransformer(numbers, check_input=True)
    yield Trees(name("EstimatorTransformer"), "predict", fit(transformed, "value"))
    scores = meta.EstimatorTransformer(logistic, predict_func="decision_function")
    yield moderate(name("EstimatorTransformer"), "decision_function", fit(scores, "two"))
    both = meta.EstimatorTransformer(LinearRegression())
    yield Case(name("EstimatorTransformer"), "two targets", fit(both, "values"))
    yield Trees(name("OrdinalClassifier"), "trees", fit(meta.OrdinalClassifier(tree), "three"))
    calibrated = meta.OrdinalClassifier(logistic, use_calibration=True)
    yield moderate(name("OrdinalClassifier"), "calibrated", fit(calibrated, "three"))
    prior = {"low": 0.6, "middle": 0.1, "high": 0.3}
    for evidence in ("predict_proba", "confusion_matrix", "both"):
        subjective = meta.SubjectiveClassifier(forest, prior, evidence)
        yield Trees(name("SubjectiveClassifier"), evidence, fit(subjective, "three_text"))
    inflated = meta.ZeroInflatedRegressor(tree, numbers)
    yield Trees(name("ZeroInflatedRegressor"), "trees", _inflated(inflated))
    linear = meta.ZeroInflatedRegressor(logistic, LinearRegression())
    yield moderate(name("ZeroInflatedRegressor"), "linear", _inflated(linear))


def _inflated(model: Any) -> Callable[[], Any]:
    return lambda: model.fit(fit_rows(), target("count"))


_META = (*estimators(),)


NAMES = ["count", "decimal", "normal", "skewed"]


def _numbers(n: int) -> pd.DataFrame:
    return table_rows(n)[NAMES]


def _two(n: int) -> pd.DataFrame:
    return table_rows(n)[["skewed", "count"]]


def _one(n: int) -> np.ndarray:
    return rows(n)[:, :1]


def _fit_preprocessing(transformer: Any, columns: list[str]) -> Callable[[], Any]:
    return lambda: transformer.fit(fit_table()[columns])


def _repeating(**options: Any) -> Callable[[], Any]:
    def fitted() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return preprocessing.RepeatingBasisFunction(**options).fit(fit_rows())

    return fitted


def _ask(transformer: Any, method: str, x: Any) -> Any:
    return np.asarray(getattr(transformer, method)(x))


def _with_texts(transformer: Any, method: str, x: pd.DataFrame) -> Any:
    return _ask(transformer, method, x.assign(colour="red", size="S"))


def transformers() -> Iterator[Case]:
    """Each of them, in a few settings."""
    name = "sklego.preprocessing.{}".format
    every = [*NAMES, "colour", "size"]
    chosen = _fit_preprocessing(preprocessing.ColumnSelector(["skewed", "count"]), every)
    yield Entries(name("ColumnSelector"), "two", chosen, rows=_two, ask=_ask)
    others = _fit_preprocessing(preprocessing.ColumnDropper(["colour", "size"]), every)
    yield Entries(name("ColumnDropper"), "texts", others, rows=_numbers, ask=_with_texts)
    typed = _fit_preprocessing(preprocessing.TypeSelector(include="number"), NAMES)
    kept = partial(Entries, name("TypeSelector"), dtypes=("float64",))
    yield kept("numbers", typed, rows=_numbers, ask=_ask)
    yield Entries(name("IdentityTransformer"), "plain", fit(preprocessing.IdentityTransformer()))
    checked = preprocessing.IdentityTransformer(check_X=True)
    yield Entries(name("IdentityTransformer"), "checked", fit(checked))
    yield Entries(name("ColumnCapper"), "plain", fit(preprocessing.ColumnCapper()))
    capper = preprocessing.ColumnCapper((20.0, 60.0), "lower", discard_infs=True)
    missing = fit(capper, missing=True)
    yield Entries(name("ColumnCapper"), "infinite ones discarded", missing, rows=missing_rows)
    orthogonal = preprocessing.OrthogonalTransformer
    yield Case(name("OrthogonalTransformer"), "plain", fit(orthogonal()))
    yield Case(name("OrthogonalTransformer"), "normalized", fit(orthogonal(normalize=True)))
    yield Entries(name("LinearEmbedder"), "ridge", fit(preprocessing.LinearEmbedder(), "value"))
    encoder = preprocessing.IntervalEncoder
    yield Entries(name("IntervalEncoder"), "normal", fit(encoder(), "value"))
    few = encoder(n_chunks=4, method="average")
    yield Entries(name("IntervalEncoder"), "average", fit(few, "value"))
    basis = partial(Entries, name("RepeatingBasisFunction"))
    yield basis("fitted range", _repeating(column=1, n_periods=5))
    ranged = _repeating(column=0, remainder="passthrough", input_range=(0, 7), width=0.7)
    yield basis("given range, others passed", ranged)
    alone = _RepeatingBasisFunction(n_periods=3)
    inner = name("repeatingbasis._RepeatingBasisFunction")
    yield Entries(inner, "alone", lambda: alone.fit(fit_rows()[:, :1]), rows=_one)


_PREPROCESSING = (*transformers(),)


CASES = (
    *_LINEAR_MODEL,
    *_META,
    *_PREPROCESSING,
)
