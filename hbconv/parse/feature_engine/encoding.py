"""Encoders: categories become numbers, zeros and ones, or fewer categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Compare, IsMissing, KeepText, Node, Output, Recode
from hbconv.parse.common.text_columns import MISSING, NA, category_codes, is_nan
from hbconv.parse.feature_engine.frame import as_frame, changed, columns, parses_frame
from hbconv.parse.step import Step


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
    other = float(est._unseen) if unseen == "encode" else np.nan
    new: dict[Any, Node] = {}
    for name, learned in est.encoder_dict_.items():
        numbers = {known: number for known, number in learned.items() if not is_nan(known)}
        missing = next((learned[known] for known in learned if is_nan(known)), other)
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
    return changed(step, new)


@parses_frame("feature_engine.encoding.OneHotEncoder")
def parse_one_hot_encoder(step: Step) -> dict[str, Output]:
    """Add a column of zeros and ones for each category, and drop the encoded columns."""
    nodes = columns(step)
    for name in step.estimator.variables_:
        known = list(step.estimator.encoder_dict_[name])
        codes = _codes(step, name, known)
        _refuse_missing(step, name, codes, len(known))
        del nodes[name]
        for place, category in enumerate(known):
            nodes[f"{name}_{category}"] = Compare.of(codes, "eq", place, "int64")
    return as_frame(nodes)


@parses_frame("feature_engine.encoding.RareLabelEncoder")
def parse_rare_label_encoder(step: Step) -> dict[str, Output]:
    """Replace all but the frequent categories by one.

    Where missing values are taken, NaN and NA stay; the source does not count None as missing.
    """
    est = step.estimator
    own = columns(step)
    takes_missing = est.missing_values != "raise"
    if not isinstance(est.replace_with, str):
        raise step.refuse("replace_with", est.replace_with, "hbconv handles a text.")
    new: dict[Any, Node] = {}
    for name in est.variables_:
        known = list(est.encoder_dict_[name])
        if not all(isinstance(category, str) for category in known):
            raise step.refuse("variables", name, "hbconv handles columns of text.")
        if not takes_missing:
            _refuse_missing(step, name, _codes(step, name, known), len(known))
        kept = (*known, float("nan"), NA) if takes_missing else tuple(known)
        new[name] = KeepText(own[name], kept, est.replace_with)
    return changed(step, new)


def _codes(step: Step, name: Any, known: list[Any]) -> Node:
    """Return the place of each value among the categories, and behind them if it is missing."""
    position = list(step.estimator.feature_names_in_).index(name)
    if known and all(isinstance(value, int | float | np.number) for value in known):
        raise step.refuse("variables", name, "It holds numbers; hbconv handles columns of text.")
    return category_codes(step, position, np.array([*known, MISSING], dtype=object))


def _refuse_missing(step: Step, name: Any, codes: Node, n_known: int) -> None:
    step.check(
        Compare.of(codes, "ge", n_known),
        f"The variable {name!r} contains NaN (step {step.where!r}). Remove it before.",
    )


def _table(numbers: list[Any], other: float, missing: float) -> npt.NDArray[Any]:
    """Return the number of an unknown value, of each category, and of missing ones.

    They are ints where the categories' numbers are and none is NaN.
    """
    known = np.array(numbers)
    table = np.array([other, *known.astype(np.float64), missing])
    whole = known.dtype.kind in "iu" and not np.isnan(table).any()
    return table.astype(np.int64) if whole else table
