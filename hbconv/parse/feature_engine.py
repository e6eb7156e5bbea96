"""Transformers of feature-engine: numbers, selections, imputers and encoders of categories.

They find columns by name, and return a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    BoxCox,
    Cast,
    Clip,
    Compare,
    FillObjects,
    Impute,
    IsMissing,
    KeepText,
    Map,
    Node,
    Output,
    Power,
    Recode,
    Schema,
    YeoJohnson,
)
from hbconv.parse.common.text_columns import MISSING, NA, category_codes, columns_of, is_nan
from hbconv.parse.registry import Parser, parses
from hbconv.parse.schema import transform_frame
from hbconv.parse.step import Step, select

__all__ = ["as_frame", "columns", "parses_frame", "replace_columns"]


def parses_frame(*names: str) -> Callable[[Parser], Parser]:
    """Register the parser of transformers that read a frame and return one."""
    return parses(*names, features=_features, frames=lambda _: "pandas")


def _features(transformer: Any) -> Schema:
    """Return the columns of a frame, found by name; of an array, whose columns it numbers."""
    names = [str(name) for name in transformer.feature_names_in_]
    numbered = [f"x{position}" for position in range(len(names))]
    return Schema.matrix(len(names)) if names == numbered else Schema.table(names)


def columns(step: Step) -> dict[Any, Node]:
    """Return the node of each column, by name."""
    step.refuse_sparse("reads columns by name")
    names = step.estimator.feature_names_in_
    return {name: select(step.x, [position]) for position, name in enumerate(names)}


def numeric(step: Step, variables: Iterable[Any]) -> dict[Any, Node]:
    """Return columns of numbers, whose NaN and infinite values the source refuses."""
    names = list(step.estimator.feature_names_in_)
    chosen = {name: columns_of(step.x, [names.index(name)]) for name in variables}
    for node in chosen.values():
        step.require_finite(node)
    return chosen


def replace_columns(step: Step, new: dict[Any, Node]) -> dict[str, Output]:
    """Return the frame with some columns replaced, and new ones behind the others."""
    return as_frame(columns(step) | new)


def as_frame(nodes: dict[Any, Node]) -> dict[str, Output]:
    """Return columns side by side, each of its own dtype."""
    return transform_frame(list(nodes.values()))


@parses_frame(
    "feature_engine.discretisation.EqualFrequencyDiscretiser",
    "feature_engine.discretisation.EqualWidthDiscretiser",
    "feature_engine.discretisation.GeometricWidthDiscretiser",
)
def parse_discretiser(step: Step) -> dict[str, Output]:
    """Find the interval of each value; an interval includes its upper end."""
    for parameter in ("return_boundaries", "return_object"):
        step.require(parameter, False)
    return replace_columns(
        step,
        {
            name: _interval(x, np.asarray(step.estimator.binner_dict_[name], np.float64)[1:-1])
            for name, x in numeric(step, step.estimator.variables_).items()
        },
    )


def _interval(x: Node, inner: Any) -> Node:
    """Count the inner edges below each value: those that the next smaller float reaches."""
    # Bins counts edges that a value reaches, and here the edge
    # itself belongs to the interval below.
    edges = np.nextafter(inner, np.inf)
    return Cast(Bins(Cast(x, "float64"), Array(edges[None])), "int64")


@parses_frame(
    "feature_engine.outliers.ArbitraryOutlierCapper",
    "feature_engine.outliers.Winsorizer",
)
def parse_capper(step: Step) -> dict[str, Output]:
    """Hold values between the caps of their column."""
    est = step.estimator
    if getattr(est, "add_indicators", False):
        raise step.refuse("add_indicators", True, "Fit with add_indicators=False.")
    upper: Mapping[Any, float] = est.right_tail_caps_
    lower: Mapping[Any, float] = est.left_tail_caps_
    nodes = columns(step)
    if est.missing_values == "raise":
        nodes |= numeric(step, est.variables_)
    caps = {**upper, **lower}
    return replace_columns(
        step,
        {
            name: Clip.of(nodes[name], lower.get(name, -np.inf), upper.get(name, np.inf))
            for name in caps
        },
    )


def _map_columns(step: Step, function: Callable[[Any, Node], Node]) -> dict[str, Output]:
    """Replace the columns that a transformer reads by what a function makes of them."""
    nodes = numeric(step, step.estimator.variables_)
    return replace_columns(step, {name: function(name, x) for name, x in nodes.items()})


def _refuse(step: Step, x: Node, op: str, why: str) -> None:
    step.check(Compare.of(x, op, 0.0), f"{why} (step {step.where!r}).")


@parses_frame("feature_engine.transformation.LogTransformer")
def parse_log(step: Step) -> dict[str, Output]:
    """Take the logarithm of positive values."""
    function = {"e": "log", "10": "log10"}[step.require("base", "e", "10")]

    def logarithm(_: Any, x: Node) -> Node:
        _refuse(step, x, "le", "Some variables contain zero or negative values")
        return Map(Cast(x, "float64"), function)

    return _map_columns(step, logarithm)


@parses_frame("feature_engine.transformation.ReciprocalTransformer")
def parse_reciprocal(step: Step) -> dict[str, Output]:
    """Divide 1 by values that are not zero."""

    def reciprocal(_: Any, x: Node) -> Node:
        _refuse(step, x, "eq", "Some variables contain the value zero")
        return Map(Cast(x, "float64"), "reciprocal")

    return _map_columns(step, reciprocal)


@parses_frame("feature_engine.transformation.PowerTransformer")
def parse_power(step: Step) -> dict[str, Output]:
    """Raise values to a power."""
    exponent = float(step.estimator.exp)
    # numpy computes these two powers by sqrt and by a product, which round otherwise than pow.
    if exponent == 0.5:
        return _map_columns(step, lambda _, x: Map(Cast(x, "float64"), "sqrt"))
    if exponent == 2:
        return _map_columns(step, lambda _, x: Map(Cast(x, "float64"), "square"))
    return _map_columns(step, lambda _, x: Power(Cast(x, "float64"), exponent))


@parses_frame("feature_engine.transformation.BoxCoxTransformer")
def parse_box_cox(step: Step) -> dict[str, Output]:
    """Apply the power transform of each column to positive values."""

    def transformed(name: Any, x: Node) -> Node:
        _refuse(step, x, "le", "Data must be positive")
        return BoxCox(
            Cast(x, "float64"), Array(np.array([float(step.estimator.lambda_dict_[name])]))
        )

    return _map_columns(step, transformed)


@parses_frame("feature_engine.transformation.YeoJohnsonTransformer")
def parse_yeo_johnson(step: Step) -> dict[str, Output]:
    """Apply the power transform of each column."""

    def transformed(name: Any, x: Node) -> Node:
        power = float(step.estimator.lambda_dict_[name])
        return YeoJohnson(x, Array(np.array([power])), Array(np.array([2.0 - power])))

    return _map_columns(step, transformed)


@parses_frame("feature_engine.scaling.MeanNormalizationScaler")
def parse_mean_normalization(step: Step) -> dict[str, Output]:
    """Subtract the mean and divide by the range."""
    est = step.estimator
    return _map_columns(
        step,
        lambda name, x: Affine.of(
            Cast(x, "float64"), sub=np.array([est.mean_[name]]), div=np.array([est.range_[name]])
        ),
    )


@parses_frame(
    "feature_engine.selection.DropConstantFeatures",
    "feature_engine.selection.DropCorrelatedFeatures",
    "feature_engine.selection.DropDuplicateFeatures",
    "feature_engine.selection.DropFeatures",
    "feature_engine.selection.DropHighPSIFeatures",
    "feature_engine.selection.SelectByShuffling",
    "feature_engine.selection.SelectBySingleFeaturePerformance",
    "feature_engine.selection.SelectByTargetMeanPerformance",
    "feature_engine.selection.SmartCorrelatedSelection",
)
def parse_selection(step: Step) -> dict[str, Output]:
    """Drop the columns that the selector found."""
    dropped = set(step.estimator.features_to_drop_)
    return as_frame({name: x for name, x in columns(step).items() if name not in dropped})


_MISSING = (float("nan"), None, NA)


@parses_frame(
    "feature_engine.imputation.ArbitraryNumberImputer",
    "feature_engine.imputation.CategoricalImputer",
    "feature_engine.imputation.EndTailImputer",
    "feature_engine.imputation.MeanMedianImputer",
)
def parse_imputer(step: Step) -> dict[str, Output]:
    """Fill each column by its own value."""
    nodes = columns(step)
    return replace_columns(
        step,
        {
            name: _fill_missing(nodes[name], fill)
            for name, fill in step.estimator.imputer_dict_.items()
        },
    )


def _fill_missing(x: Node, fill: Any) -> Node:
    if isinstance(fill, str):
        # A text is filled where the column is encoded later, since no program holds texts.
        return FillObjects(x, (fill,), _MISSING)
    return Impute(x, Array(np.array([float(fill)])))


@parses_frame(
    "feature_engine.encoding.CountFrequencyEncoder",
    "feature_engine.encoding.MeanEncoder",
    "feature_engine.encoding.OrdinalEncoder",
    "feature_engine.encoding.WoEEncoder",
)
def parse_encoder(step: Step) -> dict[str, Output]:
    """Look up the number of each category; a value never seen has NaN, or one number for all."""
    est = step.estimator
    unseen = step.require("unseen", "ignore", "raise", "encode")
    # A private attribute: the number for unseen categories has no public name.
    other = float(est._unseen) if unseen == "encode" else np.nan
    new: dict[Any, Node] = {}
    for name, learned in est.encoder_dict_.items():
        numbers = {category: number for category, number in learned.items() if not is_nan(category)}
        missing = next((learned[category] for category in learned if is_nan(category)), other)
        codes = _codes(step, name, list(numbers))
        if getattr(est, "missing_values", "raise") == "raise":
            _refuse_missing(step, name, codes, len(numbers))
        node = Recode(codes, (Array(_table(list(numbers.values()), other, missing)),))
        if unseen == "raise":
            step.check(
                IsMissing(node),
                f"NaN values were introduced in the feature {name!r} (step {step.where!r}).",
            )
        new[name] = node
    return replace_columns(step, new)


@parses_frame("feature_engine.encoding.OneHotEncoder")
def parse_one_hot_encoder(step: Step) -> dict[str, Output]:
    """Add a column of zeros and ones for each category, and drop the encoded columns."""
    nodes = columns(step)
    for name in step.estimator.variables_:
        categories = list(step.estimator.encoder_dict_[name])
        codes = _codes(step, name, categories)
        _refuse_missing(step, name, codes, len(categories))
        del nodes[name]
        for place, category in enumerate(categories):
            nodes[f"{name}_{category}"] = Compare.of(codes, "eq", place, "int64")
    return as_frame(nodes)


@parses_frame("feature_engine.encoding.RareLabelEncoder")
def parse_rare_label_encoder(step: Step) -> dict[str, Output]:
    """Replace all but the frequent categories by one.

    Where missing values are taken, NaN and NA stay; the source does not count None as missing.
    """
    est = step.estimator
    nodes = columns(step)
    takes_missing = est.missing_values != "raise"
    if not isinstance(est.replace_with, str):
        raise step.refuse("replace_with", est.replace_with, "hbconv handles a text.")
    new: dict[Any, Node] = {}
    for name in est.variables_:
        categories = list(est.encoder_dict_[name])
        if not all(isinstance(category, str) for category in categories):
            raise step.refuse("variables", name, "hbconv handles columns of text.")
        if not takes_missing:
            _refuse_missing(step, name, _codes(step, name, categories), len(categories))
        kept = (*categories, float("nan"), NA) if takes_missing else tuple(categories)
        new[name] = KeepText(nodes[name], kept, est.replace_with)
    return replace_columns(step, new)


def _codes(step: Step, name: Any, categories: list[Any]) -> Node:
    """Return the place of each value among the categories, and behind them if it is missing."""
    position = list(step.estimator.feature_names_in_).index(name)
    if categories and all(isinstance(value, int | float | np.number) for value in categories):
        raise step.refuse("variables", name, "It holds numbers; hbconv handles columns of text.")
    return category_codes(step, position, np.array([*categories, MISSING], dtype=object))


def _refuse_missing(step: Step, name: Any, codes: Node, n_known: int) -> None:
    step.check(
        Compare.of(codes, "ge", n_known),
        f"The variable {name!r} contains NaN (step {step.where!r}). Remove it before.",
    )


def _table(numbers: list[Any], other: float, missing: float) -> npt.NDArray[Any]:
    """Return the number of an unknown value, of each category, and of missing ones.

    They are ints where the categories' numbers are and none is NaN.
    """
    of_categories = np.array(numbers)
    table = np.array([other, *of_categories.astype(np.float64), missing])
    whole = of_categories.dtype.kind in "iu" and not np.isnan(table).any()
    return table.astype(np.int64) if whole else table
