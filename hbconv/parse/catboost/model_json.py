"""CatBoost's JSON, read without catboost: trees, and the weights of their leaves."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import current_step
from hbconv.errors import ConversionError, OptionError, UnsupportedError
from hbconv.parse.catboost.columns import Inputs
from hbconv.parse.catboost.statistics import refuse_two_binarizations
from hbconv.parse.catboost.trees import read_trees
from hbconv.parse.common.node_tables import assemble, cover_forest
from hbconv.parse.damage import decode_json, finite_numbers
from hbconv.system.files import read_json
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest

__all__ = ["CatBoostModel", "read_catboost_json"]

LABELS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "Integer": ("int64", (int,)),
    "Float": ("float64", (float, int)),
    "Boolean": ("bool", (bool,)),
    "String": ("object", (str,)),
}
"""Dtype of the class labels, and their types in the file, by ``class_label_type``."""

# float64 ends at 309 digits, and trained models write 17, so 200 in a row are none of theirs.
_BLOCK = 100
"""A number that float64 may not hold has runs of twice as many digits."""
_EXPONENT = re.compile(rb"[eE][+]?[0-9]{3}")
_WITHIN_NUMBER = re.compile(rb"(?:\A|[\s:,\[])-?[0-9.]+\Z")
"""The end of a text that breaks off in a number; identifiers, as of versions, are quoted."""


@dataclass(frozen=True)
class CatBoostModel:
    """The content of a JSON model.

    Parameters
    ----------
    forest : Forest
        Float64 leaves, summed from zero.
    covered : CoveredForest or None
        The scaled trees with the weights of their leaves, where the model has them.
    scale : float
        What the sums are multiplied by, before the bias is added.
    bias : array of float64, shape (n_outputs,)
    inputs : Inputs
        What the trees read.
    objective : str
        Such as ``"Logloss"``, without its parameters; empty for sums of models.
    classes : Array
        Label of each class.
    cut : float
        A raw score above this is the second of two classes.
    """

    forest: Forest
    covered: CoveredForest | None
    scale: float
    bias: npt.NDArray[np.float64]
    inputs: Inputs
    objective: str
    classes: Array
    cut: float


def read_catboost_json(
    data: bytes,
    trees: tuple[int, int] | None = None,
    leaf_numbers: Sequence[Sequence[int]] | None = None,
) -> CatBoostModel:
    """Read what ``save_model(path, format="json")`` writes.

    Parameters
    ----------
    data : bytes
    trees : tuple of int, optional
        First and last (not included) tree to read.
    leaf_numbers : sequence of sequences of int, optional
        The source's own number of each leaf, left to right, of all trees; by default their places.

    Raises
    ------
    ConversionError
        Not a CatBoost model, or a damaged one.
    UnsupportedError
        It has features or classes that hbconv has no exact form for.
    OptionError
        There are fewer trees.
    """
    # Before decoding: Python reads such numbers as infinite, without an error.
    _refuse_overflown(data)
    document = decode_json(data, _refuse_constant)
    _refuse_inexact(document)
    return _model(document, trees, leaf_numbers)


def _model(
    document: Mapping[str, Any],
    trees: tuple[int, int] | None,
    leaf_numbers: Sequence[Sequence[int]] | None,
) -> CatBoostModel:
    info = document["model_info"]
    scale, bias = _scale_and_bias(document)
    inputs = Inputs.of(document["features_info"], document.get("ctr_data"))
    # CatBoost writes one key or the other, by the growing policy.
    all_trees = document["oblivious_trees"] if "oblivious_trees" in document else document["trees"]
    first, last = (0, len(all_trees)) if trees is None else trees
    # A slice would cut the range off in silence.
    if last > len(all_trees):
        raise OptionError(f"iterations={trees!r} goes beyond the model's {len(all_trees)} trees.")
    numbers = None if leaf_numbers is None else leaf_numbers[first:last]
    kept = all_trees[first:last]
    read = read_trees(kept, inputs, len(bias), numbers)
    # Sums start from zero: the bias is added behind the scale.
    forest = assemble(read, np.zeros(len(bias)), strict=False, n_features=inputs.width)
    if first:  # CatBoost leaves the bias out where it leaves out the first tree
        bias = np.zeros(len(bias))
    return CatBoostModel(
        forest,
        cover_leaves(forest, kept, inputs, scale, bias),
        scale,
        bias,
        inputs,
        _objective(info),
        _classes(info, len(bias)),
        _cut(info),
    )


def _scale_and_bias(document: Mapping[str, Any]) -> tuple[float, npt.NDArray[np.float64]]:
    """Read what the sums are multiplied by, and what is added to them.

    CatBoost reads a bias that is not in a list as 0, without an error.
    """
    scale, bias = document["scale_and_bias"]
    if not isinstance(bias, list):
        raise ConversionError(
            f"The CatBoost model is damaged: the bias in scale_and_bias is {bias!r:.30}, not a "
            "list. CatBoost reads it as 0. Put it in a list, or save the model again."
        )
    return float(finite_numbers([scale])[0]), finite_numbers(bias)


def _refuse_inexact(document: Mapping[str, Any]) -> None:
    features = document["features_info"]
    if features.get("ctrs"):
        params = _decode_nested(document["model_info"].get("params")) or {}
        refuse_two_binarizations(params.get("cat_feature_params") or {})
    for kind in ("text_features", "embedding_features"):
        if features.get(kind):
            raise _refusal(
                kind,
                [f.get("feature_id", "") for f in features[kind]],
                "Make numbers of them before fitting.",
            )
    declared = _decode_nested(document["model_info"].get("class_params")) or {}
    present = declared.get("class_to_label") or []
    count = max(len(declared.get("class_names") or ()), int(declared.get("classes_count") or 0))
    if len(present) < count or present != list(range(len(present))):
        raise _refusal(
            "class_names" if declared.get("class_names") else "classes_count",
            present,
            "Declare only classes that the training data has.",
        )


def _refusal(parameter: str, value: object, hint: str) -> UnsupportedError:
    return UnsupportedError("CatBoost", current_step(), parameter, value, hint)


def _decode_nested(value: Any) -> Any:
    """Decode JSON that stands as text in JSON, as in some versions."""
    return read_json(value) if isinstance(value, str) else value


def _objective(info: Mapping[str, Any]) -> str:
    params = _decode_nested(info.get("params")) or {}
    loss = params.get("loss_function") or _decode_nested(info.get("loss_function")) or {}
    name = str(loss.get("type", ""))
    flat = params.get("flat_params", {})
    # A file in which the two differ has two meanings.
    if str(flat.get("loss_function", name)).partition(":")[0] != name:
        raise ConversionError(
            f"The CatBoost model is damaged: its loss_function is {name}, and "
            f"{flat['loss_function']!r:.50} in flat_params."
        )
    return name


def _classes(info: Mapping[str, Any], outputs: int) -> Array:
    declared = _decode_nested(info.get("class_params")) or {}
    names = declared.get("class_names")
    if not names:
        return Array(np.arange(max(outputs, 2)))
    dtype, kinds = LABELS[declared["class_label_type"]]
    # type, not isinstance: a bool is an int to Python, and another label to CatBoost.
    if not all(type(name) in kinds for name in names):
        raise ConversionError(
            "The CatBoost model is damaged: its class_names are not all of "
            f"class_label_type={declared['class_label_type']!r}."
        )
    if len(set(names)) != len(names):
        raise ConversionError(
            f"The CatBoost model is damaged: class_names holds a label twice: {names[:9]}."
        )
    if dtype == "bool" and names != [False, True]:
        raise ConversionError(
            f"The CatBoost model is damaged: class_names is {names}. CatBoost reads classes of "
            "bool as [False, True] in any order."
        )
    return Array(np.array(names, dtype))


def _refuse_overflown(data: bytes) -> None:
    """Refuse numbers that float64 cannot hold, also where nobody reads them.

    CatBoost's reader stops at them without an error: the model lacks what comes after.
    A second pass is rare: no trained model has such long numbers.
    """
    if _may_overflow(data):
        json.loads(data, parse_float=_finite, parse_int=_finite)


def _may_overflow(data: bytes) -> bool:
    """Tell whether a number has 200 digits in a row, or an exponent of three digits.

    A run of 200 digits has 100 of them from a multiple of 100 on.
    """
    # uint8 wraps below "0", so one compare tests both ends of the digits.
    is_digit = np.frombuffer(data, np.uint8) - ord("0") < 10
    whole = len(data) // _BLOCK * _BLOCK
    if is_digit[:whole].reshape(-1, _BLOCK).all(axis=1).any():
        return True
    return any(
        _WITHIN_NUMBER.search(data[max(0, exponent.start() - 2 * _BLOCK) : exponent.start()])
        for exponent in _EXPONENT.finditer(data)
    )


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ConversionError(
            f"The CatBoost model is damaged: it holds {text:.20}..., which float64 cannot hold."
        )
    return float(text)


def _refuse_constant(name: str) -> Any:
    raise ConversionError(
        f"The CatBoost model is damaged: it holds {name}, which JSON does not have."
    )


def _cut(info: Mapping[str, Any]) -> float:
    """Return the raw score of the probability that separates two classes."""
    probability = float(info.get("binclass_probability_threshold", 0.5))
    if not 0 < probability < 1:
        return -math.inf if probability <= 0 else math.inf
    # Labels compare raw scores, so that no rounding of a probability decides a tie.
    return -math.log(1 / probability - 1)


Floats = npt.NDArray[np.float64]

LEAST_WEIGHT = 1e-13
"""Weight below which CatBoost takes a branch for empty."""


def cover_leaves(
    forest: Forest,
    trees: Sequence[Mapping[str, Any]],
    inputs: Inputs,
    scale: float,
    bias: Floats,
) -> CoveredForest | None:
    """Return the forest with its shares, scaled; None where the model has no weights of leaves.

    Sets of features that statistics share are features too, behind those of the source.
    None too where CatBoost computes other values than these: for a leaf that has a value but no
    weight, and for a split that has one leaf and one further split. Its contributions of the latter
    do not add up to the raw score.
    """
    weights = _weights(trees)
    if weights is None or ((forest.left.data < 0) != (forest.right.data < 0)).any():
        return None
    # Checked before shares are computed: a damaged file would index beyond its leaves.
    if len(weights) != forest.n_leaves:
        raise ConversionError("The CatBoost model is damaged: leaf_weights has the wrong length.")
    # CatBoost weighs such a leaf in a way of its own, as an edited file showed.
    if forest.values.data[weights < LEAST_WEIGHT].any():
        return None
    # The expected value, which comes last, has the bias in it.
    scaled = replace(forest, values=Array(forest.values.data * scale), start=Array(bias))
    players = [*((place,) for place in range(len(inputs.names))), *inputs.shared]
    place_of = {features: place for place, features in enumerate(players)}
    feature = np.array([place_of[features] for features in inputs.features], np.int32)
    shares = _shares(forest, weights)
    return cover_forest(scaled, shares, feature[forest.feature.data], len(players))


def _weights(trees: Sequence[Mapping[str, Any]]) -> Floats | None:
    """Read the weights of all leaves, left to right; None where some tree has none."""
    weights: list[Any] = []
    for tree in trees:
        of_tree = list(tree.get("leaf_weights") or ()) if "leaf_values" in tree else [*_below(tree)]
        if not of_tree or None in of_tree:
            return None
        weights += of_tree
    return finite_numbers(weights)


def _below(tree: Mapping[str, Any]) -> Iterator[float | None]:
    """Yield the weights of the leaves of a tree that is not symmetric."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if "value" in node:
            yield node.get("weight")
        else:
            waiting += (node["right"], node["left"])


def _shares(forest: Forest, weights: Floats) -> tuple[Floats, Floats]:
    """Share the weights out bottom-up; a branch without weight has nothing to share."""
    cover = np.zeros((2, forest.n_tests))
    # Bottom-up by levels: the weight of a test is known once both of its branches are.
    for depth in range(forest.depth - 1, -1, -1):
        level = np.flatnonzero(forest.depth_of_tests == depth)
        for side, children in enumerate((forest.left.data[level], forest.right.data[level])):
            inner = children >= 0
            cover[side, level[inner]] = cover[:, children[inner]].sum(axis=0)
            # A leaf is stored as its complement, which is negative.
            cover[side, level[~inner]] = weights[~children[~inner]]
    whole = cover.sum(axis=0)
    # A whole of 0 is replaced by 1: the share is 0 in any case.
    shares = np.where(cover < LEAST_WEIGHT, 0.0, cover / np.where(whole > 0, whole, 1.0))
    return shares[0], shares[1]
