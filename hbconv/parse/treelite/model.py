"""A treelite model answers as its own library's general inference does (``treelite.gtil``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Add,
    Affine,
    Cast,
    CategoryCodes,
    Compare,
    Cube,
    GroupSums,
    Map,
    Node,
    Output,
    Pool,
    Quotient,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.common.node_tables import assemble
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.treelite.model_json import read_trees
from hbconv.parse.treelite.stored_model import StoredModel, read_checkpoint


def _sigmoid(x: Node, model: Mapping[str, Any]) -> Node:
    alpha = float(model["sigmoid_alpha"])
    return Map(x if alpha == 1 else Affine.of(x, mul=alpha), "sigmoid")


def _softmax(x: Node, _: Mapping[str, Any]) -> Node:
    """Round maximum, exponentials and their sum to float32, as the source does for both dtypes."""
    dtype = x.type.dtype
    peak = Cast(Pool(x, (tuple(range(x.type.width)),), "max"), "float32")
    parts = Cast(Map(Add((x, Map(Cast(peak, dtype), "neg"))), "exp"), "float32")
    total = Cast(GroupSums(Cast(parts, "float64"), 1), "float32")
    return Quotient((Cast(parts, dtype), Cast(total, dtype)))


_LINKS: dict[str, Callable[[Node, Mapping[str, Any]], Node]] = {
    "exponential": lambda x, _: Map(x, "exp"),
    "exponential_standard_ratio": lambda x, model: Map(
        Affine.of(Map(x, "neg"), div=float(model["ratio_c"])), "exp2"
    ),
    "hinge": lambda x, _: Compare.of(x, "gt", 0.0, x.type.dtype),
    "identity": lambda x, _: x,
    "identity_multiclass": lambda x, _: x,
    "logarithm_one_plus_exp": lambda x, _: Map(Map(x, "exp"), "log1p"),
    "multiclass_ova": _sigmoid,
    "sigmoid": _sigmoid,
    "signed_square": lambda x, _: Map(x, "signed_square"),
    "softmax": _softmax,
}
"""What each postprocessor makes of the scores."""


@parses(
    "treelite.Model",
    "hbconv.parse.treelite.stored_model.StoredModel",
    features=lambda model: int(model.num_feature),
)
def parse_model(step: Step) -> dict[str, Output]:
    """Sum the leaves in the dtype of the thresholds, then add the base scores."""
    step.refuse_sparse("takes what a sparse matrix leaves out for missing")
    model = _content(step.estimator)
    link = model["postprocessor"]
    if link not in _LINKS:
        raise step.refuse("postprocessor", link, f"hbconv handles {', '.join(_LINKS)}.")
    if model["num_target"] != 1:
        raise step.refuse("num_target", model["num_target"], "hbconv handles one target.")
    if others := sorted({*model["target_id"]} - {0, -1}):
        raise ValueError(f"trees of targets {others[:9]}, of one")
    if model["threshold_type"] != model["leaf_output_type"]:
        types = (model["threshold_type"], model["leaf_output_type"])
        raise step.refuse("leaf_output_type", types, "It must be that of the thresholds.")
    return _answers(step, model)


def _content(model: Any) -> Mapping[str, Any]:
    """Return what a model holds, of a file or in memory.

    A model in memory is asked for its checkpoint: its JSON leaves infinite thresholds out.
    """
    stored = model if isinstance(model, StoredModel) else read_checkpoint(model.serialize_bytes())
    return stored.content


def _answers(step: Step, model: Mapping[str, Any]) -> dict[str, Output]:
    trees = read_trees(model)
    n_classes = int(model["num_class"][0])
    dtype = np.dtype(model["threshold_type"])
    target = np.array(model["class_id"], np.int64)
    x: Node = Cast(step.x, dtype.name)
    if trees.sizes.data.any():
        x = CategoryCodes(x, trees.sizes)
    forest = assemble(
        trees.flat,
        np.zeros(n_classes, dtype),
        strict=trees.strict,
        n_features=x.type.width,
        target=np.maximum(target, 0),
    )
    scores: Node = TreeEnsemble(x, forest)
    if model["average_tree_output"]:
        scores = Affine.of(scores, div=_counts(target, n_classes).astype(dtype))
    scores = Affine.of(scores, add=np.array(model["base_scores"], np.float64).astype(dtype))
    form = Cube((1, n_classes))
    return {
        "predict": Output(_LINKS[model["postprocessor"]](scores, model), form),
        "raw_scores": Output(scores, form),
        "apply": Output(Cast(TreeLeaves(x, forest), dtype.name)),
    }


def _counts(target: npt.NDArray[Any], n_classes: int) -> npt.NDArray[Any]:
    """Return how many trees add to each class; a leaf that is a vector adds to all."""
    own = np.bincount(target[target >= 0], minlength=n_classes)
    return own + np.count_nonzero(target < 0)
