"""LightGBM's model text: read without lightgbm, to the last bit (its JSON dump rounds and clips values)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import current_source
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.forest import Forest
from hbconv.parse.forests import FlatTrees, assemble

__all__ = ["LightGBMModel", "read_lightgbm_text"]

ZERO = float(np.float32(1e-35))
"""Values this near zero are zero to LightGBM's predictor."""

CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8
"""Bits of ``decision_type``."""

_VERSIONS = ("v2", "v3", "v4")
_DAMAGED = "The LightGBM model text is damaged: {}."


@dataclass(frozen=True)
class LightGBMModel:
    """What the text says.

    Parameters
    ----------
    forest : Forest
        Trees; tree t adds to output ``t % n_outputs``.
    names : tuple of str
        Feature names, ``Column_0, Column_1...`` where the training data had none.
    objective : str
        Name of the objective, empty for a custom one.
    options : mapping of str to str
        Its options, such as ``{"sigmoid": "0.7"}`` or ``{"sqrt": ""}``.
    iterations : int
        Number of trees that an average of the sums is over.
    average : bool
        Whether predictions are averages (random forests).
    """

    forest: Forest
    names: tuple[str, ...]
    objective: str
    options: Mapping[str, str] = field(default_factory=dict)
    iterations: int = 1
    average: bool = False


def read_lightgbm_text(text: str) -> LightGBMModel:
    """Read what ``Booster.model_to_string`` writes.

    Raises
    ------
    ConversionError
        Not a LightGBM model, or a damaged one.
    UnsupportedError
        Categorical splits, linear trees, or zero as missing where it changes a decision.
    """
    header, *blocks = text.replace("\r\n", "\n").split("\nTree=")
    settings = _settings(header)
    trees = [_settings(block) for block in blocks]
    if "tree" not in settings or "max_feature_idx" not in settings:
        raise ConversionError("This is no LightGBM model text: it does not begin with 'tree' and the model's settings.")
    if "\nend of trees" not in text or len(trees) != len(settings.get("tree_sizes", "").split()):
        raise ConversionError(_DAMAGED.format("it ends before the last tree"))
    _refuse_categories(text)
    try:
        return _model(settings, trees)
    except (KeyError, ValueError, IndexError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(_DAMAGED.format(f"{type(error).__name__} {error}")) from error


def _model(settings: dict[str, str], trees: list[dict[str, str]]) -> LightGBMModel:
    _refuse_inexact(settings, trees)
    width, outputs = int(settings["max_feature_idx"]) + 1, int(settings["num_tree_per_iteration"])
    objective, *options = settings.get("objective", "").split() or [""]
    target = np.arange(len(trees)) % outputs
    return LightGBMModel(
        assemble(_flat(trees), np.zeros(outputs), strict=False, n_features=width, target=target),
        tuple(settings["feature_names"].split(" ")),
        objective,
        {name: value for name, _, value in (option.partition(":") for option in options)},
        len(trees) // outputs,
        "average_output" in settings,
    )


def _settings(block: str) -> dict[str, str]:
    """Lines ``key=value`` (or a bare key) up to the end of the trees."""
    lines = block.partition("\nend of trees")[0].split("\n")
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def _refuse_inexact(settings: dict[str, str], trees: list[dict[str, str]]) -> None:
    if settings.get("version") not in _VERSIONS:
        raise UnsupportedError("LightGBM", current_source(), "version", settings.get("version"), f"hbconv reads versions {', '.join(_VERSIONS)}.")
    if any(int(tree["num_cat"]) for tree in trees):
        hint = "Its trees split on categories. Encode them as numbers (OrdinalEncoder, OneHotEncoder) before fitting."
        raise UnsupportedError("LightGBM", current_source(), "num_cat", sum(int(tree["num_cat"]) for tree in trees), hint)
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise UnsupportedError("LightGBM", current_source(), "linear_tree", value=True, hint="Fit with linear_tree=False.")


def _refuse_categories(text: str) -> None:
    """Refuse a model fitted on pandas columns of dtype category, whose codes it stores after the trees."""
    categories = text.rpartition("\npandas_categorical:")[2].strip() if "\npandas_categorical:" in text else "null"
    if categories not in ("null", "[]"):
        hint = "It was fitted on columns of dtype category. Encode them as numbers (OrdinalEncoder, OneHotEncoder) before fitting."
        raise UnsupportedError("LightGBM", current_source(), "pandas_categorical", categories[:60], hint)


def _flat(trees: list[dict[str, str]]) -> FlatTrees:
    leaves = np.array([int(tree["num_leaves"]) for tree in trees], dtype=np.int64)
    _require_sizes(trees, leaves)
    left, right = (_children(_joined(trees, key, np.int64), leaves) for key in ("left_child", "right_child"))
    threshold, decision = _joined(trees, "threshold", np.float64), _joined(trees, "decision_type", np.int64)
    values = _joined(trees, "leaf_value", np.float64)
    first_leaf, first_test = np.cumsum(leaves) - leaves, np.cumsum(leaves - 1) - (leaves - 1)
    return FlatTrees(
        feature=_joined(trees, "split_feature", np.int64),
        threshold=_past_zero(threshold),
        default_left=_default_left(threshold, decision),
        left=left,
        right=right,
        roots=np.where(leaves > 1, first_test, ~first_leaf),
        values=values[:, None],
        leaf_id=np.arange(len(values)) - np.repeat(first_leaf, leaves),
    )


def _require_sizes(trees: list[dict[str, str]], leaves: npt.NDArray[np.int64]) -> None:
    for key, less in {"leaf_value": 0, "split_feature": 1, "threshold": 1, "decision_type": 1, "left_child": 1, "right_child": 1}.items():
        counts = [tree[key].count(" ") + bool(tree[key]) for tree in trees]
        if not np.array_equal(counts, leaves - less):
            raise ConversionError(_DAMAGED.format(f"{key} has the wrong length"))


def _joined(trees: Sequence[dict[str, str]], key: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """One array over all trees."""
    text = " ".join(tree[key] for tree in trees if tree[key])
    numbers = np.fromstring(text, dtype=dtype, sep=" ")
    if len(numbers) != text.count(" ") + bool(text):
        raise ConversionError(_DAMAGED.format(f"{key} holds what is no number"))
    return numbers


def _children(within: npt.NDArray[np.int64], leaves: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Children numbered over the forest: tests count on from the trees before, leaves (negative) likewise."""
    tests = leaves - 1
    first_test, first_leaf = np.repeat(np.cumsum(tests) - tests, tests), np.repeat(np.cumsum(leaves) - leaves, tests)
    return np.where(within >= 0, within + first_test, within - first_leaf)


def _past_zero(threshold: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Thresholds that send each x where LightGBM sends ``0 if abs(x) <= ZERO else x``.

    Examples
    --------
    >>> _past_zero(np.array([0.0, -0.0, 1e-36, 0.5])).tolist() == [ZERO, ZERO, ZERO, 0.5]
    True
    >>> bool(np.all(_past_zero(np.array([-ZERO, -1e-36])) < -ZERO))
    True
    """
    above = np.where((threshold >= 0) & (threshold < ZERO), ZERO, threshold)
    return np.where((above < 0) & (above >= -ZERO), np.nextafter(-ZERO, -np.inf), above)


def _default_left(threshold: npt.NDArray[np.float64], decision: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Where NaN goes: with missing type NaN as the node says; else NaN counts as zero, which missing type Zero sends as the node says."""
    says_left, zero_left = (decision & DEFAULT_LEFT) > 0, threshold >= 0
    if np.any((decision & MISSING_ZERO > 0) & (says_left != zero_left)):
        raise UnsupportedError("LightGBM", current_source(), "zero_as_missing", value=True, hint="Fit with zero_as_missing=False.")
    return np.where(decision & MISSING_NAN > 0, says_left, zero_left)
