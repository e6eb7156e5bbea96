"""Random tree operators of ONNX, and rows made of their thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

__all__ = ["THRESHOLDS", "classifier", "ensemble", "model_of", "nodes", "regressor", "rows"]

THRESHOLDS = np.array([-1.5, -0.0, 0.0, 0.5, 1.0, 3.0], np.float32)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
N_FEATURES = 3


def rows(dtype: str = "float32") -> Any:
    """Return rows on thresholds, one step beside, and without a value."""
    edges = THRESHOLDS.astype(dtype)
    near = [np.nextafter(edges, np.array(side, dtype)) for side in (-np.inf, np.inf)]
    special = np.array([np.nan, np.inf, -np.inf, 1e-40], dtype)
    values = np.concatenate([edges, *near, special])
    return np.random.default_rng(0).choice(values, (300, N_FEATURES)).astype(dtype)


def nodes(
    seed: int, n_trees: int, modes: tuple[str, ...] = MODES, depth: int = 4
) -> dict[str, Any]:
    """Return the attributes of random trees that split by some modes."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
            "missing_value_tracks_true",
        )
    }  # fmt: skip

    def grow(tree: int, level: int) -> int:
        number = sum(owner == tree for owner in found["treeids"])
        split = level < depth and (level == 0 or rng.random() < 0.8)
        entry = (tree, number, int(rng.integers(N_FEATURES)), rng.choice(modes) if split else "LEAF",
                 float(rng.choice(THRESHOLDS)), 0, 0, int(rng.integers(2)))  # fmt: skip
        place = len(found["treeids"])
        for values, value in zip(found.values(), entry, strict=True):
            values.append(value)
        if split:
            found["truenodeids"][place] = grow(tree, level + 1)
            found["falsenodeids"][place] = grow(tree, level + 1)
        return number

    for tree in range(n_trees):
        grow(tree, 0)
    return {f"nodes_{name}": values for name, values in found.items()}


def weights(trees: dict[str, Any], prefix: str, targets: Any, seed: int, low: float = -1) -> Any:
    """Return the weights of all leaves, for all or one of the targets."""
    rng = np.random.default_rng(seed)
    leaves = [
        (tree, node)
        for tree, node, mode in zip(
            trees["nodes_treeids"], trees["nodes_nodeids"], trees["nodes_modes"], strict=True
        )
        if mode == "LEAF"
    ]
    entries = [(tree, node, target) for tree, node in leaves for target in targets(tree)]
    return {
        f"{prefix}_treeids": [tree for tree, _, _ in entries],
        f"{prefix}_nodeids": [node for _, node, _ in entries],
        f"{prefix}_ids": [target for _, _, target in entries],
        f"{prefix}_weights": rng.uniform(low, 1, len(entries)).astype(np.float32).tolist(),
    }


def model_of(kind: str, outputs: dict[str, int], dtype: str = "float32", **attributes: Any) -> Any:
    """Return a model of one operator of ``ai.onnx.ml``, which reads ``X``."""
    version = 5 if kind == "TreeEnsemble" else 3
    node = helper.make_node(kind, ["X"], list(outputs), domain="ai.onnx.ml", **attributes)
    given = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
    x = helper.make_tensor_value_info("X", given, [None, N_FEATURES])
    made = [helper.make_tensor_value_info(name, type_, None) for name, type_ in outputs.items()]
    graph = helper.make_graph([node], "trees", [x], made)
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def regressor(seed: int, dtype: str = "float32", n_targets: int = 1, **attributes: Any) -> Any:
    """Return a TreeEnsembleRegressor."""
    trees = nodes(seed, 5, attributes.pop("modes", MODES))
    values = weights(trees, "target", lambda _: range(n_targets), seed)
    return model_of(
        "TreeEnsembleRegressor", {"y": TensorProto.FLOAT}, dtype,
        **trees, **values, n_targets=n_targets, **attributes,
    )  # fmt: skip


def classifier(seed: int, n_classes: int, targets: Any, low: float = -1, **attributes: Any) -> Any:
    """Return a TreeEnsembleClassifier."""
    trees = nodes(seed, 6, attributes.pop("modes", MODES))
    values = weights(trees, "class", targets, seed, low)
    return model_of(
        "TreeEnsembleClassifier", {"label": TensorProto.INT64, "scores": TensorProto.FLOAT},
        **trees, **values, classlabels_int64s=list(range(10, 10 + n_classes)), **attributes,
    )  # fmt: skip


def ensemble(
    seed: int, members: list[float] | None = None, dtype: str = "float32", **attributes: Any
) -> Any:
    """Return a TreeEnsemble of opset 5 with splits on sets: those of the given members, or some."""
    rng = np.random.default_rng(seed)
    sets = [rng.choice([0, 1, 3], 2, replace=False) for _ in range(3)]
    sets = sets if members is None else [np.array(members)] * 3
    float_type = TensorProto.FLOAT if dtype == "float32" else TensorProto.DOUBLE
    values = np.concatenate([np.append(values, np.nan) for values in sets]).astype(dtype)
    tensors = {
        "nodes_splits": (float_type, [0.5, 0.0, 0.0, 0.0, 1.0]),
        "nodes_modes": (TensorProto.UINT8, [0, 6, 6, 6, 1]),
        "leaf_weights": (float_type, rng.uniform(-1, 1, 6).astype(dtype)),
        "membership_values": (float_type, values),
    }
    made = {
        name: helper.make_tensor(name, type_, [len(values)], values)
        for name, (type_, values) in tensors.items()
    }
    return model_of(
        "TreeEnsemble", {"y": float_type}, dtype, **made,
        tree_roots=[0, 4], nodes_featureids=[0, 1, 2, 0, 1], n_targets=2,
        nodes_truenodeids=[1, 0, 3, 2, 4], nodes_trueleafs=[0, 1, 0, 1, 1],
        nodes_falsenodeids=[2, 1, 3, 3, 5], nodes_falseleafs=[0, 1, 1, 1, 1],
        nodes_missing_value_tracks_true=[1, 0, 1, 0, 1],
        leaf_targetids=[0, 1, 0, 1, 0, 1], **attributes,
    )  # fmt: skip
