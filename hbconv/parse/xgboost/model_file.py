"""XGBoost's model files, of JSON, UBJSON and the old binary, read without xgboost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import current_step
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.model_formats import is_old_xgboost
from hbconv.parse.checks.damage import counted, decode_json
from hbconv.parse.xgboost.objectives import LINKS, base_scores, margins
from hbconv.parse.xgboost.old_binary import read_old_binary
from hbconv.parse.xgboost.trees import XGBoostTrees, read_trees
from hbconv.parse.xgboost.ubjson import decode_ubjson

__all__ = ["XGBoostLinear", "XGBoostModel", "read_xgboost_bytes"]

Floats = npt.NDArray[np.float32]
Categories = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True)
class XGBoostLinear:
    """The booster gblinear: weights (n_features, n_outputs) and bias (n_outputs,)."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class XGBoostModel:
    """The content of a model file.

    Parameters
    ----------
    booster : XGBoostTrees or XGBoostLinear
    margin : array of float32, shape (n_outputs,)
        What the sums start from.
    objective : str
        Such as ``"binary:logistic"``.
    names : tuple of str
        Feature names, empty where the training data had none.
    n_features : int
        Width of the input.
    categories : tuple
        For each feature the values that the codes 0, 1... stand for; empty where unknown.
        The whole tuple is empty where no feature's are known.
    best_iteration : int or None
        The last boosting iteration that wrappers predict by; None: the last that there is.
    """

    booster: XGBoostTrees | XGBoostLinear
    margin: Floats
    objective: str
    names: tuple[str, ...]
    n_features: int
    categories: tuple[Categories, ...]
    best_iteration: int | None = None


def read_xgboost_bytes(data: bytes) -> XGBoostModel:
    """Read what ``Booster.save_model`` writes, as JSON or UBJSON, or wrote before 3.1.

    What pickles hold of a Booster has the model beside its configuration.

    Raises
    ------
    ConversionError
        Not an XGBoost model, or a damaged one.
    UnsupportedError
        A file format, booster or objective that hbconv has no exact form for.
    """
    if is_old_xgboost(data):
        return _model(read_old_binary(data), len(data))
    document = _decode(data)
    return _model(document.get("Model", document)["learner"], len(data))


def _decode(data: bytes) -> Any:
    """Decode JSON or UBJSON.

    After the first brace JSON has a quote or white space, UBJSON the length of a key.
    """
    return (
        decode_json(data) if data[1:2] in (b'"', b" ", b"\n", b"\r", b"\t") else decode_ubjson(data)
    )


def _model(learner: Mapping[str, Any], n_bytes: int) -> XGBoostModel:
    booster = learner["gradient_booster"]
    param = learner["learner_model_param"]
    objective = learner["objective"]["name"]
    if objective not in LINKS:
        raise _refusal("objective", objective, f"hbconv handles {', '.join(LINKS)}.")
    if booster["name"] not in _BOOSTERS:
        raise _refusal("booster", booster["name"], f"hbconv handles {', '.join(_BOOSTERS)}.")
    n_features = counted("num_feature", param["num_feature"], n_bytes)
    n_classes = counted("num_class", param["num_class"], n_bytes)
    n_outputs = max(n_classes, counted("num_target", param.get("num_target", 1), n_bytes), 1)
    scores = base_scores(param["base_score"])
    margin = np.broadcast_to(
        margins(scores, objective) if _linked(booster, param) else scores, (n_outputs,)
    )
    cats = booster.get("gbtree", booster)["model"].get("cats", {})
    names = tuple(learner.get("feature_names", ()))
    categories = tuple(map(_categories, cats.get("enc", ())))
    if len(names) not in (0, n_features) or len(categories) not in (0, n_features):
        raise ConversionError(
            f"The XGBoost model is damaged: {len(names)} names and {len(categories)} lists of "
            f"categories for {n_features} features."
        )
    return XGBoostModel(
        _BOOSTERS[booster["name"]](booster, n_features, n_outputs),
        margin,
        objective,
        names,
        n_features,
        categories,
        _best_iteration(learner),
    )


def _best_iteration(learner: Mapping[str, Any]) -> int | None:
    best = learner.get("attributes", {}).get("best_iteration")
    return None if best is None else int(best)


def _refusal(parameter: str, value: object, hint: str) -> UnsupportedError:
    return UnsupportedError("XGBoost", current_step(), parameter, value, hint)


def _linked(booster: Mapping[str, Any], param: Mapping[str, Any]) -> bool:
    """Tell whether base scores go through the link of the objective.

    Scores that were to be estimated do not, where no stage was boosted.
    Neither do those of the versions before 1, which wrote them behind the link.
    """
    if param.get("major_version") == "0":
        return False
    model = booster.get("gbtree", booster)["model"]
    boosted = len(model["trees"]) if "trees" in model else int(model.get("boosted_rounds", 1))
    return boosted > 0 or param.get("boost_from_average", "0") == "0"


def _gbtree(booster: Mapping[str, Any], n_features: int, n_outputs: int) -> XGBoostTrees:
    return read_trees(booster["model"], None, n_features, n_outputs)


def _dart(booster: Mapping[str, Any], n_features: int, n_outputs: int) -> XGBoostTrees:
    return read_trees(
        booster["gbtree"]["model"],
        np.asarray(booster["weight_drop"], np.float32),
        n_features,
        n_outputs,
    )


def _gblinear(booster: Mapping[str, Any], n_features: int, n_outputs: int) -> XGBoostLinear:
    weights = np.asarray(booster["model"]["weights"], np.float32).reshape(n_features + 1, n_outputs)
    return XGBoostLinear(weights[:-1], weights[-1])


_BOOSTERS: dict[str, Callable[[Mapping[str, Any], int, int], XGBoostTrees | XGBoostLinear]] = {
    "gbtree": _gbtree,
    "dart": _dart,
    "gblinear": _gblinear,
}
"""Readers by the booster's name."""


def _categories(encoding: Mapping[str, Any]) -> Categories:
    """Read the values of one feature: whole numbers, or texts laid end to end.

    XGBoost measures texts in characters and cuts their UTF-8 at these lengths.
    So only ASCII is read back whole.
    """
    values = np.asarray(encoding["values"], np.int64)
    if "offsets" not in encoding:
        return tuple(values.tolist())
    if np.any((values < 0) | (values > 127)):
        raise _refusal(
            "enable_categorical",
            value=True,
            hint=(
                "XGBoost garbles categories of text beyond ASCII. Name them in ASCII before "
                "fitting."
            ),
        )
    text = values.astype(np.uint8).tobytes().decode()
    ends = np.asarray(encoding["offsets"], np.int64).tolist()
    return tuple(text[start:end] for start, end in pairwise(ends))
