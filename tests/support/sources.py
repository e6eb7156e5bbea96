"""Ask a fitted model of any library, and lay its answer out as one array."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from inspect import signature
from typing import Any

import numpy as np

from hbconv.names import EXPLANATIONS
from hbconv.parse import METHODS

__all__ = ["ask", "compared", "dense", "library", "methods", "quietly"]


def library(estimator: Any) -> str:
    """Top-level package of the estimator's class."""
    return type(estimator).__module__.partition(".")[0]


def compared(model: Any) -> tuple[str, ...]:
    """Methods of a converted model that are compared with its source to the last bits.

    Explanations have tests of their own: each library rounds them in other steps.
    """
    return tuple(method for method in model.methods if method not in EXPLANATIONS)


def methods(estimator: Any) -> tuple[str, ...]:
    """Methods that compute something on new rows, as hbconv names them."""
    own = tuple(m for m in METHODS if hasattr(estimator, m))
    own += ("predict_std",) * _takes(estimator, "return_std")
    boosters = (
        ()
        if library(estimator) == "sklearn" or not hasattr(estimator, "predict")
        else ("apply", "raw_scores")
    )
    return own + tuple(
        m
        for m in boosters
        if library(estimator) in ("lightgbm", "xgboost", "catboost") and m not in own
    )


def _takes(estimator: Any, argument: str) -> bool:
    """Whether predict, which a pipeline hands to its last step, has an argument."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return hasattr(last, "predict") and argument in signature(last.predict).parameters


def ask(estimator: Any, method: str, x: Any) -> Any:
    """Call a method of the source; ``raw_scores`` and ``apply`` as each library spells them."""
    spelled = {
        ("lightgbm", "raw_scores"): lambda: estimator.predict(x, raw_score=True),
        ("lightgbm", "apply"): lambda: estimator.predict(x, pred_leaf=True),
        ("xgboost", "raw_scores"): lambda: estimator.predict(x, output_margin=True),
        ("catboost", "raw_scores"): lambda: estimator._predict(
            x, "RawFormulaVal", 0, 0, 1, False, "predict"
        ),  # rankers' predict has no choice
        ("catboost", "apply"): lambda: estimator.calc_leaf_indexes(x),
        ("lightgbm", "contributions"): lambda: estimator.predict(x, pred_contrib=True),
        ("sklearn", "predict_std"): lambda: np.asarray(estimator.predict(x, return_std=True)[1]),
        **{
            ("xgboost", name): lambda: _ask_booster(
                estimator.get_booster(), method, _matrix(estimator, x), _used(estimator)
            )
            for name in EXPLANATIONS
        },
        ("catboost", "contributions"): lambda: _catboost_contributions(estimator, x),
    }
    if type(estimator).__name__ == "Booster" and library(estimator) == "xgboost":
        return _ask_booster(estimator, method, x)
    return spelled.get((library(estimator), method), lambda: getattr(estimator, method)(x))()


_ARGUMENTS: dict[str, dict[str, bool]] = {
    "predict": {},
    "raw_scores": {"output_margin": True},
    "apply": {"pred_leaf": True},
    "contributions": {"pred_contribs": True},
    "interactions": {"pred_interactions": True},
}
"""Arguments of XGBoost's ``Booster.predict``."""


def _ask_booster(booster: Any, method: str, x: Any, iterations: tuple[int, int] = (0, 0)) -> Any:
    import xgboost

    x = x if isinstance(x, xgboost.DMatrix) else xgboost.DMatrix(x, enable_categorical=True)
    return booster.predict(x, iteration_range=iterations, **_ARGUMENTS[method])


def _matrix(wrapper: Any, x: Any) -> Any:
    """Make the matrix that a wrapper of XGBoost makes."""
    import xgboost

    return xgboost.DMatrix(x, missing=wrapper.missing, enable_categorical=True)


def _used(wrapper: Any) -> tuple[int, int]:
    """Return the iterations that a wrapper of XGBoost predicts with."""
    best = getattr(wrapper, "best_iteration", None)
    return (0, 0) if best is None else (0, best + 1)


def _catboost_contributions(model: Any, x: Any) -> Any:
    import catboost

    pool = catboost.Pool(x, cat_features=model.get_cat_feature_indices())
    return model.get_feature_importance(pool, type="ShapValues", thread_count=1)


def quietly(estimator: Any, method: str, x: Any) -> Any:
    """Ask the source, whatever it warns of."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = ask(estimator, method, x)
        return list(answer) if isinstance(answer, Iterator) else answer


def dense(values: Any) -> np.ndarray:
    """Return an answer of any form as one array: sparse ones written out, lists and stages side by
    side in new columns.

    For one row, scikit-learn's GradientBoostingClassifier makes a stage's label a scalar.
    """
    if hasattr(values, "toarray"):
        return np.asarray(values.toarray())
    if isinstance(values, tuple) and hasattr(values[0], "toarray"):
        return dense(values[0])
    if isinstance(values, list | tuple | Iterator):
        parts = [np.atleast_1d(v) for v in map(dense, values)]
        return np.concatenate([v[:, None] if v.ndim == 1 else v for v in parts], axis=1)
    array = np.asarray(values)
    is_ragged = array.ndim == 1 and isinstance(next(iter(array), None), np.ndarray)
    return _padded(array) if is_ragged else array


def _padded(lists: np.ndarray) -> np.ndarray:
    """Lay out an array for each row, NaN behind the end of each."""
    padded = np.full((len(lists), max(map(len, lists))), np.nan)
    for row, values in zip(padded, lists, strict=True):
        row[: len(values)] = values
    return padded
