"""XGBoost's model files, JSON and UBJSON: read without xgboost."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import current_source
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.forest import Forest
from hbconv.parse.forests import NodeTable, assemble
from hbconv.parse.ubjson import decode_ubjson

__all__ = ["LINKS", "XGBoostModel", "read_xgboost_bytes"]

Floats = npt.NDArray[np.float32]

LINKS: dict[str, str] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logit"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "log"),
    **dict.fromkeys(("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror"), "identity"),
    **dict.fromkeys(("reg:quantileerror", "binary:logitraw", "binary:hinge", "multi:softprob", "multi:softmax"), "identity"),
    **dict.fromkeys(("rank:pairwise", "rank:ndcg", "rank:map"), "identity"),
}
"""From ``base_score`` to the margin that sums start from, by objective."""

_EDGE = np.float32(1e-6)
"""The logit is taken of probabilities no nearer to 0 and 1."""


@dataclass(frozen=True)
class XGBoostModel:
    """What a file says.

    Parameters
    ----------
    nodes : NodeTable
        All trees; values (n_nodes, 1) are leaf values before weights, float32.
    target : array of int, shape (n_trees,)
        Output that each tree adds to.
    weights : array of float32, shape (n_trees,), or None
        Weights of dart's trees.
    margin : array of float32, shape (n_outputs,)
        What the sums start from.
    ends : sequence of int
        Number of trees after each iteration, zero before the first.
    objective : str
        Such as ``"binary:logistic"``.
    names : tuple of str
        Feature names, empty where the training data had none.
    n_features : int
        Width of the input.
    """

    nodes: NodeTable
    target: npt.NDArray[np.int64]
    weights: Floats | None
    margin: Floats
    ends: Sequence[int]
    objective: str
    names: tuple[str, ...]
    n_features: int

    def forest(self, *, inplace: bool = False) -> Forest:
        """Close the forest.

        Dart scales each leaf by its tree's weight. XGBoost's in-place prediction, which the scikit-learn wrappers use, first
        adds the margin to a tree's leaf and takes it off again, in float32.
        """
        values, table = self.nodes.values, self.nodes
        if self.weights is not None:
            margin = np.repeat(self.margin[self.target], table.sizes)[:, None]
            values = ((margin + values) - margin if inplace else values) * np.repeat(self.weights, table.sizes)[:, None]
        return assemble(replace(table, values=values).split(), self.margin, strict=True, n_features=self.n_features, target=self.target)

    def first_iterations(self, count: int) -> XGBoostModel:
        """Keep the trees of the first iterations."""
        trees = int(self.ends[min(count, len(self.ends) - 1)])
        weights = None if self.weights is None else self.weights[:trees]
        return replace(self, nodes=self.nodes.part(slice(trees)), target=self.target[:trees], weights=weights)


def read_xgboost_bytes(data: bytes) -> XGBoostModel:
    """Read what ``Booster.save_model`` writes, as JSON or UBJSON.

    Raises
    ------
    ConversionError
        Not an XGBoost model, or a damaged one.
    UnsupportedError
        A booster, objective or tree that hbconv has no exact form for.
    """
    try:
        learner = _decode(data)["learner"]
        _refuse_inexact(learner)
        return _model(learner)
    except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"This is no XGBoost model (JSON or UBJSON), or a damaged one: {type(error).__name__} {error}.") from error


def _decode(data: bytes) -> Any:
    """JSON text goes on with a quote or white space after its first brace, UBJSON with the length of a key."""
    return json.loads(data) if data[1:2] in (b'"', b" ", b"\n", b"\r", b"\t") else decode_ubjson(data)


def _model(learner: Mapping[str, Any]) -> XGBoostModel:
    booster, param, objective = learner["gradient_booster"], learner["learner_model_param"], learner["objective"]["name"]
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    outputs = max(int(param["num_class"]), int(param.get("num_target", 1)), 1)
    weights = np.asarray(booster["weight_drop"], np.float32) if booster["name"] == "dart" else None
    return XGBoostModel(
        _table(model["trees"]),
        np.asarray(model["tree_info"], np.int64),
        weights,
        np.broadcast_to(_margin(_base_score(param["base_score"]), LINKS[objective]), (outputs,)),
        _iteration_ends(model, outputs),
        objective,
        tuple(learner.get("feature_names", ())),
        int(param["num_feature"]),
    )


def _refuse_inexact(learner: Mapping[str, Any]) -> None:
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    if booster["name"] not in ("gbtree", "dart"):
        raise _refusal("booster", booster["name"], "hbconv handles 'gbtree' and 'dart'.")
    if objective not in LINKS:
        raise _refusal("objective", objective, f"hbconv handles {', '.join(LINKS)}.")
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    if "c" in learner.get("feature_types", ()) or len(model.get("cats", {}).get("enc", ())) or any(len(t["categories"]) for t in model["trees"]):
        raise _refusal("enable_categorical", value=True, hint="Encode categories as numbers (OrdinalEncoder, OneHotEncoder) before fitting.")
    if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in model["trees"]):
        raise _refusal("multi_strategy", "multi_output_tree", "Fit with multi_strategy='one_output_per_tree'.")


def _refusal(parameter: str, value: object, hint: str) -> UnsupportedError:
    return UnsupportedError("XGBoost", current_source(), parameter, value, hint)


def _table(trees: Sequence[Mapping[str, Any]]) -> NodeTable:
    """Join the trees' arrays; a leaf's value stands where a test has its threshold."""

    def joined(key: str, dtype: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.zeros(0, dtype), *(np.asarray(tree[key], dtype) for tree in trees)])

    threshold = joined("split_conditions", np.float32)
    table = NodeTable(
        [len(tree["left_children"]) for tree in trees],
        joined("split_indices", np.int64),
        threshold,
        joined("default_left", np.bool_),
        joined("left_children", np.int64),
        joined("right_children", np.int64),
        threshold[:, None],
    )
    if len({len(table.feature), len(threshold), len(table.default_left), len(table.left), len(table.right)}) > 1:
        raise ConversionError("The XGBoost model is damaged: the arrays of its trees differ in length.")
    return table


def _iteration_ends(model: Mapping[str, Any], outputs: int) -> Sequence[int]:
    if "iteration_indptr" in model:
        return [int(end) for end in model["iteration_indptr"]]
    step = outputs * int(model["gbtree_model_param"]["num_parallel_tree"])
    return range(0, len(model["trees"]) + 1, max(step, 1))


def _base_score(text: str) -> Floats:
    """One number, or since XGBoost 3.1 one for each output: ``"5E-1"`` or ``"[5E-1,2E-1]"``."""
    return np.array([float(number) for number in str(text).strip("[]").split(",")], np.float32)


def _margin(score: Floats, link: str) -> Floats:
    one = np.float32(1)
    if link == "logit":
        return np.array([-_log(one / p - one) for p in np.clip(score, _EDGE, one - _EDGE)], np.float32)
    return np.array([_log(p) for p in score], np.float32) if link == "log" else score


def _log(x: np.float32) -> np.float32:
    """Natural logarithm in float32 as the C library computes it, which XGBoost calls; numpy's own differs in the last bit."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):
        return np.float32(math.log(x))
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return np.float32(logf(x))
