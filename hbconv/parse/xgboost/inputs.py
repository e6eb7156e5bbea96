"""The float32 rows that XGBoost reads: codes of categories, and what counts as missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    CategoryNumbers,
    Codes,
    Columns,
    Compare,
    Concat,
    Conventions,
    FindCode,
    MissingBetween,
    Node,
    Schema,
    Vocabulary,
)
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.parse.common.text_columns import text_column
from hbconv.parse.step import Step, select
from hbconv.parse.xgboost.held_booster import HeldXGBoost
from hbconv.parse.xgboost.model_file import Categories, XGBoostLinear, XGBoostModel

__all__ = ["booster_rows", "booster_schema", "model_schema", "wrapper_rows", "wrapper_schema"]


def booster_schema(booster: Any) -> Schema:
    """Return the columns of an ``xgboost.Booster``, or of what stands for one."""
    if isinstance(booster, HeldXGBoost):
        return model_schema(booster.model)
    listed = (
        "c" in (booster.feature_types or ())
        and hasattr(booster, "get_categories")
        and not booster.get_categories().empty()
    )
    return _schema(booster.feature_names or (), int(booster.num_features()), listed=listed)


def wrapper_schema(estimator: Any) -> Schema:
    """Return the columns of an estimator with scikit-learn's interface."""
    return booster_schema(estimator.get_booster())


def model_schema(model: XGBoostModel) -> Schema:
    """Return the columns of a model file."""
    return _schema(model.names, model.n_features, listed=any(model.categories))


def _schema(names: Any, n_features: int, *, listed: bool) -> Schema:
    """Return columns found by name in order; what a sparse matrix leaves out is missing.

    Category columns are read by their values where the model lists these.
    """
    schema = Schema.table([str(name) for name in names]) if names else Schema.matrix(n_features)
    conventions = Conventions(
        tables_only=listed, no_categories=not listed, absent_missing=True, names_as_text=True
    )
    return replace(schema, conventions=conventions, finds="names in order")


def booster_rows(step: Step, model: XGBoostModel) -> Node:
    """Return the rows that ``Booster.predict`` reads from a DMatrix, which refuses infinity."""
    return step.require_finite(_float_rows(step, model), allow_nan=True)


def wrapper_rows(step: Step, model: XGBoostModel) -> Node:
    """Return the rows that an estimator with scikit-learn's interface reads.

    Values equal to its parameter ``missing``, which is NaN or a number, become NaN.
    Trees predict in place, which takes infinity; a linear booster predicts from a DMatrix.
    """
    missing = step.estimator.missing
    _refuse_categories_beside_missing(step, model)
    x = _float_rows(step, model)
    if not np.isnan(missing):
        x = MissingBetween.of(x, np.float32(missing), np.float32(missing))
    takes_infinity = not isinstance(model.booster, XGBoostLinear) or np.isinf(missing)
    return x if takes_infinity else step.require_finite(x, allow_nan=True)


def _refuse_categories_beside_missing(step: Step, model: XGBoostModel) -> None:
    missing = step.estimator.missing
    if any(model.categories) and not np.isnan(missing):
        raise step.refuse(
            "missing",
            missing,
            "XGBoost would compare it with codes of categories: replace it by NaN, and fit "
            "with missing=nan.",
        )


def _float_rows(step: Step, model: XGBoostModel) -> Node:
    """Return the step's input as float32.

    NaN stands for missing categories and for what a sparse matrix leaves out.
    """
    if not (isinstance(step.x, Columns) and step.x.schema.conventions.absent_missing):
        step.require_dense(
            "takes for missing what a sparse matrix leaves out, and other steps for zero"
        )
    if any(model.categories):
        return _coded(step, model)
    return Cast(MissingBetween.of(step.x, 0, 0) if step.x_sparse else step.x, "float32")


def _coded(step: Step, model: XGBoostModel) -> Node:
    """Replace categories by the codes they had in training, other columns in runs."""
    parts: list[Node] = []
    numbers: list[int] = []
    for position, categories in enumerate((*model.categories, ())):
        if position < model.n_features and not categories:
            numbers.append(position)
            continue
        parts += [Cast(select(step.x, numbers), "float32")] if numbers else []
        parts += [_code(step, position, categories)] if categories else []
        numbers = []
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _code(step: Step, position: int, categories: Categories) -> Node:
    values = [v for v in categories if isinstance(v, int)]
    code = (
        _number_code(step, position, values)
        if values
        else _text_code(step, position, [str(v) for v in categories])
    )
    step.check(
        Compare.of(code, "lt", 0),
        f"Column {position} holds a category that {step.name} (step {step.where!r}) was not "
        "fitted on.",
    )
    places = np.argsort(values) if values else np.arange(len(categories))
    return CategoryNumbers(code, (Array(np.array([np.nan, *places, np.nan], np.float32)),))


def _number_code(step: Step, position: int, values: list[int]) -> Node:
    """Return the place of a number among the sorted values, NaN at the end."""
    if not (isinstance(step.x, Columns) and step.x.schema.conventions.tables_only):
        raise step.refuse(
            "enable_categorical",
            value=True,
            hint=(
                "Convert the XGBoost model by itself: after another step its categories could be "
                "codes."
            ),
        )
    if max(map(abs, values)) > MOST_EXACT_INT:  # a column with missing values is float64
        raise step.refuse(
            "enable_categorical",
            max(values, key=abs),
            f"hbconv handles categories up to {MOST_EXACT_INT}. Number them anew before fitting.",
        )
    known = Array(np.array([*sorted(values), np.nan]))
    return FindCode(select(step.x, [position]), (known,))


def _text_code(step: Step, position: int, values: list[str]) -> Node:
    """Return the place of a text among the values, missing ones at the end."""
    column = text_column(step.x, position)
    if column is None or column.edits:
        raise step.refuse(
            "enable_categorical",
            value=True,
            hint=f"Column {position} is computed, yet categories of text were seen when fitting.",
        )
    return Codes(column.schema, column.column, Vocabulary(tuple(values), len(values), len(values)))
